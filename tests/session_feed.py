# SPDX-License-Identifier: Apache-2.0
"""Feeds a trace to a session for each specification and prints what
`kvreplay run` would: specification and digests. The prompt in pieces, layers
in a random order. Called by check_session_py.sh: TRACE SPEC..."""

import json
import random
import struct
import sys

import numpy as np
from kvsession import Session, SessionError

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
draw = random.Random(3)
for spec in specs:
    with Session(spec, "20%", **shape) as s:
        at = [0] * layers
        while min(at) < k.shape[1]:
            l = draw.randrange(layers)
            if at[l] == k.shape[1]:
                continue
            n = draw.randint(1, p - at[l]) if at[l] < p else 1
            q, key, v = (
                x[f"layers.{l}.{c}"][:, at[l] : at[l] + n] for c in "qkv"
            )
            if draw.random() < 0.5:  # heads beside each other in memory
                q = q.transpose(1, 0, 2).copy().transpose(1, 0, 2)
            if draw.random() < 0.1:  # a dimension that is not: copied
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
        for wrong in (
            lambda: s.block(0, q, key, v),
            lambda: s.lane(99, 0),
            lambda: s.block(0, q[0], key, v),
            lambda: s.view(0, -1),
        ):
            try:
                wrong()
            except SessionError as e:
                assert e.code == 2 and str(e), e
            else:
                sys.exit("a wrong call was taken")
try:
    Session("h20", 8, **shape)
except SessionError as e:
    assert "h2o" in str(e), e
