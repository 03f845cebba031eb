# SPDX-License-Identifier: Apache-2.0
"""Traces and decisions of kvreplay in Python, without a build.

One file to copy beside yours; it needs Python 3.9 and numpy:

    t = read_trace("chat.safetensors")       # t.q(0), t.k(0): float32
    kept = {t.prompt_len: [[0, 1, 2]] * t.n_kv_heads}
    write_decisions("mine.safetensors", t, "mine", {l: kept for l in t.layers})

Then `kvreplay run chat.safetensors -m replay:file=mine.safetensors`.
"""
import functools
import hashlib
import json
import math
import os
import re
import struct

import numpy as np

_NUMPY = {x: np.dtype(y) for x, y in dict(
    F16="<f2", BF16="<u2", F32="<f4", I32="<i4", I64="<i8").items()}
_LISTS = {"steps": "I32", "indptr": "I64", "positions": "I32"}
_FLOATS = {"float16": "F16", "uint16": "BF16", "float32": "F32"}


def _need(true, where, *sentence):
    if not true:  # in one line, whatever names and numbers stand in it
        text = f"{where}: " + "".join(map(str, sentence))
        raise ValueError("".join(x if x.isprintable() else ascii(x)[1:-1]
                                 for x in text[:500]))


def _tensor(dtype, x):  # a tensor here is (name of its dtype, shape, bytes)
    x = np.asarray(x, _NUMPY[dtype], "C")
    return dtype, x.shape, x.reshape(-1).view(np.uint8)


def _load(path):
    """Metadata and tensors of one safetensors file."""
    tensors, end = {}, 0
    _need(os.path.getsize(path) >= 8, path, "too short for safetensors")
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    n = 8 + int.from_bytes(data[:8].tobytes(), "little")
    _need(n <= min(data.size, 10**8), path, "no safetensors: header too long")
    _need(n == 8 or data[n - 1], path, "zero bytes pad the header, not blanks")
    try:
        head, data = json.loads(data[8:n].tobytes().decode()), data[n:]
        meta = head.pop("__metadata__", {})
        _need({*map(type, meta.values())} <= {str}, path, "metadata no text")
        for name, x in sorted(head.items(), key=lambda x: x[1]["data_offsets"]):
            dtype, shape, (first, last) = (
                x[y] for y in ("dtype", "shape", "data_offsets"))
            _need(len(shape) < 33 and all(type(x) is int and x >= 0 for x in
                  shape) and first == end <= last and (dtype not in _NUMPY or
                  last - first == _NUMPY[dtype].itemsize * math.prod(shape)),
                  path, f"tensor {name} overlaps, leaves a hole or misfits")
            end, tensors[name] = last, (dtype, tuple(shape), data[first:last])
    except (AttributeError, KeyError, TypeError, RecursionError,
            UnicodeDecodeError, json.JSONDecodeError):
        _need(False, path, "no safetensors: a broken header")
    _need(end == data.size, path, abs(end - data.size), " bytes ",
          "missing" if end > data.size else "trailing", " at the end")
    return meta, tensors


def _open(path):
    """The same of a file, or of all shards that an index names."""
    if not path.endswith(".index.json"):
        return _load(path)
    try:
        wanted = json.loads(np.fromfile(path, "u1").tobytes())["weight_map"]
        _need(all(os.path.basename(x) == x for x in wanted.values()), path)
    except (AttributeError, KeyError, TypeError, RecursionError, ValueError):
        _need(False, path, "its weight_map leaves the folder or is none; "
                           "give each tensor a file beside it")
    parts = {x: _load(os.path.join(os.path.dirname(path), x))
             for x in {*wanted.values()}}
    meta = {pair for m, _ in parts.values() for pair in m.items()}
    found = {(name, x) for x in parts for name in parts[x][1]}
    _need(len(meta) == len(dict(meta)) and found == {*wanted.items()}, path,
          "the shards contradict each other or the index")
    return dict(meta), {x: y for _, t in parts.values() for x, y in t.items()}


def _save(path, meta, tensors):
    """Whole or not at all; data begin on a multiple of 64."""
    path, header, at = os.path.realpath(path), {"__metadata__": meta}, 0
    order = sorted(tensors, key=lambda x: (-int(tensors[x][0][-2:]), x))
    for name in order:
        dtype, shape, data = tensors[name]
        first, at = at, at + data.size
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=(first, at))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    there = b"SQLite" if os.path.lexists(path) else b""  # as good as one
    if os.path.isfile(path):
        there = np.fromfile(path, "u1", 10**5).tobytes()
    trace = b'|.*"format": *"kvtrace"' if meta["format"] != "kvtrace" else b""
    _need(not re.match(b"SQLite" + trace, there, re.S), path, "is a trace, a "
          "database or no regular file, not written over; name another")
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "xb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.writelines(tensors[x][2] for x in order)
            f.flush()
            os.fsync(f.fileno())
        os.replace(beside, path)
    finally:
        if os.path.lexists(beside):
            os.unlink(beside)


def widen(x):
    """float32 of float16, float32 or (as uint16) bfloat16: always exact."""
    return x.astype("f4") if x.dtype != "u2" else (
        x.astype("u4") << 16).view("f4")


def bfloat16(x):
    """The nearest bfloat16 of a float32, ties to even, as uint16."""
    return ((x := x.view("u4")) + 0x7fff + (x >> 16 & 1) >> 16).astype("u2")


class Trace:
    """A request: n_layers, n_heads, n_kv_heads, head_dim, value_dim, n_tokens,
    prompt_len, scale, metadata, answers, segments; layers: those recorded;
    tokens, positions, inv_freq or None. Of a layer, float32: q(layer) [n_heads,
    rows, head_dim], k(layer) [n_kv_heads, n_tokens, head_dim] after RoPE,
    v(layer), o(layer) or None; rows(layer): tokens of q; colsum(layer)."""

    def __init__(self, path, metadata, tensors):
        self.path, self.metadata, self._tensors = path, metadata, tensors
        _need([metadata.get(x) for x in ("format", "version")] == [
            "kvtrace", "1"], path, "metadata format, version: not kvtrace, 1")
        for x in "attn.softcap", "attn.sliding_window", "attn.sinks":
            _need(metadata.get(x, "none") == "none", path, "metadata ", x,
                  " is set: version 1 has no arithmetic for it")
        self.n_layers, self.n_heads, self.n_kv_heads, self.head_dim = (
            self._number(x, int, y) for x, y in dict(n_layers=10**5, n_heads=
            2**20, n_kv_heads=2**20, head_dim=2**16).items())
        _need(self.n_heads % self.n_kv_heads == 0, path, self.n_heads, " query"
              " heads do not divide among ", self.n_kv_heads, " KV heads")
        self.scale = self._number("attn.scale", float)
        text = metadata.get("layers", "missing")
        self.layers = list(range(self.n_layers)) if text == "all" else [
            int(x) for x in re.findall("[0-9]{1,9}", text)]
        _need(self.layers and self.layers == sorted({*self.layers}) and
              self.layers[-1] < self.n_layers, path, "metadata layers is ",
              text[:99], ", n_layers only ", self.n_layers)
        k, v = (tensors.get(f"layers.{self.layers[0]}.{x}") for x in "kv")
        _need(k and v and len(k[1]) == len(v[1]) == 3 and k[0] in
              _FLOATS.values(), path, "k or v of layer ", self.layers[0],
              " is not there as F16, BF16 or F32 [n_kv_heads, tokens, d]")
        self.n_tokens, self.value_dim = k[1][1], v[1][2]
        self.prompt_len = self._number("prompt_len", int, self.n_tokens)
        for x in self.layers:
            self._check(f"layers.{x}.", k[0])
        self.tokens = self._get("tokens", ["I32"], self.n_tokens)
        self.positions = self._get("positions", ["I32"], self.n_tokens)
        self.inv_freq = self._get("rope.inv_freq", ["F32"], self.head_dim / 2)
        self.answers, self.segments = map(self._spans, ("answers", "segments"))

    def layer(self, layer):
        """What is recorded of a layer, by name: mapped, bfloat16 as uint16."""
        at, parts = f"layers.{layer}.", (*"qkvo", "rows", "colsum")
        return {x: self._get(at + x) for x in parts if at + x in self._tensors}

    def _wide(self, x, layer):
        x = self._get(f"layers.{layer}.{x}")
        return None if x is None else widen(x)

    q, k, v, o = map(functools.partial(functools.partialmethod, _wide), "qkvo")

    def rows(self, layer):
        return self.layer(layer).get("rows", np.arange(self.n_tokens))

    def colsum(self, layer):
        return self._get(f"layers.{layer}.colsum")

    @functools.cached_property
    def identity(self):
        """Its SHA-256, as `kvtrace info --identity` prints it."""
        def text(x):
            return struct.pack("<Q", len(x.encode())) + x.encode()
        h = hashlib.sha256(struct.pack("<Q", len(self._tensors)))
        for name, (dtype, shape, data) in sorted(self._tensors.items()):
            h.update(text(name) + text(dtype) + struct.pack(
                f"<{1 + len(shape)}Q", len(shape), *shape))
            h.update(hashlib.sha256(data).digest())
        meta = sorted(x for x in self.metadata.items()
                      if x[0] not in ("created", "recorder"))
        h.update(struct.pack("<Q", len(meta)))
        h.update(b"".join(text(y) for x in meta for y in x))
        return h.hexdigest()

    def _number(self, key, kind, most=2**30):
        text = self.metadata.get(key, "missing")
        form = {int: "[0-9]{1,18}", float: "[0-9]*[.]?[0-9]+(e-?[0-9]+)?"}
        x = kind(text) if re.fullmatch(form[kind], text) else 0
        _need(0 < x <= most, self.path, "metadata ", key, " is ", text[:99],
              ", not a number above zero, at most ", most)
        return x

    def _spans(self, key):
        try:
            got = [] + json.loads(self.metadata.get(key, "[]"))
            if all(0 <= x["start"] <= x["end"] <= self.n_tokens for x in got):
                return got
            why = "a span leaves the tokens"
        except (KeyError, RecursionError, TypeError, ValueError) as e:
            why = e
        _need(False, self.path, "metadata ", key, ": ", why)

    def _get(self, name, dtypes=None, *shape, needed=False):
        """An array; None where not recorded; refused of another shape."""
        if not needed and name not in self._tensors:
            return None
        x = self._tensors.get(name, ("missing", (), None))
        _need(not dtypes or x[0] in dtypes and x[1] == shape, self.path,
              f"tensor {name} is {x[:2]}, not {list(dtypes or ())} {shape}")
        return x[2].view(_NUMPY[x[0]]).reshape(x[1])

    def _check(self, at, dtype):
        heads, n, d = self.n_heads, self.n_tokens, self.head_dim
        rows = self._tensors.get(at + "rows", (0, (n,)))[1]
        for x, size in ("k", d), ("v", self.value_dim):
            self._get(at + x, [dtype], self.n_kv_heads, n, size, needed=True)
        self._get(at + "q", _FLOATS.values(), heads, *rows, d, needed=True)
        self._get(at + "o", _FLOATS.values(), heads, *rows, self.value_dim)
        self._get(at + "colsum", ["I64"], heads, self.prompt_len)
        rows = self._get(at + "rows", ["I32"], *rows)
        _need(rows is None or np.all(np.diff(rows, prepend=-1, append=n) > 0),
              self.path, at, f"rows do not rise from 0 on, to {n - 1} at most")


def read_trace(path):
    """The trace in a file, or in the shards of a .safetensors.index.json."""
    return Trace(os.fspath(path), *_open(os.fspath(path)))


def _given(name, x, dtype):
    """The tensor of an argument: its numbers, floats rounded to dtype."""
    last, where = name.rpartition(".")[2], "tensor " + name
    whole = "I64" if last == "colsum" else "I32"
    try:
        x = np.asarray(x, "f4" if last == "inv_freq" else None)
    except (TypeError, ValueError):
        _need(False, where, "no array of numbers")
    if last not in ("inv_freq", *"qkvo"):
        _need(x.dtype.kind in "iu" and (x.astype(_NUMPY[whole]) == x).all(),
              where, x.dtype, " is not all whole numbers that fit ", whole)
        return _tensor(whole, x)
    want = str(dtype).upper() if dtype and last in "qkvo" else _FLOATS.get(
        x.dtype.name)
    _need(x.dtype.name in _FLOATS and want in _FLOATS.values(), where, x.dtype,
          " as ", want, "; make it float32, and dtype 'f16', 'bf16' or 'f32'")
    _need(last not in "qkvo" or x.ndim == 3 and x.size, where, x.shape,
          " is not [heads, tokens, d], none of them 0")
    wide = widen(x)
    with np.errstate(over="ignore"):
        x = bfloat16(wide) if want == "BF16" else wide.astype(_NUMPY[want])
    bad = np.argwhere(~(np.isfinite(wide) & np.isfinite(widen(x))))
    _need(not len(bad), where, "holds NaN or Inf at ",
          *bad[:1].tolist(), "; mend it, or write a wider dtype")
    return _tensor(want, x)


def _texts(path, given):
    """Metadata as they stand in a file: texts, or the JSON of what is none."""
    try:
        return {str(x): y if isinstance(y, str) else json.dumps(
            y, separators=(",", ":"), default=np.generic.item)
            for x, y in dict(given).items()}
    except (TypeError, ValueError) as e:
        _need(False, path, "metadata: ", e, "; give texts, numbers, lists")


def write_trace(path, layers, prompt_len, dtype=None, tokens=None,
                positions=None, inv_freq=None, metadata=()):
    """Writes {number: {"q": [heads, tokens, d], "k":, "v":}} as one file,
    perhaps with "o", "rows", "colsum"; so is t.layer(number). dtype: f16, bf16
    or f32, else the arrays' (uint16: bfloat16). metadata: attn.scale (default
    d^-0.5), n_layers of the model, rope.layout, answers, ... as they are."""
    path, given = os.fspath(path), {
        "tokens": tokens, "positions": positions, "rope.inv_freq": inv_freq}
    _need(isinstance(layers, dict) and layers, path, "layers: give {number: "
          "{name: array}}, at least one layer")
    for l, x in layers.items():
        at = f"{path}: layer {l}"
        _need(isinstance(l, (int, np.integer)) and l is not True and l >= 0
              and isinstance(x, dict), at, "give a number and {name: array}")
        x = {name: y for name, y in x.items() if y is not None}
        _need({*"qkv"} <= {*x} <= {*"qkvo", "rows", "colsum"}, at, "has ",
              ", ".join(map(str, x)) or "nothing", "; give q, k and v, perhaps"
              " o, rows and colsum")
        given.update((f"layers.{l}.{name}", y) for name, y in x.items())
    tensors = {name: _given(name, x, dtype) for name, x in given.items()
               if x is not None}
    q, k = (tensors[f"layers.{min(layers)}.{x}"][1] for x in "qk")
    meta = _texts(path, {
        "n_layers": max(layers) + 1, "n_heads": q[0], "n_kv_heads": k[0],
        "head_dim": q[2], "attn.scale": q[2] ** -0.5, **_texts(path, metadata),
        "format": "kvtrace", "version": "1", "prompt_len": prompt_len})
    meta["layers"] = "all" if str(len(layers)) == meta[
        "n_layers"] else ",".join(map(str, sorted(layers)))
    _save(Trace(path, meta, tensors).path, meta, tensors)


def _lists(at, given, heads, page, due):
    """Steps, indptr and positions of {step: [a list a head]}, if sound."""
    lists = []
    for s in sorted(given):
        _need(s in due, at, f"step {s} is none (they count the tokens seen) at"
              " which a view is taken, or lanes are compressed")
        _need(len(given[s]) == heads, at, f"step {s}: {len(given[s])} lists "
              f"for {heads} heads")
        for h, x in enumerate(map(np.asarray, given[s])):
            head = f"{at}: step {s}, head {h}"
            _need(x.ndim == 1 and x.size and x.dtype.kind in "iu", head, "no "
                  "list of at least one token or page, by number")
            bad = x[(x < 0) | (x > (s - 1) // page)]  # a product may wrap
            _need(not bad.size, head, *bad[:1], " is not among what has been "
                  f"seen: 0 to {(s - 1) // page}")
            _need(np.unique(x).size == x.size, head, "names one twice")
            lists.append(x)
    return (sorted(given), np.cumsum([0, *map(len, lists)]),
            np.concatenate([*lists, np.zeros(0, np.int32)]))


def write_decisions(path, trace, name, lists, kind="stored", head="kv",
                    unit="token", reindex=False, block=None, prompt_len=None,
                    views=None, view_head="query"):
    """What was kept or attended, for `replay:file=`. lists: {recorded layer:
    {tokens seen: [a list of positions a head]}}. kind: stored (held from there
    on), view (attended there), stored+view (lists and views). unit: token, or
    page:16 of views. block: most prompt tokens at once."""
    page, heads = re.fullmatch(r"token|page:([1-9]\d{0,9})", str(unit)), {
        "kv": trace.n_kv_heads, "query": trace.n_heads}
    _need(isinstance(name, str) and name and page and kind in (
        "stored", "view", "stored+view") and {head, view_head} <= {*heads},
          path, "give a text as name, kind stored, view or stored+view, head "
          "kv or query, unit token or page:N")
    _need(("+" in kind) == bool(views) and head + view_head != "querykv", path,
          "views go with kind stored+view, of query heads where lists are")
    first = trace.prompt_len if prompt_len is None else prompt_len
    last, block = trace.n_tokens + 1, block or None
    _need(all(isinstance(x, (int, np.integer)) and x > 0 for x in (
        first, block or last)) and first < last, path, f"prompt_len is {first}"
          f", block {block}; give None or a number, 1 to {last - 1}")
    page, tensors, decode = int(page[1] or 1), {}, range(first + 1, last)
    compresses = {*range(first, last), *range(block or last, last, block or 1)}
    for part, given, n, size, due in (
            ("", lists, heads[head], 1 if views else page,
             decode if kind == "view" else compresses),
            ("view.", views or {}, heads[view_head], page, decode)):
        _need(part and not given or sorted(given) == trace.layers, path,
              f"lists for layers {[*given]}, recorded are {trace.layers}")
        for l in given:
            found = _lists(f"{path}: layer {l}", given[l], n, size, due)
            for x, y in zip(_LISTS, found):
                tensors[f"layers.{l}.{part}{x}"] = _tensor(_LISTS[x], y)
    meta = dict(
        format="kvdecisions", version=1, trace=trace.identity, name=name,
        kind=kind, head=head, unit=unit, block=block, reindex=int(reindex),
        prompt_len=prompt_len, view_head=views and view_head)
    _save(path, {x: str(y) for x, y in meta.items() if y}, tensors)


def read_decisions(path):
    """What write_decisions was given, as a dict; trace: its identity."""
    meta, tensors = _open(os.fspath(path))
    _need(meta.get("format") == "kvdecisions" and meta.get("version") == "1",
          path, "metadata format, version: not kvdecisions, 1")
    out = dict(meta, lists={}, views={}, reindex=meta.get("reindex") == "1")
    for x in {"block", "prompt_len"} & {*meta}:
        _need(meta[x].isdecimal(), path, x, " is ", meta[x], ", no number")
        out[x] = int(meta[x])
    for name in (x[:-5] for x in tensors if x.endswith("steps")):
        at = re.fullmatch(r"layers\.([0-9]{1,9})\.(view\.)?", name)
        found = [tensors.get(name + x, ("none", ())) for x in _LISTS]
        _need(at and all(x[0] == y and len(x[1]) == 1 for x, y in zip(
            found, _LISTS.values())), path, name, "steps: give layers.N. or "
              f"layers.N.view. of {_LISTS}, all three vectors")
        s, e, p = (x[2].view(_NUMPY[x[0]]) for x in found)
        n, lists = max(1, (len(e) - 1) // max(1, len(s))), np.split(p, e[1:-1])
        _need(len(e) == 1 + n * len(s) and (s[1:] > s[:-1]).all() and
              (e[1:] >= e[:-1]).all() and [*e[:1], *e[-1:]] == [0, len(p)],
              path, name, "indptr: give rising steps, and 0 and the end of "
              "each list, the last at the number of positions")
        out["views" if at[2] else "lists"][int(at[1])] = {
            int(x): lists[i * n:i * n + n] for i, x in enumerate(s)}
    return out


def read_results(path):
    """Rows of results.db or of JSON: that of kvresults.py, a file beside."""
    return __import__("kvresults").read_results(path)
