# SPDX-License-Identifier: Apache-2.0
"""kivi.py KVREPLAY: kivi with variant=code reads its coded rows to the bit as
decode attention of jy-yuan/KIVI 876b4d2 does, and keys give the same logits up
to the order of the sum. Its kernels need a GPU, so this follows their source
line by line in numpy, whose operations on float16 are rounded like theirs:

    encode   quant/new_pack.py, triton_quantize_and_pack_along_last_dim
    gemv     quant/csrc/gemv_cuda.cu, bgemv2_ and bgemv4_kernel_outer_dim, which
             nvcc builds with fma, by quant/matmul.py, cuda_bmm_fA_qB_outer
    caches   models/llama_kivi.py, LlamaFlashAttention_KIVI.forward

Needs numpy."""

import os
import subprocess
import sys
import tempfile

import numpy as np

from vectors import TRACES
from kvreplay.container import array, load

F = np.float32
TRACE = os.path.join(TRACES, "tiny", "retrieval_8_small.safetensors")
LAYER, RESIDUAL = 2, 32


def fma(a, b, c):
    """In binary64, where the product is exact: a is a half's or a code's."""
    return (a.astype("f8") * b.astype("f8") + c.astype("f8")).astype("f4")


def encode(data, group, bits):
    """Rows of halves: words of codes, scales and minima, along the last dim."""
    n, length = data.shape
    data = data.reshape(n, length // group, group)
    mx, mn = data.max(-1), data.min(-1)
    scale = (mx - mn) / np.float16(2**bits - 1)
    data = (data - mn[:, :, None]) / scale[:, :, None]
    code = np.rint(data.clip(0, 2**bits - 1)).astype("u4").reshape(n, length)
    words = np.zeros((n, length * bits // 32), "u4")
    for i in range(32 // bits):
        words |= code[:, i::32 // bits] << np.uint32(i * bits)
    return words, scale, mn


def gemv(inputs, words, scales, zeros, group, bits):
    """What the kernel multiplies with, [OC, IC], and its sums before they are
    halves: lane x of a warp adds up elements 4 x .. 4 x + 3 of every 128."""
    weight, scales, zeros = (x.T for x in (words, scales, zeros))
    packs, ic = weight.shape
    each = 32 // bits
    dequantized = np.zeros((packs * each, ic), F)
    for pack in range(packs):
        g = pack * each // group
        cscale, czero = scales[g].astype(F), zeros[g].astype(F)
        for i in range(each):
            single = weight[pack] >> np.uint32(i * bits) & np.uint32(
                0xFF >> (8 - bits))
            dequantized[pack * each + i] = fma(single.astype(F), cscale, czero)
    psum = np.zeros((packs * each, 32), F)
    for k in range(0, ic, 128):
        for i in range(4):
            at = np.arange(k + i, min(k + 128, ic), 4)
            psum[:, :at.size] = fma(inputs[at].astype(F), dequantized[:, at],
                                    psum[:, :at.size])
    for i in 16, 8, 4, 2, 1:
        psum[:, :i] += psum[:, i:2 * i]
    return dequantized, psum[:, 0]


def stages(kvreplay, spec, folder):
    """Arrays of `kvreplay vectors` by (stage, step, head)."""
    subprocess.run([kvreplay, "vectors", TRACE, "-m", spec, "--layers",
                    str(LAYER), "--steps", "first,last", "-o", folder],
                   check=True)
    out = {}
    for stage in "q", "k", "v", "k_read", "v_read", "logits":
        tensors = load(os.path.join(folder, stage + ".safetensors"))[1]
        for name, x in tensors.items():
            at = name.split(".")
            step = int(at[3]) if at[2] == "steps" else 0
            out[stage, step, int(at[-1])] = array(x)
    return out


def check(kvreplay, bits, group):
    """How many rows were compared; which are wrong."""
    spec = f"kivi:bits={bits}:group={group}:residual={RESIDUAL}:variant=code"
    with tempfile.TemporaryDirectory() as folder:
        ours = stages(kvreplay, spec, os.path.join(folder, "v"))
        heads = max(h for s, _, h in ours if s == "q") + 1
        lanes = max(h for s, _, h in ours if s == "k") + 1
        rows, wrong = 0, []
        for h in range(heads):
            lane = h // (heads // lanes)
            for t in sorted({t for _, t, _ in ours if t}):
                n = t - 1  # tokens of the caches that the step reads
                keys, values = n - n % RESIDUAL, n - RESIDUAL
                q = ours["q", 0, h][n]
                k, v = (ours[x, 0, lane] for x in "kv")
                code = encode(np.ascontiguousarray(k[:keys].T), group, bits)
                key, sums = gemv(q, *code, group, bits)
                value, _ = gemv(q[:1].repeat(values),
                                *encode(v[:values], group, bits), group, bits)
                for x, theirs, full in (("k", key, k), ("v", value.T, v)):
                    theirs = np.concatenate([theirs, full[len(theirs):t]])
                    rows += len(theirs)
                    if theirs.tobytes() != ours[
                            x + "_read", t, lane].tobytes():
                        wrong.append(f"{spec}: {x} of head {h}, step {t}")
                scale = F(q.size**-.5)
                got = ours["logits", t, h].reshape(-1)[:keys]
                most = np.abs(q.astype(F) * key).sum(1) * scale
                if (np.abs(sums * scale - got) > most * q.size * 2**-23).any():
                    wrong.append(f"{spec}: logits of head {h}, step {t}")
    return rows, wrong


total, bad = 0, []
for case in (2, 16), (2, 32), (4, 8), (4, 32):
    compared, differ = check(sys.argv[1], *case)
    total, bad = total + compared, bad + differ
print(*bad[:4], f"check_conformance: {total} rows of kivi, {len(bad)} wrong",
      sep="\n")
sys.exit(bool(bad) or total < 1000)
