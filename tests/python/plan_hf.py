# SPDX-License-Identifier: Apache-2.0
"""A recorded trace has exactly as many bytes as `kvtrace plan` says for the
model's folder, and `kvtrace slim` turns the full trace into what the recorder
records with the same options. plan_hf.py KVTRACE KVREPLAY FOLDER TINY; needs
torch and transformers."""

import json
import os
import subprocess

import numpy as np
from shared import folder, kvtrace, run, tiny

from kvreplay.record import main
from kvreplay.trace import read_trace

MODEL = tiny + "/model"
PROMPTS = os.path.join(folder, "plan.jsonl")
ASKED = ["--rows", "last=20,decode"], ["--layers", "0,2-3", "--no-o"]


def recorded(out, *words):
    assert main([MODEL, "--prompts", PROMPTS, "-o", os.path.join(folder, out),
                 "-q", "--max-new", "6", *words]) == 0  # fmt: skip
    return os.path.join(folder, out, "p.safetensors")


def data(path):
    with open(path, "rb") as f:
        header = int.from_bytes(f.read(8), "little")
    return os.path.getsize(path) - 8 - header


def planned(t, which, *words):
    x = subprocess.check_output(
        [kvtrace, "plan", MODEL, "-f", "json", "-t", str(t.n_tokens),
         "--decode", str(t.n_tokens - t.prompt_len), *words])  # fmt: skip
    return json.loads(x)[which]["bytes"]["all"]


with open(PROMPTS, "w") as f:
    f.write(json.dumps(dict(id="p", prompt="key AB12: 83914;\n" * 9)) + "\n")
full = recorded("full")
t = read_trace(full)
assert planned(t, "full") == data(full)
for i, words in enumerate(ASKED):
    own = recorded(f"own{i}", *words)
    assert planned(t, "slim", *words) == data(own), words
    made = os.path.join(folder, f"made{i}.safetensors")
    run(kvtrace, "slim", full, "-q", "-o", made, *words)
    a, b = read_trace(own), read_trace(made)
    assert data(own) == data(made) and a.layers == b.layers
    for l in a.layers:
        x, y = a.layer(l), b.layer(l)
        assert list(x) == list(y), (list(x), list(y))
        for name in x:
            assert np.array_equal(x[name], y[name]), (words, l, name)
print("plan_hf: as large as planned, and slim as recorded")
