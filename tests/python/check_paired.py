# SPDX-License-Identifier: Apache-2.0
"""check_paired.py KVTRACE KVREPLAY KVREPORT FOLDER: `kvreport compare` on
synthetic traces and random evictions by 29 seeds. A seed evicts the same
positions in every trace, so it could really be better. Therefore each trace's
results are permuted over the seeds, after which none is better.

Recomputes its numbers from the cells: differences, sign flips, bootstrap, Holm.
At most 7 % of 406 pairs of seeds are called different. After a difference of 4
standard errors is planted in the database, at least 95 % of 420 are (with
KV_ALL=1; else of a third and a seventh of them). Rows at other bytes and too
few traces get their own sentences. KV_QUICK=1: only the numbers of 12 traces.
"""

import csv
import io
import itertools
import math
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys

kvtrace, kvreplay, kvreport, folder = sys.argv[1:]
N, SEEDS = 20, 29
ALL = os.environ.get("KV_ALL") == "1"
DB = f"{folder}/random.db"
MASK = (1 << 64) - 1


def splitmix(state):
    """kvreport's generator for resamples: 64-bit numbers."""
    while True:
        state = state + 0x9E3779B97F4A7C15 & MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        yield z ^ z >> 31


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return done.stdout


def compare(db, method, *more):
    words = ["-m", method, "-a", "25%", "-M", "output_error", "-f", "csv"]
    text = run(kvreport, "compare", db, *words, *more)
    return list(csv.DictReader(io.StringIO(text)))


def traces(n):
    names = [f"{folder}/s{i}.safetensors" for i in range(n)]
    for i, name in enumerate(names):
        shape = "-t 96 --layers 1 --heads 2 --kv-heads 1 --dim 16".split()
        run(kvtrace, "synth", "-q", "-o", name, "-s", str(i + 1), *shape)
    return names


def p_value(d):
    far = abs(sum(d)) * (1 - 1e-12)
    if len(d) <= 16:
        all_ = list(itertools.product((1, -1), repeat=len(d)))
        sums = [sum(s * x for s, x in zip(signs, d)) for signs in all_]
        return sum(abs(s) >= far for s in sums) / len(all_)
    assert len(d) <= 64
    count, draw = 1, splitmix(2)
    for flip in itertools.islice(draw, 10000):
        s = sum(-x if flip >> i & 1 else x for i, x in enumerate(d))
        count += abs(s) >= far
    return count / 10001


def interval(d):
    draw, means = splitmix(1), []
    for _ in range(10000):
        means.append(sum(d[(next(draw) >> 32) * len(d) >> 32] for _ in d[1:]))
    means.sort()
    return means[249] / (len(d) - 1), means[9750] / (len(d) - 1)


def holm(p):
    order, most, out = sorted(range(len(p)), key=p.__getitem__), 0, {}
    for i, at in enumerate(order):
        most = max(most, p[at] * (len(p) - i))
        out[at] = min(1, most)
    return out


def near(a, b):
    return math.isclose(float(a), b, rel_tol=1e-9, abs_tol=1e-15)


def values(db):
    """{seed: [value per trace]}, from the text of `kvreport table`."""
    text = run(kvreport, "table", db, "-w", "asked=25%", "-f", "csv")
    found = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["method"] == "random":
            seed = int(row["params"].split('"seed": ')[1].split(",")[0])
            found.setdefault(seed, []).append(float(row["output_error"]))
    return found


def check_numbers(db, rows, base):
    value, p = values(db), [float(r["p"]) for r in rows]
    adjusted = holm(p)
    z = statistics.NormalDist().inv_cdf(1 - .025 / len(p)) + 0.8416212335729143
    for i, row in enumerate(rows):
        other = value[int(row["vs"].split("seed=")[1])]
        d = [a - b for a, b in zip(value[base], other)]
        mean = sum(d) / len(d)
        assert near(row["difference"], mean), row
        assert int(row["wins"]) == sum(x < 0 for x in d), row
        assert near(row["holm"], adjusted[i]), row
        if i >= 3:
            continue  # flips and resamples are slow in Python
        assert near(row["p"], p_value(d)), (row, p_value(d))
        low, high = interval(d)
        assert near(row["low"], low) and near(row["high"], high), row
        square = sum((x - mean) ** 2 for x in d) / (len(d) - 1)
        needed = z * z * square / mean**2
        assert math.isclose(float(row["needed"]), needed, rel_tol=1e-9), row
        said = re.search("(about|more than) ([0-9]+) traces would",
                         row["verdict"])
        assert not said or float(said[2]) >= max(needed, len(d)), row


def put(db, run_id, value):
    db.execute("UPDATE metric SET mean = ? WHERE run_id = ? AND part = 0 AND "
               "measure = 'output_error'", (value, run_id))


def deal(name):
    """Permutes the results of each trace over the seeds."""
    db = sqlite3.connect(name)
    for (trace,) in db.execute("SELECT identity FROM trace").fetchall():
        rows = db.execute(
            "SELECT run_id, mean FROM run JOIN metric USING (run_id) WHERE "
            "identity = ? AND method = 'random' AND part = 0 AND measure = "
            "'output_error' AND spec LIKE '%:budget=21:%' ORDER BY "
            "json_extract(params, '$.seed')", (trace,)).fetchall()
        assert len(rows) == SEEDS, len(rows)
        dealt = [mean for _, mean in rows]
        random.Random(trace).shuffle(dealt)
        for (run_id, _), mean in zip(rows, dealt):
            put(db, run_id, mean)
    db.commit()
    db.close()


def plant(base, of=DB, errors=4):
    """A copy in which each seed differs from base by so many errors."""
    name, value = f"{folder}/planted.db", values(of)
    with open(of, "rb") as a, open(name, "wb") as b:
        b.write(a.read())
    db = sqlite3.connect(name)
    for seed, other in value.items():
        d = [b - a for a, b in zip(value[base], other)]
        n, mean = len(d), sum(d) / len(d)
        se = math.sqrt(sum((x - mean) ** 2 for x in d) / (n - 1) / n)
        runs = db.execute(
            "SELECT run_id FROM run JOIN trace USING (identity) WHERE "
            "json_extract(params, '$.seed') = ? ORDER BY trace.name", (seed,))
        for (run_id,), a, x in zip(runs.fetchall(), value[base], d):
            if seed != base:
                put(db, run_id, a + x - mean + errors * se)
    db.commit()
    db.close()
    return name


def check_few(names, each):
    """So few traces that all flips are tried. Four traces give no interval."""
    few = f"{folder}/few.db"
    run(kvreplay, "run", *names, "-q", "-m", each + ",dense", "-b",
        "25%", "--db", few)
    deal(few)
    rows = compare(few, "random:seed=1")
    check_numbers(few, [r for r in rows if r["p"]], 1)
    for vs in "all", "all,dense,random:seed=1":
        assert compare(few, "random:seed=1", "-v", vs) == rows, vs
    # Pairs that all comparisons together do not separate need more traces.
    more = [re.search("(about|more than) ([0-9]+) traces would", r["verdict"])
            for r in compare(plant(1, few, 3.3), "random:seed=1")]
    assert sum(x is not None for x in more) > 9, more
    assert all(int(x[2]) > 12 or x[1] == "more than" for x in more if x), more
    said = [r["verdict"] for r in rows]
    assert sum("not compared: 25 " in x or "of dense's bytes and 100 %" in x
               for x in said) == 1, said
    run(kvreplay, "run", *names[:4], "-q", "-m",
        "random:seed=1,random:seed=2,random:seed=3,dense", "-b", "25%", "--db",
        f"{folder}/four.db")
    (row,) = compare(f"{folder}/four.db", "random:seed=1", "-v",
                     "random:seed=2")
    assert row["difference"] and not row["low"] + row["high"], row
    two = compare(f"{folder}/four.db", "random:seed=1")
    (of_two,) = (float(r["needed"]) for r in two if r["vs"] == row["vs"])
    more = of_two / float(row["needed"])  # with Holm's correction
    assert abs(more - ((2.2414 + .8416) / (1.96 + .8416))**2) < 1e-3, more


def check_trust(names):
    """A measure must place random below oracle-evict, or give no verdict."""
    db = f"{folder}/trust.db"
    run(kvreplay, "run", *names, "-q", "-m",
        "random,h2o,window,tova,oracle-evict,dense", "-b", "mean:40%",
        "--db", db)
    words = (db, "-m", "h2o", "-a", "mean:40%", "-f", "csv")
    for measure, said in ("lse_error", "yes"), ("output_error", "refused"):
        if said == "refused":
            con = sqlite3.connect(db)
            con.execute("UPDATE metric SET mean = mean + 9, max = max + 9 WHERE"
                        " part = 0 AND run_id IN (SELECT run_id FROM run WHERE"
                        " method = 'oracle-evict')")  # fmt: skip
            con.commit()
        rows = list(csv.DictReader(io.StringIO(run(
            kvreport, "compare", *words, "-M", measure))))  # fmt: skip
        assert {x["checked"] for x in rows} == {said}, (measure, rows)
        refused = [x["verdict"].startswith("refused: output_error does not "
                                           "place random below oracle-evict")
                   for x in rows if x["difference"]]  # fmt: skip
        assert refused and all(x == (said == "refused") for x in refused), rows
    told = " ".join(run(kvreport, "answer", db).split())
    assert "No verdict at mean:40%: output_abs_max does not place" in told, told


def main():
    each = ",".join(f"random:seed={s}" for s in range(1, SEEDS + 1))
    names = traces(N)
    check_few(names[:12], each)
    check_trust(names[:8])
    if os.environ.get("KV_QUICK"):
        return
    run(kvreplay, "run", *names, "-q", "-m", each + ",dense", "-b",
        "25%", "--db", DB)
    deal(DB)

    p = []
    for seed in range(1, SEEDS if ALL else 6):
        rows = [r for r in compare(DB, f"random:seed={seed}")
                if r["vs"].startswith("random")]
        assert len(rows) == SEEDS - 1, len(rows)
        if seed == 1:
            check_numbers(DB, rows, 1)
        p += [float(r["p"]) for r in rows
              if int(r["vs"].split("seed=")[1]) > seed]
    wrong = sum(x < 0.05 for x in p) / len(p)
    print(f"{wrong:.3f} of {len(p)} called different")
    assert len(p) == (406 if ALL else 130) and wrong <= 0.07, (len(p), wrong)

    found = trials = 0
    for base in range(1, 16 if ALL else 3):
        rows = compare(plant(base), f"random:seed={base}")
        rows = [r for r in rows if r["vs"].startswith("random")]
        trials += len(rows)
        found += sum(float(r["p"]) < 0.05 for r in rows)
    print(f"{found} of {trials} planted differences found")
    assert trials == (420 if ALL else 56), trials
    assert found >= 0.95 * trials, found

    short = f"{folder}/short.db"
    run(kvreplay, "run", *names[:7], "-q", "-m", "random:seed=1,random:seed=2",
        "-b", "25%", "-m", "dense", "--db", short)
    (row,) = compare(short, "random:seed=1", "--vs", "random:seed=2")
    assert row["verdict"] == "no verdict: 7 of at least 8 traces", row
    alone = compare(plant(1), "random:seed=1", "--vs", "random:seed=2")
    assert alone[0]["verdict"].startswith("better on "), alone
    assert alone[0]["holm"] == alone[0]["p"], alone


main()
