# SPDX-License-Identifier: Apache-2.0
"""check_ranks.py GOOD.db FOLDER: analysis/evaluations/rank.py on made-up
answers. check_ranks.csv has the taus, intervals and pairs that two earlier
programs found, one in C, one in plain Python. GOOD.db is any database of
kvreplay, whose evaluations are replaced in a copy. Values are on coarse grids,
so that many are tied. Needs numpy."""

import csv
import itertools
import os
import random
import shutil
import sqlite3
import subprocess
import sys

good, folder = sys.argv[1:]
RECORDED = os.path.splitext(os.path.abspath(__file__))[0] + ".csv"
METHODS = ["a", "b", "c", "d", "e", "short", "wide", "late"]
BUDGETS = ["mean:25%", "mean:50%"]
TASKS = {"dark": 4, "find": 9, "read": 7}  # items; dense fails dark
# The order in which they are drawn.
VALUES = """open.needle_share open.recall_1.mean open.lse_error.mean
    open.kl.mean open.kl.p95 loglik_token exact kl agree""".split()


# --- a database -----------------------------------------------------------


def digest(*words):
    return "%064x" % random.Random(repr(words)).getrandbits(256)


def made_up(draw, task, method, budget, item):
    """{name: value}, or None if the method has not answered."""
    if method == "late" and item > 3 or (method, item) == ("b", 2):
        return None
    if (method, budget, item) == ("c", "mean:50%", 3):
        return None
    x = {value: draw.randint(-3, 3) / 4 for value in VALUES}
    x["exact"] = float(draw.random() < (0.2 if task == "dark" else 0.7))
    if method in "abcde":  # ordered, with noise
        x["open.kl.mean"] = x["kl"] + draw.randint(0, 2) / 4
        x["loglik_token"] = draw.randint(0, 2) / 2 - METHODS.index(method) / 2
        x["open.recall_1.mean"] = x["loglik_token"] + draw.randint(0, 3) / 2
    if task == "read":
        del x["open.needle_share"]
    return x


def put_question(db, draw, task, item, number):
    question = digest("q", task, item, number)
    db.execute("INSERT INTO question VALUES (?,?,?,?,?,?,100,120,'',NULL,NULL)",
               (question, digest("m"), task, f"{task}_{item}", number,
                digest("r", task, item)))  # fmt: skip
    for method, budget in [("dense", ""), *itertools.product(METHODS, BUDGETS)]:
        x = made_up(draw, task, method, budget, item)
        if x is None:
            continue
        if method == "dense":
            x["exact"] = float(task != "dark")
        # Bytes as the budget says, but 9 % more for short and 12 % for wide.
        more = {"dense": 4, "short": 1.09, "wide": 1.12}.get(method, 1)
        x["bytes.mean"] = 1000.0 * more * (2 if budget == "mean:50%" else 1)
        row = (digest("e", question, method, budget), question, digest("p"),
               method, "mean" if budget else "", budget, method, digest("a"))
        at = db.execute("INSERT INTO evaluation VALUES (NULL,?,?,?,?,1,'',3,?,"
                        "?,?,'','ok','',?,NULL,NULL)", row).lastrowid
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
    db.executemany("INSERT INTO quantity VALUES (?,'','mean')",
                   [(n,) for n in VALUES])  # fmt: skip
    db.execute("INSERT INTO quantity VALUES ('bytes.mean','bytes','of dense')")
    draw = random.Random(7)
    for task, items in TASKS.items():
        for item in range(items):
            for number in range(1 + (task == "find")):
                put_question(db, draw, task, item, number)
    db.commit()
    return db


# --- the output --------------------------------------------------------------


def run(*words):
    rank = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        "../../analysis/evaluations/rank.py")  # fmt: skip
    done = subprocess.run([sys.executable, rank, *words], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)
    return [*csv.DictReader(done.stdout.splitlines())]


def main():
    name = f"{folder}/ranks.db"
    make(name)
    by = {"loglik": "loglik", "exact_match": "right", "next_kl": "kl",
          "agree": "agree"}  # fmt: skip
    with open(RECORDED, encoding="utf-8") as f:
        recorded = [*csv.DictReader(f)]
    for answer in by:
        found = {x["measure"]: x for x in run(name, "--by", by[answer])}
        for want in (x for x in recorded if x["answer"] == answer):
            x = found.pop(want["measure"].replace("needle", "needle_share"))
            assert abs(float(x["tau"]) - float(want["tau"])) < 1e-4, (x, want)
            assert x["pairs"] == want["pairs"], (x, want)
            # 500 random resamples, against 80 others.
            wide, half = (float(y["high"]) - float(y["tau"])
                          for y in (x, want))  # fmt: skip
            assert 0.6 * half < wide < 1.7 * half, (x, want)
        assert not found, found
    halves = [run(name, "--half", x) for x in "01"]
    assert halves[0] != halves[1]
    assert all(0 < int(x[0]["contexts"]) < 17 for x in halves), halves


main()
