# SPDX-License-Identifier: Apache-2.0
"""Recomputes attention of a version 2 trace in binary64 with numpy.

    variants.py SRC TRACE OUTPUTS [TOLERANCE]
    variants.py SRC --partial KVREPLAY FOLDER

SRC: the folder of the package kvreplay. OUTPUTS: from `kvreplay run TRACE -m
dense --outputs`. Recomputes every decode row of every layer from q, k, v and
the trace's scale, window, softcap and sinks, without chunks and with the
ordinary exp, and compares relative to the row's norm. Exit 1 if one is off by
more than TOLERANCE (default 1e-5); prints the first.
"""
import subprocess
import sys

import numpy as np


def row(t, layer, q, k, v, token):
    """The outputs of all query heads for one row, [n_heads, value_dim]."""
    w, group = t.windows[layer], t.n_heads // t.n_kv_heads
    first = max(0, token + 1 - w) if w else 0
    k, v = (np.repeat(x[:, first:token + 1], group, 0) for x in (k, v))
    s = np.einsum("hd,htd->ht", q, k) * np.float64(np.float32(t.scale))
    if t.softcap:
        s = t.softcap * np.tanh(s / t.softcap)
    sinks = t.sinks(layer)
    if sinks is not None:
        s = np.concatenate([s, sinks[:, None].astype(np.float64)], 1)
    p = np.exp(s - s.max(1, keepdims=True))
    p = (p / p.sum(1, keepdims=True))[:, :k.shape[1]]
    return np.einsum("ht,htd->hd", p, v)


def turned(x, positions, inv_freq):
    """x [.., tokens, d], with the first channels rotated by position in pairs
    (i, i + r/2), as in Phi, StableLM and GPT-NeoX."""
    r = len(inv_freq)
    angle = np.float32(positions)[:, None] * np.float32(inv_freq)
    c, s = np.cos(angle.astype(np.float64)), np.sin(angle.astype(np.float64))
    a, b, rest = x[..., :r], x[..., r:2 * r], x[..., 2 * r:]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], -1)


def partial(src, kvreplay, folder):
    """A model that rotates 8 of 24 channels, recorded with partial_rope, under
    streamingllm, which re-rotates keys and queries to their cache positions:
    outputs against the model's own rotation in binary64."""
    sys.path.insert(0, src)
    from kvreplay import container, trace as kvtrace
    rng, n, p, d, sink, budget = np.random.default_rng(3), 60, 40, 24, 2, 12
    inv = np.float32([1, 0.3, 0.1, 0.02])
    q, k = (rng.standard_normal((h, n, d)) for h in (2, 1))
    v = rng.standard_normal((1, n, 8)).astype("f4")
    channels, padded = kvtrace.partial_rope(d, inv)
    assert sorted(channels) == [*range(d)] and len(padded) == d // 2
    at = np.arange(n)
    qr, kr = (turned(x, at, inv).astype("f4") for x in (q, k))
    trace, outputs = f"{folder}/partial.safetensors", f"{folder}/po.safetensors"
    kvtrace.write_trace(trace, {0: {"q": qr[..., channels], "k": kr[
        ..., channels], "v": v}}, p, inv_freq=padded,
        metadata={"rope.layout": "half"})
    method = f"streamingllm:sink={sink}:budget={budget}"
    subprocess.run([kvreplay, "run", trace, "-q", "-m", method, "--outputs",
                    outputs], check=True, stdout=subprocess.DEVNULL)
    _, got = container.open_all(outputs)
    _, shape, data = got["layers.0.o"]
    ours, worst = data.view(np.float32).reshape(shape), 0
    kept = [*range(sink), *range(p - budget + sink, p)]
    for step in range(n - p):
        t = p + step
        kept = kept + [t]
        place = np.arange(len(kept))
        keys = turned(k[0][kept], place, inv)
        query = turned(q[:, t:t + 1], place[-1:], inv)[:, 0]
        s = query @ keys.T / np.sqrt(d)
        w = np.exp(s - s.max(1, keepdims=True))
        want = (w / w.sum(1, keepdims=True)) @ v[0][kept].astype(np.float64)
        worst = max(worst, np.abs(ours[:, step] - want).max())
        kept = kept[:sink] + kept[sink + 1:]
    if not worst < 1e-5:
        sys.exit(f"partial RoPE: off by {worst:.2e}")
    print(f"partial RoPE under streamingllm: off by {worst:.1e}")


def main(src, trace, outputs, tolerance="1e-5"):
    sys.path.insert(0, src)
    from kvreplay import container, trace as kvtrace
    t = kvtrace.read_trace(trace)
    _, got = container.open_all(outputs)
    worst = 0
    for l in t.layers:
        q, k, v = (x(l).astype(np.float64) for x in (t.q, t.k, t.v))
        dtype, shape, data = got[f"layers.{l}.o"]
        ours = data.view(np.float32).reshape(shape)
        rows = t.rows(l).tolist()
        for step in range(shape[1]):
            token = t.prompt_len + step
            want = row(t, l, q[:, rows.index(token)], k, v, token)
            off = np.linalg.norm(ours[:, step] - want, axis=1)
            off = (off / np.linalg.norm(want, axis=1)).max()
            worst = max(worst, off)
            if not off <= float(tolerance):
                sys.exit(f"layer {l}, row {token}: off by {off:.2e}")
    print(f"{len(t.layers)} layers, {shape[1]} rows, off by {worst:.1e}")


if __name__ == "__main__":
    if sys.argv[2] == "--partial":
        partial(sys.argv[1], *sys.argv[3:])
    else:
        main(*sys.argv[1:])
