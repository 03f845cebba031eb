# SPDX-License-Identifier: Apache-2.0
"""What rows of a prompt that is read in chunks (prefill=N) attend under omnikv,
and what they lose by it, recomputed in binary64 by numpy alone.

    chunked.py SRC TRACE ROW

SRC: the folder of the package kvreplay. ROW: the JSON line of `kvreplay run
TRACE` with one omnikv, by whose params all is done again from q, k and v. At a
chunk but the first its filter's candidates are ranked by the largest, over query
heads, of the mean over the chunk's queries; the best k and what is no candidate
are attended below it. Exit 1 where the mean error, mass or share of the prompt's
rows is off by more than 1e-6 of it.
"""
import json
import sys

import numpy as np


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chosen(q, k, a, b, scale, o):
    """Tokens before b that the chunk a .. b - 1 attends below its filter."""
    first, end = o["sink"], max(o["sink"], a - o["recent"])
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


def lost(q, k, v, t, keep, scale):
    """Error, mass and share of the row of token t, of one head."""
    p = softmax(q[t] @ k[:t + 1].T * scale)
    own = np.flatnonzero(keep[:t + 1])
    out, got = p @ v[:t + 1], p[own] / p[own].sum() @ v[own]
    error = np.linalg.norm(got - out) / np.linalg.norm(out)
    return error, p[own].sum(), len(own) / (t + 1)


def main(src, path, row):
    sys.path.insert(0, src)
    from kvreplay import trace as kvtrace
    t = kvtrace.read_trace(path)
    r = json.loads(open(row).readline())
    o = {x: int(y) if y.isdigit() else y for x, y in
         ((x, str(y)) for x, y in r["params"].items())}
    scale = np.float64(np.float32(t.scale))
    filters = [int(x) for x in str(o["layers"]).split("/")]
    size, end, values = o["prefill"], t.prompt_len, []
    for l in t.layers:
        above = [f for f in filters if f < l]
        q, k, v = (x(l).astype(np.float64) for x in (t.q, t.k, t.v))
        for a in range(size, end, size):
            b = min(a + size, end)
            keep = np.ones(b, bool)
            if above and l not in filters:
                qf, kf = (x(above[-1]).astype(np.float64) for x in (t.q, t.k))
                keep = chosen(qf, kf, a, b, scale, o)
            group = t.n_heads // t.n_kv_heads
            values += [lost(q[h], k[h // group], v[h // group], x, keep, scale)
                       for h in range(t.n_heads) for x in range(a, b)]
    for name, want in zip(("error", "mass", "attended"),
                          np.mean(values, 0)):
        got = r["prompt_" + name]
        if got["count"] != len(values):
            sys.exit(f"{name}: {got['count']} values, not {len(values)}")
        if not abs(got["mean"] - want) <= 1e-6 * want:
            sys.exit(f"{name}: {got['mean']}, not {want}")
    print(f"{len(values)} rows, error {np.mean(values, 0)[0]:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
