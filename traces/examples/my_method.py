#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""my_method.py TRACE DECISIONS BUDGET: keep what the prompt's end looks at."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from kvtrace import read_trace, write_decisions  # noqa: E402

t, budget = read_trace(sys.argv[1]), int(sys.argv[3])
p, recent = t.prompt_len, budget // 2
lists = {}
for l in t.layers:
    q, k = t.q(l)[:, p - recent:p], t.k(l)[:, :p - recent]
    x = q.reshape(t.n_kv_heads, -1, t.head_dim) @ k.swapaxes(1, 2) * t.scale
    x = np.exp(x - x.max(2, keepdims=True))  # softmax, a row a query
    mass = (x / x.sum(2, keepdims=True)).sum(1)  # [KV heads, tokens]
    top = np.sort(np.argsort(-mass, 1)[:, :budget - recent], 1)
    lists[l] = {step: [[*g, *range(step - recent, step)] for g in top]
                for step in range(p, t.n_tokens + 1)}
write_decisions(sys.argv[2], t, "my-method", lists)
