# SPDX-License-Identifier: Apache-2.0
"""runtimes.py [RUNS]: what two OpenMP runtimes in one process cost, torch's and
ours: processor time of all threads during a session's decode steps and during
torch's products, when a process takes them in turns, as a model on a session
does, against each in a process of its own whose threads wait asleep. A thread
that waits by spinning while others work counts. Processes take turns; medians
of RUNS (5). Goal: with OMP_WAIT_POLICY=passive neither takes more than 1.1 x.
Needs torch, and the library: a wheel's, or that of KVREPLAY_LIBRARY.
OMP_NUM_THREADS is 2 unless set."""

import os
import statistics
import subprocess
import sys
import time

STEPS, PROMPT, LAYERS = 48, 3000, 2
SHAPE = dict(n_layers=LAYERS, n_heads=16, n_kv_heads=8, d=64, dtype="f32",
             n_tokens=PROMPT + STEPS, prompt_len=PROMPT)
QUIET = 0.02  # seconds before each turn of one alone: how long the other takes


class Ours:
    """Decode steps of a dense session."""

    def __init__(self):
        import numpy as np
        from kvreplay.session import Session

        r, n = np.random.default_rng(1), SHAPE["n_tokens"]
        self.rows = [r.standard_normal((h, n, 64)).astype("f4")
                     for h in (16, 8, 8)]
        self.session, self.seen = Session("dense", **SHAPE), PROMPT
        for l in range(LAYERS):
            self.session.block(l, *(x[:, :PROMPT] for x in self.rows))

    def turn(self):
        t, self.seen = self.seen, self.seen + 1
        for l in range(LAYERS):
            self.session.block(l, *(x[:, t:t + 1] for x in self.rows), out=True)
        self.session.end_step(self.seen)


class Theirs:
    """Products of torch."""

    def __init__(self):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.x = torch.randn(500, 500)

    def turn(self):
        self.x @ self.x


def child(names):
    """Seconds of each one's turns."""
    works = [dict(ours=Ours, theirs=Theirs)[x]() for x in names]
    spent = [0.0] * len(works)
    for step in range(STEPS):
        for i, x in enumerate(works):
            if len(works) == 1:
                time.sleep(QUIET)
            begin = time.process_time()
            x.turn()
            spent[i] += (time.process_time() - begin) * (step > 2)
    print(*spent)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    env = {"OMP_NUM_THREADS": "2", **os.environ}
    env.pop("OMP_WAIT_POLICY", None)
    passive, spent = {**env, "OMP_WAIT_POLICY": "passive"}, {}
    for _ in range(runs):
        for how, given, names in (
                ("alone", passive, ["ours"]), ("alone", passive, ["theirs"]),
                ("by default", env, ["ours", "theirs"]),
                ("passive", passive, ["ours", "theirs"])):
            said = subprocess.run(
                [sys.executable, __file__, "--", *names], env=given, text=True,
                check=True, stdout=subprocess.PIPE).stdout.split()
            for name, x in zip(names, said):
                spent.setdefault((name, how), []).append(float(x))
    for name in "ours", "theirs":
        alone, default, passive = (
            statistics.median(spent[name, x]) * 1e3
            for x in ("alone", "by default", "passive"))
        print(f"{name}: alone {alone:.0f} ms; in turns by default "
              f"{default / alone:.2f} x, passive {passive / alone:.2f} x "
              "(goal 1.1)")


if sys.argv[1:2] == ["--"]:
    child(sys.argv[2:])
else:
    main()
