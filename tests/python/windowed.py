# SPDX-License-Identifier: Apache-2.0
"""Recomputes windowed=compress for two rules in binary64 with numpy: what is
kept within sliding windows, and the outputs.

    windowed.py SRC TRACE RULE BUDGET SELECTIONS OUTPUTS

SRC: the folder of the package kvreplay. RULE: sums keeps, after the prompt and
each step, half the budget as last entries and half as those with the most
attention from all rows; norms keeps, after the prompt, the entries with the
shortest keys. SELECTIONS and OUTPUTS: from `kvreplay run TRACE` with such a
method. Candidates are the tokens that the next one sees; others leave before a
compression. Exit 1, with the first difference, if other tokens are kept or an
output is off by more than 1e-5 of its row's norm.
"""
import json
import sys

import numpy as np


def weights(t, layer, q, keys):
    """Probabilities of rows q [heads, d] over keys [m, d], with the sink."""
    s = q @ keys.T * np.float64(np.float32(t.scale))
    sinks = t.sinks(layer)
    if sinks is not None:
        group = t.n_heads // t.n_kv_heads
        own = sinks.astype(np.float64).reshape(-1, group)[weights.head]
        s = np.concatenate([s, own[:, None]], 1)
    p = np.exp(s - s.max(1, keepdims=True))
    return (p / p.sum(1, keepdims=True))[:, :len(keys)]


def seen(window, row):
    """The first token that a row sees."""
    return max(0, row - window + 1) if window else 0


def lane(t, layer, g, q, k, v, rule, budget):
    """Yields (step, tokens kept after it, outputs of its row or None)."""
    window, group = t.windows[layer], t.n_heads // t.n_kv_heads
    q, k, v = q[g * group:(g + 1) * group], k[g], v[g]
    weights.head = g
    mass = np.zeros(len(k))
    if rule == "sums":
        for r in range(t.prompt_len):
            a = seen(window, r)
            mass[a:r + 1] += weights(t, layer, q[:, r], k[a:r + 1]).sum(0)
    score = {"sums": mass, "norms": -np.linalg.norm(k, axis=1)}[rule]
    recent = budget // 2 if rule == "sums" else 0
    kept, out = [*range(t.prompt_len)], None
    for step in range(t.prompt_len, len(k) + 1):
        if step > t.prompt_len:
            kept.append(step - 1)
            p = weights(t, layer, q[:, step - 1], k[kept])
            out = p @ v[kept]
            mass[kept] += p.sum(0)
        kept = [x for x in kept if x >= seen(window, step)]
        if len(kept) > budget and (rule == "sums" or step == t.prompt_len):
            past = kept[:len(kept) - recent]
            best = sorted(past, key=lambda x: -score[x])[:budget - recent]
            kept = sorted(best) + kept[len(kept) - recent:]
        yield step, list(kept), out


def main(src, trace, rule, budget, selections, outputs):
    sys.path.insert(0, src)
    from kvreplay import container, trace as kvtrace
    t = kvtrace.read_trace(trace)
    _, got = container.open_all(outputs)
    lines = [json.loads(x) for x in open(selections)]
    said = {(x["layer"], x["head"], x["step"]): x["positions"] for x in lines}
    worst, group, told = 0, t.n_heads // t.n_kv_heads, 0
    for l in t.layers:
        q, k, v = (x(l).astype(np.float64) for x in (t.q, t.k, t.v))
        _, shape, data = got[f"layers.{l}.o"]
        ours = data.view(np.float32).reshape(shape)
        for g in range(t.n_kv_heads):
            for step, kept, want in lane(t, l, g, q, k, v, rule,
                                         int(budget)):
                theirs = said.get((l, g, step))
                told += theirs is not None
                if theirs is not None and theirs != kept:
                    sys.exit(f"layer {l}, head {g}, step {step}: {theirs} are "
                             f"kept, not {kept}")
                if want is None:
                    continue
                own = ours[g * group:(g + 1) * group, step - 1 - t.prompt_len]
                off = np.linalg.norm(own - want, axis=1)
                off = (off / np.linalg.norm(want, axis=1)).max()
                worst = max(worst, off)
                if not off <= 1e-5:
                    sys.exit(f"layer {l}, head {g}, step {step}: off by "
                             f"{off:.2e}")
    if not told:
        sys.exit("no selection was compared")
    print(f"{told} selections, outputs off by {worst:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
