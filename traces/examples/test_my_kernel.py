# SPDX-License-Identifier: Apache-2.0
"""A decode kernel of one's own against the session, on a CPU: same tokens,
same page choice, so what differs is the kernel. `pytest test_my_kernel.py`, or
run it with python. Put your kernel in the place of my_kernel."""

import numpy as np
from kvsession import Session

H, G, D, PROMPT, T = 8, 2, 64, 300, 340
SHAPE = dict(n_layers=1, n_heads=H, n_kv_heads=G, d=D, n_tokens=T, dtype="f16")


def my_kernel(q, k, v, tokens):
    """One query [D] over the tokens of k, v [T, D]: output and LSE."""
    s = k[tokens] @ q / np.sqrt(np.float32(D))
    p = np.exp(s - s.max())
    return p @ v[tokens] / p.sum(), s.max() + np.log(p.sum())


def test_my_kernel():
    r = np.random.default_rng(1)
    q, k, v = (r.standard_normal((h, T, D)).astype("f2") for h in (H, G, G))
    q32, k32, v32 = (x.astype("f4") for x in (q, k, v))
    with Session("quest:page=16:skip=0", 96, prompt_len=PROMPT, **SHAPE) as s:
        s.block(0, q[:, :PROMPT], k[:, :PROMPT], v[:, :PROMPT])
        for t in range(PROMPT, T):
            out = s.block(0, *(x[:, t : t + 1] for x in (q, k, v)), out=True)
            for h in range(H):
                g, chosen = h * G // H, s.view(0, h)
                o, lse = my_kernel(q32[h, t], k32[g], v32[g], chosen)
                np.testing.assert_allclose(o, out[h, 0], rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(lse, s.lse(0)[h], rtol=1e-5)


if __name__ == "__main__":
    test_my_kernel()
    print("my_kernel agrees")
