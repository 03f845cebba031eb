# SPDX-License-Identifier: Apache-2.0
"""Rows as tables, 80 columns wide if methods are short. Needs only Python."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence

LEAST = 0.6  # share of a task that dense must answer right
SOME = "*: only those rows; compare with means of the same rows only"
Row = Dict[str, Any]


def mean(rows: Iterable[Row], name: str) -> Optional[float]:
    found = [x["values"][name] for x in rows if name in x["values"]]
    return sum(found) / len(found) if found else None


def share(rows: Iterable[Row], _: Sequence[Row] = ()) -> str:
    """Right answers, as 7/10."""
    found = [x["values"]["exact"] for x in rows if "exact" in x["values"]]
    return f"{round(sum(found))}/{len(found)}" if found else "-"


def shown(x: Optional[float], form: str) -> str:
    return "-" if x is None else form.format(x)


def lines(rows: Sequence[Sequence[str]], left: int = 2) -> str:
    """Aligned columns, the first `left` of them to the left."""
    wide = [max(map(len, x)) for x in zip(*rows)]
    text = ""
    for row in rows:
        cells = [x.ljust(n) if i < left else x.rjust(n)
                 for i, (x, n) in enumerate(zip(row, wide))]  # fmt: skip
        text += "  ".join(cells).rstrip() + "\n"
    return text


def grouped(rows: Iterable[Row]) -> Dict[Any, List[Row]]:
    """By method and budget, in the order of the command line."""
    found: Dict[Any, List[Row]] = {}
    for x in rows:
        found.setdefault((x["method"], x["target"] or ""), []).append(x)
    return found


def held(rows: Sequence[Row], dense: Dict[Any, float]) -> Optional[float]:
    """Bytes as a share of dense's, over rows where both are known."""
    found = [
        x["values"]["bytes.mean"] / dense[key_of(x)] for x in rows
        if "bytes.mean" in x["values"] and key_of(x) in dense
    ]  # fmt: skip
    return sum(found) / len(found) if found else None


def key_of(x: Row) -> Any:
    return x["task"], x["item"], x["question"]


def fits(rows: Sequence[Row]) -> bool:
    """Does dense answer enough of them? True if they are not judged."""
    x = mean([y for y in rows if y["method"] == "dense"], "exact")
    return x is None or x >= LEAST


def marked(
    name: str, form: str, rows: Sequence[Row], every: Sequence[Row]
) -> str:
    """A number's mean, marked if dense has it on more of the rows `every`."""
    n, dense = (sum(name in x["values"] for x in y) for y in (
        rows, [x for x in every if x["method"] == "dense"]))  # fmt: skip
    return shown(mean(rows, name), form) + " *" * (0 < n < dense)


def loglik(rows: Sequence[Row], every: Sequence[Row]) -> str:
    """Log-likelihood per token. Rows of early versions have only the sum."""
    text = marked("loglik_token", "{:.3f}", rows, every)
    if text == "-":
        return marked("loglik", "{:.2f} sum", rows, every)
    some = any("loglik" in x["values"] and "loglik_token" not in x["values"]
               for x in rows)  # fmt: skip
    return text + " *" * (some and not text.endswith("*"))


def by_task(ok: Sequence[Row], tasks: Dict[str, List[Row]]) -> str:
    """Right answers and log-likelihoods, one column per task. Log-likelihoods
    have no mean over tasks, because one task would dominate it."""
    text, names = "\n", [*tasks]
    for i, x in enumerate(names, 1):
        text += f"task {i}: {x}" + (
            "" if fits(tasks[x]) else
            ", not measurable: dense answers less than 60 %"
        ) + "\n"  # fmt: skip
    both = ("right", share), ("loglik", loglik)
    for title, of in both[: len(names)]:
        head = [title, "budget", *map(str, range(1, len(names) + 1))]
        body = [
            [method, target, *(of([y for y in x if y["task"] == z],
                                  tasks[z]) for z in names)]
            for (method, target), x in grouped(ok).items()
        ]  # fmt: skip
        if any(x != "-" for row in body for x in row[2:]):
            text += "\n" + lines([head, *body])
    return text


def presses(rows: Iterable[Row]) -> str:
    """Which presses of kvpress ran; ratios differ by prompt and budget."""
    found: Dict[Any, Dict[str, None]] = {}
    for x in rows:
        if (x.get("code") or "").startswith("kvpress "):
            found.setdefault((x["method"], x["code"]), {})[x["spec"]] = None
    return "\n" * bool(found) + "".join(
        f"{method} ({code}): {[*specs][0]}"
        + f", and {len(specs) - 1} like it" * (len(specs) > 1) + "\n"
        for (method, code), specs in found.items())  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """All that is printed about the rows."""
    ok = [x for x in rows if x["status"] == "ok"]
    if not ok:
        return ""
    tasks: Dict[str, List[Row]] = {}
    for x in ok:
        tasks.setdefault(x["task"], []).append(x)
    dense = {key_of(x): x["values"]["bytes.mean"] for x in ok
             if x["method"] == "dense"}  # fmt: skip
    fit = {t for t, x in tasks.items() if fits(x)}
    one = len(tasks) == 1
    head = ["method", "budget", "right", *["loglik"] * one, "kl", "agree",
            "held", "rows"]  # fmt: skip
    body, every = [], len({*map(key_of, ok)})
    for (method, target), some in grouped(ok).items():
        judged = [y for y in some if y["task"] in fit]
        n, asked = len(some), {key_of(y) for y in some}
        same = [y for y in ok if key_of(y) in asked]
        body.append([
            method, target, share(judged), *[loglik(some, same)] * one,
            marked("kl", "{:.4f}", some, same),
            shown(mean(some, "agree"), "{:.1f}"),
            shown(held(some, dense), "{:.1%}"),
            f"{n}" if n == every else f"{n} of {every} *",
        ])  # fmt: skip
    text = lines([head, *body])
    if len(tasks) > 1 or len(fit) < len(tasks):
        text += by_task(ok, tasks)
    return text + presses(ok) + (f"\n{SOME}\n" if " *" in text else "")


def needless(rows: Sequence[Row]) -> str:
    """A sentence, as of `kvreplay run`, if budgets exceed the prompt, or ""."""
    found = [
        x for x in rows if x["values"].get("open.cr", 0) >= 1
        and float(x.get("budget") or 0) > x["prompt_len"]
    ]  # fmt: skip
    if not found:
        return ""
    x, n = found[0], len(found) - 1
    more = f"; also in {n} other cell{'s' * (n > 1)}" if n else ""
    return (f"{x['item']}, {x['method']}: budget {x['target'] or x['budget']} "
            f"exceeds the prompt of {x['prompt_len']} tokens, so nothing is "
            f"dropped{more}")  # fmt: skip
