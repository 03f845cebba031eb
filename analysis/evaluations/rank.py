# SPDX-License-Identifier: Apache-2.0
"""Which open-loop measure ranks methods as a model's answers do? Needs numpy.

    PYTHONPATH=sim/python python3 analysis/evaluations/rank.py answers.db

Open loop: a replay measures a method without running the model. For each
measure in the database, this prints Kendall's tau-b with the answers, as CSV:

    group    methods of one model, platform, task, budget, with equal bytes
             (within --apart of the group's median) and the same contexts, are
             compared with each other. Each counts by its mean over contexts
    tau      over all pairs in all groups: pairs in the same order minus pairs
             in the opposite one, divided by the geometric mean of the pairs
             that the measure does not tie and those that the answers do not
    low,high tau -+ 1.96 standard deviations of bootstrap resamples, which draw
             the contexts of each task, and with --families also families of
             methods. Empty with fewer than 5 contexts
    pairs    of methods; a pair of near-identical methods (ALIKE) is none, and
             each of k such methods has weight 1 / k

--by loglik (log-likelihood of the right answer, a token), right, kl or agree.
--half 0 or 1 takes one half of each task's contexts, to choose a measure on
one and to report it on the other. --kept X takes methods that give at least X
of dense's right answers. --slices also asks by task, family and model. --only
takes some measures.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import math
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np

from kvreplay.results import read_evaluations

BY = {"loglik": ("loglik_token", 1), "right": ("exact", 1), "kl": ("kl", -1),
      "agree": ("agree", 1)}  # fmt: skip
LESS = "output_error output_abs tv kl lse_error lse_drift".split()
NEITHER = ("mass_merged needle_merged needle_dense prompt_error prompt_mass "
           "prompt_attended").split()  # fmt: skip
SIZES = "bytes.mean", "bytes.read", "kept", "attended"
TAILS = "p50", "p95", "p99", "max", "mean"
ALIKE = {"snapkv", "adakv", "pyramidkv", "criticalkv", "headkv"}
FAMILIES = {
    "attention": "h2o tova snapkv adakv pyramidkv criticalkv headkv rkv "
    "chunkkv expected cake nacl leankv duoattention",
    "keys": "keydiff lagkv streamingllm window random cascade strided",
    "codes": "kivi k8v4 quant int8 int4 palu deltakv less",
    "reading": "quest omnikv twilight oracle-topk",
}
FEW = 5  # contexts; fewer give no interval
Row = Dict[str, Any]


def family(method: str) -> str:
    name = method.split(":")[0].split("+")[0]
    return next((x for x, y in FAMILIES.items() if name in y.split()), "other")


class Group(NamedTuple):
    """place: whose contexts are drawn together. value: [measures][methods]
    [contexts], more is better, NaN: none. The answers come first."""

    place: Tuple[str, ...]
    methods: List[str]
    contexts: List[str]
    value: np.ndarray


def measures_of(rows: List[Row]) -> Dict[str, Tuple[str, int]]:
    """{name: (column, 1 or -1 if less is better)} of open-loop measures."""
    found = {}
    for column in {x for row in rows for x in row if x.startswith("open.")}:
        name = column[5:]
        base, _, tail = name.partition(".")
        if name not in SIZES and (base in NEITHER or tail not in ("", *TAILS)
                                  or base in ("bytes", "layout")):  # fmt: skip
            continue
        if name in SIZES or tail or base.startswith("needle_"):
            name = name.removesuffix(".mean") if name not in SIZES else name
            found[name] = column, -1 if base in LESS else 1
    return dict(sorted(found.items()))


def half_of(context: str) -> int:
    """0 if the context's name ends in an even hexadecimal digit, as PLAN.md
    says; other names are hashed first."""
    if not re.fullmatch("[0-9a-f]{16}", context):
        context = hashlib.sha256(context.encode()).hexdigest()
    return int(context[-1], 16) & 1


def number(x: Row, column: str, sign: int) -> float:
    value = x.get(column)
    return math.nan if value is None else sign * (
        abs(value) if "lse_" in column else value)


def groups(
    rows: List[Row], a: argparse.Namespace, columns: List[Tuple[str, int]]
) -> Iterator[Group]:
    """The groups with two methods or more."""
    right: Dict[Any, List[float]] = {}
    places: Dict[Any, Dict[str, Dict[str, List[Row]]]] = {}
    for x in rows:
        context = x.get("context") or x["item"]
        if x["status"] != "ok" or a.half not in (None, half_of(context)):
            continue
        place = *(str(x[y]) for y in PLACE), x["task"]
        right.setdefault((place, x["method"], x["basis"], x["target"]),
                         []).append(x.get("exact", math.nan))  # fmt: skip
        if x["target"] and x["method"] != "dense":
            places.setdefault((place, x["basis"], x["target"]), {}).setdefault(
                x["method"], {}).setdefault(context, []).append(x)
    for (place, basis, target), found in sorted(places.items()):
        dense = np.mean(right.get((place, "dense", "", ""), [math.nan]))
        if a.by == "right" and not dense >= 0.6:
            continue
        most = max(map(len, found.values()))
        asked = max(len(z) for y in found.values() for z in y.values())
        size = {"read": "open.bytes.read", "traffic": "open.bytes.read",
                "end": "bytes.end"}.get(basis, "bytes.mean")  # fmt: skip
        bytes_of = {m: np.mean([z.get(size, math.nan) for w in y.values()
                                for z in w]) for m, y in found.items()}
        middle = sorted(bytes_of.values())[(len(bytes_of) - 1) // 2]
        found = {
            m: y for m, y in sorted(found.items()) if len(y) * 4 >= most * 3
            and abs(bytes_of[m] - middle) <= a.apart * max(bytes_of[m], middle)
            and not (a.kept and np.mean(
                right[place, m, basis, target]) < a.kept * dense)
        }  # fmt: skip
        same = [c for c in sorted({c for y in found.values() for c in y})
                if all(len(y.get(c, ())) == asked for y in found.values())]
        if len(found) > 1 and same:
            yield Group(place, [*found], same, np.array(
                [[[np.mean([number(z, *column) for z in y[c]]) for c in same]
                  for y in found.values()] for column in columns]))


PLACE = ("model", "model_digest", "torch", "transformers", "processor",
         "threads", "dtype")  # fmt: skip


def weights(methods: List[str]) -> np.ndarray:
    """Of each pair of methods; 0 for a method and itself."""
    heads = [x.split(":")[0] for x in methods]
    alike = np.array([x in ALIKE for x in heads])
    one = np.where(alike, 1 / max(1, alike.sum()), 1.0)
    both = np.outer(one, one) * ~(np.outer(alike, alike))
    return np.triu(both, 1)


def sums(g: Group, draw: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """[measures][4]: agreement, pairs that the measure orders, pairs that the
    answers order, pairs; draw: the weight of each context."""
    mean = (g.value * draw).sum(-1) / draw.sum()  # any BLAS adds otherwise
    sign = np.sign(mean[:, :, None] - mean[:, None, :])
    has = ~np.isnan(sign)
    sign = np.where(has, sign, 0)
    pair = pair * has[0]
    return np.stack([(sign * sign[0] * pair).sum((1, 2)),
                     (sign**2 * pair).sum((1, 2)),
                     (sign[0]**2 * has * pair).sum((1, 2)),
                     (has * pair).sum((1, 2))], 1)  # fmt: skip


def tau(total: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return total[:, 0] / np.sqrt(total[:, 1] * total[:, 2])


def ranked(all_groups: List[Group], a: argparse.Namespace) -> Tuple[
        np.ndarray, np.ndarray, np.ndarray, int]:  # fmt: skip
    """tau, its half interval, pairs of each measure, and contexts."""
    draw = np.random.default_rng(a.seed)
    pair = [weights(g.methods) for g in all_groups]
    total = sum(sums(g, np.ones(len(g.contexts)), p)
                for g, p in zip(all_groups, pair))
    places = {g.place: sorted({c for x in all_groups if x.place == g.place
                               for c in x.contexts}) for g in all_groups}
    names = sorted({family(m) for g in all_groups for m in g.methods})
    taus = []
    for _ in range(a.draws):
        times = {p: dict(zip(c, draw.multinomial(
            len(c), [1 / len(c)] * len(c)))) for p, c in places.items()}
        of = dict(zip(names, draw.multinomial(
            len(names), [1 / len(names)] * len(names)) if a.families
            else [1] * len(names)))  # fmt: skip
        again = 0
        for g, p in zip(all_groups, pair):
            w = np.array([times[g.place][c] for c in g.contexts], float)
            own = np.array([of[family(m)] for m in g.methods], float)
            if w.sum():
                again = again + sums(g, w, p * np.outer(own, own))
        if not isinstance(again, int):
            taus.append(np.nan_to_num(tau(again)))
    contexts = sum(map(len, places.values()))
    wide = 1.96 * np.std(taus, 0) if contexts >= FEW else total[:, 0] * np.nan
    return tau(total), wide, total[:, 3], contexts


def slices(every: List[Group], a: argparse.Namespace) -> Iterator[
        Tuple[str, List[Group]]]:  # fmt: skip
    yield "all", every
    if not a.slices:
        return
    for at in range(len(PLACE) + 1):
        for x in sorted({g.place[at] for g in every}):
            some = [g for g in every if g.place[at] == x]
            if 0 < len(some) < len(every) and at in (0, len(PLACE)):
                yield ("model " if at == 0 else "task ") + x[:40], some
    for x in FAMILIES:
        some = []
        for g in every:
            of = [i for i, m in enumerate(g.methods) if family(m) == x]
            if len(of) > 1:
                some.append(Group(g.place, [g.methods[i] for i in of],
                                  g.contexts, g.value[:, of]))
        if some:
            yield "family " + x, some


def main() -> int:
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("db", nargs="+")
    add("--by", choices=BY, default="loglik")
    add("--half", type=int, choices=[0, 1])
    add("--kept", type=float, metavar="X")
    add("--apart", type=float, default=0.1, metavar="X")
    add("--draws", type=int, default=500, metavar="N")
    add("--seed", type=int, default=1, metavar="N")
    add("--families", action="store_true")
    add("--only", default="", metavar="NAME,...")
    add("--slices", action="store_true")
    a = p.parse_args()
    rows = [*itertools.chain.from_iterable(map(read_evaluations, a.db))]
    only = a.only.split(",") if a.only else measures_of(rows)
    named = {x: y for x, y in measures_of(rows).items() if x in only}
    found = [*groups(rows, a, [BY[a.by], *named.values()])]
    if not found or not named:
        print("nothing to rank: no two methods have the same contexts at equal "
              "bytes", file=sys.stderr)
        return 2
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("slice by measure tau low high pairs contexts".split())
    for name, some in slices(found, a):
        t, wide, pairs, contexts = ranked(some, a)
        order = sorted(range(1, len(t)), key=lambda i: (
            -np.nan_to_num(t[i], nan=-2), i))
        for i in order:
            if pairs[i] and not math.isnan(t[i]):
                out.writerow([name, a.by, [*named][i - 1], f"{t[i]:.4f}", *(
                    "" if math.isnan(x) else f"{x:.4f}" for x in (
                        max(t[i] - wide[i], -1), min(t[i] + wide[i], 1))),
                    f"{pairs[i]:g}", contexts])
    return 0


if __name__ == "__main__":
    sys.exit(main())
