# SPDX-License-Identifier: Apache-2.0
"""Two OpenMP runtimes in one process, torch's and ours, with several threads
each: a session's digests do not change, whichever works first, and while torch
works between steps. Called by check_package.sh."""

import os
import subprocess
import sys

SHAPE = dict(n_layers=2, n_heads=8, n_kv_heads=4, d=64, dtype="f16",
             n_tokens=420, prompt_len=400)


def fed(between=lambda: None):
    """The digests of a session that calls between() before each block."""
    import numpy as np
    from kvreplay.session import Session

    r, p = np.random.default_rng(3), SHAPE["prompt_len"]
    rows = [[r.standard_normal((h, SHAPE["n_tokens"], SHAPE["d"])).astype("f2")
             for h in (8, 4, 4)] for _ in range(SHAPE["n_layers"])]
    with Session("h2o", 90, **SHAPE) as s:
        for first, end in [(0, p), *((t, t + 1) for t in range(p, 420))]:
            for l, x in enumerate(rows):
                between()
                s.block(l, *(y[:, first:end] for y in x), out=True)
            s.end_step(end)
        return s.digest()


def mixed(torch_first):
    if not torch_first:
        alone = fed()
    import torch

    torch.set_num_threads(2)
    x = torch.randn(300, 300)
    want = x @ x
    if torch_first:
        alone = fed()
    assert fed(lambda: x @ x) == alone
    assert torch.equal(x @ x, want)
    with open("/proc/self/maps") as f:
        runtimes = {y.split()[-1] for y in f if "omp" in y.rsplit("/")[-1]}
    print(*alone.values(), len(runtimes))


if len(sys.argv) > 1:
    mixed(sys.argv[1] == "torch")
else:
    said = [
        subprocess.run(
            [sys.executable, __file__, first], text=True, check=True,
            stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "2"},
        ).stdout.split() for first in ("ours", "torch")]
    assert said[0][:3] == said[1][:3] == [*fed().values()], said
    print(f"{said[0][3]} OpenMP runtimes in a process with torch")
