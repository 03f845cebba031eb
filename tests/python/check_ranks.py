# SPDX-License-Identifier: Apache-2.0
"""check_ranks.py KVREPORT GOOD.db FOLDER: `kvreport rank` of made-up answers,
whose taus, intervals and left-out methods are found again here from the tables
of the database. GOOD.db is any database of kvreplay; its evaluations are
replaced in a copy. Values lie on coarse grids, so that many are tied. Standard
library only."""

import csv
import io
import itertools
import json
import math
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys

from splitmix import splitmix

kvreport, good, folder = sys.argv[1:]
DRAWS = 80
METHODS = ["a", "b", "c", "d", "e", "short", "wide", "late"]
BUDGETS = ["mean:25%", "mean:50%"]
TASKS = {"dark": 4, "find": 9, "read": 7}  # items; dense answers no dark one
# Name here, in the database, sign, of the size.
ANSWERS = [("loglik", "loglik_token", 1), ("exact_match", "exact", 1),
           ("next_kl", "kl", -1), ("agree", "agree", 1)]  # fmt: skip
OPEN = [("needle", "open.needle_share", 1),
        ("recall_1", "open.recall_1.mean", 1),
        ("lse_error", "open.lse_error.mean", 0), ("kl", "open.kl.mean", -1),
        ("kl.p95", "open.kl.p95", -1)]  # fmt: skip


# --- a database -----------------------------------------------------------


def digest(*words):
    return "%064x" % random.Random(repr(words)).getrandbits(256)


def made_up(draw, task, method, budget, item):
    """{name: value}, or None where that method has not answered."""
    if method == "late" and item > 3 or (method, item) == ("b", 2):
        return None
    if (method, budget, item) == ("c", "mean:50%", 3):
        return None
    x = {value: draw.randint(-3, 3) / 4 for _, value, _ in OPEN + ANSWERS}
    x["exact"] = float(draw.random() < (0.2 if task == "dark" else 0.7))
    if method in "abcde":  # some order, with noise
        x["open.kl.mean"] = x["kl"] + draw.randint(0, 2) / 4
        x["loglik_token"] = draw.randint(0, 2) / 2 - METHODS.index(method) / 2
        x["open.recall_1.mean"] = x["loglik_token"] + draw.randint(0, 3) / 2
    if task == "read":
        del x["open.needle_share"]
    return x


def put_question(db, draw, task, item, number):
    question = digest("q", task, item, number)
    db.execute("INSERT INTO question VALUES (?,?,?,?,?,?,100,120)",
               (question, digest("m"), task, f"{task}_{item}", number,
                digest("r", task, item)))  # fmt: skip
    for method, budget in [("dense", ""), *itertools.product(METHODS, BUDGETS)]:
        x = made_up(draw, task, method, budget, item)
        if x is None:
            continue
        if method == "dense":
            x["exact"] = float(task != "dark")
        # Bytes as budgets have them, 9 % more of short and 12 % of wide.
        more = {"dense": 4, "short": 1.09, "wide": 1.12}.get(method, 1)
        x["bytes.mean"] = 1000.0 * more * (2 if budget == "mean:50%" else 1)
        row = (digest("e", question, method, budget), question, digest("p"),
               method, "mean" if budget else "", budget, method, digest("a"))
        at = db.execute("INSERT INTO evaluation VALUES (NULL,?,?,?,?,1,'',3,"
                        "?,?,?,'','ok','',?)", row).lastrowid  # fmt: skip
        db.executemany("INSERT INTO evaluated VALUES (?,?,?)",
                       [(at, name, value) for name, value in x.items()])


def make(name):
    shutil.copyfile(good, name)
    db = sqlite3.connect(name)
    for table in ("evaluator", "evaluation_diff", "evaluated", "evaluation",
                  "question", "quantity", "platform", "model"):  # fmt: skip
        db.execute(f"DELETE FROM {table}")
    db.execute("INSERT INTO model VALUES (?,'made-up')", (digest("m"),))
    db.execute("INSERT INTO platform VALUES (?,'2','5','cpu',1,'f32')",
               (digest("p"),))  # fmt: skip
    names = [value for _, value, _ in OPEN + ANSWERS]
    db.executemany("INSERT INTO quantity VALUES (?,'','mean')",
                   [(n,) for n in names])  # fmt: skip
    db.execute("INSERT INTO quantity VALUES ('bytes.mean','bytes','of dense')")
    draw = random.Random(7)
    for task, items in TASKS.items():
        for item in range(items):
            for number in range(1 + (task == "find")):
                put_question(db, draw, task, item, number)
    db.commit()
    return db


# --- the same again -------------------------------------------------------


def read(db):
    """{(task, budget): {method: [{value: mean over questions} of each item]}}
    of those that count. Items are those of the task that any budget has; None
    where a method of this budget has not answered."""
    found, items = {}, {}
    for task, item, method, budget, name, value in db.execute(
        "SELECT task, item, method, target, name, value FROM evaluation JOIN "
        "question USING (question) JOIN evaluated USING (evaluation_id) "
        "WHERE target <> '' ORDER BY number"):  # fmt: skip
        value = abs(value) if "lse" in name else value
        cell = found.setdefault((task, budget), {}).setdefault(method, {})
        cell.setdefault(item, {}).setdefault(name, []).append(value)
    for key, group in found.items():
        del group["wide"]
        if key[0] != "dark":  # of four items it has all
            del group["late"]
        own = set.intersection(*(set(x) for x in group.values()))
        items[key] = own
        for cell in group.values():
            for item, x in cell.items():
                cell[item] = {n: sum(v) / len(v) for n, v in x.items()}
    for (task, budget), group in found.items():
        every = set.union(*(items[task, b] for b in BUDGETS))
        for method, cell in group.items():
            group[method] = [cell[i] if i in items[task, budget] else None
                             for i in sorted(every)]  # fmt: skip
    return dict(sorted(found.items()))


def mean(cell, name, sign, weight):
    """None: a value is missing; without an item that was drawn 0, so a tie."""
    both = [(w, x) for w, x in zip(weight, cell) if x is not None]
    if any(name not in x for _, x in both):
        return None
    n = sum(w for w, _ in both)
    return (sign or -1) * sum(w * x[name] for w, x in both) / n if n else 0


def order(a, b):
    return 0 if math.isclose(a, b, rel_tol=1e-12) else (a > b) - (a < b)


def tau(pairs):
    """Of (order by one, order by the other), each -1, 0 or 1."""
    same = sum(a * b for a, b in pairs)
    both = sum(a != 0 for a, _ in pairs) * sum(b != 0 for _, b in pairs)
    return same / math.sqrt(both) if both else None


def all_pairs(groups, weights, x, y):
    """[(method, method, order by x, order by y)] of all groups."""
    out = []
    for (task, _), group in groups.items():
        if task == "dark" and y[1] == "exact":
            continue
        w = weights[task]
        values = {m: (mean(c, *x[1:], w), mean(c, *y[1:], w))
                  for m, c in group.items()}  # fmt: skip
        for (a, u), (b, v) in itertools.combinations(sorted(values.items()), 2):
            if None not in (*u, *v):
                out.append((a, b, order(u[0], v[0]), order(u[1], v[1])))
    return out


def draws(groups):
    """Weights of each task's items, as often as they are drawn."""
    n = {task: len(next(iter(group.values())))
         for (task, _), group in groups.items()}  # fmt: skip
    yield {task: [1] * k for task, k in n.items()}
    state = splitmix(1)
    for _ in range(DRAWS):
        weights = {}
        for task, k in n.items():
            weights[task] = [0] * k
            for _ in range(k):
                weights[task][(next(state) >> 32) * k >> 32] += 1
        yield weights


def near(text, x):
    if x is None:
        return text == ""
    return math.isclose(float(text), x, abs_tol=1e-9)


def interval(point, drawn, most):
    half = 1.959963984540054 * statistics.stdev(drawn)
    return max(point - half, -most), min(point + half, most)


def check_row(row, groups, weights, best):
    y = next(a for a in ANSWERS if a[0] == row["answer"])
    x = next(o for o in OPEN if o[0] == row["measure"])
    top = next(o for o in OPEN if o[0] == best)
    first = all_pairs(groups, weights[0], x, y)
    assert int(row["pairs"]) == len(first), row
    assert near(row["tau"], tau([p[2:] for p in first])), row
    without = [(tau([p[2:] for p in first if m not in p[:2]]), m)
               for m in sorted({m for p in first for m in p[:2]})]  # fmt: skip
    least = min(without, key=lambda p: p[0])
    most = max(without, key=lambda p: p[0])
    for name, (value, method) in (("least", least), ("most", most)):
        assert near(row[name], value), row
        assert row[name + "_without"] == method, row
    taus, gaps = [], []
    for w in weights:
        mine = all_pairs(groups, w, x, y)
        theirs = all_pairs(groups, w, top, y)
        if "open.needle_share" == x[1]:  # the best, where this one is
            theirs = all_pairs({k: g for k, g in groups.items()
                                if k[0] != "read"}, w, top, y)  # fmt: skip
        taus.append(tau([p[2:] for p in mine]) or 0)
        gaps.append((tau([p[2:] for p in theirs]) or 0) - taus[-1])
    low, high = interval(taus[0], taus[1:], 1)
    assert near(row["low"], low) and near(row["high"], high), (row, low, high)
    assert near(row["difference"], gaps[0]), (row, gaps[0])
    low, high = interval(gaps[0], gaps[1:], 2)
    assert near(row["difference_low"], low), (row, low)
    assert near(row["difference_high"], high), (row, high)


def run(*words):
    done = subprocess.run([kvreport, "rank", *words], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def check_pairs(name, groups, weights):
    text = run(name, "--pairs", "-m", "kl", "-f", "csv")
    rows = csv.DictReader(io.StringIO(text))
    got = {(r["answer"], r["preferred"], r["better"]):
           (int(r["wrong"]), int(r["groups"])) for r in rows}  # fmt: skip
    want = {}
    for y in ANSWERS:
        for a, b, u, v in all_pairs(groups, weights[0], OPEN[3], y):
            for one, other, wrong in ((a, b, u > 0 > v), (b, a, v > 0 > u)):
                n = want.get((y[0], one, other), (0, 0))
                want[y[0], one, other] = n[0] + wrong, n[1] + 1
    want = {k: n for k, n in want.items() if n[0]}
    assert got == want and len(want) > 20, (got, want)


def main():
    name = f"{folder}/ranks.db"
    db = make(name)
    groups = read(db)
    weights = list(draws(groups))
    rows = json.loads(run(name, "-n", str(DRAWS), "-f", "json"))
    assert len(rows) == len(ANSWERS) * len(OPEN), len(rows)
    text = run(name, "-n", str(DRAWS), "-f", "csv")
    ties = 0
    for row in csv.DictReader(io.StringIO(text)):
        whole = [r for r in rows if r["answer"] == row["answer"]
                 and r["measure"] != "needle"]  # fmt: skip
        best = max(whole, key=lambda r: r["tau"])["measure"]
        assert row["best"] == best, row
        check_row(row, groups, weights, best)
        ties += float(row["tau"]) != float(row["low"])
    assert ties > 10, ties
    check_pairs(name, groups, weights)
    said = run(name, "-n", str(DRAWS))
    for words in ("late (read at mean:25%, read at mean:50%): answered 4 of 7 "
                  "prompts", "wide (dark at mean:25%, find at mean:25%, read "
                  "at mean:25%): has 28 % of dense's bytes, others 25 %",
                  "exact_match (dark): dense answers 0 % of it"):  # fmt: skip
        assert words in " ".join(said.split()), (words, said)
    assert "short (" not in said and "Best with loglik: recall_1, tau-b" in said
    older = sqlite3.connect(f"{folder}/older.db")
    db.backup(older)
    for table in "quantity", "evaluated":  # sums, which are not ranked
        older.execute(f"UPDATE {table} SET name = 'loglik' WHERE name ="
                      " 'loglik_token'")  # fmt: skip
    older.commit()
    said = " ".join(run(f"{folder}/older.db").split())
    assert "No two methods have loglik on the same prompts. Rows" in said, said
    older.execute("DELETE FROM evaluated WHERE name = 'exact'")
    older.commit()
    said = run(f"{folder}/older.db", "-b", "exact_match")
    assert "have exact_match on" in said and "evaluate" not in said, said


main()
