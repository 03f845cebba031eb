# SPDX-License-Identifier: Apache-2.0
"""Calls sim/run/session/session.h through ctypes, for kvreplay.session: finds
and loads the library, declares the C structs, checks arguments before C sees
them. A bad argument is a SessionError: one sentence."""

from __future__ import annotations

import ctypes as c
import operator
import os
from typing import TYPE_CHECKING, Any, Mapping, Optional

import numpy as np

from .programs import beside, library

if TYPE_CHECKING:
    from .container import Array

ABI = 5
DTYPES = {"f16": 0, "bf16": 1, "f32": 2}
NAMES = {"float16": "f16", "uint16": "bf16", "float32": "f32"}  # numpy's names
_NUMPY = {np.dtype(x): DTYPES[y] for x, y in NAMES.items()}


class SessionError(Exception):
    """One sentence. code: kvreplay's exit code; 2: wrong call, 6: refused."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Err(c.Structure):
    """kv_err: a code and a sentence."""

    _fields_ = [("rc", c.c_int), ("text", c.c_char * 512)]


class Shape(c.Structure):
    """kv_session_shape: the arguments of open."""

    _fields_ = [
        (n, c.c_int32)
        for n in "abi n_layers n_heads n_kv_heads d d_v n_tokens dtype".split()
    ]
    _fields_ += [
        ("scale", c.c_float),
        ("n_fed", c.c_int32),
        ("fed", c.c_void_p),
        ("inv_freq", c.c_void_p),
        ("interleaved", c.c_int32),
        ("positions", c.c_void_p),
        ("softcap", c.c_float),
        ("window", c.c_void_p),
        ("sinks", c.c_void_p),
        ("inv_freq_windowed", c.c_void_p),
        ("k_bias", c.c_void_p),
    ]


class Rows(c.Structure):
    """kv_session_in, _out: an array [heads, tokens, d] with strides."""

    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_int32),
        ("token", c.c_int64),
        ("head", c.c_int64),
    ]


def bytes_of(lib: c.CDLL) -> Any:
    """The ledger's struct. The library names the kinds of bytes in it."""
    lib.kv_session_byte_kind.restype = c.c_char_p
    kinds = iter(map(lib.kv_session_byte_kind, range(256)))
    names = [k.decode() for k in iter(lambda: next(kinds), None)]

    class Bytes(c.Structure):
        _fields_ = [("step", c.c_int32)]
        _fields_ += [(n, c.c_int64) for n in names + ["peak"]]
        _fields_ += [("mean", c.c_double)]

    return Bytes


def _opened(path: str) -> c.CDLL:
    """Loads the library with OpenMP threads that sleep while they wait, because
    torch needs the cores. OMP_WAIT_POLICY in the environment comes first."""
    given = "OMP_WAIT_POLICY" in os.environ
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read while loading
    try:
        return c.CDLL(path, mode=c.RTLD_GLOBAL)  # plugins use its symbols
    finally:
        if not given:
            del os.environ["OMP_WAIT_POLICY"]


def load(path: Optional[str]) -> c.CDLL:
    """The library at path, in KVREPLAY_LIBRARY, of the wheel, of the kvreplay
    on the PATH, or of the system. SessionError: none, or another version."""
    path = path or os.environ.get("KVREPLAY_LIBRARY") or library()
    path = path or beside() or "libkvreplay.so.0"
    try:
        lib = _opened(path)
        lib.kv_session_abi
    except (OSError, AttributeError) as why:
        raise SessionError(
            4,
            f"no kvreplay library {path} ({why}); install kvreplay and run "
            "ldconfig, or set KVREPLAY_LIBRARY to the path of libkvreplay.so.0",
        ) from None
    if lib.kv_session_abi() != ABI:
        raise SessionError(
            2,
            f"the library's session has ABI {lib.kv_session_abi()}, but this "
            f"package's is {ABI}; use the same version of both",
        )
    lib.kv_session_spec.restype = c.c_char_p
    for name in "spec", "lanes", "close":
        getattr(lib, "kv_session_" + name).argtypes = [c.c_void_p]
    return lib


def whole(name: str, x: Any) -> int:
    """A 32-bit integer. ctypes would silently wrap a larger one."""
    try:
        n: Optional[int] = operator.index(x)
    except TypeError:
        n = None
    if n is None or not -(2**31) <= n < 2**31:
        raise SessionError(2, f"{name} must be a 32-bit integer, not "
                           f"{x!r}")
    return n


def number_of(name: str, x: Any, zero: str) -> float:
    """A float. zero: what 0 means, for the message."""
    if not isinstance(x, (int, float, np.number)):
        raise SessionError(
            2, f"{name} must be a number, or 0 for {zero}, not {x!r}"
        )
    return float(x)


def text_of(name: str, x: object) -> bytes:
    """A string for C."""
    if not isinstance(x, str) or "\0" in x:
        raise SessionError(2, f"{name} must be a text as given to -m or -b, "
                           f"not {x!r}")
    return x.encode()


def choice_of(name: str, x: object, choices: Mapping[str, int]) -> int:
    """The number that stands for the text x."""
    if not isinstance(x, str) or x not in choices:
        raise SessionError(2, f"{name} must be {' or '.join(choices)}, not "
                           f"{x!r}")
    return choices[x]


def array_of(
    name: str, values: Any, dtype: Any, kinds: str, n: Optional[int] = None
) -> tuple[Any, Optional[int]]:
    """An array and its address, valid while the array lives; or two None."""
    if values is None:
        return None, None
    a = np.asarray(values)
    if n is not None and a.size != n:
        raise SessionError(2, f"{name} has {a.size} numbers; it must have {n}")
    if a.ndim != 1 or not a.size or a.dtype.kind not in kinds:
        raise SessionError(
            2,
            f"{name} is {a.dtype}{list(a.shape)}; give a row of one or more "
            f"{'whole ' if kinds == 'iu' else ''}numbers, or None",
        )
    if kinds == "iu":
        for x in (a.min(), a.max()):
            whole(f"a number in {name}", int(x))
    a = np.ascontiguousarray(a, dtype)
    return a, a.ctypes.data


def rows_of(a: Any, heads: int, name: str) -> tuple[Array, Rows]:
    """An array and its Rows for C. Keep the array as long as C uses it."""
    try:
        a = np.asarray(a)
    except (TypeError, ValueError, RuntimeError) as why:  # bfloat16, on a GPU
        raise SessionError(
            2, f"{name} is nothing numpy can read: {why}"
        ) from None
    if a.ndim != 3 or a.shape[0] != heads or a.dtype not in _NUMPY:
        raise SessionError(
            2,
            f"{name} is {a.dtype}{list(a.shape)}; give float16, "
            f"float32 or uint16 (bfloat16) of [{heads}, tokens, d]",
        )
    if a.strides[2] != a.itemsize or any(x % a.itemsize for x in a.strides):
        a = np.ascontiguousarray(a)
    head, token = (x // a.itemsize for x in a.strides[:2])
    return a, Rows(a.ctypes.data, _NUMPY[a.dtype], token, head)
