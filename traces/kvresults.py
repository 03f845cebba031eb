# SPDX-License-Identifier: Apache-2.0
"""Results of kvreplay in Python: one file to copy beside yours; it needs
Python 3.9 and nothing else.

    for row in read_results("results.db"):
        print(row["trace"], row["spec"], row["output_error.mean"])
"""
import json
import math
import sqlite3


def _asked(path):
    """The newest answer to each question asked of a database."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    new = {"name": "trace", "codes_end": "bytes.end.codes_only", "codes_mean":
           "bytes.codes_only.mean", "codes_peak": "bytes.codes_only.peak"}
    for x in ("end.payload end.metadata end.columns end.side end.slack "
              "end.total mean peak mti read moved").split():
        new[x.rpartition(".")[2]] = f"bytes.{x}"
    rows = db.execute(
        "SELECT *, payload + metadata + columns + side + slack AS total, "
        "(SELECT group_concat(DISTINCT backend) FROM confirmation c WHERE "
        "c.run_id = r.run_id) AS backend FROM run r JOIN trace USING "
        "(identity) JOIN ask USING (run_id) ORDER BY arithmetic, revision, "
        "run_id").fetchall()
    newest = {x["subject"]: x["run_id"] for x in rows}
    for row in (x for x in rows if newest[x["subject"]] == x["run_id"]):
        out = {new.get(x, x): y for x, y in zip(row.keys(), row)
               if not x.endswith("_bits")}
        for m in db.execute(
                "SELECT measure, mean, p50, p95, p99, max, count FROM metric "
                "WHERE part = 0 AND run_id = ?", (row["run_id"],)):
            out[m["measure"]] = dict(zip(m.keys()[1:], tuple(m)[1:]))
        yield dict(out, params=json.loads(row["params"]))


def read_results(path):
    """Rows of a database, or of run --format json or jsonl, as dicts: keyed by
    column of --format csv; params is a dict, a number that is missing NaN."""
    def flat(row, at=""):
        for key, x in row.items():
            if isinstance(x, dict) and key != "params":
                yield from flat(x, f"{at}{key}.")
            else:
                yield at + key, x
    with open(path, "rb") as f:
        text = f.read()
    try:
        rows = _asked(path) if text.startswith(b"SQLite format 3") else (
            json.loads(text if text.lstrip()[:1] == b"[" else
                       b"[" + b",".join(text.splitlines()) + b"]"))
        rows = [dict(flat(x)) for x in rows]
    except (AttributeError, TypeError, ValueError, sqlite3.Error) as e:
        raise ValueError(f"{path}: no results; give a database of "
                         "kvreplay run --db, or what --format json or jsonl "
                         "printed") from e
    texts = {
        "identity", "code", "reason", "target", "journal", "state", "output"}
    keys = {y: None if y in texts else math.nan for x in rows for y in x}
    for y in {y.partition(".")[0] for y in keys if "." in y}:
        keys.pop(y, None)  # null for an object that other rows have
    return [{y: keys[y] if x.get(y) in (None, "") else x[y] for y in keys}
            for x in rows]
