# SPDX-License-Identifier: Apache-2.0
"""Claims and what was found, as Markdown, a web page, or JSON that a later call
can judge again (--from). Needs Python alone."""

from __future__ import annotations

import html
import json
import sqlite3
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from . import claim as c
from .claim import Claim, Found, Row

Judged = Tuple[Claim, List[Found]]
KINDS = {"arithmetic": "arithmetic", "replay": "replayed, {}",
         "device": "on a device", "answers": "answers of {}"}  # fmt: skip
PUT = {"{traces}": "TRACE...", "{trace}": "TRACE", "{quarter}": "T/4",
       "{start}": "T/4", "{tokens}": "T"}  # fmt: skip
COLOURS = {c.HOLDS: "#1a7f37", c.SIZE: "#9a6700", c.NOT: "#cf222e",
           c.UNASKED: "#6e7781", c.UNCHECKED: "#6e7781"}  # fmt: skip


def typed(command: str) -> str:
    """A command as a user would type it."""
    for key, text in PUT.items():
        command = command.replace(key, text)
    words = command.split()
    stored = words[0] == "kvreplay" and words[1] != "capacity"
    return " ".join([*words, *(["--db", "r.db"] if stored else [])])


def commands(claim: Claim) -> List[str]:
    of = [typed(x) for look in claim.looks for x in look.runs]
    own = [f"kvreplay claims --only {claim.number}"] * bool(claim.looks)
    return [*dict.fromkeys(of)] or own


def label(found: Found) -> str:
    return KINDS[found.look.kind].format(found.of or "a trace")


def verdict_of(x: Judged) -> str:
    """The verdict, with what rows say where one is not enough, or why there is
    none."""
    claim, found = x
    said = c.verdict(claim, found)
    why = c.reason(claim, found)
    if why:
        return f"{said}: {why}"
    rows = [x for x in found if not x.look.beside]
    if len({x.verdict for x in rows}) > 1:
        said += f" ({'; '.join(f'{label(x)}: {x.verdict}' for x in rows)})"
    if claim.shown:
        of = [f"{label(x)}: " * (len(rows) > 1) + x.sentence() for x in rows]
        said += f" ({'; '.join(of)})"
    return said


def counts(judged: Sequence[Judged]) -> str:
    """How many there are of each verdict."""
    of = [c.verdict(*x) for x in judged]
    many = {c.HOLDS: "hold", c.NOT: "do not hold"}
    said = [f"{n} {many.get(v, v) if n > 1 else v}" for v in c.VERDICTS
            if (n := of.count(v))]  # fmt: skip
    return f"{len(of)} claims: " + "; ".join(said) + "."


def from_what(source: Sequence[Row], given: Dict[str, str]) -> List[str]:
    """What the numbers are of."""
    models: Dict[str, List[str]] = {}
    for x in source:
        models.setdefault(x["model"], []).append(
            f"{x['trace']} ({x['n_tokens']} tokens)")
    lines = [f"Traces of {m}: {', '.join(t)}." for m, t in models.items()]
    return lines + [f"{what}: {name}." for what, name in given.items() if name]


# --- Markdown ---------------------------------------------------------------

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- made by `kvreplay claims`; what it says is not written by hand -->
# The papers' claims

What papers claim, in our words, beside what this machine finds: `kvreplay
claims TRACE... --db r.db` runs what is missing and prints this page, and
`kvreplay claims --help` says how a verdict is reached. A row is arithmetic, a
model's replays, a device, or a model's answers; the claim has the verdict of
its weakest row, and a claim of several parts is a claim for each part. Replays
are open loop, and models that are replayed here are small: a claim that does
not hold on them may hold on the paper's. Answers stand beside, without a
verdict: means of a task cannot tell two methods apart. There is no claim 20: it
was a setting.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def markdown(judged: Sequence[Judged], source: Sequence[Row],
             given: Dict[str, str]) -> str:
    out = [HEAD, counts(judged), "", *from_what(source, given), "",
           "| | paper | claim | verdict |", "|---|---|---|---|"]
    for claim, found in judged:
        out.append(f"| {claim.number} | {claim.paper}, {claim.where} | "
                   f"{cell(claim.says)} | {cell(verdict_of((claim, found)))} |")
    out += ["", "## What each verdict is from", ""]
    for claim, found in judged:
        out += section(claim, found)
    return "\n".join(out).rstrip("\n") + "\n"


def section(claim: Claim, found: Sequence[Found]) -> List[str]:
    out = [f"### {claim.number}. {claim.says}", "",
           f"{claim.paper}, {claim.where}: **{verdict_of((claim, list(found)))}"
           "**", ""]
    if commands(claim):
        out += [*(f"    {x}" for x in commands(claim)), ""]
    for x in found:
        said = "" if x.look.beside or claim.why else f" - *{x.verdict}*"
        out.append(f"- {label(x)}: {x.sentence()}{said}")
    return out + [""] * bool(found)


# --- a web page --------------------------------------------------------------

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em
auto;padding:0 1em;color-scheme:light dark}table{width:100%;
border-collapse:collapse}td,th{border-bottom:1px solid #8884;padding:.4em;
text-align:left;vertical-align:top}code{white-space:pre-wrap;
overflow-wrap:anywhere;font-size:.85em}summary{cursor:pointer}li{margin:.2em 0}
@media(max-width:40em){td:nth-child(2),th:nth-child(2){display:none}}"""


def tag(text: str) -> str:
    said = c.VERDICTS[[text.startswith(v) for v in c.VERDICTS].index(True)]
    return f'<b style="color:{COLOURS[said]}">{html.escape(text)}</b>'


def web(judged: Sequence[Judged], source: Sequence[Row],
        given: Dict[str, str]) -> str:
    e = html.escape
    rows = []
    for claim, found in judged:
        of = "".join(
            f"<li>{e(label(x))}: {e(x.sentence())}"
            + ("" if x.look.beside or claim.why else f" - {tag(x.verdict)}")
            for x in found)
        run = e("\n".join(commands(claim)))
        rows.append(
            f"<tr><td>{e(claim.number)}<td>{e(claim.paper)}<br>"
            f"{e(claim.where)}<td>{e(claim.says)}<details><summary>from what"
            f"</summary><ul>{of}</ul><p><code>{run}</code>"
            f"</details><td>{tag(verdict_of((claim, found)))}")
    about = "".join(f"<p>{e(x)}" for x in from_what(source, given))
    text = HEAD.split("# The papers' claims")[1].replace("`", "")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><meta "
            "name=viewport content='width=device-width'><title>The papers' "
            f"claims</title><style>{STYLE}</style><h1>The papers' claims</h1>"
            f"<p>{e(text)}<p><b>{e(counts(judged))}</b>{about}<table><tr><th>"
            "<th>paper<th>claim<th>verdict" + "\n".join(rows) + "</table>\n")


# --- JSON --------------------------------------------------------------------

def numbers(judged: Sequence[Judged], source: Sequence[Row],
            given: Dict[str, str]) -> str:
    """The numbers, with the verdicts as they were reached."""
    keep = "trace", "model", "n_tokens"
    of: Dict[str, Any] = {
        "source": [{k: x[k] for k in keep} for x in source], "given": given,
        "claims": [{
            "number": claim.number, "verdict": c.verdict(claim, found),
            "rows": [{"look": claim.looks.index(x.look), "verdict": x.verdict,
                      "row": x.row} for x in found],
        } for claim, found in judged]}  # fmt: skip
    return json.dumps(of, indent=1) + "\n"


def again(text: str, claims: Iterable[Claim]
          ) -> Tuple[List[Judged], List[Row], Dict[str, str]]:
    """Numbers of before, judged by the claims as they are now. ValueError of
    what is no such file."""
    try:
        x = json.loads(text)
        rows = {y["number"]: y["rows"] for y in x["claims"]}
        judged = [(claim, [c.judge(claim.looks[y["look"]], y["row"])
                           for y in rows[claim.number]])
                  for claim in claims if claim.number in rows]  # fmt: skip
        for _, found in judged:
            [y.sentence() for y in found]
        return judged, x["source"], x["given"]
    except (KeyError, TypeError, IndexError, ValueError, sqlite3.Error) as e:
        raise ValueError(f"is not what `kvreplay claims -f json` of this "
                         f"version prints: {e!r}") from None  # fmt: skip


FORMATS = {"md": markdown, "json": numbers, "html": web}
__all__ = ["FORMATS", "again", "commands", "counts", "verdict_of"]
