# SPDX-License-Identifier: Apache-2.0
"""`kvreplay claims`: check_claims.py SOURCE FOLDER, with the programs in
KVREPLAY and KVTRACE.

Plants numbers for each condition of each claim, to reach all its verdicts, and
numbers of devices and answers. Checks which row decides; the command on a small
made trace, against numbers worked out by hand; that a second run runs nothing
again; and refusals. Also: `--from analysis/claims.json` prints
analysis/CLAIMS.md, with rows of devices and answers from the committed CSV."""

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys

SOURCE, FOLDER = sys.argv[1:3]
PACKAGE = os.path.join(SOURCE, "sim", "python")
if not os.environ.get("KV_INSTALLED"):
    sys.path.insert(0, PACKAGE)
for name in "KVREPLAY", "KVTRACE":
    os.environ["PATH"] = (os.path.dirname(os.environ[name]) + os.pathsep +
                          os.environ["PATH"])  # fmt: skip
os.environ["PATH"] = (os.path.join(os.path.dirname(os.environ["KVREPLAY"]),
                      "..", "analysis") + os.pathsep + os.environ["PATH"]
                      )  # fmt: skip

from kvreplay.claims import page  # noqa: E402
from kvreplay.claims.table import (HOLDS, NOT, SIZE, UNASKED, UNCHECKED, Table,
                                   sentence, verdict)  # noqa: E402

TABLE = Table()
CLAIMS = TABLE.claims()
BY = {x["number"]: x for x in CLAIMS}
# Number and look: column names, then values for which the claim holds, for
# which only the direction holds (None: impossible), and for which it fails.
PLANTED = {
    ("1", 0): ("least", [.61], None, [.59]),
    ("2", 0): ("close_least", [.51], [.3], [.25]),
    ("3", 0): ("nearest random raw_first nearest_first", [.2, .6, .7, .1],
               [.55, .6, .7, .4], [.6, .55, .7, .1]),
    ("4", 0): ("differ off", [0, .4], [1, 1], [1, 2.5]),
    ("5", 0): ("cr3 cr2", [30.04, 20], None, [40.9, 30]),
    ("8", 0): ("share", [.02], None, [.2]),
    ("8", 1): ("p b all_rows", [2, 8, 88], [2, 156, 88], [9, 156, 88]),
    ("9", 0): ("gb", [137.4], None, [129]),
    ("10", 0): ("kr", [7.21], None, [11.3]),
    ("11", 0): ("r3 r2", [9, 8], None, [17, 8.6]),
    ("13", 0): ("bounded at_54k", [42.8, 77.8], [50, 77.8], [80, 77.8]),
    ("13b", 0): ("at_54k at_20k users", [77.8, 44.6, 0], [60, 44.6, 0],
                 [40, 44.6, 1]),
    ("13", 1): ("grows dense", [1, 2], [1.5, 2], [2, 2]),
    ("14", 0): ("x", [.00233], None, [.0026]),
    ("16", 0): ("base own", [.33, .84], [.33, .82], [.7, .6]),
    ("17", 0): ("least under settings", [3, 3, 5], [3, 2, 4], [5, 0, 4]),
    ("17", 2): ("masks places", [4.5, .5], [5.5, .5], [5.5, 6]),
    ("18", 0): ("most", [.05], [.8], [1.4]),
    ("18b", 0): ("off most", [.01, 1.4], [.2, 1.4], [.5, 1.4]),
    ("19", 0): ("least slowest fastest", [-.1, -.01, -.2], [-.1, .01, -.2],
                [.1, -.01, -.2]),
    ("19b", 0): ("merged dropped", [-.04, -.1], [-.09, -.1], [-.11, -.1]),
    ("21", 0): ("scores norms", [7, 2], [7, 3.3], [4, 3]),
    ("22", 0): ("layer_least layer_most head_least head_most",
                [.1, .3, .1, .3], [.1, .15, .1, .3], [.1, .1, .1, .3]),
    ("23", 0): ("more less", [.1, .3], [.1, .12], [.12, .1]),
    ("24", 0): ("most", [.0023], None, [.01]),
    ("25", 0): ("g1 g4 bytes", [2.3, 2.2, 2.56], [1.5, 1.3, 2.56],
                [2.3, .91, 2.56]),
    ("26", 0): ("pages codes", [3, 4], [2, 4], [2, 2.5]),
    ("27", 0): ("mib gib", [64, 2], [64.5, 2], [64, 1]),
    ("28", 0): ("dropped mass error fixed", [.5, .98, .1, .2],
                [.5, .98, .1, .101], [.5, .98, .2, .1]),
    ("F1", 0): ("sinks layers above", [5, 6, 4], [4, 6, 3], [2, 6, 2]),
    ("F2", 0): ("low middle high", [.3, .2, .1], [.3, .1, .2], [.1, .2, .3]),
}  # fmt: skip


def judge(number, at, row):
    """The verdict for a row of a look."""
    return TABLE.judged(BY[number], at, row)["verdict"]


def check_verdicts():
    """Every condition, with planted numbers."""
    decide = {(x["number"], i) for x in CLAIMS
              for i, look in enumerate(x["looks"]) if not look["beside"]}
    assert decide == {*PLANTED}, decide ^ {*PLANTED}
    for x in CLAIMS:  # the values shown are not planted
        for look in x["looks"]:
            look["shows"] = ""
    for (number, at), (names, *rows) in PLANTED.items():
        for row, want in zip(rows, (HOLDS, SIZE, NOT)):
            if row is not None:
                got = judge(number, at, dict(zip(names.split(), row)))
                assert got == want, (number, at, row, got)
    assert [*BY][:3] == ["1", "2", "3"]
    assert {str(n) for n in range(1, 29)} - {*BY} == {"20"}
    assert judge("25", 0, {"g1": 1.04, "g4": 1.04, "bytes": 2.56}) == NOT
    BY.update((x["number"], x) for x in TABLE.claims())


def check_deciding():
    """The weakest row decides, but never rows `beside`; no rows: not asked."""
    looks = [dict(kind=k, shows="{x}", holds="x > 2", direction=d, beside=b,
                  runs=[]) for k, d, b in (
        ("replay", "x > 1", 0), ("replay", "x > 1", 0),
        ("answers", "x > 1", 0), ("answers", "0", 1))]  # fmt: skip

    def claim(*rows):
        of = dict(number="0", looks=looks, why="", unasked="", shown=0)
        of["found"] = [TABLE.judged(of, i, row if isinstance(row, dict)
                                    else {"x": row}) for i, row in rows]
        return of

    def of(*rows):
        return verdict(claim(*rows))

    assert of((0, 3), (1, 3)) == HOLDS
    assert of((0, 3), (1, 2)) == SIZE == of((1, 2), (0, 3))
    assert of((0, 3), (0, 2), (1, 0)) == NOT
    assert of((0, 0), (2, 3)) == NOT == of((0, 3), (2, 1))
    assert of((0, 3), (3, 0)) == HOLDS and of((3, 3)) == UNASKED == of()
    why, half = claim((0, 3)), claim()
    why["why"], half["unasked"] = "no device", "no engine"
    assert verdict(why) == UNCHECKED
    assert page.verdict_of(half) == "not asked: no engine"
    assert page.counts([half, why]) == \
        "2 claims: 1 not asked; 1 cannot be checked here."
    no, good = claim((0, 1)), claim((0, 3))
    assert page.counts([no]).endswith(": 1 does not hold.")
    assert page.counts([no] * 2) == "2 claims: 2 do not hold."
    assert page.counts([good] * 2) == "2 claims: 2 hold."
    no.update(paper="p", place="w", says="s")
    assert "\n\n\n" not in page.markdown([no], [], {"A": "b"})
    shown = claim((0, 3), (3, 3))
    shown["shown"] = 1
    assert page.verdict_of(shown) == "holds (3)"
    shown = claim((0, 3), (1, {"x": 4, "of": "m"}), (3, 3))
    shown["shown"] = 1
    assert page.verdict_of(shown) == \
        "holds (replayed, a trace: 3; replayed, m: 4)"


def one(number, at, tables):
    """A look's rows on planted {name: CSV}, with verdicts and sentences."""
    table, claim = Table(), BY[number]
    for name, text in tables.items():
        table.fill_csv(name, io.StringIO(text))
    look = claim["looks"][at]
    return [(row, table.judged(claim, at, row)["verdict"], sentence(look, row))
            for row in table.ask(look)]  # fmt: skip


def check_queries():
    """Rows of devices and of answers."""
    path = os.path.join(SOURCE, "analysis", "gpu-runs", "2026-11-26-h100",
                        "kernels.csv")  # fmt: skip
    with open(path, encoding="utf-8") as f:
        device = f.read()
    for number, at, want in (("8", 1, SIZE), ("17", 2, HOLDS), ("24", 0, HOLDS),
                             ("25", 0, NOT)):  # fmt: skip
        ((_, said, _),) = one(number, at, {"device": device})
        assert said == want
        assert not one(number, at, {})
    ((_, said, text),) = one(
        "24", 0, {"device": device.replace("0.002252", "0.0125")})
    assert said == NOT and "1.25%" in text
    # One row per task. Prose has no right answers; dense fails one task.
    head = "model,task,method,asked,items,loglik,exact,measurable\n"
    text = head + "".join(
        f"m,{t},{m},,4,{x * size},{exact},{can}\n"
        for t, size, exact, can in (("t", 1, .5, 1), ("prose", 100, "", 1),
                                    ("failed", 1, .5, 0))
        for m, x in (("dense", -1), ("k8v4", -1.05), ("k4v8", -4)))
    said = [x[2] for x in one("23", 1, {"answers": text})]
    start = "log-likelihood of the right answer, summed over its tokens, " \
        "minus dense's, nats: "  # fmt: skip
    assert said == [start + "K8V4 -5.00, K4V8 -300.00",
                    start + "K8V4 -0.05, K4V8 -3.00; right of 4: dense 2, "
                    "K8V4 2, K4V8 2"], said  # fmt: skip
    assert not one("23", 1, {"answers": text.replace("k4v8", "k4v4")})
    # Means per token and sums are not subtracted from each other,
    each = text.replace("loglik", "loglik_token")
    assert [x["how"] for x, *_ in one("23", 1, {"answers": each})] == [
        "averaged over"] * 2
    mixed = {"answers": each.replace("m,t,dense,,4,-1,", "m,t,dense,,4,,")}
    assert len(one("23", 1, mixed)) == 1
    # nor are means over only some of the questions.
    some = text.replace("measurable\n", "measurable,loglik_some\n").replace(
        "m,t,k8v4,,4,-1.05,0.5,1\n", "m,t,k8v4,,4,-1.05,0.5,1,1\n")
    assert len(one("23", 1, {"answers": some})) == 1
    text = head + "".join(
        f"m,{t},{m},{b},4,{x},0,{can}\n" for t, can in (("t", 1), ("u", 0))
        for b in "ab" for m, x in (("h2o", -2), ("zsmerge", -1)))
    ((row, *_),) = one("15", 0, {"answers": text})
    assert row["of"] == "m, t" and row["gains"] == "+1.00 at a, +1.00 at b"


def claims(*words, code=0):
    """Runs the command; returns what it prints."""
    env = dict(os.environ)
    if not env.get("KV_INSTALLED"):
        env["PYTHONPATH"] = PACKAGE
    done = subprocess.run([sys.executable, "-m", "kvreplay.claims", *words],
                          text=True, capture_output=True, env=env)
    assert done.returncode == code, (words, done)
    return done.stdout if code == 0 else done.stderr


def check_command():
    """Runs a made trace twice into one database."""
    trace, db = (os.path.join(FOLDER, x) for x in ("c.safetensors", "c.db"))
    subprocess.run(["kvtrace", "synth", "-q", "-o", trace, "-t", "400", "-p",
                    "200"], check=True)  # fmt: skip
    asked = ("--only", "9,13,14,22,26,27,F1", "--db", db, trace, "-q", "-f",
             "json")  # fmt: skip
    text = claims(*asked)
    found = {x["number"]: x for x in json.loads(text)["claims"]}
    row = {n: x["rows"][0]["row"] for n, x in found.items()}
    assert row["9"]["gb"] == 8e-9 * 131072 * 2 * 32 * 8 * 128 * 2
    assert row["27"] == {"gib": 2, "mib": 64}
    assert row["14"]["x"] == .98 ** 300
    # zsmerge holds 180 entries from the first step on; dense holds all.
    dense = found["13"]["rows"][1]["row"]
    assert dense["grows"] == 1 and 1.99 < dense["dense"] < 2.01, dense
    assert dense["steps"] == 200, dense
    assert row["13"]["half"] * 2 == row["13"]["bounded"]
    assert row["26"]["codes"] > row["26"]["everything"] > 1, row["26"]
    assert 0 < row["22"]["layer_least"] <= row["22"]["layer_most"] <= 1
    for n in "9", "14", "27":
        assert found[n]["verdict"] == HOLDS, n

    def stored():
        with contextlib.closing(sqlite3.connect(db)) as x:
            return [x.execute(f"SELECT count(*) FROM {t}").fetchone()[0]
                    for t in ("run", "confirmation", "figure")]

    before = stored()
    assert claims(*asked) == text and stored() == before, before
    with open(os.path.join(FOLDER, "c.json"), "w") as f:
        f.write(text.replace('"x": 0.00', '"x": 0.01'))
    page = claims("--from", f.name, "--only", "14")
    assert "- *does not hold*" in page and "0.01" in page, page


def check_refused():
    assert "no claim has number 99" in claims("--only", "9,99", code=2)
    assert "no such file" in claims("none.safetensors", code=3)
    with open(os.path.join(FOLDER, "bad.json"), "w") as f:
        f.write("{}")
    assert "is not what" in claims("--from", f.name, code=3)
    with open(os.path.join(SOURCE, "analysis", "claims.json")) as kept:
        text = kept.read()
    for column in "steps", "grows":  # in a sentence and in a condition
        with open(os.path.join(FOLDER, "old.json"), "w") as old:
            old.write(text.replace(f'"{column}"', '"other"'))
        assert "is not what" in claims("--from", old.name, code=3)
    assert "has no column method" in claims("--only", "14", "--answers",
                                            f.name, code=3)  # fmt: skip
    assert "give no traces" in claims("--from", f.name, f.name, code=2)
    listed = claims("--list")
    for x in BY.values():
        assert f"{x['number']}  {x['paper']}, {x['place']}: {x['says']}\n" in \
            listed


def check_committed():
    """analysis/CLAIMS.md is up to date, with today's verdicts."""
    path = os.path.join(SOURCE, "analysis", "claims.json")
    with open(path, encoding="utf-8") as f:
        kept = json.load(f)
    printed = claims("--from", path)
    with open(os.path.join(SOURCE, "analysis", "CLAIMS.md"),
              encoding="utf-8") as f:  # fmt: skip
        assert f.read() == printed, "kvreplay claims --from analysis/" \
            "claims.json -o analysis/CLAIMS.md"  # fmt: skip
    assert [x["number"] for x in kept["claims"]] == [*BY]
    now = json.loads(claims("--from", path, "-f", "json"))
    assert now == kept
    table, given = Table(), os.path.join(SOURCE, "analysis")
    for to, name in (("device", "gpu-runs/2026-11-26-h100/kernels.csv"),
                     ("answers", "evaluations/answers.csv"),
                     ("answers", "evaluations/kvtiny.csv")):
        with open(os.path.join(given, name), encoding="utf-8") as f:
            table.fill_csv(to, f)
    for x in kept["claims"]:
        for i, look in enumerate(BY[x["number"]]["looks"]):
            if look["kind"] in ("device", "answers"):
                assert table.ask(look) == [
                    y["row"] for y in x["rows"] if y["look"] == i], x
    assert ("| 1 | DeltaKV, Figure 2b | More than 60 % of nearest tokens are "
            "more than 16 tokens back. | holds (replayed, "
            "SmolLM2-135M-Instruct: 63% to 63% of nearest tokens;"
            ) in printed
    html = os.path.join(FOLDER, "claims.html")
    claims("--from", path, "--html", html)
    with open(html, encoding="utf-8") as f:
        page = f.read()
    assert page.count("<tr>") == len(BY) + 1 and "http" not in page


check_verdicts()
check_deciding()
check_queries()
check_command()
check_refused()
check_committed()
