#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other people's code on the same rows: PyTorch's attention, the column sums
of H2O and the selection of SnapKV written with PyTorch, and presses of kvpress,
each beside kvreplay.

    python tests/bench/peers.py BUILD [--runs N] [--tokens N] [--steps N]
                                [--csv] [--only decode,sums,snapkv,presses]

BUILD is the top folder of a build. A peer whose package (torch; for the presses
kvpress and transformers) is missing is left out with a sentence; the exit code
is 77 where that is every peer, 1 where a result differs by more than what the
line says. One thread on both sides, processor time, user and system; the runs
of the two sides take turns, and each number is the median of N runs, with the
ratios of the slowest and the fastest pair. What is timed is compared first.

The trace is synthetic, of the geometry of Llama-3.1-8B (2 layers, 32 query and
8 KV heads of 128, bfloat16), in a temporary folder (TMPDIR). kvreplay is timed
as a process; what belongs to a part is the difference of two runs that differ
in that part alone: peers_kvreplay.py says which. It does more than the peers:
it also compares with the exact attention, hashes and accounts.
"""
import argparse
import os
import statistics
import sys

os.environ["OMP_NUM_THREADS"] = "1"

PARTS = "decode", "sums", "snapkv", "presses"
SKIP, DIFFERENT = 77, 1


class Table:
    """Lines of seconds of kvreplay, seconds of the peer and how many times
    faster kvreplay is; medians of runs that take turns."""

    def __init__(self, runs, csv):
        self.runs, self.csv, self.failed, self.lines = runs, csv, False, 0
        if csv:
            print("what,kvreplay_s,peer,peer_s,ratio,check")

    def line(self, what, ours, peer, theirs, check):
        """ours, theirs: functions without arguments that return seconds."""
        pairs = [(ours(), theirs()) for _ in range(self.runs)]
        a, b = (statistics.median(x) for x in zip(*pairs))
        low, high = min(y / x for x, y in pairs), max(y / x for x, y in pairs)
        self.lines += 1
        if self.csv:
            print(f'"{what}",{a:.6g},"{peer}",{b:.6g},{b / a:.4g},"{check}"')
        else:
            print(f"{what}: {seconds(a)}; {peer}: {seconds(b)}; {b / a:.2f} x "
                  f"({low:.2f} to {high:.2f}); {check}", flush=True)

    def same(self, what, error, most):
        """True where the results agree; else the line says so and counts."""
        if error <= most:
            return True
        print(f"{what}: results differ by {error:.3g}, more than {most:.3g}; "
              "nothing was timed", file=sys.stderr)
        self.failed = True
        return False


def seconds(x):
    return f"{x:.2f} s" if x >= 1 else f"{1e3 * x:.2f} ms"


def missing(*packages):
    """The first package that cannot be imported, or None."""
    for x in packages:
        try:
            __import__(x)
        except ImportError:
            return x
    return None


def options():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--tokens", type=int, default=8192, help="of the prompt")
    p.add_argument("--steps", type=int, default=256, help="of decoding")
    p.add_argument("--csv", action="store_true")
    p.add_argument("--only", default=",".join(PARTS))
    a = p.parse_args()
    a.only = a.only.split(",")
    if not {*a.only} <= {*PARTS}:
        p.error(f"--only: give some of {','.join(PARTS)}")
    if a.runs < 1 or a.steps < 2 or a.tokens < 512:
        p.error("give at least 1 run, 2 steps and 512 tokens")
    return a


def main():
    a = options()
    lacks = missing("numpy", "torch")
    if lacks:
        print(f"peers: {lacks} is not installed here: skipped", file=sys.stderr)
        return SKIP
    import torch

    torch.set_num_threads(1)
    table = Table(a.runs, a.csv)
    print(f"PyTorch {torch.__version__} with "
          f"{torch.backends.cpu.get_cpu_capability()}, load average "
          f"{os.getloadavg()[0]:.2f}", file=sys.stderr)
    if {*a.only} & {*PARTS[:3]}:
        import peers_torch

        peers_torch.run(table, a)
    if "presses" in a.only:
        lacks = missing("transformers", "kvpress")
        if lacks:
            print(f"peers: {lacks} is not installed here: no presses",
                  file=sys.stderr)
        else:
            import peers_press

            peers_press.run(table, a)
    return DIFFERENT if table.failed else 0 if table.lines else SKIP


if __name__ == "__main__":
    sys.exit(main())
