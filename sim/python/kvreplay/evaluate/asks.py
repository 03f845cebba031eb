# SPDX-License-Identifier: Apache-2.0
"""Expands the methods and budgets that a user typed into the cells that
`kvreplay run` would make of them. Needs the program."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional

from ..hf.options import Usage as Usage
from ..programs import called

PREFIX = "kvpress/"  # before a method: kvpress's press of that name
DEFAULTS = "kvpress-defaults/"  # the same, with kvpress's own defaults
BYTES = "end", "mean", "peak", "read", "traffic"


class Ask(NamedTuple):
    """A method as typed, and its budget (None: no budget)."""

    method: str
    basis: Optional[str] = None
    target: Optional[str] = None


def kvreplay(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the program."""
    return called("kvreplay", *words)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The last sentence of its error message."""
    lines = done.stderr.strip().split("\n")
    return lines[-1].removeprefix("kvreplay: ") or (
        f"kvreplay ended with code {done.returncode}")  # fmt: skip


def check(methods: str, budgets: Optional[str]) -> None:
    """Usage if `kvreplay run` rejects them; it checks them before traces."""
    words = [] if budgets is None else ["-b", budgets]
    done = kvreplay("run", "-q", "-m", methods, *words, os.devnull)
    if done.returncode == 2:
        raise Usage(said(done))


def basis_of(text: str) -> str:
    """What a budget counts: entries, share of the prompt, or bytes."""
    name, colon, _ = text.partition(":")
    if "/" in text or name == "layers":
        raise Usage(f"-b {text}: evaluate needs one budget for all layers; "
                    "give 20%, 512, mean:25% or the like")  # fmt: skip
    return name if colon else "prompt" if text.endswith("%") else "entries"


def head_of(method: str) -> List[str]:
    """Name and parameters of a method, or of the first of two joined by +."""
    return re.split(r"(?<!\\):", re.split(r"(?<!\\)\+", method)[0])


class Methods:
    """The output of `kvreplay methods`: {name: parameters}, in its order."""

    def __init__(self) -> None:
        done = kvreplay("methods", "-f", "json")
        if done.returncode:
            raise ValueError(said(done))
        self.known: Dict[str, List[Dict[str, Any]]] = {
            x["name"]: x["params"] for x in json.loads(done.stdout)
        }

    def params(self, name: str) -> List[Dict[str, Any]]:
        """A method's or plugin's parameters; none for a format of quant."""
        if name not in self.known:
            done = kvreplay("methods", "-f", "json", "--", name)
            found = [] if done.returncode else json.loads(done.stdout)
            found = found if isinstance(found, dict) else (found or [{}])[0]
            self.known[name] = found.get("params", [])
        return self.known[name]

    def wants(self, method: str, basis: str) -> bool:
        """Does -b with this basis set a free parameter of the method?"""
        head, *rest = head_of(method)
        given = {x.partition("=")[0] for x in rest}
        knobs = [x for x in self.params(head) if x.get("knob")]
        return any(
            x["name"] not in given
            and (x["knob"] in ("entries", "resolved") or basis in BYTES)
            for x in knobs
        )

    def asks(self, methods: str, budgets: Optional[str]) -> List[Ask]:
        """The cells, each once, dense first. `all` means all methods that need
        no file from you. Raises Usage for a bad method or budget."""
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
