# SPDX-License-Identifier: Apache-2.0
"""Feeds a trace to a session for each specification and prints what
`kvreplay run` would: specification and digests. Feeds the prompt in pieces, and
layers in random order. Bad arguments give a sentence and change nothing. Loads
a plugin if there is a C compiler. Called by cases/session_py.cases: TRACE
SPEC..."""

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

from kvreplay.decisions import write_decisions
from kvreplay.session import Session, SessionError
from kvreplay.trace import read_trace

path, specs = sys.argv[1], sys.argv[2:]
with open(path, "rb") as f:
    (n,) = struct.unpack("<Q", f.read(8))
    head, body = json.loads(f.read(n)), f.read()
meta = head.pop("__metadata__")
kinds = {
    "F16": np.float16,
    "BF16": np.uint16,
    "F32": np.float32,
    "I32": np.int32,
}
x = {
    name: np.frombuffer(
        body[slice(*t["data_offsets"])], kinds[t["dtype"]]
    ).reshape(t["shape"])
    for name, t in head.items()
    if t["dtype"] in kinds
}
layers, p = int(meta["n_layers"]), int(meta["prompt_len"])
k = x["layers.0.k"]
shape = dict(
    n_layers=layers,
    n_heads=int(meta["n_heads"]),
    n_kv_heads=k.shape[0],
    d=k.shape[2],
    d_v=x["layers.0.v"].shape[2],
    n_tokens=k.shape[1],
    prompt_len=p,
    dtype=head["layers.0.k"]["dtype"].lower(),
    scale=float(meta["attn.scale"]),
    inv_freq=x.get("rope.inv_freq"),
    interleaved=meta.get("rope.layout") == "interleaved",
    positions=x.get("positions"),
)


class Unreadable:
    """Like a bfloat16 tensor of torch."""

    def __array__(self, *_, **__):
        raise TypeError("bf16")


def refused(wrong, said, code=2):
    try:
        wrong()
    except SessionError as e:
        assert e.code == code and said in str(e), e
    else:
        sys.exit(f"a wrong call was taken that is refused with: {said}")


draw = random.Random(3)
for spec in specs:
    with contextlib.ExitStack() as opened:
        s = opened.enter_context(Session(spec, "20%", **shape))
        at = [0] * layers
        while min(at) < k.shape[1]:
            if draw.random() < 0.004:  # continue with a fork, close its origin
                s, origin = opened.enter_context(s.fork()), s
                assert s.seen == origin.seen and s.seen is not origin.seen
                origin.close()
            l = draw.randrange(layers)
            if at[l] == k.shape[1]:
                continue
            n = draw.randint(1, p - at[l]) if at[l] < p else 1
            q, key, v = (
                x[f"layers.{l}.{c}"][:, at[l] : at[l] + n] for c in "qkv"
            )
            if draw.random() < 0.5:  # heads interleaved in memory
                q = q.transpose(1, 0, 2).copy().transpose(1, 0, 2)
            if draw.random() < 0.1:  # the dimension is not contiguous: a copy
                key = np.asfortranarray(key)
            out = s.block(l, q, key, v, out=n == 1)
            at[l] += n
        ids, weights = s.lane(0, 0)
        assert len(ids) == len(weights) > 0 and set(s.view(0, 0)) <= set(
            range(at[0])
        )
        assert (
            out.shape == (shape["n_heads"], 1, shape["d_v"])
            and np.isfinite(out).all()
        )
        s.end_step(at[0])
        b, d = s.ledger(), s.digest()
        assert b["step"] == at[0] and b["peak"] >= b["payload"] > 0
        print(s.spec, d["journal"], d["state"], d["output"])
        seen = dict(s.seen)
        closed = opened.enter_context(s.fork())
        closed.close()
        refused(closed.fork, "there is no session")
        refused(lambda: s.keep(0, 0, [0]), "decides what its lanes keep", 6)
        for wrong, said in (
            (lambda: s.block(0, q, key, v), "has ended"),
            (lambda: s.block(2**32, q, key, v), "not 4294967296"),
            (lambda: s.block(0.0, q, key, v), "not 0.0"),
            (lambda: s.block(0, q, key, v, step=2**32 + 1), "step must be"),
            (lambda: s.end_step(-(2**31) - 1), "not -2147483649"),
            (lambda: s.end_step(2**32 + at[0]), "step must be"),
            (lambda: s.lane(99, 0), "layer 99"),
            (lambda: s.lane(2**32, 0), "layer must be"),
            (lambda: s.lane(0, 2**32), "lane must be"),
            (lambda: s.block(0, q[0], key, v), "q is "),
            (lambda: s.block(0, Unreadable(), key, v), "numpy can read: bf16"),
            (lambda: s.view(0, -1), "query head -1"),
            (lambda: s.view(0, 2**32), "head must be"),
            (lambda: s.view(2**32, 0), "layer must be"),
            (lambda: s.lse(2**32), "layer must be"),
        ):
            refused(wrong, said)
        assert s.seen == seen
for more, said in (
    (dict(method="h20"), "did you mean h2o?"),
    (dict(method="foo"), "no method is called foo; `kvreplay methods`"),
    (dict(method=None), "method must be a text"),
    (dict(method="h2o\0"), "method must be a text"),
    (dict(n_tokens=2**32 + k.shape[1], positions=None), "n_tokens must be"),
    (dict(n_layers=2**32 + layers), "n_layers must be"),
    (dict(n_heads=8.0), "n_heads must be a 32-bit integer"),
    (dict(n_kv_heads=2**32 + k.shape[0]), "n_kv_heads must be"),
    (dict(d=2**32 + k.shape[2]), "d must be"),
    (dict(d_v=2**32 + shape["d_v"]), "d_v must be"),
    (dict(d_v=0), "d_v is 0"),
    (dict(prompt_len=2**32 + p), "prompt_len must be"),
    (dict(dtype="f64"), "must be f16 or bf16 or f32, not 'f64'"),
    (dict(dtype=["f16"]), "must be f16 or bf16 or f32"),
    (dict(scale="1"), "scale must be a number"),
    (dict(fed=[]), "fed is"),
    (dict(fed=np.zeros(0, int)), "fed is"),
    (dict(fed=[0.5]), "fed is"),
    (dict(fed=[[0]]), "fed is"),
    (dict(fed=[2**32]), "4294967296"),
    (dict(fed=np.array([2**32, 1])), "4294967296"),
    (dict(fed=[layers]), f"fed[0] is {layers}"),
    (dict(positions=np.arange(k.shape[1]) + 2**32), "positions"),
    (dict(inv_freq=[1.0]), "inv_freq has 1 numbers"),
    (dict(inv_freq=["1"] * (k.shape[2] // 2)), "inv_freq is"),
):
    refused(lambda: Session(**{**shape, "method": "h2o", "budget": 8, **more}),
            said)
for library in ("/no/libkvreplay.so.0", "libc.so.6"):
    refused(lambda: Session("h2o", 8, **shape, library=library),
            f"no kvreplay library {library}", 4)
with Session("h2o", 8, **{**shape, "fed": np.array([1], np.int8)}) as s:
    assert s.seen == {1: 0}
    refused(lambda: s.block(0, q, key, v), "layer 0 is not one")
    assert s.seen == {1: 0}

# A program's choice for a prompt equals replay of a file with that choice.
def chosen(l, g):
    kept = [t for t in range(p) if (t * 7 + l + g) % 3 == 0 or t > p - 5]
    return kept[::-1] if g == 1 else kept  # a lane has the given order


def keeps(s, l, told):
    s.block(l, *(x[f"layers.{l}.{c}"][:, :p] for c in "qkv"))
    for g in told:
        s.keep(l, g, chosen(l, g))


heads, told = shape["n_kv_heads"], {}
for l in range(layers):  # calls for all lanes, all but one, or none
    told[l] = list(range(heads))[: heads - l if l < 2 else None]
lists = {l: {p: [chosen(l, g) if g in told[l] else list(range(p))
                 for g in range(heads)]} for l in told}
with Session("replay", **shape) as s:
    refused(lambda: s.keep(0, 0, [0]), "compress it after the prompt")
    for l in told:
        keeps(s, l, told[l])
    s, origin = s.fork(), s  # also forks a layer whose compression is pending
    origin.close()
    for wrong, said in (
        (lambda: s.keep(0, 0, [0]), "has already been compressed"),
        (lambda: s.keep(1, heads - 1, []), "whole numbers"),
        (lambda: s.keep(1, heads - 1, None), "name at least one token"),
        (lambda: s.keep(1, heads - 1, [0, p]), f"outside the prompt's {p}"),
        (lambda: s.keep(1, heads - 1, [3, 0, 3]), "token 3 appears twice"),
        (lambda: s.keep(1, heads, [0]), f"one of {heads}, from"),
    ):
        refused(wrong, said)
    for t in range(p, k.shape[1]):
        for l in told:
            s.block(l, *(x[f"layers.{l}.{c}"][:, t : t + 1] for c in "qkv"))
    s.end_step(k.shape[1])
    assert s.lane(0, 1)[0][: len(chosen(0, 1))].tolist() == chosen(0, 1)
    own, kept = s.digest(), s.ledger()
    s.close()

top = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(os.environ.get("KVREPLAY_LIBRARY", __file__)))))
source = os.path.abspath(__file__)
for _ in range(3):
    source = os.path.dirname(source)
run, cc = os.path.join(top, "sim", "kvreplay"), shutil.which("cc")
if os.path.exists(run):
    with tempfile.TemporaryDirectory() as folder:
        mine = os.path.join(folder, "mine.safetensors")
        write_decisions(mine, read_trace(path), "mine", lists)
        row = json.loads(subprocess.run(
            [run, "run", path, "-q", "-f", "jsonl", "-m",
             "replay:file=" + mine], check=True, stdout=subprocess.PIPE).stdout)
        assert own == {y: row[y] for y in own}, (own, row)
        held = row["bytes"]
        assert all(kept[y] == held[y] for y in ("peak", "mean")), (kept, held)
if cc and os.path.exists(run):
    with tempfile.TemporaryDirectory() as folder:
        mine = os.path.join(folder, "mine.so")
        subprocess.run([run, "new", "mine", "-o", folder], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([cc, "-shared", "-fPIC", "-I" + source, "-I" + top,
                        "-o", mine, mine[:-2] + "c"], check=True)
        row = json.loads(subprocess.run(
            [run, "run", path, "-q", "-f", "jsonl", "-b", "20%", "-m", mine],
            check=True, stdout=subprocess.PIPE).stdout)
        with Session(mine, "20%", **shape) as s:
            for l in range(layers):
                q, key, v = (x[f"layers.{l}.{c}"] for c in "qkv")
                s.block(l, q[:, :p], key[:, :p], v[:, :p])
                for t in range(p, k.shape[1]):
                    s.block(l, *(y[:, t : t + 1] for y in (q, key, v)))
            assert s.digest() == {y: row[y] for y in s.digest()}, row
