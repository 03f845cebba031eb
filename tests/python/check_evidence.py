# SPDX-License-Identifier: Apache-2.0
"""check_evidence.py FOLDER: the statistics of analysis/evaluations/evidence.py,
computed again in another way, and its verdicts on made-up rows."""

import csv
import itertools
import lzma
import math
import subprocess
import sys

where = sys.argv[1]
sys.path.insert(0, where)
import evidence as e  # noqa: E402

# --- sign flips: all of them
for better, worse in (0, 0), (1, 0), (6, 0), (7, 2), (3, 8), (4, 4):
    signs = [1] * better + [-1] * worse
    sums = [abs(sum(x)) for x in itertools.product((-1, 1), repeat=len(signs))]
    want = sum(x >= abs(sum(signs)) for x in sums) / len(sums)
    assert math.isclose(e.flips(better, worse), want), (better, worse, want)

# --- Holm, by hand
got = e.holm([0.04, 0.01, 0.03, 0.9])
assert all(map(math.isclose, got, [0.09, 0.04, 0.09, 0.9])), got

# --- bootstrap: all draws of k - 1 contexts of each task
for tasks in [[1, 0, 0, -1, 1, 1]], [[1, 0, 0, 1], [0, -1, 0, 0]]:
    means = [[sum(x) / len(x) for x in itertools.product(
        some, repeat=len(some) - 1)] for some in tasks]  # fmt: skip
    every = sorted(sum(x) / len(x) for x in itertools.product(*means))
    for got, share in zip(e.interval(tasks), (0.025, 0.975)):
        want = every[math.ceil(share * len(every) - 1e-9) - 1]
        assert abs(got - want) < 1e-6, (tasks, share, got, want)

# --- a made-up model: 30 contexts, of which dense answers `dense`. keydiff
# answers all, k8v4 loses one needle of 30, snapkv none but `before`
NAMES = """model task item method target status exact bytes.mean
    open.bytes.read open.bytes.scanned loglik_token kl""".split()


def made(model, dense):
    right = {"keydiff": 1, "dense": None, "random": 0, "kivi": 1}
    for task, place, i in itertools.product(
            ("needle", "key-value"), ("after", "before"), range(30)):
        own = {**right, "dense": i < dense, "snapkv": place == "before",
               "k8v4": i > 0 or task != "needle"}  # fmt: skip
        for method, exact in own.items():
            target = {"dense": "", "k8v4": "", "kivi": "mean:50%"}.get(
                method, "mean:25%")  # fmt: skip
            held = {"dense": 100, "random": 26, "kivi": 40, "k8v4": 41}
            yield [model, f"{task}.{place}.jsonl", f"{task}.{i}",
                   method + e.WINDOWED * (model == "b" and method != "dense"),
                   target, "ok", int(exact), held.get(method, 25), 1, 0, -1, 2]
    yield [model, "needle.after.jsonl", "needle.0", "h2o", "mean:25%",
           "refused", *[""] * 6]


with lzma.open("made.csv.xz", "wt", newline="") as f:
    csv.writer(f).writerows([NAMES, *made("a", 18), *made("b", 17)])


def ask(how):
    done = subprocess.run(
        [sys.executable, f"{where}/evidence.py", how, "made.csv.xz"],
        stdout=subprocess.PIPE, encoding="utf-8", check=True)  # fmt: skip
    return [*csv.DictReader(done.stdout.splitlines())]


for x in ask("tests"):
    model, name, first = x["model"], x["test"], x["first"]
    if model == "b" or any(y in first for y in ("quest", "leankv", "adakv")):
        assert x["verdict"] == "no evidence" and not x["n"], x
        continue
    n, better = (60, 24) if name == "not worse than dense" else (30, 30)
    if "random" in x["second"] and name == "choosing blindly":
        better = 0
    if "keydiff" in x["second"]:
        better = 0
    worse = 0
    assert int(x["n"]) == n, x
    if name == "not worse than dense":
        assert x["verdict"] == "first", x
        assert float(x["effect"]) == (40 if "kivi" in first else 38.3), x
        continue
    assert (int(x["better"]), int(x["worse"])) == (better, worse), x
    assert x["verdict"] == ("first" if better else "open"), x

found = {(x["model"], x["task"], x["place"], x["method"]): x
         for x in ask("means")}  # fmt: skip
assert len(found) == 2 * 4 * 6, len(found)
assert not any(x[3] == "h2o" for x in found)
x = found["a", "needle", "after", "random"]
assert (x["n"], x["right"], x["held"], x["off"]) == ("30", "0", "0.2600", "30")
assert found["a", "needle", "after", "snapkv"]["off"] == "0"
assert float(found["a", "needle", "after", "dense"]["low"]) < 0.6
