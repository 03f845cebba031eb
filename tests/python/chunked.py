# SPDX-License-Identifier: Apache-2.0
"""Recomputes chunked prefill (prefill=N) of omnikv, deltakv, h2o and snapkv in
binary64 with numpy: what the prompt's rows attend to, and what they lose.

    chunked.py SRC TRACE ROW

SRC: the folder of the package kvreplay. ROW: the JSON line of `kvreplay run
TRACE` with one of these methods; its params are used. In chunks after the
first, omnikv ranks candidates by the largest, over query heads, of the mean
over the chunk's queries; layers below the filter attend to the best k and to
all that are no candidates. deltakv's candidates are the tokens coded when the
chunk began; with compressor=none a coded token reads as the mean of its nearest
references, by keys before RoPE. After each chunk h2o keeps half its budget as
last tokens and half as those with the most attention, from rows of all chunks
or, with variant=prefill, of those since it last dropped any. In snapkv the last
`window` rows so far, also of earlier chunks, vote at each chunk's end; decode
steps attend to what the last chunk left. Exit 1 if the mean error, mass or
share of the prompt's rows, or of snapkv's decode steps, is off by more than
1e-6 of it.
"""
import json
import sys

import numpy as np


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def coded_to(o, seen):
    """deltakv: where coded tokens end after so many tokens."""
    whole = max(0, seen - o["sink"]) // o["recent"]
    return o["sink"] + max(0, whole - 1) * o["recent"]


def chosen(q, k, a, b, scale, o):
    """Tokens before b that chunk a .. b - 1 attends to, below the filter."""
    delta = "stride" in o
    first, end = o["sink"], max(o["sink"], a - o["recent"])
    if delta:
        end = coded_to(o, a)
        o = o | {"k": o.get("prompt_top", 0) or o["top"] or
                 max(1, int(np.float32(o["r"]) * np.float32(end - first)))}
    group, best = len(q) // len(k), None
    for h in range(len(q)):
        s = q[h, a:b] @ k[h // group, first:end].T
        s = s * (1 if o["score"] == "dot" else scale)
        s = (softmax(s) if o["score"] == "prob" else s).mean(0)
        best = s if best is None else np.maximum(best, s)
    order = np.argsort(-best, kind="stable")[:o["k"]]
    keep = np.ones(b, bool)
    keep[first:end] = False
    keep[first + order] = True
    return keep


def turned(t, x, sign):
    """Keys x [heads, tokens, d], rotated by their positions or back."""
    at = np.arange(x.shape[1]) if t.positions is None else t.positions
    angle = np.outer(sign * at.astype(np.float64), t.inv_freq.astype(float))
    c, s, half = np.cos(angle), np.sin(angle), x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def as_coded(t, k, v, o):
    """deltakv: a layer's keys and values as they are if coded."""
    at = np.concatenate([*turned(t, k, -1), *v], -1)
    other, i = at.copy(), np.arange(len(at))
    is_reference = (i < o["sink"]) | (i % o["stride"] == 0)
    for j in np.flatnonzero(~is_reference):
        refs = np.flatnonzero(is_reference[:j])
        far = ((at[refs] - at[j]) ** 2).sum(-1)
        if len(refs):
            near = refs[np.argsort(far, kind="stable")[:o["nearest"]]]
            other[j] = at[near].mean(0)
    parts = np.split(other, np.cumsum([x.shape[-1] for x in [*k, *v]])[:-1], -1)
    return turned(t, np.stack(parts[:len(k)]), 1), np.stack(parts[len(k):])


def lost(q, k, v, t, keep, scale, read):
    """Error, mass and share of one head's row of token t. read: the keys and
    values that it finds stored."""
    p = softmax(q[t] @ k[:t + 1].T * scale)
    own = np.flatnonzero(keep[:t + 1])
    out = p @ v[:t + 1]
    got = softmax(q[t] @ read[0][own].T * scale) @ read[1][own]
    error = np.linalg.norm(got - out) / np.linalg.norm(out)
    return error, p[own].sum(), len(own) / (t + 1)


def filters_of(o):
    return [int(x) for x in str(o.get("layers", o.get("full"))).split("/")]


def below(t, l, o, a, b, scale):
    """omnikv, deltakv: tokens before b that a layer's heads attend to."""
    filters = filters_of(o)
    above = [f for f in filters if f < l]
    if not above or l in filters:
        return np.ones(b, bool)
    q, k = (x(above[-1]).astype(np.float64) for x in (t.q, t.k))
    return chosen(q, k, a, b, scale, o)


def kept(q, k, size, end, scale, o):
    """h2o, snapkv: yields each chunk's start, end, and which tokens before its
    end are stored or its own; snapkv: decode steps, too. q [heads, n, d]."""
    votes = "window" in o
    keep, mass, budget = np.ones(q.shape[1], bool), np.zeros(end), o["budget"]
    recent = o["window"] if votes else budget // 2
    for a in range(0, end, size):
        b = min(a + size, end)
        if a:
            yield a, b, keep[:b].copy()
        mass *= not votes
        for x in range(max(0, b - recent) if votes else a, b):
            own = np.flatnonzero(keep[:x + 1])
            mass[own] += softmax(q[:, x] @ k[own].T * scale).sum(0)
        own = np.flatnonzero(keep[:b])
        if len(own) <= budget:
            continue
        past = own[:len(own) - recent]
        score, half = mass[past], o.get("kernel", 1) // 2
        score = np.array([score[max(0, i - half):i + half + 1].max()
                          for i in range(len(score))])
        best = past[np.argsort(-score, kind="stable")]
        keep[best[budget - recent:]] = False
        if o.get("variant") == "prefill":
            mass[:] = 0
    if votes:
        yield end, q.shape[1], keep


def chunks(t, l, g, o, q, k, scale):
    size, end = o["prefill"], t.prompt_len
    if "budget" in o:
        group = t.n_heads // t.n_kv_heads
        yield from kept(q[g * group:(g + 1) * group], k[g], size, end, scale, o)
        return
    for a in range(size, end, size):
        b = min(a + size, end)
        yield a, b, below(t, l, o, a, b, scale)


def stored(t, l, o, k, v):
    """f(a): keys, values [heads, tokens, d] stored when a chunk starts at a."""
    if "stride" not in o or l in filters_of(o):
        return lambda a: (k, v)
    coded = as_coded(t, k, v, o)
    i = np.arange(k.shape[1])[:, None]
    return lambda a: tuple(np.where(i < coded_to(o, a), x, y)
                           for x, y in zip(coded, (k, v)))


def main(src, path, row):
    sys.path.insert(0, src)
    from kvreplay import trace as kvtrace
    t = kvtrace.read_trace(path)
    r = json.loads(open(row).readline())
    o = {x: int(y) if str(y).isdigit() else y for x, y in r["params"].items()}
    scale = np.float64(np.float32(t.scale))
    group, values, steps = t.n_heads // t.n_kv_heads, [], []
    for l in t.layers:
        q, k, v = (x(l).astype(np.float64) for x in (t.q, t.k, t.v))
        found = stored(t, l, o, k, v)
        for g in range(t.n_kv_heads):
            for a, b, keep in chunks(t, l, g, o, q, k, scale):
                read = [x[g] for x in found(a)]
                rows = values if a < t.prompt_len else steps
                rows += [lost(q[h], k[g], v[g], x, keep, scale, read)
                           for h in range(g * group, (g + 1) * group)
                           for x in range(a, b)]
    for name, rows, i in (("prompt_error", values, 0),
                          ("prompt_mass", values, 1),
                          ("prompt_attended", values, 2),
                          ("output_error", steps, 0), ("mass", steps, 1)):
        if not rows:
            continue
        got, want = r[name], np.mean(rows, 0)[i]
        if got["count"] != len(rows):
            sys.exit(f"{name}: {got['count']} values, not {len(rows)}")
        if not abs(got["mean"] - want) <= 1e-6 * want:
            sys.exit(f"{name}: {got['mean']}, not {want}")
    print(f"{len(values)} rows, error {np.mean(values, 0)[0]:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
