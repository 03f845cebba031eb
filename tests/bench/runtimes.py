# SPDX-License-Identifier: Apache-2.0
"""runtimes.py [RUNS]: what two OpenMP runtimes in one process cost, torch's and
ours: wall-clock and processor time (of all threads) of a session's decode steps
and of torch's products, when a process takes them in turns, as a model on a
session does, against each in a process of its own whose threads wait asleep. A
thread that waits by spinning while others work counts. Of a process wall-clock
is that of the median turn, so that a turn in which others had the processor is
none, and processor time the mean. A run is one process of each kind, one after
another, in an order that turns from run to run; printed are medians of the
runs' ratios (RUNS: 5). Goal: neither takes more than 1.1 x.
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
    """Seconds of a turn of each one: wall-clock, processor time."""
    works = [dict(ours=Ours, theirs=Theirs)[x]() for x in names]
    clocks = time.perf_counter, time.process_time
    spent = [[] for _ in works]
    for _ in range(STEPS):
        for i, x in enumerate(works):
            if len(works) == 1:
                time.sleep(QUIET)
            begin = [clock() for clock in clocks]
            x.turn()
            spent[i].append([c() - b for c, b in zip(clocks, begin)])
    for turns in spent:
        wall, processor = zip(*turns[3:])  # the first ones start threads
        print(statistics.median(wall), statistics.mean(processor))


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    env = {"OMP_NUM_THREADS": "2", **os.environ}
    env.pop("OMP_WAIT_POLICY", None)
    passive, both = {**env, "OMP_WAIT_POLICY": "passive"}, ["ours", "theirs"]
    kinds = [("alone", passive, both[:1]), ("default", env, both),
             ("alone", passive, both[1:]), ("passive", passive, both)]
    spent = {}  # {(whose, how, clock): seconds of each run}
    for run in range(runs):
        for how, given, names in kinds[run % 4:] + kinds[:run % 4]:
            said = subprocess.run(
                [sys.executable, __file__, "--", *names], env=given, text=True,
                check=True, stdout=subprocess.PIPE).stdout.splitlines()
            for name, line in zip(names, said):
                for clock, x in zip(("wall", "processor"), line.split()):
                    spent.setdefault((name, how, clock), []).append(float(x))
    for name in both:
        for clock in "wall", "processor":
            alone = spent[name, "alone", clock]
            default, asleep = (
                statistics.median(
                    x / y for x, y in zip(spent[name, how, clock], alone))
                for how in ("default", "passive"))
            print(f"{name}, {clock} time: alone "
                  f"{statistics.median(alone) * 1e3:.2f} ms a turn; in turns "
                  f"by default {default:.2f} x, passive {asleep:.2f} x "
                  "(goal 1.1)")


if sys.argv[1:2] == ["--"]:
    child(sys.argv[2:])
else:
    main()
