# SPDX-License-Identifier: Apache-2.0
"""Writes and reads scores: how much your own scorer wants to keep each token.
Every method with a scorer can use such a file: `kvreplay run TRACE -m
adakv:score=file:scores=mine.safetensors`. Needs numpy, no build.

    t = read_trace("chat.safetensors")
    short = {l: -(t.k(l)[:, :t.prompt_len] ** 2).sum(2) for l in t.layers}
    write_scores("mine.safetensors", t, "short keys", short)
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping

import numpy as np

from .container import array, open_all, save, tensor
from .need import need
from .trace import Trace


def _sound(at: str, x: Any, heads: int, least: int,
           most: int) -> np.ndarray:
    """x as float32 [heads, tokens], checked to be finite."""
    x = np.asarray(x)
    need(x.ndim == 2 and x.dtype.kind in "fiu" and x.shape[0] == heads and
         least <= x.shape[1] <= most, at, f"scores are {x.dtype} ",
         list(x.shape), f"; they must be numbers [{heads} KV heads, {least} "
         f"tokens], or up to {most} tokens")
    with np.errstate(over="ignore"):
        own: np.ndarray = np.asarray(x, np.float32)
    bad = np.argwhere(~np.isfinite(own))
    need(not bad.size, at, *(f"head {h}, token {t}: {own[h, t]} is not a "
                             "finite float32" for h, t in bad[:1]))
    return own


def write_scores(path: str, trace: Trace, scorer: str,
                 scores: Mapping[int, Any],
                 prompt_len: int | None = None) -> None:
    """Writes a file for `score=file`. trace: a Trace; its identity is recorded.
    scorer: a name for what made the scores. scores: {recorded layer:
    [n_kv_heads, tokens]}; a larger score keeps a token longer. tokens: those of
    the prompt, perhaps more. Layers with a sliding window can be left out,
    except for windowed=compress. prompt_len: where decoding starts; None: as in
    the trace."""
    need(isinstance(scorer, str) and scorer, path, "scorer must be a text")
    first = trace.prompt_len if prompt_len is None else prompt_len
    need(isinstance(first, (int, np.integer)) and 0 < first <= trace.n_tokens,
         path, f"prompt_len is {first}; it must be None or a number, 1 to "
         f"{trace.n_tokens}")
    lack = [x for x in trace.layers if x not in scores and not trace.windows[x]]
    need(scores and not lack and {*scores} <= {*trace.layers}, path,
         f"there are scores for layers {[*scores]}, but the recorded layers "
         f"are {trace.layers}")
    meta = dict(format="kvscores", version="1", trace=trace.identity,
                scorer=scorer)
    if prompt_len is not None:
        meta["prompt_len"] = str(prompt_len)
    save(path, meta, {f"layers.{l}.scores": tensor("F32", _sound(
        f"{path}: layer {l}", x, trace.n_kv_heads, first, trace.n_tokens))
        for l, x in scores.items()})


def read_scores(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata as a dict (trace: its identity; scorer; prompt_len, if the
    file has one) and `scores`: {layer: float32 [n_kv_heads, tokens]}."""
    meta, tensors = open_all(os.fspath(path))
    need(meta.get("format") == "kvscores" and meta.get("version") == "1",
         path, "metadata format, version: not kvscores, 1")
    out: dict[str, Any] = dict(meta, scores={})
    if "prompt_len" in meta:
        need(meta["prompt_len"].isdecimal(), path, "prompt_len is ",
             meta["prompt_len"], ", not a number")
        out["prompt_len"] = int(meta["prompt_len"])
    for name, x in tensors.items():
        at = re.fullmatch(r"layers\.([0-9]{1,9})\.scores", name)
        if at:
            need(x[0] == "F32" and len(x[1]) == 2, path, name,
                 f" is {x[:2]}, not F32 [KV heads, tokens]")
            out["scores"][int(at[1])] = array(x)
    return out
