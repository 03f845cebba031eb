# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files, whole or in shards. A tensor here is a
tuple: dtype name (F16, BF16, F32, I32, I64), shape, bytes (uint8, mapped from
the file). A bad file is a ValueError: one sentence that names it.

    metadata, tensors = load("x.safetensors")
    x = array(tensors["layers.0.k"])     # numpy; bfloat16 as uint16
    save("y.safetensors", {"format": "mine"}, {"x": tensor("F32", [1.5])})
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

import numpy as np

from .need import need

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]
    Tensor = tuple[str, tuple[int, ...], Array]
    File = tuple[dict[str, str], dict[str, Tensor]]  # metadata and tensors

NUMPY = {x: np.dtype(y) for x, y in dict(
    F16="<f2", BF16="<u2", F32="<f4", I32="<i4", I64="<i8").items()}
FLOATS = {"float16": "F16", "uint16": "BF16", "float32": "F32"}


def tensor(dtype: str, x: Any) -> Tensor:
    """An array as a tensor of this dtype."""
    a: Array = np.asarray(x, NUMPY[dtype], "C")
    return dtype, a.shape, a.reshape(-1).view(np.uint8)


def array(x: Tensor) -> Array:
    """A tensor as an array, read-only if the file is mapped. bfloat16 comes as
    uint16; widen() makes it float32."""
    dtype, shape, data = x
    return data.view(NUMPY[dtype]).reshape(shape)


def load(path: str) -> File:
    """Metadata and tensors of one safetensors file."""
    tensors: dict[str, Tensor] = {}
    end = 0
    need(os.path.getsize(path) >= 8, path, "too short for safetensors")
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    n = 8 + int.from_bytes(data[:8].tobytes(), "little")
    need(n <= min(data.size, 10**8), path, "no safetensors: header too long")
    need(n == 8 or data[n - 1], path, "zero bytes pad the header, not blanks")
    try:
        head, data = json.loads(data[8:n].tobytes().decode()), data[n:]
        meta = head.pop("__metadata__", {})
        need({*map(type, meta.values())} <= {str}, path, "metadata no text")
        for name, x in sorted(head.items(), key=lambda x: x[1]["data_offsets"]):
            dtype, shape, (first, last) = (
                x[y] for y in ("dtype", "shape", "data_offsets"))
            need(len(shape) < 33 and all(type(x) is int and x >= 0 for x in
                 shape) and first == end <= last and (dtype not in NUMPY or
                 last - first == NUMPY[dtype].itemsize * math.prod(shape)),
                 path, f"tensor {name} overlaps, leaves a hole or misfits")
            end, tensors[name] = last, (dtype, tuple(shape), data[first:last])
    except (AttributeError, KeyError, TypeError, RecursionError,
            UnicodeDecodeError, json.JSONDecodeError):
        need(False, path, "no safetensors: a broken header")
    need(end == data.size, path, abs(end - data.size), " bytes ",
         "missing" if end > data.size else "trailing", " at the end")
    return meta, tensors


def open_all(path: str) -> File:
    """Metadata and tensors of a file, or of all shards in a .index.json."""
    if not path.endswith(".index.json"):
        return load(path)
    try:
        wanted = json.loads(np.fromfile(path, "u1").tobytes())["weight_map"]
        need(all(os.path.basename(x) == x for x in wanted.values()), path)
    except (AttributeError, KeyError, TypeError, RecursionError, ValueError):
        need(False, path, "its weight_map leaves the folder or is none; "
                          "give each tensor a file beside it")
    parts = {x: load(os.path.join(os.path.dirname(path), x))
             for x in {*wanted.values()}}
    meta = {pair for m, _ in parts.values() for pair in m.items()}
    found = {(name, x) for x in parts for name in parts[x][1]}
    need(len(meta) == len(dict(meta)) and found == {*wanted.items()}, path,
         "the shards contradict each other or the index")
    return dict(meta), {x: y for _, t in parts.values() for x, y in t.items()}


def writable(path: str, trace: bool) -> str:
    """The real path. ValueError if it is a trace (unless we write a trace), a
    database, or not a regular file."""
    path = os.path.realpath(path)
    there = b"SQLite" if os.path.lexists(path) else b""  # refused likewise
    if os.path.isfile(path):
        there = np.fromfile(path, "u1", 10**5).tobytes()
    kinds = b"SQLite" + (b"" if trace else b'|.*"format": *"kvtrace"')
    need(not re.match(kinds, there, re.S), path, "is a trace, a database or "
         "no regular file, not written over; name another")
    return path


class Writer:
    """Writes a file tensor by tensor, in any order, so that memory holds only
    one. shapes: {tensor: (dtype, shape)}, known at open. trace: may the file
    replace a trace? Call put() once per tensor, then finish(); or leave(),
    which removes the file. Until finish() its name is PATH.PID.part."""

    def __init__(
        self,
        path: str,
        metadata: Mapping[str, str],
        shapes: Mapping[str, tuple[str, Sequence[int]]],
        trace: bool = True,
    ) -> None:
        self.path = writable(path, trace)
        self.part = f"{self.path}.{os.getpid()}.part"
        self.left: dict[str, tuple[int, int]] = {}  # not put: offset, size
        at = 0
        header: dict[str, Any] = {"__metadata__": metadata}
        for name in sorted(shapes, key=lambda x: (-int(shapes[x][0][-2:]), x)):
            dtype, shape = shapes[name]
            size = int(np.prod(shape)) * NUMPY[dtype].itemsize
            self.left[name] = at, size
            header[name] = dict(dtype=dtype, shape=[*shape],
                                data_offsets=[at, at + size])  # fmt: skip
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % 64)
        self.first = 8 + len(text)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self.file: Optional[int] = os.open(self.part, flags, 0o666)
        try:
            os.truncate(self.file, self.first + at)
            self._write(struct.pack("<Q", len(text)) + text, 0)
        except BaseException:
            self.leave()
            raise

    def _write(self, data: Any, at: int) -> None:
        assert self.file is not None, "it was neither finished nor left"
        data = memoryview(data).cast("B")
        while data:
            n = os.pwrite(self.file, data, at)
            data, at = data[n:], at + n

    def put(self, name: str, x: Array) -> None:
        """Writes a whole tensor of the type and shape announced."""
        at, size = self.left.pop(name)
        x = np.ascontiguousarray(x)
        assert x.nbytes == size, "a tensor has the size that was said"
        self._write(x.reshape(-1).view(np.uint8), self.first + at)

    def finish(self) -> None:
        """Gives the complete file its name."""
        assert not self.left, "every tensor was written"
        assert self.file is not None, "once"
        os.fsync(self.file)
        os.close(self.file)
        self.file = None
        os.replace(self.part, self.path)

    def leave(self) -> None:
        """Removes the file, unless finish() completed it."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
        if os.path.lexists(self.part):
            os.unlink(self.part)


def save(path: str, meta: Mapping[str, str],
         tensors: Mapping[str, Tensor]) -> None:
    """Writes a whole file or none, if writable(); data at a multiple of 64."""
    file = Writer(path, meta, {x: y[:2] for x, y in tensors.items()},
                meta["format"] == "kvtrace")
    try:
        for name, (_, _, data) in tensors.items():
            file.put(name, data)
        file.finish()
    finally:
        file.leave()


def widen(x: Array) -> Array:
    """float16, float32 or bfloat16 (as uint16) to float32: always exact."""
    return x.astype("f4") if x.dtype != "u2" else (
        x.astype("u4") << 16).view("f4")


def bfloat16(x: Array) -> Array:
    """float32 to the nearest bfloat16, ties to even, as uint16."""
    bits: Array = x.view("u4")
    rounded: Array = bits + 0x7fff + (bits >> 16 & 1) >> 16
    return rounded.astype("u2")
