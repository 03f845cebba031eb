# SPDX-License-Identifier: Apache-2.0
"""closed_loop.py MODEL TEXTS OUT.csv [documents]: the answers that the model
gives when its KV cache is a kvreplay session, a row for each method, size and
task: right answers of those asked, by default in 6 documents a task.

Definitions are the prompt; questions come after it, byte by byte, in the same
session. An answer is the model's own bytes, each the likeliest, fed back right
or wrong; the question that follows is given. Sizes are shares of the prompt.
Needs torch, transformers and the library (KVREPLAY_LIBRARY=libkvreplay.so).
"""

import csv
import math
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

import model
import record
from documents import load_texts

from kvreplay.session import Session

METHODS = (
    "window random streamingllm h2o tova snapkv pyramidkv adakv knorm zsmerge "
    "quest:page=16:skip=0 quest:page=8:skip=0 oracle-topk"
).split()
SIZES = "12.5% 25% 50%".split()
FREQ = (
    10000.0 ** (-torch.arange(0, model.D, 2, dtype=torch.float64) / model.D)
).float()


def documents(task, kjv, n):
    """The same for every method."""
    for i in range(n):
        if task == "retrieval":
            yield record.retrieval(random.Random(100 + i), 16)
        elif task == "haystack":
            yield record.retrieval(random.Random(200 + i), 8, kjv, 40)
        else:
            yield record.turns(random.Random(300 + i), kjv)


class Model:
    """The model with a session for its cache."""

    def __init__(self, w, method, size, prompt, room):
        shape = dict(n_layers=model.L, n_heads=model.H, n_kv_heads=model.KV)
        self.s = Session(method, size, **shape, d=model.D, dtype="f32",
                         n_tokens=room, prompt_len=prompt,
                         inv_freq=FREQ.numpy())  # fmt: skip
        self.w, self.seen, self.prompt = w, 0, prompt

    def attend(self, l, q, k, v):
        n, x = q.shape[2], [y[0].numpy() for y in (q, k, v)]
        first = n if not self.seen else 1  # the prompt is one block
        ends = [(0, first), *((t, t + 1) for t in range(first, n))]
        out = [
            torch.from_numpy(
                self.s.block(l, *(y[:, a:b] for y in x), out=True)
            )
            for a, b in ends
        ]
        return torch.cat(out, 1)[None]

    def feed(self, ids):
        """The likeliest next byte."""
        z = model.forward(
            self.w, torch.tensor([ids]), self.attend, first=self.seen
        )
        self.seen += len(ids)
        self.s.end_step(self.seen)
        return int(z[0, -1, : model.V].argmax())


def answers(w, d, method, size):
    """How many of the document's answers the model gives."""
    ids, right, at = d.tokens(), 0, d.prompt_len
    m = Model(w, method, size, at, len(ids))
    m.feed(ids[:at])
    for a in d.answers:
        given = [m.feed(ids[at : a["start"]])]
        while len(given) < a["end"] - a["start"]:
            given.append(m.feed(given[-1:]))
        m.feed(given[-1:])
        right += given == ids[a["start"] : a["end"]]
        at = a["end"]
    m.s.close()
    return right


@torch.no_grad()
def row(cell):
    folder, texts, n, method, size, task = cell
    torch.set_num_threads(1)
    w, kjv = model.load(folder), load_texts(texts)[1][0]
    docs = list(documents(task, kjv, n))
    asked = sum(len(d.answers) for d in docs)
    right = sum(answers(w, d, method, size) for d in docs)
    p = right / asked
    error = math.sqrt(p * (1 - p) / asked)
    return [method, size or "-", task, n, asked, right, f"{p:.3f}",
            f"{error:.3f}"]  # fmt: skip


def main():
    folder, texts, out, *n = sys.argv[1:]
    n = int(n[0]) if n else 6
    cells = [("dense", None), *((m, s) for m in METHODS for s in SIZES)]
    tasks = "retrieval haystack turns".split()
    todo = [(folder, texts, n, *c, t) for c in cells for t in tasks]
    names = "method size task documents answers right share standard_error"
    with open(out, "w", newline="") as f, ProcessPoolExecutor(
        os.cpu_count()
    ) as pool:
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow(names.split())
        for x in pool.map(row, todo):
            rows.writerow(x)
            f.flush()
            print(*x, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
