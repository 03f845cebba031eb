# SPDX-License-Identifier: Apache-2.0
"""evaluate.py MODEL TEXTS: of the exported model with its full cache, on what
training never saw: bits a byte of both texts, and the share of answers whose
bytes are all the likeliest ones (4-character keys, 5-digit values; chance is
1e-5), by the length of the document and by how far back the definition is."""

import math
import random
import sys

import torch

import documents as doc
import model
from make_shards import asked, load_texts


def bits(w, text, size):
    """Mean and standard error of ten pieces."""
    x = []
    for i in range(10):
        s = i * (len(text) - size) // 10
        ids = torch.tensor([[doc.BOS] + list(text[s : s + size])])
        z = model.forward(w, ids[:, :-1])[0, :, : model.V]
        ce = torch.nn.functional.cross_entropy(z, ids[0, 1:])
        x.append(ce.item() / math.log(2))
    return (
        torch.tensor(x).mean().item(),
        torch.tensor(x).std().item() / 10**0.5,
    )


@torch.no_grad()
def main():
    w, held = model.load(sys.argv[1]), load_texts(sys.argv[2])[1]
    for size in 512, 1024, 2048:
        for name, text in zip(("King James Bible", "Jargon File"), held):
            mean, error = bits(w, text, size - 1)
            print(f"{name}, {size} tokens: {mean:.3f} +- {error:.3f} bits")
    r, far = random.Random(7), {}
    for size in 512, 1024, 2048:
        right = n = 0
        for _ in range(8192 // size * 3):
            d = asked(r, size, held)
            ids = torch.tensor([d.tokens(size - 1)])
            best = model.forward(w, ids)[0, :, : model.V].argmax(-1).tolist()
            for a in d.answers:
                if a["end"] < size:
                    given = best[a["start"] - 1 : a["end"] - 1]
                    ok = given == ids[0, a["start"] : a["end"]].tolist()
                    back = (a["start"] - a["source_start"]) // 256
                    x = far.setdefault(back, [0, 0])
                    right, n = right + ok, n + 1
                    x[0], x[1] = x[0] + ok, x[1] + 1
        print(f"answers, {size} tokens: {right / n:.4f} of {n}")
    for back, (ok, n) in sorted(far.items()):
        print(f"definition {256 * back} back: {ok / n:.4f} of {n}")


if __name__ == "__main__":
    main()
