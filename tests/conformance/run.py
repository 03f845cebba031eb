#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The authors' own selection code on rows of two bundled traces: what it keeps
or attends must be what tests/vectors says, and kvreplay must decide
the same, lane by lane.

    run.py --checkouts FOLDER --kvreplay PROGRAM [--only NAME,...] [--update]

FOLDER has clones of the repositories of cases.csv, at its commits, called as
they are there (SnapKV, H2O, ..). once.py and steps.py say which function of
which file is called. Needs torch, numpy and this project's Python package on
PYTHONPATH; presses need what kvpress needs. --update writes vectors and table.

Exit 0: all equal; 1: something differs; 77: no torch, or no checkout."""

import argparse
import os
import subprocess
import sys

try:
    import torch
except ImportError:
    print("conformance: needs torch")
    sys.exit(77)
sys.dont_write_bytecode = True  # a checkout is not ours to write to

import once  # noqa: E402
import presses  # noqa: E402
import steps  # noqa: E402
import vectors  # noqa: E402

MODULES = {"once": once, "steps": steps, "presses": presses}
ORDERED = {"rkv"}  # whose next compression goes by the order of what is held


def commit(folder):
    done = subprocess.run(["git", "-C", folder, "rev-parse", "--short=7",
                           "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def theirs(case, trace, folder):
    """{layer: {step: lists}}, as the authors' code has it."""
    p = dict(x.split("=") for x in case["specification"].split(":")[1:])
    budget = int(case["budget"]) if case["budget"] else None
    module, _, name = case["by"].partition(".")
    found = getattr(MODULES[module], name)(folder, trace, budget, p)
    if module != "steps":
        found = {l: {trace.prompt_len: x} for l, x in found.items()}
    if case["method"] not in ORDERED:
        found = {l: {t: [sorted(y) for y in x] for t, x in s.items()}
                 for l, s in found.items()}
    return found


def one(case, folder, program, update):
    """A sentence for each thing that is not as it should be."""
    said, at = [], commit(folder)
    with open(os.devnull, "w") as quiet:  # they print what they are made with
        out, sys.stdout = sys.stdout, quiet
        try:
            found = theirs(case, vectors.trace_of(case), folder)
        finally:
            sys.stdout = out
    n, equal, ties, wrong, why = vectors.graded(program, case, found)
    print(f"{case['vectors']}: {equal} of {n} equal, {ties} ties, {wrong} "
          "wrong")
    if update:
        case.update(commit=at, decisions=n, equal=equal, ties=ties)
        vectors.write(case, found, [
            f"# {case['repository']} {at}, {case['calls']}",
            f"# {case['specification']}, budget {case['budget'] or 'none'}, "
            f"prompt {case['prompt']}, {case['trace']}"])
    if at != case["commit"]:
        said.append(f"the checkout is at {at}, vectors are of {case['commit']}")
    if vectors.read(case) != found:
        said.append("the authors' code decides other than its vectors")
    if wrong or [str(x) for x in (n, equal, ties)] != [
       str(case[x]) for x in ("decisions", "equal", "ties")]:
        said.append(" ".join(["kvreplay decides other than the table says",
                              *why]))
    return said


def main():
    parse = argparse.ArgumentParser(usage=__doc__)
    parse.add_argument("--checkouts", required=True)
    parse.add_argument("--kvreplay", required=True)
    parse.add_argument("--only", default="")
    parse.add_argument("--update", action="store_true")
    given = parse.parse_args()
    torch.set_num_threads(1)
    rows, bad, ran = vectors.cases(), 0, 0
    for case in rows:
        folder = os.path.join(given.checkouts,
                              case["repository"].partition("/")[2])
        if given.only and case["vectors"].split(".")[0] not in (
           given.only.split(",")):
            continue
        if not os.path.isdir(folder):
            print(f"{case['vectors']}: no {folder}, skipped")
            continue
        ran += 1
        for text in one(case, folder, given.kvreplay, given.update):
            print(f"{case['vectors']}: {text}")
            bad += 1
    if given.update:
        vectors.write_cases(rows)
    sys.exit(77 if not ran else bad > 0)


if __name__ == "__main__":
    main()
