# SPDX-License-Identifier: Apache-2.0
"""make_shards.py TEXTS OUT NAME SIZE COUNT SEED [few]: COUNT documents of SIZE
bytes each for train.c (or, named eval_..., from what training never sees)."""

import random
import re
import sys

import numpy as np

import documents as doc


def load_texts(folder):
    """((training parts), (held-out parts)): the last 3 % of each text."""
    kjv = open(f"{folder}/kjv_raw.txt", errors="replace").read().encode()
    jargon = re.sub(
        r"[ \t]+",
        " ",
        open(f"{folder}/jargon_raw.txt", errors="replace").read(),
    ).encode()
    cut = [int(len(t) * 0.97) for t in (kjv, jargon)]
    return (kjv[: cut[0]], jargon[: cut[1]]), (kjv[cut[0] :], jargon[cut[1] :])


def one(r, size, texts, few):
    x = r.random()
    text = texts[0] if r.random() < 0.7 else texts[1]
    if x < 0.34:
        return doc.prose(r, size, texts)
    if x < 0.60:
        return doc.retrieval(
            r,
            size,
            few and r.random() < 0.7,
            text if r.random() < 0.5 else None,
        )
    if x < 0.78:
        return doc.turns(r, size, text if r.random() < 0.5 else None)
    return doc.copies(r, size) if x < 0.88 else doc.backcopy(r, size)


def asked(r, size, texts):
    """For evaluation: 4-character keys, 5-digit values."""
    doc.sizes = lambda r: (4, 5)
    return doc.retrieval(
        r, size, False, texts[0] if r.random() < 0.5 else None
    )


def main():
    folder, out, name, size, count, seed = *sys.argv[1:4], *map(
        int, sys.argv[4:7]
    )
    train, held = load_texts(folder)
    r = random.Random(seed)
    make = {
        "eval_text": lambda: doc.prose(r, size, held),
        "eval_back": lambda: doc.backcopy(r, size),
        "eval_kv512": lambda: asked(r, size, held),
        "eval_kv2048": lambda: asked(r, size, held),
    }.get(name, lambda: one(r, size, train, len(sys.argv) > 7))
    ids = np.full((count, size + 1), doc.BOS, np.uint16)
    code = np.zeros((count, size), np.uint8)
    for i in range(count):
        d = make()
        ids[i, 1:] = np.frombuffer(d.b[:size], np.uint8)
        code[i] = np.frombuffer(d.w[:size], np.uint8)
    with open(f"{out}/{name}.bin", "wb") as f:
        f.write(
            np.array([size, count], np.int32).tobytes()
            + ids.tobytes()
            + code.tobytes()
        )


if __name__ == "__main__":
    main()
