# SPDX-License-Identifier: Apache-2.0
"""closed_loop_deltakv.py MODEL TEXTS OUT.csv [NAME=WEIGHTS.safetensors ...]:
the model's answers, and its loss of the next token, where K and V of every
token but sinks and references are rebuilt from DeltaKV's latents, the current
one too (traces/examples/train_deltakv.py).

An answer is right where the model finds each of its digits the likeliest, the
digits before given: what it would write itself, right up to the last. Of the
bundled retrieval and haystack prompts, and of the 6 documents a task of
closed_loop.py; next token: of the bundled text_400 and the prose of 12
documents of 512 bytes from what no training saw. Rows without weights: dense,
and z = 0, the mean of the references alone. Needs torch.
"""

import csv
import math
import os
import random
import sys

import torch
import torch.nn.functional as F

import closed_loop
import model
import record
from make_shards import load_texts

from kvreplay.trace import read_trace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "../../examples"))
from train_deltakv import Delta, load  # noqa: E402
BUNDLED = "retrieval_16 haystack_8 haystack_20_long multiturn_11".split()


def bundled(name):
    t = read_trace(f"{HERE}/../{name}.safetensors")
    return torch.from_numpy(t.tokens.copy()).long()[None], t.answers


def asked(kjv):
    """{task: [(ids, spans of answers)]}"""
    out = {"bundled": [bundled(n) for n in BUNDLED]}
    for task in ("retrieval", "haystack", "turns"):
        docs = closed_loop.documents(task, kjv, 6)
        out[task] = [(torch.tensor([d.tokens()]), d.answers) for d in docs]
    return out


def prose(kjv):
    r, ids = random.Random(400), [bundled("text_400")[0]]
    for _ in range(12):
        at = r.randrange(len(kjv) - 512)
        ids.append(torch.tensor([[256, *kjv[at : at + 512]]]))
    return ids


def logits(w, ids, attend):
    attend.kept, attend.made = [], []
    return model.forward(w, ids, attend)[0, :, : model.V]


def right(w, ids, answers, attend):
    best = logits(w, ids, attend).argmax(-1)
    return sum(
        bool(
            (
                best[a["start"] - 1 : a["end"] - 1]
                == ids[0, a["start"] : a["end"]]
            ).all()
        )
        for a in answers
    )


@torch.no_grad()
def rows(w, kjv, name, attend):
    losses = [
        float(F.cross_entropy(logits(w, x, attend)[:-1], x[0, 1:]))
        for x in prose(kjv)
    ]
    out = [name, f"{losses[0]:.4f}", f"{sum(losses[1:]) / 12:.4f}"]
    for docs in asked(kjv).values():
        n = sum(len(a) for _, a in docs)
        p = sum(right(w, x, a, attend) for x, a in docs) / n
        out += [n, f"{p:.3f}", f"{math.sqrt(p * (1 - p) / n):.3f}"]
    return out


def main():
    folder, texts, out, *weights = sys.argv[1:]
    torch.set_num_threads(1)
    w, kjv = model.load(folder), load_texts(texts)[1][0]
    cells = [("dense", Delta(None)), ("z = 0", Delta(None, zero=True))]
    for x in weights:
        name, path = x.split("=")
        cells.append((name, Delta(load(path))))
        cells.append((name + ", refs=recon", Delta(load(path), "recon")))
    tasks = "bundled retrieval haystack turns".split()
    head = "weights text_400 prose".split()
    for t in tasks:
        head += [f"{t}_asked", f"{t}_right", f"{t}_error"]
    with open(out, "w", newline="") as f:
        to = csv.writer(f, lineterminator="\n")
        to.writerow(head)
        for name, attend in cells:
            row = rows(w, kjv, name, attend)
            to.writerow(row)
            f.flush()
            print(*row, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
