# SPDX-License-Identifier: Apache-2.0
"""Writes claims and results as Markdown, as a web page, or as JSON, which a
later call can judge again (--from). Needs only Python."""

from __future__ import annotations

import html
import json
import sqlite3
from typing import Dict, Iterable, List, Sequence, Tuple

from . import table as t
from .runs import typed
from .table import Claim, Row

KINDS = {"arithmetic": "arithmetic", "replay": "replayed, {}",
         "device": "on a device", "answers": "answers of {}"}  # fmt: skip
COLOURS = {t.HOLDS: "#1a7f37", t.SIZE: "#9a6700", t.NOT: "#cf222e",
           t.UNASKED: "#6e7781", t.UNCHECKED: "#6e7781"}  # fmt: skip


def commands(claim: Claim) -> List[str]:
    of = [typed(x) for look in claim["looks"] for x in look["runs"]]
    own = [f"kvreplay claims --only {claim['number']}"] * bool(claim["looks"])
    return [*dict.fromkeys(of)] or own


def label(claim: Claim, x: Row) -> str:
    kind = KINDS[claim["looks"][x["look"]]["kind"]]
    return kind.format(x["row"].get("of") or "a trace")


def sentence(claim: Claim, x: Row) -> str:
    return t.sentence(claim["looks"][x["look"]], x["row"])


def verdict_of(claim: Claim) -> str:
    """The verdict, with the rows' if they differ, or why there is none."""
    said, why, rows = t.verdict(claim), t.reason(claim), t.deciding(claim)
    if why:
        return f"{said}: {why}"
    if len({x["verdict"] for x in rows}) > 1:
        each = "; ".join(f"{label(claim, x)}: {x['verdict']}" for x in rows)
        said += f" ({each})"
    if claim["shown"]:
        of = [f"{label(claim, x)}: " * (len(rows) > 1) + sentence(claim, x)
              for x in rows]  # fmt: skip
        said += f" ({'; '.join(of)})"
    return said


def counts(claims: Sequence[Claim]) -> str:
    """The number of claims with each verdict."""
    of = [t.verdict(x) for x in claims]
    many = {t.HOLDS: "hold", t.NOT: "do not hold"}
    said = [f"{n} {many.get(v, v) if n > 1 else v}" for v in t.VERDICTS
            if (n := of.count(v))]  # fmt: skip
    return f"{len(of)} claims: " + "; ".join(said) + "."


def from_what(source: Sequence[Row], given: Dict[str, str]) -> List[str]:
    """The sources of the numbers."""
    models: Dict[str, List[str]] = {}
    for x in source:
        models.setdefault(x["model"], []).append(
            f"{x['trace']} ({x['n_tokens']} tokens)")
    lines = [f"Traces of {m}: {', '.join(of)}." for m, of in models.items()]
    return lines + [f"{what}: {name}." for what, name in given.items() if name]


def found(claim: Claim) -> List[Tuple[str, str]]:
    """A line per row, and its verdict if it counts."""
    return [(f"{label(claim, x)}: {sentence(claim, x)}",
             "" if claim["why"] or claim["looks"][x["look"]]["beside"]
             else x["verdict"]) for x in claim["found"]]  # fmt: skip


# --- Markdown ---------------------------------------------------------------

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- made by `kvreplay claims`; what it says is not written by hand -->
# The papers' claims

What papers claim, in our words, and what this machine finds. `kvreplay claims
TRACE... --db r.db` runs what is missing and prints this page. Each claim is
checked by arithmetic, by replays of a model, on a device or by a model's
answers, and gets the verdict of its weakest check (`kvreplay claims --help`).
Replays are open loop, and the models here are small: a claim that does not hold
on them may hold on the paper's. Answers are shown without a verdict, because
means over a task cannot distinguish two methods. There is no claim 20, which
was a setting.
"""


def markdown(claims: Sequence[Claim], source: Sequence[Row],
             given: Dict[str, str]) -> str:
    out = [HEAD, counts(claims), "", *from_what(source, given), "",
           "| | paper | claim | verdict |", "|---|---|---|---|"]
    for x in claims:
        cells = [x["number"], f"{x['paper']}, {x['place']}",
                 *(y.replace("|", "\\|") for y in (x["says"], verdict_of(x)))]
        out.append(f"| {' | '.join(cells)} |")
    out += ["", "## Commands and numbers", ""]
    for x in claims:
        rows = found(x)
        if not rows:
            continue
        out += [f"### {x['number']}. {x['says']}", ""]
        if commands(x):
            out += [*(f"    {y}" for y in commands(x)), ""]
        out += [f"- {text}" + f" - *{v}*" * bool(v) for text, v in rows]
        out += [""] * bool(rows)
    return "\n".join(out).rstrip("\n") + "\n"


# --- a web page --------------------------------------------------------------

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em
auto;padding:0 1em;color-scheme:light dark}table{width:100%;
border-collapse:collapse}td,th{border-bottom:1px solid #8884;padding:.4em;
text-align:left;vertical-align:top}code{white-space:pre-wrap;
overflow-wrap:anywhere;font-size:.85em}summary{cursor:pointer}li{margin:.2em 0}
@media(max-width:40em){td:nth-child(2),th:nth-child(2){display:none}}"""


def tag(text: str) -> str:
    said = next(x for x in t.VERDICTS if text.startswith(x))
    return f'<b style="color:{COLOURS[said]}">{html.escape(text)}</b>'


def web(claims: Sequence[Claim], source: Sequence[Row],
        given: Dict[str, str]) -> str:
    e = html.escape
    rows = []
    for x in claims:
        of = "".join(f"<li>{e(text)}" + (v and f" - {tag(v)}")
                     for text, v in found(x))  # fmt: skip
        rows.append(
            f"<tr><td>{e(x['number'])}<td>{e(x['paper'])}<br>{e(x['place'])}"
            f"<td>{e(x['says'])}<details><summary>from what</summary>"
            f"<ul>{of}</ul><p><code>{e(chr(10).join(commands(x)))}</code>"
            f"</details><td>{tag(verdict_of(x))}")
    about = "".join(f"<p>{e(x)}" for x in from_what(source, given))
    text = HEAD.split("# The papers' claims")[1].replace("`", "")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta "
            "name=viewport content='width=device-width'><title>The papers' "
            f"claims</title><style>{STYLE}</style><h1>The papers' claims</h1>"
            f"<p>{e(text)}<p><b>{e(counts(claims))}</b>{about}<table><tr><th>"
            "<th>paper<th>claim<th>verdict" + "\n".join(rows) + "</table>\n")


# --- JSON --------------------------------------------------------------------


def numbers(claims: Sequence[Claim], source: Sequence[Row],
            given: Dict[str, str]) -> str:
    """The numbers, one row per line, with the verdicts."""
    keep = "trace", "model", "n_tokens"

    def lines(rows: Iterable[Row], indent: str) -> str:
        return ",".join(f"\n{indent}{json.dumps(x)}" for x in rows)

    of = ",".join(
        f'\n {{"number": "{x["number"]}", "verdict": "{t.verdict(x)}", '
        f'"rows": [{lines(x["found"], "  ")}]}}' for x in claims)
    traces = lines(({k: x[k] for k in keep} for x in source), " ")
    return (f'{{"source": [{traces}],\n"given": {json.dumps(given)},\n'
            f'"claims": [{of}]}}\n')


def again(text: str, table: t.Table, claims: Sequence[Claim]
          ) -> Tuple[List[Claim], List[Row], Dict[str, str]]:
    """Judges earlier numbers by today's claims. ValueError: another file."""
    try:
        x = json.loads(text)
        rows = {y["number"]: y["rows"] for y in x["claims"]}
        kept = [y for y in claims if y["number"] in rows]
        for y in kept:
            y["found"] = [table.judged(y, z["look"], z["row"])
                          for z in rows[y["number"]]]  # fmt: skip
        return kept, x["source"], x["given"]
    except (KeyError, TypeError, IndexError, ValueError, sqlite3.Error) as e:
        raise ValueError(f"is not what `kvreplay claims -f json` of this "
                         f"version prints: {e!r}") from None  # fmt: skip


FORMATS = {"md": markdown, "json": numbers, "html": web}
