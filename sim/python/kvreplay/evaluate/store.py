# SPDX-License-Identifier: Apache-2.0
"""The database of evaluations, through sim/store/evaluation.h, which specifies
each call and is responsible for keys, comparison and durability.

    with Store("results.db") as store:
        row = store.find(asked)          # a dict, or None
        if row is None:
            store.put(dict(asked, **answered))   # on disk when it returns

A row is a dict. Its key: `model` (a name), `model_digest` (of the weights;
None: only the name), `task`, `item`, `question` (a number), `request_digest`,
`prompt_len`, `tokens`, `method`, `basis` and `target` (None: no budget),
`platform` = dict(torch, transformers, processor, threads, dtype), and `code`,
for a method outside kvreplay or "file " and the digest of a file that the
method's text does not name. For people: `context`, `asked`, `reference`. Its
results: `spec`, `budget`, `status`, `reason`, `answer_digest`, `said`,
`said_tokens`, `values` = {name: number}. A text that is None is not stored.
find() needs only the key."""

from __future__ import annotations

import ctypes as c
import json
import os
import shlex
import sys
import threading
from typing import Any, Mapping, Optional, Union

from ..binding import Err, SessionError, load, whole

__all__ = ["Memory", "Store", "StoreError", "TEXTS", "names"]

ABI = 2


class StoreError(SessionError):
    """One sentence. code 1: the stored row has another answer; 2: the row is
    incomplete; 3, 4: the file, the disk."""


class _Value(c.Structure):
    """kv_evaluated: a named number."""

    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


_COUNTS = "question prompt_len tokens".split()
_ASKED = "model model_digest task item request_digest method code".split()
_BUDGET = "basis target".split()
_PLATFORM = "torch transformers processor dtype".split()
_ASKS = "context asked reference".split()
_ANSWERED = "spec budget status reason answer_digest".split()
_TEXTS = "asked reference said".split()  # None is not ""
TEXTS = *_TEXTS, "said_tokens"  # what --no-texts leaves out


class _Row(c.Structure):
    """kv_evaluation."""

    _fields_ = [(n, c.c_int32) for n in ["abi", *_COUNTS, "threads"]]
    _fields_ += [
        (n, c.c_char_p)
        for n in _ASKED + _BUDGET + _PLATFORM + _ASKS + _ANSWERED + ["said"]
    ]
    _fields_ += [
        ("n_said", c.c_int32), ("said_tokens", c.POINTER(c.c_int32))
    ]  # fmt: skip
    _fields_ += [("n_values", c.c_int32), ("value", c.POINTER(_Value))]


def _loaded(path: Optional[str]) -> c.CDLL:
    lib = load(path)
    found = getattr(lib, "kv_evaluation_abi", lambda: 0)()
    if found != ABI:
        raise StoreError(
            2,
            f"the library's evaluations have ABI {found}, but this package's "
            f"is {ABI}; use the same version of both",
        )
    lib.kv_evaluations_close.argtypes = [c.c_void_p]
    return lib


def _text(name: str, x: object) -> bytes:
    if x is None:
        return b""
    if not isinstance(x, str) or "\0" in x:
        raise StoreError(2, f"{name} of the evaluation must be a text, not "
                         f"{x!r}")
    return x.encode("utf-8", "replace")


def _count(name: str, x: object) -> int:
    try:
        return whole(name + " of the evaluation", x)
    except SessionError as why:
        raise StoreError(2, str(why)) from None


def _number(name: str, x: Any) -> float:
    try:
        return float(x)
    except (TypeError, ValueError):
        raise StoreError(
            2, f"{name} of the evaluation must be a number, not {x!r}"
        ) from None


def _made(row: Mapping[str, Any]) -> _Row:
    """The row for C; ctypes keeps alive what it points to."""
    platform = row.get("platform") or {}
    out = _Row(abi=ABI, threads=_count("threads", platform.get("threads", 0)))
    for name in _COUNTS:
        setattr(out, name, _count(name, row.get(name, 0)))
    for name in _ASKED + _BUDGET + _ANSWERED:
        x = row.get(name)
        if name == "budget" and x is not None:
            x = str(x)
        setattr(out, name, _text(name, x))
    for name in _PLATFORM:
        setattr(out, name, _text(name, platform.get(name)))
    out.context = _text("context", row.get("context"))
    for name in _TEXTS:
        if row.get(name) is not None:
            x = str(row[name]).replace("\0", "\ufffd")  # C's end of a text
            setattr(out, name, _text(name, x))
    tokens = row.get("said_tokens")
    if tokens is not None:
        out.n_said = len(tokens)
        out.said_tokens = (c.c_int32 * (len(tokens) + 1))(*tokens)
    values = row.get("values") or {}
    array = (_Value * len(values))()
    for at, (name, x) in zip(array, values.items()):
        at.name, at.value = _text("a value's name", name), _number(name, x)
    out.n_values = len(values)
    out.value = c.cast(array, c.POINTER(_Value))
    return out


def names(library: Optional[str] = None) -> dict[str, tuple[str, str]]:
    """{name: (unit, how it combines)} of a row's possible numbers. A name that
    ends in a dot stands for all names with this prefix."""
    lib, out = _loaded(library), {}
    text = [c.c_char_p() for _ in range(3)]
    at = 0
    while lib.kv_evaluation_number(at, *map(c.byref, text)):
        name, unit, combine = ((x.value or b"").decode() for x in text)
        out[name] = unit, combine
        at += 1
    return out


class Store:
    """A database of results, created if missing. End it by close() or `with`.
    library: a path. Threads may share a Store, processes may share a file."""

    def __init__(
        self, path: Union[str, os.PathLike[str]], library: Optional[str] = None
    ) -> None:
        self._s = c.c_void_p()
        self._lib, self._turn = _loaded(library), threading.Lock()
        command = shlex.join(sys.argv).encode("utf-8", "replace")
        self._call("open", os.fsencode(path), command, c.byref(self._s))

    def _call(self, name: str, *args: Any) -> None:
        err = Err()
        if getattr(self._lib, "kv_evaluations_" + name)(*args, c.byref(err)):
            raise StoreError(err.rc, err.text.decode("utf-8", "replace"))

    def find(self, row: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        """The stored row with this row's key, or None."""
        made, found = _made(row), c.c_int()
        with self._turn:
            self._call("find", self._s, c.byref(made), c.byref(found))
            if not found.value:
                return None
            out = dict(row, model=made.model.decode())
            out.update((n, getattr(made, n).decode()) for n in _ANSWERED)
            out["context"] = (made.context or b"").decode()
            out.update((n, None if x is None else x.decode()) for n in _TEXTS
                       for x in [getattr(made, n)])  # fmt: skip
            out["said_tokens"] = (made.said_tokens[: made.n_said]
                                  if made.said_tokens else None)  # fmt: skip
            out["values"] = {
                x.name.decode(): x.value for x in made.value[: made.n_values]
            }
            return out

    def put(self, row: Mapping[str, Any]) -> None:
        """Stores the row, or confirms the stored one. If that has another
        answer: stores a conflict, and raises StoreError with code 1."""
        made = _made(row)
        with self._turn:
            self._call("put", self._s, c.byref(made))

    def close(self) -> None:
        """Closes the database. A second call does nothing."""
        with self._turn:
            self._lib.kv_evaluations_close(self._s)
            self._s = c.c_void_p()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Memory:
    """A Store without a file and without conflicts."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    @staticmethod
    def key(row: Mapping[str, Any]) -> str:
        names = "task item question request_digest method target".split()
        return json.dumps([row[x] for x in names])

    def find(self, row: Mapping[str, Any]) -> Optional[dict[str, Any]]:
        return self.rows.get(self.key(row))

    def put(self, row: Mapping[str, Any]) -> None:
        self.rows[self.key(row)] = dict(row)

    def close(self) -> None:
        pass
