# SPDX-License-Identifier: Apache-2.0
"""Writes and reads decisions: which tokens your own method keeps or attends to.
`kvreplay run TRACE -m replay:file=mine.safetensors` follows such a file, and so
measures your method like the built-in ones. Needs numpy, no build.

    t = read_trace("chat.safetensors")
    kept = {t.prompt_len: [[0, 1, 2]] * t.n_kv_heads}
    write_decisions("mine.safetensors", t, "mine", {l: kept for l in t.layers})
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Collection, Mapping, Optional, Sequence

import numpy as np

from .container import array, open_all, save, tensor
from .need import need

if TYPE_CHECKING:
    from .container import Array
    from .trace import Trace

    # By layer, by number of tokens seen: one list of positions per head.
    Steps = Mapping[int, Sequence[Any]]
    Lists = Mapping[int, Steps]

_LISTS = {"steps": "I32", "indptr": "I64", "positions": "I32"}


def _lists(at: str, given: Steps, heads: int, page: int,
           due: Collection[int]) -> tuple[Any, ...]:
    """Steps, indptr and positions of {step: [one list per head]}, checked."""
    lists: list[Array] = []
    for s in sorted(given):
        need(s in due, at, f"step {s} is not a step (a number of tokens seen) "
             "at which a view is taken, or lanes are compressed")
        need(len(given[s]) == heads, at, f"step {s}: {len(given[s])} lists "
             f"for {heads} heads")
        for h, x in enumerate(map(np.asarray, given[s])):
            head = f"{at}: step {s}, head {h}"
            need(x.ndim == 1 and x.size and x.dtype.kind in "iu", head,
                 "must have a list of at least one token or page, by number")
            bad = x[(x < 0) | (x > (s - 1) // page)]  # x * page can overflow
            need(not bad.size, head, *bad[:1], " is not among the ones seen: 0 "
                 f"to {(s - 1) // page}")
            need(np.unique(x).size == x.size, head, "names one twice")
            lists.append(x)
    return (sorted(given), np.cumsum([0, *map(len, lists)]),
            np.concatenate([*lists, np.zeros(0, np.int32)]))


def write_decisions(path: str | os.PathLike[str], trace: Trace, name: str,
                    lists: Lists, kind: str = "stored", head: str = "kv",
                    unit: str = "token", reindex: bool = False,
                    block: Optional[int] = None,
                    prompt_len: Optional[int] = None,
                    views: Optional[Lists] = None,
                    view_head: str = "query") -> None:
    """Writes a file for `replay:file=`. lists: {recorded layer: {tokens seen:
    [one list of positions per head]}}. kind: stored (what lanes hold from this
    step on), view (what heads attend to at this step), stored+view (lists and
    views). unit: token, or for views page:16. block: the most prompt tokens
    read at once, for chunked prefill."""
    path, of = os.fspath(path), re.fullmatch(r"token|page:([1-9]\d{0,9})",
                                             str(unit))
    heads = {"kv": trace.n_kv_heads, "query": trace.n_heads}
    need(isinstance(name, str) and name and of and kind in (
       "stored", "view", "stored+view") and {head, view_head} <= {*heads},
         path, "name must be a text; kind stored, view or stored+view; head kv "
         "or query; unit token or page:N")
    need(("+" in kind) == bool(views) and head + view_head != "querykv", path,
         "views need kind stored+view, of query heads if the lists are")
    first = trace.prompt_len if prompt_len is None else prompt_len
    last, block = trace.n_tokens + 1, block or None
    need(all(isinstance(x, (int, np.integer)) and x > 0 for x in (
       first, block or last)) and first < last, path, f"prompt_len is {first}, "
         f"block {block}; each must be None or a number, 1 to {last - 1}")
    page, tensors = int(of and of[1] or 1), {}
    decode = range(first + 1, last)
    compresses = {*range(first, last), *range(block or last, last, block or 1)}
    parts: Any = (
            ("", lists, heads[head], 1 if views else page,
             decode if kind == "view" else compresses),
            ("view.", views or {}, heads[view_head], page, decode))
    for part, given, n, size, due in parts:
        need(part and not given or sorted(given) == trace.layers, path,
             f"there are lists for layers {[*given]}, but the recorded layers "
             f"are {trace.layers}")
        for l in given:
            found = _lists(f"{path}: layer {l}", given[l], n, size, due)
            for x, y in zip(_LISTS, found):
                tensors[f"layers.{l}.{part}{x}"] = tensor(_LISTS[x], y)
    meta = dict(
        format="kvdecisions", version=1, trace=trace.identity, name=name,
        kind=kind, head=head, unit=unit, block=block, reindex=int(reindex),
        prompt_len=prompt_len, view_head=views and view_head)
    save(path, {x: str(y) for x, y in meta.items() if y}, tensors)


def read_decisions(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of write_decisions, as a dict. trace: its identity."""
    meta, tensors = open_all(os.fspath(path))
    need(meta.get("format") == "kvdecisions" and meta.get("version") == "1",
         path, "metadata format, version: not kvdecisions, 1")
    out: dict[str, Any] = {**meta, "lists": {}, "views": {},
                           "reindex": meta.get("reindex") == "1"}
    for x in {"block", "prompt_len"} & {*meta}:
        need(meta[x].isdecimal(), path, x, " is ", meta[x], ", no number")
        out[x] = int(meta[x])
    for name in (x[:-5] for x in tensors if x.endswith("steps")):
        at = re.fullmatch(r"layers\.([0-9]{1,9})\.(view\.)?", name)
        found = [tensors.get(name + x, ("none", (), np.zeros(0)))
                 for x in _LISTS]
        need(at and all(x[0] == y and len(x[1]) == 1 for x, y in zip(
           found, _LISTS.values())), path, name, "steps: give layers.N. or "
             f"layers.N.view. with {_LISTS}, all three vectors")
        s, e, p = map(array, found)
        n, lists = max(1, (len(e) - 1) // max(1, len(s))), np.split(p, e[1:-1])
        need(len(e) == 1 + n * len(s) and (s[1:] > s[:-1]).all() and
             (e[1:] >= e[:-1]).all() and [*e[:1], *e[-1:]] == [0, len(p)],
             path, name, "indptr: steps must rise, and indptr must have 0 and "
             "the end of each list, the last at the number of positions")
        assert at  # need() has checked it
        out["views" if at[2] else "lists"][int(at[1])] = {
            int(x): lists[i * n:i * n + n] for i, x in enumerate(s)}
    return out
