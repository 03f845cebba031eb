# SPDX-License-Identifier: Apache-2.0
"""A trace that is written layer by layer: sizes first, then each tensor when it
is there, in any order, so that none is held longer than writing takes. Until
finish() the file has another name, ID.safetensors.PID.part."""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..container import NUMPY, writable

PART = re.compile(r"\.safetensors\.(\d+)\.part$")


class TraceFile:
    """shapes: {tensor: (dtype, shape)}; metadata: texts. put() each once, then
    finish(); or leave(), after which nothing is there."""

    def __init__(
        self,
        path: str,
        metadata: Mapping[str, str],
        shapes: Mapping[str, Tuple[str, Sequence[int]]],
    ) -> None:
        self.path = writable(path, trace=True)
        self.part = f"{self.path}.{os.getpid()}.part"
        self.left: Dict[str, Tuple[int, int]] = {}  # not put yet: place, size
        at = 0
        header: Dict[str, Any] = {"__metadata__": metadata}
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

    def put(self, name: str, x: np.ndarray) -> None:
        """A whole tensor: an array in C order, of its type and shape."""
        at, size = self.left.pop(name)
        x = np.ascontiguousarray(x)
        assert x.nbytes == size, "a tensor has the size that was said"
        self._write(x.reshape(-1).view(np.uint8), self.first + at)

    def finish(self) -> None:
        """The file is whole, and has its name."""
        assert not self.left, "every tensor was written"
        assert self.file is not None, "once"
        os.fsync(self.file)
        os.close(self.file)
        self.file = None
        os.replace(self.part, self.path)

    def leave(self) -> None:
        """Nothing is there, unless it was finished."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
        if os.path.lexists(self.part):
            os.unlink(self.part)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def sweep(folder: str) -> None:
    """What recorders that were killed left half-written goes."""
    for name in os.listdir(folder):
        found = PART.search(name)
        if found and not alive(int(found[1])):
            os.unlink(os.path.join(folder, name))
