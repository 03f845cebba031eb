# SPDX-License-Identifier: Apache-2.0
"""record_training.py MODEL TEXTS FOLDER: the recordings that weights of methods
are trained on and judged by, of other texts and seeds than the bundled traces.

240 recordings train_000 to train_239, of 300 to 700 tokens and some of 1,500 to
2,000, and 24 of the same kinds, held_00 to held_23. Prose is of the parts of
the texts that the model was trained on, which no bundled trace has: the first
nine tenths of them for training, the last tenth for what is held out. A file
that is there is not recorded again. 1.7 GB.
"""

import os
import random
import sys

import torch

import documents as doc
import record
from make_shards import load_texts

TRAIN, HELD = 240, 24
SEED = 20_000  # those of the bundled traces and of closed_loop.py are below 400


def prose(r, text, size):
    start = r.randrange(len(text) - size)
    d = record.prose(text[start:], size, 0)
    d.prompt_len = len(d) // 2
    return d


def document(r, kind, texts):
    """Of a kind from 0 to 9; each is a tenth of the recordings."""
    text = texts[0] if r.random() < 0.7 else texts[1]
    if kind < 3:
        return prose(r, text, r.randint(300, 600))
    if kind < 5:
        return record.retrieval(r, r.randint(7, 16))
    if kind < 7:
        return record.retrieval(r, r.randint(4, 8), text, r.randint(20, 60))
    if kind < 8:
        return record.turns(r, text)
    if r.random() < 0.5:
        return record.retrieval(r, r.randint(15, 20), text, 58)
    return prose(r, text, r.randint(1500, 2000))


def drawn(model, r, texts):
    """What the model draws itself, from the beginning of some prose."""
    seed = prose(r, texts[0], r.randint(32, 96)).tokens()
    return record.generated(model, seed, 400, r.randrange(1 << 30)), len(seed)


def one(model, folder, name, seed, kind, texts):
    r = random.Random(seed)
    more = dict(source="random keys and values, King James Bible, Jargon File",
                task="training of weights")  # fmt: skip
    if kind == 9:
        ids, prompt = drawn(model, r, texts)
    else:
        d = document(r, kind, texts)
        ids, prompt = d.tokens(), d.prompt_len
        if d.answers:
            more.update(record.asked(model, d, ids))
    record.record(model, folder, name, ids, prompt, **more)


def main():
    from transformers import AutoModelForCausalLM

    where, texts, folder = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(
        where, dtype=torch.bfloat16
    ).eval()
    parts = load_texts(texts)[0]
    early = [t[: len(t) * 9 // 10] for t in parts]
    late = [t[len(t) * 9 // 10 :] for t in parts]
    os.makedirs(folder, exist_ok=True)
    todo = [(f"train_{i:03}", SEED + i, i % 10, early) for i in range(TRAIN)]
    todo += [
        (f"held_{i:02}", SEED + TRAIN + i, i % 10, late) for i in range(HELD)
    ]
    for name, *how in todo:
        if not os.path.exists(f"{folder}/{name}.safetensors"):
            one(model, folder, name, *how)


if __name__ == "__main__":
    main()
