# SPDX-License-Identifier: Apache-2.0
"""evidence.py means ROWS.csv.xz...: what each method answered, as CSV: a row
for each model, task, place of the question, method and size.

    right     right answers to n questions, each about its own context; low,
              high: their share's 95 % interval (Wilson). Empty for prose
    held      mean bytes, as a share of dense's; read: bytes that a decode step
              reads and scans
    off       rows whose bytes miss the size asked for by more than 2 %. A
              method with such rows is not compared
    loglik    of the right answer, in nats a token; kl: of the next token's
              probabilities against dense's, in nats. Means

evidence.py tests ROWS.csv.xz...: the ten tests of PLAN.md for each model, and
whether kivi and k8v4 are not worse than dense:

    better    contexts where only `first` answers; worse: where only `second`
              does; effect: the difference in points, with a 95 % bootstrap
              interval over contexts
    p         two-sided sign flips over contexts; holm: corrected for ten tests
    detects   points that n contexts find with 80 % power, if as many differ
    verdict   first, second or open; no evidence: dense answers less than 60 %

evidence.py bits ROWS.csv.xz...: the same for the tests of BITS.md, and all its
formats alone.

evidence.py beside ROWS.csv.xz...: methods beside kvpress's presses, a row for
each method and size, over all questions. how: as it is, alike (a variant of it,
which decides like the press) or kvpress.

    same      questions with the same answer as kvpress, to the character
    apart     the largest difference of loglik from kvpress's

evidence.py said RANKS.csv: a paragraph on which measure of a replay ranks
answers, for pages and tables (analysis/embed/ranked.txt).

Needs only Python. Exit codes: 2 wrong usage, 3 a bad file."""

from __future__ import annotations

import csv
import lzma
import math
import os
import sys
import textwrap
from collections import defaultdict
from itertools import islice
from typing import Any, Iterable, Iterator, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "sim", "python"))

from kvreplay.evaluate.plan import LEVEL, detectable  # noqa: E402

OFF, MEASURABLE, MARGIN = 0.02, 0.6, 0.05
WINDOWED = ":windowed=compress"  # of Gemma's methods, in all but one table


class Cell(NamedTuple):
    model: str
    task: str
    place: str
    method: str
    asked: str


Rows = dict[Cell, dict[str, dict[str, str]]]  # those with an answer, by item
At = tuple[str, str, str, str]  # a Cell without its model


def at(task: str, place: str, method: str, asked: str = "mean:25%") -> At:
    return task, place, method, asked


def both(method: str, asked: str = "") -> list[At]:
    return [at(x, "after", method, asked) for x in ("needle", "key-value")]


Test = tuple[str, list[At], list[At]]  # its name, and two sides, by task
TESTS: list[Test] = [
    *(("place", [at(x, "before", "snapkv")], [at(x, "after", "snapkv")])
      for x in ("needle", "key-value")),
    *(("keys alone", [at(x, "after", "keydiff")], [at(x, "after", "snapkv")])
      for x in ("needle", "key-value")),
    *(("the published place", [at("needle", "before", "snapkv")],
       [at("needle", "before", x)]) for x in ("keydiff", "random")),
    ("heads", [at("needle", "before", "adakv")],
     [at("needle", "before", "snapkv")]),
    ("choosing blindly", [at("needle", "after", "snapkv")],
     [at("needle", "after", "random")]),
    ("reading less", [at("needle", "after", "quest", "read:25%")],
     [at("needle", "after", "omnikv", "read:25%")]),
    ("few bits", [at("needle", "after", "leankv", "mean:27%")],
     [at("needle", "after", "leankv")]),
]  # fmt: skip
LOSSLESS = [("kivi", "mean:50%"), ("k8v4", "")]
SUBTRACT = ":key_bias=subtract"


def of_bits(prepared: str) -> list[Test]:
    """The tests of BITS.md. prepared: of 4-bit keys with keydiff and alone."""
    q4 = "q4_0" + prepared
    return [
        *(("bias", both(x + SUBTRACT), both(x)) for x in ("int4", "q4_0")),
        *(("rotation", both(x + ":rotate=hadamard"), both(x))
          for x in ("int4", "q4_0")),
        *(("bits and tokens", both(x + "+q8_0", "mean:25%"),
           both(x, "mean:25%")) for x in ("keydiff", "snapkv")),
        ("4 or 8 bits", both("keydiff+" + q4, "mean:25%"),
         both("keydiff+q8_0", "mean:25%")),
        ("bits or both", both("keydiff+" + q4, "mean:25%"), both(q4)),
        ("bits and reading", both("quest+q8_0", "read:25%"),
         both("quest", "read:25%")),
    ]  # fmt: skip


def stored(paths: Iterable[str]) -> Rows:
    found: Rows = defaultdict(dict)
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8", newline="") as f:
            for x in csv.DictReader(f):
                task, place = x["task"].split(":")[0], ""
                if task.endswith(".jsonl"):
                    task, place, _ = task.split(".")
                if x["status"] == "ok":
                    found[Cell(x["model"], task, place, x["method"],
                               x["target"])][x["item"]] = x
    return found


def mean(numbers: Iterable[float]) -> float:
    some = [*numbers]
    return sum(some) / len(some) if some else math.nan


# --- means ------------------------------------------------------------------


def wilson(k: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054**2
    half = math.sqrt(z * (k * (n - k) / n + z / 4))
    return (k + z / 2 - half) / (n + z), (k + z / 2 + half) / (n + z)


def numbers(own: Iterable[dict[str, str]], name: str) -> str:
    x = mean(float(y[name]) for y in own if y[name])
    return "" if math.isnan(x) else f"{x:.4f}"


def size(x: dict[str, str], of: str) -> float:
    if of == "mean":
        return float(x["bytes.mean"])
    return float(x["open.bytes.read"]) + float(x["open.bytes.scanned"])


def means(rows: Rows) -> Iterator[list[Any]]:
    yield """model task place method asked n right low high held read off loglik
        kl""".split()
    for key in sorted(rows):
        own, dense = rows[key], rows[key._replace(method="dense", asked="")]
        share = {y: [size(x, y) / size(dense[i], y) for i, x in own.items()]
                 for y in ("mean", "read")}
        basis, _, asked = key.asked.rstrip("%").partition(":")
        off = sum(abs(100 * x / float(asked) - 1) > OFF
                  for x in share.get(basis, ()))
        judged = [int(x["exact"]) for x in own.values() if x["exact"]]
        right = [sum(judged), *(f"{x:.4f}" for x in wilson(
            sum(judged), len(judged)))] if judged else [""] * 3
        yield [*key, len(own), *right, *(f"{mean(x):.4f}" for x in
               share.values()), off, *(numbers(own.values(), x)
               for x in ("loglik_token", "kl"))]  # fmt: skip


# --- tests ------------------------------------------------------------------


def answers(rows: Rows, model: str, where: At) -> dict[str, int]:
    """1 or 0 by item."""
    task, place, method, asked = where
    return {i: int(x["exact"]) for more in (WINDOWED, "") for i, x in rows.get(
        Cell(model, task, place, method + more, asked), {}).items()}


def flips(better: int, worse: int) -> float:
    """Two-sided p of that many signs, if either is equally likely."""
    n, far = better + worse, max(better, worse)
    return min(1.0, sum(math.comb(n, i) for i in range(far, n + 1)) * 2 / 2**n)


def holm(each: list[float]) -> list[float]:
    """Holm's correction of that many tests."""
    out, least = [*each], 0.0
    order = sorted(range(len(each)), key=each.__getitem__)
    for done, i in enumerate(order):
        least = out[i] = max(least, min(1.0, (len(each) - done) * each[i]))
    return out


def added(a: dict[float, float], b: dict[float, float]) -> dict[float, float]:
    """Probabilities of the sum of two numbers."""
    out: dict[float, float] = defaultdict(float)
    for x, p in a.items():
        for y, q in b.items():
            out[round(x + y, 9)] += p * q
    return out


def interval(tasks: list[list[int]]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean over tasks of the mean of -1, 0
    and 1: all draws of k - 1 of k contexts, by their probabilities."""
    total = {0.0: 1.0}
    for some in tasks:
        k, drawn = len(some), {0.0: 1.0}
        for _ in range(k - 1):
            drawn = added(drawn, {x: some.count(x) / k for x in (-1, 0, 1)})
        total = added(total, {x / (k - 1) / len(tasks): p
                              for x, p in drawn.items()})

    def least(share: float) -> float:
        sofar = 0.0
        for x in sorted(total):
            sofar += total[x]
            if sofar >= share - 1e-12:
                return x
        return max(total)

    return least(0.025), least(0.975)


def compared(
    rows: Rows, model: str, pairs: list[tuple[At, At]], family: int
) -> dict[str, Any]:
    """The columns of a test but holm and verdict, over pairs of equal weight;
    without evidence only the names."""
    tasks, right = [], [0, 0]
    for pair in pairs:
        a, b = (answers(rows, model, x) for x in pair)
        same = sorted(a.keys() & b.keys())
        for x in pair:
            dense = answers(rows, model, at(*x[:2], "dense", "")).values()
            if len(same) < 2 or mean(dense) < MEASURABLE:
                return {}
        tasks.append([a[i] - b[i] for i in same])
        right = [n + sum(x[i] for i in same) for n, x in zip(right, (a, b))]
    n = sum(map(len, tasks))
    better, worse = (sum(x.count(y) for x in tasks) for y in (1, -1))
    ends = mean(map(mean, tasks)), *interval(tasks)
    found = detectable(n, family, (better + worse) / n)
    return {
        "n": n, "first_right": right[0], "second_right": right[1],
        "better": better, "worse": worse, "p": flips(better, worse),
        **{x: f"{100 * y:.1f}"
           for x, y in zip(("effect", "low", "high"), ends)},
        "detects": "" if math.isinf(found) else f"{100 * found:.0f}",
    }  # fmt: skip


def tested(
    rows: Rows, model: str, family: list[Test], lossless: list[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    found = [compared(rows, model, [*zip(a, b)], len(family))
             for _, a, b in family]
    for (name, a, b), x, p in zip(family, found, holm(
            [x.get("p", 1) for x in found])):  # fmt: skip
        if x:
            x["holm"], better = p, float(x["effect"]) > 0
            x["verdict"] = ("first" if better else "second"
                            ) if p < LEVEL else "open"  # fmt: skip
        yield {"test": name, "first": shown(a), "second": shown(b), **x}
    for method, asked in lossless:
        a, b = both(method, asked), both("dense")
        x = compared(rows, model, [*zip(a, b)], len(family))
        yield {"test": "not worse than dense", "first": shown(a),
               "second": shown(b), **x,
               **({"verdict": "first" if float(x["low"]) > -100 * MARGIN
                   else "open"} if x else {})}  # fmt: skip


def shown(side: list[At]) -> str:
    tasks = ", ".join(x[0] for x in side)
    return " ".join([tasks, *side[0][1:]]).strip()


def bits(rows: Rows) -> Iterator[list[Any]]:
    for i, model in enumerate(sorted({x.model for x in rows})):
        own = {x: y for x, y in rows.items() if x.model == model}
        alone = {x.method for x in own if not x.asked and "+" not in x.method
                 and "formats=" not in x.method} - {"dense"}
        bias = any(SUBTRACT in x.method for x in own)
        yield from islice(tests(own, of_bits(SUBTRACT if bias else ""),
                                [(x, "") for x in sorted(alone)]), i > 0, None)


def tests(
    rows: Rows, family: list[Test] = TESTS,
    lossless: list[tuple[str, str]] = LOSSLESS,
) -> Iterator[list[Any]]:  # fmt: skip
    names = """model test first second n first_right second_right better worse
        effect low high p holm detects verdict""".split()
    yield names
    for model in sorted({x.model for x in rows}):
        for x in tested(rows, model, family, lossless):
            x = {"verdict": "no evidence", **x, "model": model}
            yield [f"{y:.5f}" if isinstance(y, float) else y
                   for y in (x.get(z, "") for z in names)]


# --- kvpress ------------------------------------------------------------------

PRESS = "kvpress/"


def beside(rows: Rows) -> Iterator[list[Any]]:
    yield "asked method how n right loglik held same apart".split()
    found: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = (
        defaultdict(dict))
    for cell, own in rows.items():
        found[cell.asked, cell.method].update(
            {(cell.task + cell.place, i): x for i, x in own.items()})
    dense = found.get(("", "dense"), {})
    for asked, press in sorted(found):
        if not press.startswith(PRESS):
            continue
        method, theirs = press.removeprefix(PRESS), found[asked, press]
        alike = [x for size, x in found if size == asked
                 and x.startswith(method + ":")]  # fmt: skip
        for how, name in (("as it is", method), ("kvpress", press),
                          *(("alike", x) for x in alike)):
            own = {i: x for i, x in found.get((asked, name), {}).items()
                   if i in theirs}
            if not own:
                continue
            same = sum(x["said"] == theirs[i]["said"] for i, x in own.items())
            ll = [[float(y["loglik_token"]) for y in (x, theirs[i])]
                  for i, x in own.items()]  # fmt: skip
            held = mean(size(x, "mean") / size(dense[i], "mean")
                        for i, x in own.items())  # fmt: skip
            yield [
                asked, method, how, len(own),
                sum(int(x["exact"]) for x in own.values()),
                f"{mean(x for x, _ in ll):.4f}", f"{held:.4f}", same,
                f"{max(abs(x - y) for x, y in ll):.6f}",
            ]  # fmt: skip


# --- what ranks answers -------------------------------------------------------

OTHERS = {"needle_share": "needle", "kl": "mean KL", "lse_error": "LSE error",
          "output_error": "mean output error", "bytes.mean": "bytes"}


def said(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as f:
        rows = [*csv.DictReader(f)]
    best = next(x["measure"] for x in rows if x["asked"] == "one half")
    other = [x for x in rows if x["asked"] == "other half"]
    tau = {(x["slice"], x["measure"]): f"{float(x['tau']):.2f}" for x in other}
    top = next(x for x in other if (x["slice"], x["measure"]) == ("all", best))
    models = ", ".join(
        f"{x.removeprefix('model ')} {tau[x, best]}" for x in sorted(
            {x["slice"] for x in other if x["slice"].startswith("model ")}))
    text = (
        "Which measure of a replay orders methods as a model's right answers "
        f"do? On one half of the contexts {best.replace('.', ', ')} did so "
        f"best. On the other half ({top['contexts']} contexts, {top['pairs']} "
        "pairs of methods at equal bytes) its Kendall's tau-b is "
        f"{tau['all', best]} [{float(top['low']):.2f}, "
        f"{float(top['high']):.2f}]; {models}. There " + ", ".join(
            f"{y} has {tau['all', x]}" for x, y in OTHERS.items()) +
        ". So a replay shows what a method loses, but only kvreplay evaluate "
        "shows what the model answers.")  # fmt: skip
    return textwrap.fill(text, 80) + "\n"


def main(words: list[str]) -> int:
    how, *paths = words or [""]
    made_by = {"means": means, "tests": tests, "bits": bits,
               "beside": beside}
    if how not in (*made_by, "said") or not paths:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if how == "said":
            print(said(paths[0]), end="")
            return 0
        rows = stored(paths)
        made = [*made_by[how](rows)]
    except (OSError, EOFError, lzma.LZMAError, LookupError, StopIteration,
            ValueError) as e:  # fmt: skip
        print(f"evidence.py: not rows of rows.py: {e}", file=sys.stderr)
        return 3
    csv.writer(sys.stdout, lineterminator="\n").writerows(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
