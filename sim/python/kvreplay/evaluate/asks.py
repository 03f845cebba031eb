# SPDX-License-Identifier: Apache-2.0
"""Methods and budgets as they are typed, each method with each budget that it
has a parameter for: what `kvreplay run` would make cells of, known before it
runs. Needs the program."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..programs import program

BYTES = "end", "mean", "peak", "read"


class Ask(NamedTuple):
    """A method as it is typed, and its budget; None: without one."""

    method: str
    basis: Optional[str] = None
    target: Optional[str] = None


def kvreplay(*words: str) -> subprocess.CompletedProcess[str]:
    """The program's answer. FileNotFoundError where there is none."""
    try:
        return subprocess.run(
            [program("kvreplay"), *words], text=True, capture_output=True,
            stdin=subprocess.DEVNULL)  # fmt: skip
    except FileNotFoundError:
        raise ImportError(
            "no program kvreplay: install the wheel of kvreplay, or put the "
            "folder of kvreplay on the PATH"
        ) from None


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The last sentence of its failure."""
    lines = done.stderr.strip().split("\n")
    return lines[-1].removeprefix("kvreplay: ") or (
        f"kvreplay ended with code {done.returncode}")  # fmt: skip


def basis_of(text: str) -> str:
    """What a budget counts. ValueError of a text that is none."""
    name, colon, number = text.partition(":")
    if not colon:
        name, number = ("prompt" if text.endswith("%") else "entries"), text
    known = {"ratio": r"0?\.\d+|0", "entries": r"\d+"}
    share = r"\d+(\.\d+)?%"
    good = re.fullmatch(known.get(name, share), number)
    if name not in ("prompt", *known, *BYTES) or not good:
        raise ValueError(
            f"-b {text}: give 512, 20%, ratio:0.8, or end:20%, mean:20%, "
            "peak:20%, read:20% of the bytes of dense"
        )
    return name


def typed(text: str) -> List[str]:
    """The parts of a list; a backslash takes its meaning from a comma."""
    found = [x for x in re.split(r"(?<!\\),", text) if x]
    if not found:
        raise ValueError(f"-m {text}: give a method, or more with commas")
    return found


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
        """Of a name that may be a plugin or one of the names of quant's
        formats. ValueError of one that is none."""
        if name not in self.known:
            done = kvreplay("methods", "-f", "json", "--", name)
            if done.returncode:
                raise ValueError(f"-m {name}: {said(done)}")
            found = json.loads(done.stdout)
            found = found[0] if isinstance(found, list) else found
            self.known[name] = [] if found["name"] != name else found["params"]
        return self.known[name]

    def wants(self, method: str, basis: str) -> bool:
        """Does -b of this basis set something of the method?"""
        head, *rest = re.split(r"(?<!\\):", re.split(r"(?<!\\)\+", method)[0])
        given = {x.partition("=")[0] for x in rest}
        knobs = [x for x in self.params(head) if x.get("knob")]
        return any(
            x["name"] not in given
            and (x["knob"] in ("entries", "resolved") or basis in BYTES)
            for x in knobs
        )

    def asks(self, methods: str, budgets: Optional[str]) -> List[Ask]:
        """dense first, each once. `all` are all that need no file of yours."""
        names = ["dense"]
        for x in typed(methods):
            name, colon, more = x.partition(":")
            names += [y + colon + more for y in self.known] if (
                name == "all") else [x]  # fmt: skip
        targets = [(basis_of(x), x) for x in (budgets or "").split(",") if x]
        found: Dict[Ask, None] = {}
        for name in dict.fromkeys(names):
            wanted = [x for x in targets if self.wants(name, x[0])]
            for x in wanted:
                found[Ask(name, *x)] = None
            if len(wanted) < len(targets) or not targets:
                found[Ask(name)] = None
        return [*found]


def budgets_of(asks: Sequence[Ask]) -> List[Optional[str]]:
    return [*dict.fromkeys(x.target for x in asks)]
