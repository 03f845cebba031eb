# SPDX-License-Identifier: Apache-2.0
"""The parts of `kvreplay evaluate` that need no torch: methods and their
budgets, files that methods read, and the table, for made-up rows.
check_evaluate.py SOURCE FOLDER, with the program in KVREPLAY."""

import math
import os
import sys

from kvreplay.container import save
from kvreplay.evaluate.asks import Ask, Methods, Usage
from kvreplay.evaluate.assets import bare, code_of, filled
from kvreplay.evaluate.item import Item, Question
from kvreplay.evaluate.plan import contexts, detectable, flips, plan, tests
from kvreplay.evaluate.table import needless, table

os.environ["PATH"] = (
    os.path.dirname(os.environ["KVREPLAY"]) + os.pathsep + os.environ["PATH"]
)
FOLDER = sys.argv[2]


def usage(says, *words):
    try:
        KNOWN.asks(*words)
    except Usage as e:
        assert says in str(e) and "\n" not in str(e), e
    else:
        raise AssertionError(says)


def check_asks():
    """dense first; each method at the budgets that set one of its parameters,
    and once without, if there are others."""
    found = KNOWN.asks("snapkv,kivi,h2o:budget=64,quest+int4",
                       "mean:25%,20%,512")  # fmt: skip
    mean, share, count = ("mean", "mean:25%"), ("prompt", "20%"), (
        "entries", "512")  # fmt: skip
    assert found == [
        Ask("dense"),
        *(Ask("snapkv", *x) for x in (mean, share, count)),
        Ask("kivi", *mean), Ask("kivi"),  # bits: a share does not set them
        Ask("h2o:budget=64"),
        *(Ask("quest+int4", *x) for x in (mean, share, count)),
    ], found  # fmt: skip
    assert KNOWN.asks("dense", None) == [Ask("dense")]
    every = {x.method for x in KNOWN.asks("all", "20%")}
    assert every == {*KNOWN.known} and len(every) > 25
    usage("did you mean h2o", "h3o", None)
    usage("budget 20x", "h2o", "20x")
    usage("one budget for all layers", "h2o", "64/32")
    usage("one budget for all layers", "h2o", "layers:8,8")


def check_files():
    """The model's digest finds a file, whatever its name. Typed text stays. A
    row has no folders of files."""
    digest, there = "ab" * 32, os.path.join(FOLDER, "a:b,c")
    os.mkdir(there)
    path = os.path.join(there, "less.x.safetensors")
    of = dict(format="x", model_digest="00 " + digest)
    save(path, of, {})
    of["model_digest"] = "00"
    save(os.path.join(there, "less.a.safetensors"), of, {})
    os.environ["KVREPLAY_ASSETS"] = "/nowhere:" + there.replace(":", "\\:")
    params = KNOWN.params("less")
    typed = filled("less:rank=2+int4", params, digest)
    for x in ":,":
        path = path.replace(x, "\\" + x)
    assert typed == f"less:rank=2:weights={path}+int4", typed
    assert bare(typed) == "less:rank=2:weights=less.x.safetensors+int4"
    assert code_of("less:rank=2+int4", typed).startswith("file ")
    assert filled("less", params, "cd" * 32) == "less"
    own = "less:weights=w.safetensors"
    assert filled(own, params, digest) == own and code_of(own, own) is None
    assert filled("adakv", KNOWN.params("adakv"), digest) == "adakv"


def row(task, item, method, target=None, status="ok", question=0, **values):
    return dict(task=task, item=item, question=question, method=method,
                target=target, status=status, reason="no",
                values={"bytes.mean": 1000.0, **values}
                if status == "ok" else {})  # fmt: skip


def check_table():
    """Right answers, means, bytes as shares of dense's for the same questions,
    and a mark on means over only some rows."""
    dense = {"kl": 0.0, "agree": 4.0, "loglik_token": -1.0}
    less = {"kl": 0.5, "agree": 2.0, "loglik_token": -3.0, "exact": 1.0}
    rows = [
        row("a", "0", "dense", exact=1.0, **dense, **{"bytes.mean": 1000.0}),
        row("a", "1", "dense", exact=1.0, **dense, **{"bytes.mean": 3000.0}),
        row("a", "0", "h2o", "25%", **less, **{"bytes.mean": 200.0}),
        row("a", "1", "h2o", "25%", **less, **{"bytes.mean": 1200.0}),
        row("a", "0", "tova", "25%", "refused"),
        row("a", "1", "tova", "25%", **less, **{"bytes.mean": 300.0}),
        row("a", "0", "less", "25%", "refused"),
        row("a", "0", "kivi", **less, **{"bytes.mean": 500.0}),
        row("a", "1", "kivi", agree=3.0, loglik=-6.0),  # without kl
        row("a", "0", "quant", agree=3.0, loglik=-6.0),  # only a sum
    ]
    lines = table(rows).split("\n")
    assert lines == [
        "method  budget  right     loglik        kl  agree    held      rows",
        "dense             2/2     -1.000    0.0000    4.0  100.0%         2",
        "h2o     25%       2/2     -3.000    0.5000    2.0   30.0%         2",
        "tova    25%       1/1     -3.000    0.5000    2.0   10.0%  1 of 2 *",
        "kivi              1/1   -3.000 *  0.5000 *    2.5   41.7%         2",
        "quant               -  -6.00 sum         -    3.0  100.0%  1 of 2 *",
        "",
        "*: only those rows; compare with means of the same rows only",
        "",
    ], "\n".join(lines)
    assert table(rows[6:7]) == ""
    some = rows[0], row("a", "1", "dense", loglik=-6.0)
    assert " -1.000 * " in table(some), table(some)


def check_tasks():
    """Several tasks have separate columns. A task that dense answers less than
    60 % right does not count; unjudged answers do not count as wrong."""
    rows = [
        row("a", "0", "dense", exact=1.0, loglik_token=-1.0),
        row("a", "0", "h2o", exact=0.0, loglik_token=-2.0),
        row("b", "0", "dense", exact=1.0, loglik_token=-3.0),
        row("b", "1", "dense", exact=0.0, loglik_token=-3.0),
        row("b", "0", "h2o", exact=1.0, loglik_token=-5.0),
        row("b", "1", "h2o", status="failed"),
        row("c", "0", "dense", loglik_token=-7.0),
        row("c", "0", "h2o", loglik_token=-8.0),
    ]
    first, tasks, right, loglik, mark = table(rows).strip().split("\n\n")
    assert [x.split()[1] for x in first.split("\n")[1:]] == ["1/1", "0/1"]
    assert first.endswith("3 of 4 *") and "loglik" not in first
    assert tasks == ("task 1: a\ntask 2: b, not measurable: dense answers less "
                     "than 60 %\ntask 3: c")  # fmt: skip
    assert right.split("\n")[2].split() == ["h2o", "0/1", "1/1", "-"], right
    assert loglik.split("\n")[2].split() == [
        "h2o", "-2.000", "-5.000", "*", "-8.000"], loglik  # fmt: skip
    assert mark.startswith("*: ")


def check_needless():
    """If budgets exceed the prompt, so that nothing was dropped, names one."""
    some = [dict(row("a", "0", "dense", **{"open.cr": 1.0}), budget=None,
                 prompt_len=100)]
    some += [
        dict(row("a", x, m, "200%", **{"open.cr": cr}),
             budget=budget, prompt_len=100)
        for x, m, budget, cr in (
            ("0", "window", "200", .9), ("0", "snapkv", "100", 1.0),
            ("1", "snapkv", "200", 1.0), ("1", "h2o", "200", 1.0))
    ]  # fmt: skip
    said = ("1, snapkv: budget 200% exceeds the prompt of 100 tokens, so "
            "nothing is dropped")  # fmt: skip
    assert needless(some) == said + "; also in 1 other cell", needless(some)
    assert needless(some[:4]) == said and needless(some[:3]) == ""
    assert needless([*some, some[-1]]) == said + "; also in 2 other cells"


def check_plan():
    """The numbers of kv_paired_detectable; contexts, also of several tasks; how
    many tests; warnings."""
    for n, m, square, want in PLANNED:
        assert abs(detectable(n, m, square) - want) < 1e-9, (n, m, square)
    assert detectable(7, 5, 0.2) == math.inf and flips(5) == 8
    judged = Question((), (1,), ("x",))

    def item(i, task="a", context="", n=1, q=judged):
        return Item(str(i), task, (1,), (q,) * n, 1, None, context)

    asks = [Ask("dense"), *(Ask(x, "mean", y) for x in "abc" for y in "12"),
            Ask("d", "mean", "2"), Ask("kivi")]  # fmt: skip
    (text,) = plan(map(item, range(40)), asks)
    assert text.startswith("40 contexts (40 questions with a right answer) "
                           "detect a difference of 22 points "), text
    assert " of 33 points if 50 % " in text and "for 3 tests)" in text, text
    # From 59 contexts on, ties alone show that a difference is small.
    assert [tests(asks, x) for x in (58, 59)] == [3, 6], asks
    assert tests(asks[:1], 10) == tests(asks[:2], 10) == 1
    # A context of two questions counts once; tasks count equally.
    same = [item(i, context="c") for i in range(2)]
    assert contexts(same) == (2, 1, 1) and contexts([item(0, n=3)]) == (3, 1, 1)
    assert contexts([*same, *map(item, range(2, 4))]) == (4, 3, 2)
    more = [item(i, "b", str(i)) for i in range(2)]
    assert contexts([*map(item, range(6)), *more]) == (8, 8, 6)
    both = [item(i, task, str(i)) for task in "ab" for i in range(2)]
    assert contexts(both) == (4, 2, 2), contexts(both)
    few, says = plan(map(item, range(4)), asks)
    assert few == ("4 contexts (4 questions with a right answer) are too few "
                   "for 3 tests; 7 are enough"), few  # fmt: skip
    assert says.endswith("no verdict, below 5 no interval"), says
    assert [*plan(map(item, range(7)), asks)][1].endswith("no verdict")
    (none,) = plan([item(0, q=Question((), (), ()))], asks)
    assert none.startswith("no question has a right answer"), none


# Of kv_paired_detectable(n, m, square).
PLANNED = [
    (8, 1, 0.2, 0.801403452871), (12, 2, 0.5, 0.655887798567),
    (40, 10, 0.2, 0.272295032377), (40, 10, 0.5, 0.353347914067),
    (500, 36, 0.2, 0.0794854205985),
]  # fmt: skip
KNOWN = Methods()
check_asks()
check_files()
check_table()
check_tasks()
check_needless()
check_plan()
