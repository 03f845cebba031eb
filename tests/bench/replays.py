#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole replays under the clock, as processes, one row of ROWS a number.

    python tests/bench/replays.py [--csv] [--small] [--runs N] [--theme NAME]
                                  BUILD SOURCE

BUILD and SOURCE are the top folders of the build and of the sources. --csv
prints what,value,unit,low,high,verdict; --small takes short traces and one run;
medians are of N runs (3). Traces are synthetic, with the geometry of
Llama-3.1-8B, in a temporary folder (TMPDIR, 3 GiB) that is removed at the end.
Goals are printed, not enforced: a busy machine gives no verdict, so every theme
prints the load average. All replays of one cell must have the same digests.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

Run = namedtuple("Run", "wall cpu anon rows")
MIB = 1 << 20


def anonymous(pid):
    """Bytes of anonymous memory that the process holds; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            lines = [x.split()[1] for x in f if x.startswith("RssAnon:")]
    except OSError:
        return 0
    return 1024 * int(lines[0]) if lines else 0


class Bench:
    """Runs commands once each and remembers what they took."""

    def __init__(self, o, folder):
        self.o, self.folder, self.known, self.digests = o, folder, {}, {}
        self.db = os.path.join(folder, "new.db")

    def size(self, tokens):
        return max(64, tokens // 4) if self.o.small else tokens

    def once(self, argv):
        """Runs a program of the build; ends ours where it fails."""
        out = os.path.join(self.folder, "out")
        if os.path.exists(self.db):
            os.remove(self.db)
        start, anon, ended = time.monotonic(), 0, 0
        with open(out, "w", encoding="utf-8") as f:
            child = subprocess.Popen(
                [os.path.join(self.o.build, argv[0]), *argv[1:]], stdout=f)
        while not ended:
            ended, status, use = os.wait4(child.pid, os.WNOHANG)
            anon = max(anon, anonymous(child.pid))
            time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"replays: {' '.join(argv)} ended with code "
                     f"{child.returncode}")
        with open(out, encoding="utf-8") as f:
            rows = [json.loads(x) for x in f if x.startswith("{")]
        # A method whose file this model has not is refused.
        rows = [r for r in rows if r["status"] != "refused"]
        return Run(time.monotonic() - start, use.ru_utime + use.ru_stime, anon,
                   rows)

    def trace(self, layers, prompt, steps):
        """The path of a synthetic trace; lengths shrink with --small."""
        prompt, steps = self.size(prompt), self.size(steps)
        path = os.path.join(self.folder, f"{layers}-{prompt}-{steps}.st")
        if path not in self.known:
            self.known[path] = self.once(
                ["traces/kvtrace", "synth", "--like", "llama-3.1-8b",
                 "--record", layers, "--tokens", str(prompt + steps),
                 "--prompt-len", str(prompt), "--out", path])
        return path

    def replay(self, paths, methods, *more, budget="10%", threads=1, runs=0):
        """Medians over runs of a replay of these traces."""
        argv = ["sim/kvreplay", "run", "-m", methods, "-b", budget, "-j",
                str(threads), "-f", "jsonl", "-q", *more, "--", *paths]
        if str(argv) not in self.known:
            all_of = [self.once(argv) for _ in range(runs or self.o.runs)]
            for run in all_of:
                self.compare(run.rows)
            self.known[str(argv)] = Run(
                *(statistics.median(x) for x in list(zip(*all_of))[:3]),
                all_of[0].rows)
        return self.known[str(argv)]

    def compare(self, rows):
        for r in rows:
            if r["status"] not in ("ok", "fixed"):
                sys.exit(f"replays: {r['spec']} did not run: its status is "
                         f"{r['status']}")
            cell = r["identity"], r["spec"], r["prompt_len"]
            digests = r["journal"], r["state"], r["output"]
            if self.digests.setdefault(cell, digests) != digests:
                sys.exit(f"replays: two runs of {r['spec']} differ in digests")

    def bundled(self):
        """The traces that ./quickstart replays."""
        folder = os.path.join(self.o.source, "traces")
        with open(os.path.join(folder, "quick.txt"), encoding="utf-8") as f:
            names = [x.strip() for x in f if x.strip() and x[0] != "#"]
        return [os.path.join(folder, x) for x in names][-1 if self.o.small
                                                        else 0:]


# --- what the rows measure ----------------------------------------------------
def one_pass(b, threads=1):
    return b.replay([b.trace("8,24", 8192, 256)], "all", threads=threads)


def dearest(b):
    """The method that takes longest alone."""
    path = b.trace("8,24", 8192, 256)
    return max(b.replay([path], r["spec"]).cpu for r in one_pass(b).rows)


def memory(b, prompt, methods, layers="8", steps=16, threads=1):
    """Peak RssAnon over the promise: what rows of codes and merged rows take,
    64 MiB a thread and 100 MiB."""
    run = b.replay([b.trace(layers, prompt, steps)], methods, threads=threads,
                   runs=1)
    ends = [r["bytes"]["end"] for r in run.rows
            if r["spec"].startswith(("kivi", "zsmerge"))]
    return run.anon / (MIB * (100 + 64 * threads) + sum(
        x["payload"] + x["metadata"] for x in ends))


def step(b, path, tokens):
    """Processor time of a decode step: many steps less few."""
    few = b.replay([path], "dense", "--prompt-len", str(tokens - 16)).cpu
    prompt = str(tokens - b.size(256))
    return b.replay([path], "dense", "--prompt-len", prompt).cpu - few


def observation(b, path, tokens):
    """What h2o takes over dense, nearly all of it for the prompt."""
    few = "--prompt-len", str(tokens - 16)
    return b.replay([path], "h2o", *few).cpu - b.replay([path], "dense",
                                                       *few).cpu


def exponent(b, what):
    """The slope of least squares through the logarithms."""
    x, y = [], []
    for n in (2048, 4096, 8192, 16384):
        tokens = b.size(n) + b.size(256)
        took = what(b, b.trace("8", n, 256), tokens)
        if took <= 0:
            sys.exit("replays: a difference is not above 0; the machine is "
                     "too busy")
        x.append(math.log(tokens)), y.append(math.log(took))
    return statistics.linear_regression(x, y).slope


def shards(b):
    """Processor times of the list of ./quickstart in four shards."""
    return [b.replay(b.bundled(), "all", "--shard", f"{i}/4", "--db", b.db,
                     budget="10%,20%,40%").cpu for i in range(1, 5)]


def queue(b):
    """64 requests that wait for a pool, against the same replays alone."""
    paths = [os.path.join(b.o.source, "traces/tiny/text_400.safetensors")
             ] * (8 if b.o.small else 64)
    return (b.replay(paths, "leankv", "--together", "--wait", "--pool", "2MiB",
                     "--arrive", "poisson:8").cpu /
            b.replay(paths, "leankv").cpu)


Row = namedtuple("Row", "theme what unit value low high")
ROWS = [
    Row("pass", "all methods in one pass, one thread", "s",
        lambda b: one_pass(b).cpu, None, None),
    Row("pass", "against the dearest alone", "x",
        lambda b: one_pass(b).cpu / dearest(b), None, 4),
    Row("pass", "speedup on two idle cores", "x",
        lambda b: one_pass(b).wall / one_pass(b, 2).wall, 1.8, None),
    Row("growth", "a decode step of dense, exponent of tokens", "",
        lambda b: exponent(b, step), .85, 1.15),
    Row("growth", "the prompt's observation, the same", "",
        lambda b: exponent(b, observation), 1.85, 2.15),
    *(Row("memory", f"131,072 tokens, {m}: of the bound", "x",
          lambda b, m=m: memory(b, 131072, m), None, 1)
      for m in ("window", "snapkv", "quest", "kivi", "streamingllm")),
    Row("memory", "these in one process, two threads", "x",
        lambda b: memory(b, 131072, "window,snapkv,quest,kivi", threads=2),
        None, 1),
    Row("memory", "16,384 tokens, h2o", "x",
        lambda b: memory(b, 16384, "h2o"), None, 1),
    Row("memory", "measured values of 32 layers, 1,024 steps", "x",
        lambda b: memory(b, 64, "window,snapkv,quest,h2o",
                         ",".join(map(str, range(32))), 1024), None, 1),
    Row("shards", "imbalance: (largest - mean) / mean", "",
        lambda b: max(shards(b)) / statistics.mean(shards(b)) - 1, None, .05),
    Row("queue", "waiting for a pool, against replays alone", "x", queue, None,
        1.1),
    Row("bundled", "the list of ./quickstart, wall clock", "s",
        lambda b: b.replay(b.bundled(), "all", threads=os.cpu_count(), runs=1,
                           budget="mean:10%,mean:20%,mean:40%,traffic:20%,"
                           "traffic:40%").wall, None, 180),
]


def show(o, row, value):
    met = ((row.low is None or value >= row.low) and
           (row.high is None or value <= row.high))
    goal = row.low is not None or row.high is not None
    verdict = "" if not goal else "met" if met else "missed"
    ends = ["" if x is None else f"{x:g}" for x in (row.low, row.high)]
    if o.csv:
        print(f'"{row.what}",{value:.6g},{row.unit},{",".join(ends)},{verdict}',
              flush=True)
    else:
        goals = "".join(f" {sign} {x}" for sign, x in zip((">=", "<="), ends)
                        if x)
        print(f"{row.what:44} {value:10.2f} {row.unit:2}{goals} {verdict}",
              flush=True)


def main():
    themes = list(dict.fromkeys(x.theme for x in ROWS))
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--csv", action="store_true")
    p.add_argument("--small", action="store_true")
    p.add_argument("--runs", type=int, default=0)
    p.add_argument("--theme", choices=themes)
    p.add_argument("build")
    p.add_argument("source")
    o = p.parse_args()
    o.runs = o.runs or (1 if o.small else 3)
    if o.csv:
        print("what,value,unit,low,high,verdict")
    for theme in [o.theme] if o.theme else themes:
        if not o.csv:
            print(f"\n{theme} (load average {os.getloadavg()[0]:.2f})")
        with tempfile.TemporaryDirectory(prefix="kvbench.") as folder:
            b = Bench(o, folder)
            for row in ROWS:
                if row.theme == theme:
                    show(o, row, row.value(b))


if __name__ == "__main__":
    main()
