# SPDX-License-Identifier: Apache-2.0
"""test_train.py DIR: the gradient that `train DIR check` wrote, against torch's
own in float32 (bfloat16 products: relative errors of about a hundredth)."""

import sys

import numpy as np
import torch

import model

folder = sys.argv[1]
line = [x for x in open(f"{folder}/recipe") if x.strip() and x[0] != "#"][
    0
].split()
size, micro, name = int(line[1]), int(line[2]), line[8]
factors = float(line[6]), float(line[7])
raw = open(f"{folder}/{name}.bin", "rb").read()
_, count = np.frombuffer(raw[:8], np.int32)
ids = np.frombuffer(raw, np.uint16, count * (size + 1), 8).reshape(
    count, size + 1
)
code = np.frombuffer(raw, np.uint8, count * size, 8 + ids.nbytes).reshape(
    count, size
)
w = model.load_state(f"{folder}/check_state")[0]
for x in w.values():
    x.requires_grad_(True)
b = 2 * micro * 2048 // size
x, c, pen = (
    torch.from_numpy(ids[:b].astype(np.int64)),
    torch.from_numpy(code[:b] / 50.0).float(),
    [],
)
z = model.forward(w, x[:, :-1], quiet=pen)
ce = torch.nn.functional.cross_entropy(
    z[..., :260].reshape(-1, 260), x[:, 1:].reshape(-1), reduction="none"
).view(b, size)
loss = (ce * c).sum() / (b * size)
more = sum(f * x for layer in pen for f, x in zip(factors, layer))
(loss + more / (b * size)).backward()
mine = model.split(np.fromfile(f"{folder}/check_grad", np.float32))
print("loss", loss.item())
worst = max(
    ((mine[n] - p.grad).norm() / (p.grad.norm() + 1e-12), n)
    for n, p in w.items()
)
for l in (
    "embed",
    "head",
    "norm",
    "0.self_attn.qkv",
    "0.self_attn.q_norm",
    "0.self_attn.k_norm",
    "3.mlp.gate_up",
    "5.self_attn.o_proj",
):
    print(l, ((mine[l] - w[l].grad).norm() / w[l].grad.norm()).item())
print("worst relative error", worst)
assert worst[0] < 0.05
