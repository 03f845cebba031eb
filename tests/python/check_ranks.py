# SPDX-License-Identifier: Apache-2.0
"""check_ranks.py KVREPORT GOOD.db FOLDER [--update]: `kvreport rank` on made-up
answers. check_ranks.csv has the taus, intervals and pairs of methods; a
computation in Python agreed with every number (commit dcb7a7cc). GOOD.db is any
database of kvreplay, whose evaluations are replaced in a copy. Values lie on
coarse grids, so that many are tied. Standard library only."""

import itertools
import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys

kvreport, good, folder, *how = sys.argv[1:]
RECORDED = os.path.splitext(os.path.abspath(__file__))[0] + ".csv"
DRAWS = "80"
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


def same(a, b):
    """Do lines of CSV agree, numbers to 1e-9?"""
    if a is None or b is None:
        return False
    a, b = a.split(","), b.rstrip("\n").split(",")

    def near(x, y):
        try:
            return math.isclose(float(x), float(y), abs_tol=1e-9)
        except ValueError:
            return x == y

    return len(a) == len(b) and all(map(near, a, b))


def run(*words):
    done = subprocess.run([kvreport, "rank", *words], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def main():
    name = f"{folder}/ranks.db"
    db = make(name)
    text = run(name, "-n", DRAWS, "-f", "csv") + run(
        name, "--pairs", "-m", "kl", "-f", "csv")
    if how == ["--update"]:
        with open(RECORDED, "w", encoding="utf-8") as f:
            f.write(text)
    with open(RECORDED, encoding="utf-8") as f:
        for a, b in itertools.zip_longest(text.splitlines(), f):
            assert same(a, b), (a, b)
    said = run(name, "-n", DRAWS)
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
