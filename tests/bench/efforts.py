#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Measures what kinds of work cost and fits the prices of sim/sweep/effort.c:
#
#   efforts.py BUILD FOLDER TRACE...
#
# Runs cells of a trace together in a process of one thread with a database, as
# a shard does: alone, in pairs, and drawn; and takes its processor time (user
# and system). The prices are those of the least relative errors, none below 0,
# where a run that another program disturbed counts little. Prints them, and
# how far predictions are from what was measured. FOLDER keeps the times, so
# that a repeated run measures what is missing. Needs numpy; ten minutes on an
# idle machine for six traces of a few MB.
import csv
import json
import os
import random
import resource
import subprocess
import sys

import numpy

METHODS = ("all,snapkv:group=query_head,h2o:group=query_head,"
           "h2o:variant=masked,snapkv:grow=no:every=40,"
           "quest:page=8:skip=0,zsmerge:variant=code,"
           "streamingllm:positions=original,tova:variant=prefill,"
           "kivi:group=8:residual=16,snapkv+kivi:bits=4,oracle-topp:p=0.5")
BUDGETS = "10%,30%,80%"
START = "start"  # what a process costs before it does anything
DRAWS = 12  # of cells, a trace
# Seconds that are known better than a fit can tell: products, by the benchmark
# of the kernels, 200 GFLOP/s on one thread; bytes that are hashed and looked
# through; and a process on a trace of 24 tokens.
KNOWN = {"product": 10e-12, "byte": 1e-9, START: 22e-3}


def counts(build, traces):
    """(trace or cell) -> {kind: count}, from the program `efforts`."""
    out = subprocess.run([build + "/tests/bench/efforts", METHODS, BUDGETS,
                          *traces], check=True, capture_output=True, text=True)
    found = {"trace": {}, "own": {}, "shared": {}}
    for row in csv.DictReader(out.stdout.splitlines()):
        what, key = row.pop("what"), (row.pop("trace"), row.pop("spec"))
        found[what][key] = {k: int(n) for k, n in row.items()}
    return found


def seconds(build, folder, trace, specs):
    """Processor time of one process that replays these cells; best of three
    where it is short."""
    db, best = os.path.join(folder, "efforts.db"), float("inf")
    command = [build + "/sim/kvreplay", "run", trace, "-q", "-j", "1", "-m",
               ",".join(specs), "--db", db]
    for _ in range(3):
        if os.path.exists(db):
            os.remove(db)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime -
                   before.ru_stime)
        if best > 2:
            break
    return best


def measure(build, folder, found):
    """[(what it is, {kind: count}, seconds)], from the file of times or new."""
    name = os.path.join(folder, "efforts.json")
    known = json.load(open(name)) if os.path.exists(name) else {}
    groups, drawn, runs = [], random.Random(1), []
    for trace in dict.fromkeys(t for t, _ in found["own"]):
        specs = [s for t, s in found["own"] if t == trace]
        groups += [(trace, specs[:1]), (trace, specs[1:2])]
        groups += [(trace, [specs[1], s]) for s in specs[2::4]]
        for _ in range(DRAWS):
            groups.append((trace, drawn.sample(specs, drawn.randint(3, 24))))
    for trace, specs in groups:
        what = os.path.basename(trace) + " " + ",".join(specs)
        if what not in known:
            known[what] = seconds(build, folder, trace, specs)
            json.dump(known, open(name, "w"))
        total = dict(found["trace"][trace, ""], **{START: 1})
        for spec in specs:
            for kind, n in found["own"][trace, spec].items():
                total[kind] += n
        shared = [found["shared"][trace, s] for s in specs]
        for kind in shared[0]:
            total[kind] += max(s[kind] for s in shared)
        runs.append((what, total, known[what]))
    return runs


def solve(a, y):
    """Least squares of a x = y with x >= 0 (Lawson and Hanson 1974)."""
    n = a.shape[1]
    x, used = numpy.zeros(n), []
    for _ in range(10 * n):
        slope = a.T @ (y - a @ x)
        left = [i for i in range(n) if i not in used and slope[i] > 1e-12]
        if not left:
            break
        used.append(max(left, key=lambda i: slope[i]))
        while True:
            z = numpy.zeros(n)
            z[used] = numpy.linalg.lstsq(a[:, used], y, rcond=None)[0]
            if all(z[used] > 0):
                break
            x += min(x[i] / (x[i] - z[i]) for i in used if z[i] <= 0) * (z - x)
            used = [i for i in used if x[i] > 1e-15]
        x = z
    return x


def fit(a, y):
    """The least absolute errors: least squares, weighted again and again."""
    weight = numpy.ones(len(y))
    for _ in range(40):
        x = solve(a * weight[:, None], y * weight)
        weight = 1 / numpy.sqrt(numpy.maximum(abs(a @ x - y), 0.01))
    return x


def main():
    build, folder, traces = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    runs = measure(build, folder, counts(build, traces))
    kinds = list(runs[0][1])
    a = numpy.array([[n[k] / s for k in kinds] for _, n, s in runs])
    known = numpy.array([KNOWN.get(k, 0) for k in kinds])
    a, rest = a * (known == 0), 1 - a @ known
    scale = a.max(axis=0)
    scale[scale == 0] = 1
    x = fit(a / scale, rest) / scale
    for kind, price in zip(kinds, x + known):
        print(f"{kind:10} {price * 1e12:16.0f} ps")
    error = a @ x - rest
    print("median of relative errors", numpy.median(abs(error)).round(3),
          "nine in ten below", numpy.quantile(abs(error), 0.9).round(3))
    worst = sorted(zip(error, (r[0] for r in runs), (r[2] for r in runs)))
    for e, what, s in worst[:8] + worst[-8:]:
        print(f"{e:+.2f} {s:8.3f} s  {what[:90]}")


if __name__ == "__main__":
    main()
