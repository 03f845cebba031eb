#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Measures what kinds of work cost and fits the prices of sim/sweep/effort.c:
#
#   efforts.py BUILD FOLDER TRACE...
#
# Runs every cell of the traces alone, and all of a trace together, each in a
# process of one thread with a database, and takes its processor time (user and
# system). The prices are the least squares of the relative errors, none below
# 0. Prints them, and how far predictions are from what was measured. FOLDER
# keeps the times, so that a repeated run measures what is missing. Needs
# numpy; half an hour on an idle machine with traces of a few MB.
import csv
import json
import os
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


def counts(build, traces):
    """(trace or cell) -> {kind: count}, from the program `efforts`."""
    out = subprocess.run([build + "/tests/bench/efforts", METHODS, BUDGETS,
                          *traces], check=True, capture_output=True, text=True)
    found = {"trace": {}, "own": {}, "rows": {}}
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
        if best > 5:
            break
    return best


def measure(build, folder, found):
    """[(what it is, {kind: count}, seconds)], from the file of times or new."""
    name = os.path.join(folder, "efforts.json")
    known = json.load(open(name)) if os.path.exists(name) else {}
    groups = [(t, [s]) for t, s in found["own"]]
    for trace in dict.fromkeys(t for t, _ in found["own"]):
        specs = [s for t, s in found["own"] if t == trace]
        groups += [(trace, specs), (trace, specs[::3])]
    runs = []
    for trace, specs in groups:
        what = os.path.basename(trace) + " " + ",".join(specs)
        if what not in known:
            known[what] = seconds(build, folder, trace, specs)
            json.dump(known, open(name, "w"))
        total = dict(found["trace"][trace, ""], **{START: 1})
        for spec in specs:
            for kind, n in found["own"][trace, spec].items():
                total[kind] += n
        rows = [found["rows"][trace, s] for s in specs]
        for kind in rows[0]:
            total[kind] += max(r[kind] for r in rows)
        runs.append((what, total, known[what]))
    return runs


def fit(a):
    """Least squares of a x = 1 with x >= 0, one coordinate after another."""
    x = numpy.zeros(a.shape[1])
    gram, right = a.T @ a, a.T @ numpy.ones(a.shape[0])
    for _ in range(20000):
        for i in range(len(x)):
            if gram[i, i] > 0:
                x[i] = max(0, x[i] + (right[i] - gram[i] @ x) / gram[i, i])
    return x


def main():
    build, folder, traces = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    runs = measure(build, folder, counts(build, traces))
    kinds = list(runs[0][1])
    a = numpy.array([[n[k] / s for k in kinds] for _, n, s in runs])
    scale = a.max(axis=0)
    scale[scale == 0] = 1
    x = fit(a / scale) / scale
    for kind, price in zip(kinds, x):
        print(f"{kind:10} {price * 1e12:16.1f} ps")
    error = a @ x - 1
    worst = sorted(zip(error, (r[0] for r in runs), (r[2] for r in runs)))
    print("median of relative errors", numpy.median(abs(error)).round(3),
          "nine in ten below", numpy.quantile(abs(error), 0.9).round(3))
    for e, what, s in worst[:8] + worst[-8:]:
        print(f"{e:+.2f} {s:8.3f} s  {what[:90]}")


if __name__ == "__main__":
    main()
