# SPDX-License-Identifier: Apache-2.0
"""closed_loop_deltakv.py MODEL TEXTS OUT.csv [NAME=WEIGHTS.safetensors ...]:
the model's answers, and its loss of the next token, where K and V of every
token but sinks and references are rebuilt from DeltaKV's latents, the current
one too (kvreplay.train.deltakv).

An answer is right where the model finds each of its digits the likeliest, the
digits before given: what it would write itself, right up to the last. Of the
bundled retrieval and haystack prompts, and of the 6 documents a task of
closed_loop.py; next token: of the bundled text_400 and the prose of 12
documents of 512 bytes from what no training saw. Rows without weights: dense,
and z = 0, the mean of the references alone. Needs torch and transformers.
"""

import csv
import math
import os
import random
import sys

import torch

import closed_loop
import record
from documents import load_texts

from kvreplay.hf.load import load
from kvreplay.trace import read_trace
from kvreplay.train.deltakv import Rebuilding, compressor
from kvreplay.train.frozen import Frozen

HERE = os.path.dirname(os.path.abspath(__file__))
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


def right(model, ids, answers, attend):
    best = model.run(ids, attend).argmax(-1)
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
def rows(model, kjv, name, attend):
    losses = [model.next_token(x, attend).item() for x in prose(kjv)]
    out = [name, f"{losses[0]:.4f}", f"{sum(losses[1:]) / 12:.4f}"]
    for docs in asked(kjv).values():
        n = sum(len(a) for _, a in docs)
        p = sum(right(model, x, a, attend) for x, a in docs) / n
        out += [n, f"{p:.3f}", f"{math.sqrt(p * (1 - p) / n):.3f}"]
    return out


def main():
    folder, texts, out, *weights = sys.argv[1:]
    torch.set_num_threads(1)
    model = Frozen(load(folder, "f32", tokenizer=False)[0], 2048, None, True)
    kjv = load_texts(texts)[1][0]
    cells = [("dense", lambda call: call.plain(call.k, call.v)),
             ("z = 0", Rebuilding(model, None))]
    for x in weights:
        name, path = x.split("=")
        net = compressor(model, path)
        cells.append((name, Rebuilding(model, net)))
        cells.append((name + ", refs=recon", Rebuilding(model, net, "recon")))
    tasks = "bundled retrieval haystack turns".split()
    head = "weights text_400 prose".split()
    for t in tasks:
        head += [f"{t}_asked", f"{t}_right", f"{t}_error"]
    with open(out, "w", newline="") as f:
        to = csv.writer(f, lineterminator="\n")
        to.writerow(head)
        for name, attend in cells:
            row = rows(model, kjv, name, attend)
            to.writerow(row)
            f.flush()
            print(*row, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
