# SPDX-License-Identifier: Apache-2.0
"""Reads results of kvreplay. Needs only Python's standard library.

    for row in read_results("results.db"):
        print(row["trace"], row["spec"], row["output_error.mean"])

    for line in summary(read_results("results.db")):  # means over traces
        print(line["method"], line["target"], line["needle_share"],
              2 * line["needle_share.se"], line["traces"], line["reasons"])

    for row in read_evaluations("results.db"):  # what a model answered
        print(row["task"], row["item"], row["method"], row["exact"])

    steps = read_steps("results.db")  # by a row's "key"
    mean, error = paired(steps[a["key"]]["output_error"],
                         steps[b["key"]]["output_error"])
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import struct
import urllib.parse
from typing import (TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence,
                    Union)

if TYPE_CHECKING:
    Row = dict[str, Any]
    Path = Union[str, os.PathLike[str]]


def _open(path: Path) -> sqlite3.Connection:
    """A connection. If the folder is read-only and no journal is pending,
    nobody writes to the database, and it is opened immutable."""
    # "./" keeps a name that begins with "file:" from being a URI.
    path = os.fspath(path)
    db = sqlite3.connect(os.path.join(".", path))
    try:
        db.execute("SELECT count(*) FROM run")
        return db
    except sqlite3.Error:
        db.close()
        path = os.path.abspath(path)
        if os.access(os.path.dirname(path), os.W_OK):
            raise
    for tail in "-wal", "-journal":
        if os.path.exists(path + tail) and os.path.getsize(path + tail):
            raise PermissionError(
                f"{path}: {path + tail} holds results that are not in it yet, "
                "and the folder is read-only; copy both to a folder of yours")
    return sqlite3.connect("file:" + urllib.parse.quote(path) +
                           "?immutable=1", uri=True)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """_open() with named columns. ValueError if it is no kvreplay database."""
    open(path, "rb").close()  # sqlite would create a missing file
    try:
        with contextlib.closing(_open(path)) as db:
            db.row_factory = sqlite3.Row
            yield db
    except sqlite3.Error as e:
        raise ValueError(
            f"{path} is not a kvreplay database: {e}") from e


def _newest(rows: Iterable[sqlite3.Row], first: Mapping[int, str]
            ) -> set[int]:
    """Run numbers of each method's newest code, as analysis/sql/runs.sql."""
    def of(x: sqlite3.Row) -> tuple[Any, ...]:
        family = "subject" if x["method"] == "replay" else "method"
        return x[family], x["arithmetic"], x["revision"], x["code"]
    seen: dict[tuple[Any, ...], str] = {}
    best: dict[str, tuple[Any, Any]] = {}
    for x in rows:
        seen[of(x)] = max(seen.get(of(x), ""), first.get(x["run_id"], ""))
    for y in sorted(seen, key=lambda y: y[3], reverse=True):
        rank = *y[1:3], seen[y]
        if y[0] not in best or rank >= best[y[0]][0]:
            best[y[0]] = rank, y
    return {x["run_id"] for x in rows if best[of(x)[0]][1] == of(x)}


def _asked(db: sqlite3.Connection) -> Iterator[Row]:
    """A row for each cell of a database, from each method's newest code."""
    new = {"name": "trace"}
    rows = db.execute(
        "SELECT *, "
        "(SELECT group_concat(DISTINCT backend) FROM confirmation c WHERE "
        "c.run_id = r.run_id) AS backend FROM run r JOIN trace USING "
        "(identity) JOIN ask USING (run_id) ORDER BY run_id").fetchall()
    newest = _newest(rows, dict(map(tuple, db.execute(
        "SELECT run_id, min(started) FROM confirmation JOIN environment USING "
        "(environment_id) GROUP BY run_id"))))
    layouts = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'layout'"
                         ).fetchone()
    for row in (x for x in rows if x["run_id"] in newest):
        out = {new.get(x, x): y for x, y in zip(row.keys(), row)
               if not x.endswith("_bits")}
        out |= dict(map(tuple, db.execute(
            "SELECT name, value FROM scalar WHERE run_id = ?",
            (row["run_id"],))))
        held = list(map(tuple, db.execute(
            "SELECT kind, bytes, total FROM held WHERE run_id = ?",
            (row["run_id"],))))
        out |= {f"bytes.end.tier_{i}": None for i in range(4)}
        out |= {f"bytes.end.{kind}": n for kind, n, _ in held}
        out["bytes.end.total"] = sum(n for _, n, total in held if total)
        for m in db.execute(
                "SELECT measure, mean, p50, p95, p99, max, count FROM metric "
                "WHERE part = 0 AND run_id = ?", (row["run_id"],)):
            out[m["measure"]] = dict(zip(m.keys()[1:], tuple(m)[1:]))
        for m in db.execute("SELECT * FROM layout WHERE run_id = ? ORDER BY "
                            "layout", (row["run_id"],)) if layouts else ():
            out["layout." + m["layout"]] = {
                x.replace("bytes_", ""): m[x] for x in m.keys()[2:]
                if not x.endswith("_bits")}
        part = [x for x in db.execute("SELECT * FROM part WHERE part = 0 AND "
                                      "run_id = ?", (row["run_id"],))]
        out["lse_drift"] = next(
            (x["drift"] for x in part if "drift" in x.keys()), None)
        got, dense = (out.get("needle_" + x, {}).get("mean")
                      for x in ("mass", "dense"))
        out["needle_share"] = got / dense if dense else None
        yield dict(out, params=json.loads(row["params"]), schema=1)


def read_results(path: Path) -> list[Row]:
    """Rows of a database, or of run --format json or jsonl, as dicts. Keys are
    the columns of --format csv. params is a dict; a missing number is NaN."""
    def flat(row: Row, at: str = "") -> Iterator[tuple[str, Any]]:
        for key, x in row.items():
            if isinstance(x, dict) and key != "params":
                yield from flat(x, f"{at}{key}.")
            else:
                yield at + key, x
    magic = b"SQLite format 3"
    with open(path, "rb") as f:  # reads no more if it is a database
        text = f.read(len(magic))
        text += b"" if text == magic else f.read()
    try:
        if text == magic:
            with _reading(path) as db:
                rows = [dict(flat(x)) for x in _asked(db)]
        else:
            rows = [dict(flat(x)) for x in json.loads(
                text if text.lstrip()[:1] == b"[" else
                b"[" + b",".join(text.splitlines()) + b"]")]
    except (AttributeError, RecursionError, TypeError, ValueError,
            sqlite3.Error) as e:
        raise ValueError(f"{path}: no results; give a database of kvreplay run "
                         "--db, or the output of --format json or jsonl") from e
    texts = {"identity", "request", "code", "reason", "target", "journal",
             "state", "output"}
    keys = {y: None if y in texts else math.nan for x in rows for y in x}
    for y in {y.partition(".")[0] for y in keys if "." in y}:
        keys.pop(y, None)  # null here is an object in other rows
    return [{y: keys[y] if x.get(y) in (None, "") else x[y] for y in keys}
            for x in rows]


_EVALUATIONS = (
    "SELECT e.evaluation_id AS run_id, e.key AS subject, m.model, q.task, "
    "q.item, q.number AS question, q.prompt_len, q.n_tokens, e.method, "
    "e.spec, e.basis, e.target, e.budget, e.status, e.reason, p.torch, "
    "p.transformers, p.processor, p.threads, p.dtype, e.revision, "
    "e.arithmetic, e.code, e.answer, q.request_digest, q.model_digest, "
    "q.context, q.asked, q.reference, e.said, e.said_tokens, "
    "(SELECT count(*) FROM evaluation_diff d WHERE d.evaluation_id = "
    "e.evaluation_id) AS conflicts, e.key FROM evaluation e JOIN question "
    "q USING (question) JOIN model m USING (model_digest) JOIN platform p "
    "USING (platform) ORDER BY e.key")


def read_evaluations(path: Path) -> list[Row]:
    """Answers of a model (kvreplay evaluate), from each method's newest code: a
    dict per question, method and budget, with question, platform and numbers
    by name ("exact", "bytes.mean", "open.kl.mean"), NaN if missing. Texts that
    are None are not stored; said_tokens is a list."""
    with _reading(path) as db:
        rows = db.execute(_EVALUATIONS).fetchall()
        newest = _newest(rows, dict(map(tuple, db.execute(
            "SELECT evaluation_id, min(started) FROM evaluator JOIN "
            "environment USING (environment_id) GROUP BY evaluation_id"))))
        none = dict.fromkeys((x for x, in db.execute(
            "SELECT DISTINCT name FROM evaluated ORDER BY name")), math.nan)
        values: dict[int, Row] = {}
        for number, name, x in db.execute("SELECT * FROM evaluated"):
            values.setdefault(number, {})[name] = x
    return [{**{key: x[key] for key in x.keys()[2:]}, **none,
             **values.get(x["run_id"], {}),
             "said_tokens": None if x["said_tokens"] is None else [
                 y for y, in struct.iter_unpack("<i", x["said_tokens"])]}
            for x in rows if x["run_id"] in newest]


def read_steps(path: Path) -> dict[str, dict[str, list[float]]]:
    """{key of a run: {measure: [mean over layers and heads, by decode step]}};
    NaN if no row has a value. Runs by an early kvreplay are missing."""
    out: dict[str, dict[str, list[float]]] = {}
    with _reading(path) as db:
        for key, measure, mean in db.execute(
                "SELECT key, measure, m.mean FROM step_mean m JOIN run USING "
                "(run_id)"):
            out.setdefault(key, {})[measure] = list(
                struct.unpack(f"<{len(mean) // 4}f", mean))
    return out


def interval(steps: Iterable[float]) -> tuple[float, float]:
    """Mean over steps and its standard error. Neighboring steps are alike, so
    the error comes from batch means: n steps make about sqrt(n) batches of
    sqrt(n) steps each. NaN for fewer than four steps."""
    x = [y for y in steps if not math.isnan(y)]
    n = math.isqrt(len(x))
    mean = math.fsum(x) / len(x) if x else math.nan
    if n < 2:
        return mean, math.nan
    cut = [i * len(x) // n for i in range(n + 1)]
    batch = [math.fsum(x[a:b]) / (b - a) for a, b in zip(cut, cut[1:])]
    middle = math.fsum(batch) / n
    squares = math.fsum((y - middle)**2 for y in batch)
    return mean, math.sqrt(squares / (n - 1) / n)


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """interval of a - b, step by step, for two runs on one trace. Steps that
    are hard for both cancel, so it is narrower than two intervals."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} steps against {len(b)}: they are not of "
                         "one trace and prompt")
    return interval([x - y for x, y in zip(a, b)])


# summary's default; analysis/README.md says which measure ranks answers best.
MEANS = ("output_abs.max needle_share lse_error.mean kl.mean "
         "output_error.mean output_error.p95 mass.mean recall_16.mean kept kr "
         "bytes.mean bytes.end.total bytes.read bytes.scanned").split()


def _place(x: Row, *names: str) -> tuple[Any, ...]:
    """The trace, by the first known of these names, and how it was run."""
    trace = next(x[y] for y in (*names, "identity", "trace") if x.get(y))
    return trace, x["prompt_len"], x["observe"]


def _labels(rows: Sequence[Row]) -> list[str]:
    """kvreport's label for each row's line, as analysis/tables/variants.h."""
    def name(x: Row) -> str:
        own = x["params"].get("name") if x["method"] == "replay" else None
        return f"{own} (replay)" if own else x["method"]

    def text(x: object) -> str:
        return json.dumps(x, separators=(",", ":")).strip('"')
    # By name, place and budget: the values of each parameter.
    seen: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for x in rows:
        at = (name(x), *_place(x), x["budget"], text(
            x["params"].get("budget")))
        seen.setdefault(at, []).append(x["params"])
    apart = {(at[0], key) for at, params in seen.items()
             for key in {y for p in params for y in p} - {"budget"}
             if len({text(p.get(key)) for p in params}) > 1}
    return [" ".join([name(x), *(f"{k}={text(v)}"
                                 for k, v in x["params"].items()
                                 if (name(x), k) in apart)]) for x in rows]


def summary(rows: Sequence[Row], means: Sequence[str] = MEANS) -> list[Row]:
    """Means over traces for each `method`, `basis` and `target`, as a list of
    dicts. Each has all `means` and their standard errors, NAME.se, over traces
    (NaN for fewer than five). `traces` have a result, out of `traces_all`;
    `reasons` is {trace: why it has none}. Compare lines only over the same
    traces. Traces with the same `request` count once, with their mean. A mean
    leaves out missing values, such as needles of a trace without answers."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    every = {_place(x, "request") for x in rows}
    for label, x in zip(_labels(rows), rows):
        of = label, *(y if isinstance(y, str) else ""
                      for y in (x["basis"], x["target"]))
        lines.setdefault(of, []).append(x)
    out = []
    for named, found in sorted(lines.items()):
        units: dict[tuple[Any, ...], list[Row]] = {}
        for x in sorted(found, key=lambda x: x["trace"]):
            units.setdefault(_place(x, "request"), []).append(x)
        ran = [z for z in ([x for x in y if not math.isnan(
            x["output_error.mean"])] for y in units.values()) if z]
        none = [y[0] for y in units.values() if all(math.isnan(
            x["output_error.mean"]) for x in y)]
        line: Row = dict(
            zip(("method", "basis", "target"), named), traces=len(ran),
            traces_all=len(every),
            reasons={x["trace"]: x["reason"] for x in none
                     if x["status"] in ("refused", "failed")})
        for key in means:
            each = [[x[key] for x in y if not math.isnan(x.get(
                key, math.nan))] for y in ran]
            values = [math.fsum(y) / len(y) for y in each if y]
            n = len(values)
            mean = math.fsum(values) / n if n else math.nan
            squares = math.fsum((y - mean)**2 for y in values)
            line[key] = mean
            line[key + ".se"] = (math.sqrt(squares / (n - 1) / n)
                                 if n >= 5 else math.nan)
        out.append(line)
    return out
