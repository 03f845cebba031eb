# SPDX-License-Identifier: Apache-2.0
"""check_clusters.py KVREPORT GOOD.db FOLDER: `kvreport compare` and `answer` on
made-up evaluations whose questions share contexts. GOOD.db is any database of
kvreplay, whose evaluations are replaced in copies.

Recomputes numbers: differences, flips, sign flips and bootstrap by context, two
tasks of equal weight, margins, what can be detected, Holm over both. At most
7 % of pairs of equal methods are called different, though a context moves all
its questions. At least 95 % of differences of 4 standard errors are found. Of
methods that lose exactly 5 points at most 7 % are called less than that worse.
With KV_ALL=1 the same of more pairs. Leaves shown.db, for answers.cases."""

import csv
import io
import itertools
import math
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
from typing import NamedTuple

kvreport, good, folder = sys.argv[1:]
ALL = os.environ.get("KV_ALL") == "1"
MASK = (1 << 64) - 1
normal = statistics.NormalDist()


class Row(NamedTuple):
    task: str
    item: int
    number: int
    context: str
    method: str
    values: dict
    budget: str = "mean:25%"
    share: float = 0.25
    why: str = ""
    platform: str = "p"


# --- a database -----------------------------------------------------------


def digest(*words):
    return "%064x" % random.Random(repr(words)).getrandbits(256)


def put(db, x):
    question = digest("q", x.task, x.item, x.number)
    db.execute("INSERT OR IGNORE INTO question VALUES (?,?,?,?,?,?,100,120,?,"
               "NULL,NULL)", (question, digest("m"), x.task, str(x.item),
                              x.number, digest("r"), x.context))  # fmt: skip
    basis, _, least = x.budget.rpartition(":")
    basis = basis or ("prompt" if "%" in least else "entries" * bool(least))
    row = (digest("e", *x[:3], *x[4:5], *x[6:]), question, digest(x.platform),
           x.method, basis, x.budget, x.method, "refused" if x.why else "ok",
           x.why, None if x.why else digest("a"))  # fmt: skip
    at = db.execute("INSERT INTO evaluation VALUES (NULL,?,?,?,?,1,'',3,?,?,?,"
                    "'',?,?,?,NULL,NULL)", row).lastrowid  # fmt: skip
    values = {} if x.why else {"bytes.mean": 1000 * x.share, **x.values}
    db.executemany("INSERT INTO evaluated VALUES (?,?,?)",
                   [(at, k, float(v)) for k, v in values.items()])  # fmt: skip


def make(name, rows):
    """The database, with dense, which answers all, for each question."""
    name = f"{folder}/{name}.db"
    shutil.copyfile(good, name)
    db = sqlite3.connect(name)
    for table in ("evaluator", "evaluation_diff", "evaluated", "evaluation",
                  "question", "quantity", "platform", "model", "ask"):
        db.execute(f"DELETE FROM {table}")
    db.execute("INSERT INTO model VALUES (?,'made-up')", (digest("m"),))
    for p in {x.platform for x in rows}:
        db.execute("INSERT INTO platform VALUES (?,'2','5',?,1,'f32')",
                   (digest(p), p))  # fmt: skip
    for n, how in (("bytes.mean", "of dense"), ("exact", "mean"),
                   ("loglik_token", "mean")):
        db.execute("INSERT INTO quantity VALUES (?,'',?)", (n, how))
    asked = {(x.task, x.item, x.number, x.platform): x for x in rows}
    for x in [*rows, *(x._replace(method="dense", values={"exact": 1}, why="",
                                  budget="", share=1) for x in asked.values())]:
        put(db, x)
    db.commit()
    db.close()
    return name


def ask(command, name, *more):
    words = [kvreport, command, name, *more, "-f", "csv"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def compare(name, method, *more):
    rows = ask("compare", name, "-m", method, "-a", "mean:25%", *more)
    return [r for r in rows if r["vs"] != "dense"]


# --- the statistics, again --------------------------------------------------


def splitmix(state):
    while True:
        state = state + 0x9E3779B97F4A7C15 & MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        yield z ^ z >> 31


class Paired:
    """tasks: a list of lists of contexts, each a list of values."""

    def __init__(self, tasks):
        self.tasks, t = tasks, len(tasks)
        values = [x for task in tasks for c in task for x in c]
        self.above = sum(x > 0 for x in values)
        self.below = sum(x < 0 for x in values)
        self.d, weight, self.variance = [], [], 0
        for task in tasks:
            n = sum(map(len, task))
            mean = sum(map(sum, task)) / n
            self.d += [sum(c) / n / t for c in task]
            weight += [len(c) / n / t for c in task]
            off = [(sum(c) - len(c) * mean) / n / t for c in task]
            k = len(task)
            self.variance += sum(x * x for x in off) * k / (k - 1)
        self.n, self.mean = len(self.d), sum(self.d)
        self.equal = 1 / sum(w * w for w in weight)
        self.square = self.equal * sum(x * x for x in self.d)

    def p(self):
        far = abs(self.mean) * (1 - 1e-12)
        if self.n <= 16:
            flips = itertools.product((1, -1), repeat=self.n)
            sums = [sum(s * x for s, x in zip(f, self.d)) for f in flips]
            return sum(abs(s) >= far for s in sums) / len(sums)
        count, draw = 1, splitmix(2)
        for _ in range(10000):
            bits = 0
            for at in range(0, self.n, 64):
                bits |= next(draw) << at
            s = sum(-x if bits >> i & 1 else x for i, x in enumerate(self.d))
            count += abs(s) >= far
        return count / 10001

    def interval(self):
        draw, means = splitmix(1), []
        for _ in range(10000):
            mean = 0
            for task in self.tasks:
                some = [task[(next(draw) >> 32) * len(task) >> 32]
                        for _ in task[1:]]  # fmt: skip
                mean += sum(map(sum, some)) / sum(map(len, some))
            means.append(mean / len(self.tasks))
        means.sort()
        return means[249], means[9750]

    def margin(self, m):
        """None: so many contexts cannot show it."""
        least = (1 - m) ** int(self.equal + 1e-6)
        if least >= 0.05:
            return None
        if self.mean + m <= 0:
            return 1
        win = max((self.square + self.mean) / 2, 0)
        lose = max((self.square - self.mean) / 2, 0)
        b = (lose + win) * (1 - m) - 2 * m * (1 - lose)
        w = (b + math.sqrt(b * b + 8 * win * m * (1 - m))) / 4
        one = max(self.variance * self.equal + (self.mean + m) ** 2,
                  2 * w + m - m * m)  # fmt: skip
        z = (self.mean + m) / math.sqrt(one / self.equal)
        return max(1 - normal.cdf(z), least)


def detectable(n, m, square):
    k = normal.inv_cdf(1 - 0.025 / m) + normal.inv_cdf(0.8)
    j = next(j for j in range(99) if 2 / 2**j * m < 0.05)
    if n < j:
        return math.inf
    low, high = 0, 1
    for _ in range(50):
        d = (low + high) / 2
        fewer = sum(math.comb(n, i) * d**i * (1 - d)**(n - i) for i in range(j))
        low, high = (d, high) if fewer > 0.2 else (low, d)
    return max(min(k * math.sqrt(square / (n + k * k)), 1), high)


def holm(p):
    order, most, out = sorted(range(len(p)), key=p.__getitem__), 0, {}
    for i, at in enumerate(order):
        most = max(most, p[at] * (len(p) - i))
        out[at] = min(1, most)
    return out


def near(a, b, tolerance=1e-9):
    if b is None or math.isinf(b) and not a:
        return not a
    return math.isclose(float(a), b, rel_tol=tolerance, abs_tol=1e-12)


def check_numbers(rows, name, base, others, more=()):
    """rows: of two tasks. Methods in others have no equal row in p."""
    value = {}
    for x in rows:
        at = value.setdefault((x.method, x.task, x.context or x.item), {})
        at.setdefault(x.number + 100 * x.item, []).append(x.values["exact"])
    tests, found = [], {}
    for other in others:
        tasks = {}
        for (method, task, context), of in sorted(value.items(), key=str):
            if method == base:
                b = value[other, task, context]
                tasks.setdefault(task, []).append(
                    [statistics.mean(x - y for x, y in zip(of[q], b[q]))
                     for q in sorted(of)])  # fmt: skip
        found[other] = x = Paired(list(tasks.values()))
        x.m = x.margin(0.05)
        tests += [(other, p) for p in (x.p(), x.m) if p is not None]
    level = holm([p for _, p in tests])
    for row in compare(name, base, *more):
        x, at = found[row["vs"]], [i for i, t in enumerate(tests)
                                   if t[0] == row["vs"]]  # fmt: skip
        assert near(row["difference"], x.mean), (row, x.mean)
        assert (int(row["wins"]), int(row["losses"])) == (x.above, x.below), row
        assert int(row["clusters"]) == x.n, row
        assert near(row["p"], tests[at[0]][1]), (row, tests[at[0]])
        assert near(row["holm"], level[at[0]]), (row, level)
        low, high = x.interval()
        assert near(row["low"], low) and near(row["high"], high), (row, low)
        assert near(row["margin_p"], x.m, 1e-6), (row, x.m)
        if x.m is not None:
            assert near(row["margin_holm"], level[at[1]], 1e-6), (row, level)
        can = detectable(int(x.equal + 1e-6), len(tests), x.square)
        assert near(row["detects"], can, 1e-6), (row, can)
        k = normal.inv_cdf(1 - 0.025 / len(tests)) + normal.inv_cdf(0.8)
        more = k * k * x.variance * x.equal / x.mean**2
        assert near(row["needed"], more, 1e-6), (row, more)


METHODS = {"x": 0.8, "v": 0.77, "y": 0.5, "z": 0.3}


def check_tasks():
    draw, rows = random.Random(1), []
    for task, n in ("a", 8), ("b", 5):
        for item in range(n):
            context = f"{task}{item // 2 if item < 4 else item}"
            for number in range(1 + item % 3):
                for method, p in METHODS.items():
                    for platform in "p", "q":
                        right = {"exact": draw.random() < p}
                        rows.append(Row(task, item, number, context, method,
                                        right, platform=platform))
    name = make("tasks", rows)
    check_numbers(rows, name, "x", ["v", "y", "z"])
    for row in ask("answer", name):
        if row["method"] == "z":
            tasks = {t: {} for t in "ab"}
            for x in rows:
                if x.method == "z":
                    at = tasks[x.task].setdefault(x.context, {})
                    at.setdefault((x.item, x.number), []).append(
                        x.values["exact"])  # fmt: skip
            x = Paired([[[statistics.mean(v) for _, v in sorted(of.items())]
                         for _, of in sorted(t.items())]
                        for t in tasks.values()])  # fmt: skip
            assert near(row["value"], x.mean), (row, x.mean)
            assert near(row["low"], x.interval()[0]), row
            assert row["contexts"] == str(x.n) and row["tasks"] == "2", row
    # Two tasks about the same contexts: one task, each context once.
    both = [x._replace(task=t, item=x.item + 10 * i + 50 * (t == "d"),
                       context=f"{x.context} {i}")
            for x in rows for t in "cd" for i in (0, 1)
            if x.task == "a" and x.platform == "p" and (t == "c" or x.item < 6)
            ]  # fmt: skip
    shared = make("shared", both)
    check_numbers([x._replace(task="c") for x in both], shared, "x",
                  ["v", "y", "z"])  # fmt: skip
    assert {x["tasks"] for x in ask("answer", shared)} == {"1"}
    wide = [x._replace(item=x.item + 100 * i, context=f"{x.context} {i}")
            for i in range(8) for x in rows if x.platform == "p"]  # fmt: skip
    check_numbers(wide, make("wide", wide), "x", ["v", "y", "z"])


# --- calibration ------------------------------------------------------------


def check_equal():
    """Per context, methods are permuted: none is better."""
    draw, methods, wrong = random.Random(2), 29, []
    for kind in "exact", "loglik_token":
        rows = []
        for context in range(24):
            easy = draw.gauss(0, 1)
            for method in range(methods):
                skill = easy + draw.gauss(0, 1)  # alike in all its questions
                for number in range(4):
                    x = skill + draw.gauss(0, 0.5)
                    x = float(x > 0) if kind == "exact" else x
                    rows.append(Row("t", context * 9 + number, 0, str(context),
                                    f"m{method:02}", {"exact": 1, kind: x}))
        name, p = make("equal", rows), []
        for base in range(methods - 1 if ALL else 5):
            more = ["-M", "loglik"] if kind != "exact" else []
            for row in compare(name, f"m{base:02}", *more):
                p += [float(row["p"])] if row["vs"] > f"m{base:02}" else []
        wrong.append(sum(x < 0.05 for x in p) / len(p))
        print(f"{wrong[-1]:.3f} of {len(p)} called different, by {kind}")
        assert len(p) == (406 if ALL else 130), len(p)
    assert max(wrong) <= 0.07, wrong


def check_planted():
    """Differences of 4 standard errors, in contexts of three questions."""
    draw, rows = random.Random(3), []
    others = 140 if ALL else 56
    for other in range(others + 1):
        x = [draw.gauss(0, 1) for _ in range(20)]
        mean, se = statistics.mean(x), statistics.stdev(x) / math.sqrt(20)
        for context, number in itertools.product(range(20), range(3)):
            at = (x[context] - mean - 4 * se) * bool(other)
            rows.append(Row("t", context, number, "", f"m{other:03}",
                            {"exact": 1, "loglik_token": at}))
    found = compare(make("planted", rows), "m000", "-M", "loglik")
    good = sum(float(r["p"]) < 0.05 and float(r["difference"]) > 0
               for r in found)  # fmt: skip
    print(f"{good} of {len(found)} planted differences found")
    assert len(found) == others and good >= 0.95 * others, (good, others)


def check_margin():
    """Against each of many others the base loses exactly 5 points, with or
    without wins elsewhere. A copy of the base ties with it."""
    for contexts in (8, 36, 60, 100, 200) if ALL else (8, 60, 100):
        draw, rows, others = random.Random(4), [], 400 if ALL else 150
        for other, context in itertools.product(range(others), range(contexts)):
            base = context % 2
            often = ((0.12, 0.02) if other % 2 else (0.1, 0))[base]
            flip = draw.random() < often
            for method, right in ((f"m{other:03}", base ^ flip),
                                  ("base", base), ("tie", base)):
                if method[0] == "m" or not other:
                    rows.append(Row("t", context, 0, "", method,
                                    {"exact": right}))  # fmt: skip
        name = make("margin", rows)
        found = [r for r in compare(name, "base") if r["vs"] != "tie"]
        wrong = sum(bool(r["margin_p"]) and float(r["margin_p"]) < 0.05
                    for r in found) / others  # fmt: skip
        print(f"{wrong:.3f} of {len(found)} called less than 5 points worse, "
              f"of {contexts} contexts")
        assert len(found) == others and wrong <= 0.07, (contexts, wrong)
        for row in found[:3] if contexts > 58 else ():
            x = Paired([[[a.values["exact"] - b.values["exact"]] for a, b in
                         zip([r for r in rows if r.method == "base"],
                             [r for r in rows if r.method == row["vs"]])]])
            assert near(row["margin_p"], x.margin(0.05), 1e-6), row
        (tie,) = compare(name, "base", "-v", "tie")
        same = Paired([[[0]] * contexts]).margin(0.05)
        assert near(tie["margin_p"], same, 1e-6), tie
        assert contexts != 60 or near(same, 0.95**60), same
        less = "; less than 5 points worse" in tie["verdict"]
        assert less == (contexts > 72), tie  # .95^72 < .05 / 2
        (tie,) = compare(name, "base", "-v", "tie", "--margin", "1")
        assert "not shown to be less than 1 points" in tie["verdict"], tie


# --- what answer says -------------------------------------------------------


def show():
    """20 contexts, 2 tasks: all kinds of budgets and of methods without one."""
    draw, rows = random.Random(5), []
    for item, (task, of) in itertools.product(range(10), (("a", 1), ("b", 2))):
        for number in range(of):
            for method, budget, share, p in (
                    ("keydiff", "mean:25%", 0.25, 0.9),
                    ("h2o", "mean:25%", 0.245, 0.2),
                    ("snapkv", "mean:25%", 0.25, 0.8),
                    ("random:seed=1", "mean:25%", 0.25, 0),
                    ("quest", "mean:25%", 1.1, 1),
                    ("keydiff", "25%", 0.26, 0.7), ("h2o", "25%", 0.27, 0.3),
                    ("kivi", "25%", 0.34, 1), ("h2o", "64", 0.1, 0.1),
            ):  # fmt: skip
                rows.append(Row(task, item, number, "", method,
                                {"exact": draw.random() < p}, budget, share))
            why = "too many bytes (26.4 %), more than mean:25%"
            rows.append(Row(task, item, number, "", "kivi", {}, why=why))
    make("shown", rows)
    make("shown_few", [x for x in rows if x.task == "a" and x.item < 7])


check_tasks()
show()
if not os.environ.get("KV_QUICK"):
    check_equal()
    check_planted()
    check_margin()
