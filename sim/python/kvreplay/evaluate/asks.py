# SPDX-License-Identifier: Apache-2.0
"""Methods and budgets as they are typed, each method with each budget that it
has a parameter for: what `kvreplay run` would make cells of, known before it
runs. Needs the program."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional

from ..hf.options import Usage as Usage
from ..programs import called

BYTES = "end", "mean", "peak", "read", "traffic"


class Ask(NamedTuple):
    """A method as it is typed, and its budget; None: without one."""

    method: str
    basis: Optional[str] = None
    target: Optional[str] = None


def kvreplay(*words: str) -> subprocess.CompletedProcess[str]:
    """The program's answer."""
    return called("kvreplay", *words)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The last sentence of its failure."""
    lines = done.stderr.strip().split("\n")
    return lines[-1].removeprefix("kvreplay: ") or (
        f"kvreplay ended with code {done.returncode}")  # fmt: skip


def check(methods: str, budgets: Optional[str]) -> None:
    """Usage where `kvreplay run` does not take them; it looks at them before it
    looks at a trace."""
    words = [] if budgets is None else ["-b", budgets]
    done = kvreplay("run", "-q", "-m", methods, *words, os.devnull)
    if done.returncode == 2:
        raise Usage(said(done))


def basis_of(text: str) -> str:
    """What a budget that `kvreplay run` takes counts."""
    name, colon, _ = text.partition(":")
    if "/" in text or name == "layers":
        raise Usage(f"-b {text}: evaluate needs one budget for all layers; "
                    "give 20%, 512, mean:25% or the like")  # fmt: skip
    return name if colon else "prompt" if text.endswith("%") else "entries"


def head_of(method: str) -> List[str]:
    """Name and parameters of the first of one or two methods."""
    return re.split(r"(?<!\\):", re.split(r"(?<!\\)\+", method)[0])


class Methods:
    """What `kvreplay methods` says: {name: its parameters}, in its order."""

    def __init__(self) -> None:
        done = kvreplay("methods", "-f", "json")
        if done.returncode:
            raise ValueError(said(done))
        self.known: Dict[str, List[Dict[str, Any]]] = {
            x["name"]: x["params"] for x in json.loads(done.stdout)
        }

    def params(self, name: str) -> List[Dict[str, Any]]:
        """Of a plugin, too; the names of quant's formats have none."""
        if name not in self.known:
            done = kvreplay("methods", "-f", "json", "--", name)
            found = [] if done.returncode else json.loads(done.stdout)
            found = found if isinstance(found, dict) else (found or [{}])[0]
            self.known[name] = found.get("params", [])
        return self.known[name]

    def wants(self, method: str, basis: str) -> bool:
        """Does -b of this basis set something of the method?"""
        head, *rest = head_of(method)
        given = {x.partition("=")[0] for x in rest}
        knobs = [x for x in self.params(head) if x.get("knob")]
        return any(
            x["name"] not in given
            and (x["knob"] in ("entries", "resolved") or basis in BYTES)
            for x in knobs
        )

    def asks(self, methods: str, budgets: Optional[str]) -> List[Ask]:
        """dense first, each once. `all` are all that need no file of yours.
        Usage where one is none."""
        check(methods, budgets)
        names, every = ["dense"], [*self.known]
        for x in re.split(r"(?<!\\),", methods):
            name, colon, more = x.partition(":")
            names += [y + colon + more for y in (
                every if name == "all" else [name])]  # fmt: skip
        targets = [(basis_of(x), x) for x in (budgets or "").split(",") if x]
        found: Dict[Ask, None] = {}
        for name in dict.fromkeys(names):
            wanted = [x for x in targets if self.wants(name, x[0])]
            for x in wanted:
                found[Ask(name, *x)] = None
            if len(wanted) < len(targets) or not targets:
                found[Ask(name)] = None
        return [*found]
