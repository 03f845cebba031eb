# SPDX-License-Identifier: Apache-2.0
"""Column sums of a prompt's probabilities in the library's arithmetic, so that
methods decide as if all rows were recorded. Needs the library."""

from __future__ import annotations

import ctypes as c
import functools
from typing import Optional

import numpy as np

from ..binding import DTYPES, NAMES, Err, load


@functools.lru_cache(None)
def library() -> c.CDLL:
    """The library. SessionError if there is none."""
    return load(None)


def column_sums(
    q: np.ndarray,
    k: np.ndarray,
    prompt_len: int,
    scale: float,
    softcap: float = 0.0,
    window: int = 0,
    sinks: Optional[np.ndarray] = None,
) -> np.ndarray:
    """int64 [heads, prompt_len], from q [heads, tokens, d] and k [KV heads,
    tokens, d] of one type (float16, float32, or bfloat16 as uint16). softcap,
    window: 0 for none. sinks: float32 [heads] or None."""
    q, k = (np.ascontiguousarray(x) for x in (q, k))
    out, e = np.empty((len(q), prompt_len), "<i8"), Err()

    def pointer(x: Optional[np.ndarray]) -> Optional[c.c_void_p]:
        return None if x is None else x.ctypes.data_as(c.c_void_p)

    rc = library().kv_colsum_of(
        len(q), len(k), q.shape[2], q.shape[1], prompt_len, c.c_float(scale),
        c.c_float(softcap), window, pointer(sinks),
        DTYPES[NAMES[q.dtype.name]], pointer(q), pointer(k), pointer(out),
        c.byref(e),
    )  # fmt: skip
    if rc:
        raise ValueError(e.text.decode(errors="replace"))
    return out
