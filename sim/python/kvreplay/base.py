# SPDX-License-Identifier: Apache-2.0
"""Makes decisions with one set of tokens for all lanes of all layers.

This is Hard-KV's dynamic base: a token leaves only when no query head of any
layer selects it. It takes two passes: the first makes the decisions, the second
measures the bytes.

    kvreplay run chat.safetensors -m hardkv:upper=1564:lower=128 --decisions d
    python3 -m kvreplay.base chat.safetensors d/*.safetensors base.safetensors
    kvreplay run chat.safetensors -m replay:file=base.safetensors

At each step a query head attends to the same tokens as in the first pass. The
store keeps every token that a head will attend to at this step or later.
Memory: one bit for each token, query head and step. Needs numpy.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from .decisions import read_decisions, write_decisions
from .need import need
from .trace import read_trace

if TYPE_CHECKING:
    from .container import Array
    from .trace import Trace


def attended(trace: Trace, first: int, heads: int, lists: Mapping[int, Any],
             views: Mapping[int, Any]) -> Array:
    """[steps, query heads, tokens] of one layer: does the head attend to the
    token? lists: what each of `heads` lanes stores, by step. views: what query
    heads or KV heads attend to, at the steps that have a view."""
    n, steps = trace.n_heads, trace.n_tokens - first
    seen = np.zeros((steps, n, trace.n_tokens), bool)
    held = np.zeros((heads, trace.n_tokens), bool)
    held[:, :first] = True
    for s in range(first, trace.n_tokens + 1):
        if s > first:
            held[:, s - 1] = True
            rows = seen[s - first - 1]
            rows[:] = np.repeat(held, n // heads, axis=0)
            for h, ids in enumerate(views.get(s, ())):
                each = n // len(views[s])
                rows[h * each:h * each + each] = False
                rows[h * each:h * each + each, ids] = True
        for h, ids in enumerate(lists.get(s, ())):
            held[h] = False
            held[h, ids] = True
    return seen


def share(path: str | os.PathLike[str], trace: Trace,
          out: str | os.PathLike[str]) -> None:
    """Turns the decisions at path into the base's, at out. ValueError: they are
    of another trace, of pages, of chunked prefill, or re-indexed."""
    d = read_decisions(path)
    plain = d["unit"] == "token" and not d["reindex"] and not d.get("block")
    need(d["trace"] == trace.identity, path, "is of another trace; give the "
         "one that was replayed")
    need(plain and not any(trace.windows), path, "decisions must be tokens, of "
         "one prompt read at once, without reindex or sliding windows")
    first = d.get("prompt_len", trace.prompt_len)
    need(first < trace.n_tokens, path, "nothing is decoded")
    views = d["lists"] if d["kind"] == "view" else d["views"]
    lists = {} if d["kind"] == "view" else d["lists"]
    heads = {"kv": trace.n_kv_heads, "query": trace.n_heads}
    lanes = heads["kv"] if d["kind"] == "view" else heads[d["head"]]
    seen = {l: attended(trace, first, lanes, lists.get(l, {}), views.get(l, {}))
            for l in trace.layers}
    any_head = np.any([x.any(axis=1) for x in seen.values()], axis=0)
    # The last step at which a token is used. The final step's tokens stay.
    last = np.where(any_head, np.arange(len(any_head))[:, None], -1).max(axis=0)
    stored, was = {}, np.arange(first)
    for s in range(first, trace.n_tokens + 1):
        after = min(s - first, len(any_head) - 1)
        now = np.flatnonzero(last[:s] >= after)
        if len(now) < len(was) + (s > first):
            stored[s] = [now] * lanes
        was = now
    write_decisions(
        out, trace, "base", {l: stored for l in trace.layers}, "stored+view",
        "kv" if lanes == heads["kv"] else "query", prompt_len=first,
        views={l: {first + 1 + i: [np.flatnonzero(y) for y in x[i]]
                   for i in range(len(x))} for l, x in seen.items()})


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("Usage: python3 -m kvreplay.base TRACE DECISIONS OUT")
    try:
        share(sys.argv[2], read_trace(sys.argv[1]), sys.argv[3])
    except (OSError, ValueError) as e:
        sys.exit(str(e))
