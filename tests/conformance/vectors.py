# SPDX-License-Identifier: Apache-2.0
"""What the authors' code kept or attended, as text in ../vectors/authors_*.txt,
a file a trace, and cases.csv, the table of them. Needs numpy.

Of each case a line [NAME], two that say where it comes from, and one for each
layer and step at which something was decided, layers that decided alike
together:

    3,6 499: 0-3,9,12 = -17

is layers 3 and 6 with 499 tokens seen, of three heads: runs of positions (or
pages) in the order in which they are held; `=`, as the head before; -17: what
this head had the step before and what has arrived since, but for position
17."""

import csv
import os
import tempfile

import numpy as np

from kvreplay.container import save, tensor
from kvreplay.decisions import write_decisions
from kvreplay.grade import grade
from kvreplay.trace import read_trace

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "..", "traces")


def cases():
    """The rows of cases.csv, as dicts."""
    with open(os.path.join(HERE, "cases.csv"), newline="") as f:
        return list(csv.DictReader(f))


def write_cases(rows):
    with open(os.path.join(HERE, "cases.csv"), "w", newline="") as f:
        out = csv.DictWriter(f, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def made_up(trace, what):
    """Scores, or gates in [0, 1), of heads, all different, where the authors'
    were measured or trained on another model: [layers of the model, heads]."""
    heads = {"scores": trace.n_heads, "gates": trace.n_kv_heads}[what]
    n = trace.n_layers * heads
    x = np.arange(n) * 37 % n
    assert len({*x.tolist()}) == n
    x = x + 1 if what == "scores" else x / n
    return x.reshape(trace.n_layers, heads).astype("f4")


def specification(case, trace, folder):
    """The case's, with the file that it reads written to the folder."""
    spec = case["specification"]
    for what in "scores", "gates":
        if f"={what}" in spec:
            path = os.path.join(folder, what + ".safetensors")
            save(path, {"format": "kvreplay-" + case["method"]},
                 {what: tensor("F32", made_up(trace, what))})
            spec = spec.replace("=" + what, "=" + path)
    return spec


def trace_of(case):
    """The case's trace, its prompt ending where the case says."""
    trace = read_trace(os.path.join(TRACES, case["trace"]))
    trace.prompt_len = int(case["prompt"])
    return trace


def kind(case):
    """How write_decisions is to call the lists."""
    views = case["method"] in ("quest", "omnikv")
    return dict(
        kind="view" if views else "stored",
        head="query" if views or "query_head" in case["specification"] else
        "kv", unit="page:16" if case["method"] == "quest" else "token",
        prompt_len=int(case["prompt"]))


def graded(kvreplay, case, lists):
    """(decisions, equal, ties, wrong) of the layers that {layer: {step: lists}}
    decides on, and what is said of the first wrong one. A tie is of scores that
    are equal to the bit."""
    trace = trace_of(case)
    with tempfile.TemporaryDirectory() as folder:
        theirs = os.path.join(folder, "theirs.safetensors")
        write_decisions(theirs, trace, case["by"], {
            l: lists.get(l, {}) for l in trace.layers}, **kind(case))
        r = grade(trace.path, specification(case, trace, folder),
                  case["budget"] or None, theirs, kvreplay=kvreplay, tie=0,
                  prompt_len=case["prompt"])
    of = [x for x in r["layers"] if lists.get(x["layer"])]
    said = [x["first_wrong"]["sentence"] for x in of if x["first_wrong"]]
    n = [sum(x[y] for x in of) for y in ("equal", "ties", "wrong")]
    return sum(n), *n, said[:1]


def path(case):
    return os.path.join(HERE, "..", "vectors", "authors_%s.txt" %
                        case["vectors"].partition(".")[2])


def sections(case):
    """The lines of each case in the file of this one, by name."""
    out = {}
    if os.path.exists(path(case)):
        with open(path(case)) as f:
            for x in f.read().splitlines():
                if x[:1] == "[":
                    of = out.setdefault(x[1:-1], [])
                elif out:
                    of.append(x)
    return out


def runs(x):
    """[0, 1, 2, 7] as 0-2,7."""
    out, i = [], 0
    while i < len(x):
        j = i
        while j + 1 < len(x) and x[j + 1] == x[j] + 1:
            j += 1
        out.append(f"{x[i]}-{x[j]}" if j > i else f"{x[i]}")
        i = j + 1
    return ",".join(out)


def unrun(text):
    out = []
    for x in text.split(","):
        a, _, b = x.partition("-")
        out += range(int(a), int(b or a) + 1)
    return out


def line(lists, before, seen, last, stored):
    """The heads of a line."""
    out = []
    for h, x in enumerate(lists):
        x = [int(y) for y in x]
        text = runs(x)
        if h and x == [int(y) for y in lists[h - 1]]:
            text = "="
        elif stored and before:
            had = before[h] + [*range(last, seen)]
            gone = [y for y in had if y not in {*x}]
            if gone and [y for y in had if y in {*x}] == x:
                text = "-" + runs(gone)
        out.append(text)
    return " ".join(out)


def write(case, lists, head):
    """Puts {layer: {step: lists}} into the case's file, below two lines."""
    lines, stored = {}, kind(case)["kind"] == "stored"
    for layer, steps in lists.items():
        before, last = None, 0
        for t, x in sorted(steps.items()):
            lines.setdefault((t, line(x, before, t, last, stored)),
                             []).append(layer)
            before, last = [[int(y) for y in z] for z in x], t
    every = sections(case)
    every[case["vectors"]] = [*head, *(
        f"{','.join(map(str, layers))} {t}: {text}"
        for (t, text), layers in sorted(lines.items()))]
    with open(path(case), "w") as f:
        f.write("# SPDX-License-Identifier: Apache-2.0\n# What authors' code "
                "decided; tests/conformance/vectors.py says how it is read.\n")
        for name, x in every.items():
            f.write("\n".join([f"[{name}]", *x, ""]))


def read(case):
    """{layer: {step: lists}} of the case's file."""
    out = {}
    for text in sections(case)[case["vectors"]][2:]:
        at, _, heads = text.partition(": ")
        layers, t = at.split(" ")
        for layer in layers.split(","):
            steps = out.setdefault(int(layer), {})
            had, last = list(steps.values())[-1:], max(steps, default=0)
            lists = []
            for h, x in enumerate(heads.split(" ")):
                if x == "=":
                    lists.append(lists[-1])
                elif x[0] == "-":
                    gone = {*unrun(x[1:])}
                    lists.append([y for y in had[0][h] + [
                        *range(last, int(t))] if y not in gone])
                else:
                    lists.append(unrun(x))
            steps[int(t)] = lists
    return out
