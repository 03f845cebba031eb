# SPDX-License-Identifier: Apache-2.0
"""rows.py write DATABASE... > ROWS.csv.xz: the answers in databases of
`kvreplay evaluate`, a row each, smaller than the databases.

rows.py read DATABASE ROWS.csv.xz...: the same as a database, so that every
command of kvreport works without a model.

A row has what identifies it, the specification and budget that were found, the
first 200 characters of the answer, and all numbers but the open loop's counts
and parts of bytes, to six digits (bytes are whole). Rows are sorted, so the
same answers give the same file. Writing needs only Python; reading needs numpy
and kvreplay's library. Exit codes: 2 wrong usage, 3 a bad file, 4 no
numpy."""

from __future__ import annotations

import csv
import io
import lzma
import os
import re
import sqlite3
import sys
from typing import Any, Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "sim", "python"))

SAID = 200
KEY = """model task item question method basis target context spec budget status
    reason said reference""".split()
SAME = """model_digest request_digest prompt_len tokens code torch transformers
    processor threads dtype""".split()  # alike in many rows
SQL = """SELECT m.model, q.task, q.item, q.number AS question, e.method,
    e.basis, e.target, q.context, e.spec, e.budget, e.status, e.reason, e.said,
    q.reference, q.model_digest, q.request_digest, q.prompt_len,
    q.n_tokens AS tokens, e.code, p.torch, p.transformers, p.processor,
    p.threads, p.dtype, e.evaluation_id AS id
  FROM evaluation e JOIN question q USING (question)
    JOIN model m USING (model_digest) JOIN platform p USING (platform)"""
LEFT_OUT = re.compile(
    r"open\..*\.count|open\.bytes\.(?!mean|read|scanned)|open\.verbs")
Row = dict[str, Any]


def shown(x: float) -> str:
    return str(int(x)) if x == int(x) else f"{x:.6g}"


def stored(path: str) -> Iterator[Row]:
    """The rows of a database, with their numbers as texts."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        db.execute("BEGIN")  # one state, also while an evaluation writes
        values: dict[int, dict[str, str]] = {}
        for n, name, x in db.execute(
                "SELECT evaluation_id, name, value FROM evaluated"):
            if not LEFT_OUT.match(name):
                values.setdefault(n, {})[name] = shown(x)
        for x in db.execute(SQL):
            row = {y: "" if x[y] is None else str(x[y]) for y in KEY + SAME}
            row["said"] = row["said"][:SAID]
            yield {**row, **values.get(x["id"], {})}


def write(paths: list[str]) -> bytes:
    found: dict[tuple[str, ...], Row] = {}
    for path in paths:
        for row in stored(path):
            found[tuple(row[y] for y in KEY[:8] + SAME)] = row
    rows = [found[x] for x in sorted(found)]
    names = sorted({y for x in rows for y in x} - {*KEY, *SAME})
    out = io.StringIO()
    table = csv.DictWriter(out, KEY + SAME + names, "", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return lzma.compress(out.getvalue().encode(), preset=9)


def rows_of(path: str) -> Iterator[Row]:
    """Rows as a Store wants them. ValueError: not a file of this script."""
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="") as f:
            table = csv.DictReader(f)
            lacks = {*KEY, *SAME} - {*(table.fieldnames or ())}
            if lacks:
                raise ValueError(f"{path}: lacks the column {min(lacks)}")
            for x in table:
                yield row_of(x)
    except (EOFError, lzma.LZMAError, UnicodeDecodeError) as e:
        raise ValueError(f"{path}: not rows of answers: {e}") from None


def row_of(x: dict[str, str]) -> Row:
    row: Row = {y: x[y] or None for y in KEY + SAME}
    for name in "question", "prompt_len", "tokens":
        row[name] = int(x[name])
    row["context"] = x["context"]
    row["said"] = x["said"] if x["status"] == "ok" else None
    row["platform"] = dict(
        torch=x["torch"], transformers=x["transformers"], dtype=x["dtype"],
        processor=x["processor"], threads=int(x["threads"]))  # fmt: skip
    row["values"] = {y: float(z) for y, z in x.items()
                     if z and y not in KEY and y not in SAME}  # fmt: skip
    return row


def read(database: str, paths: list[str]) -> None:
    from kvreplay.evaluate.store import Store

    with Store(database) as store:
        for path in paths:
            for row in rows_of(path):
                store.put(row)


def main(words: list[str]) -> int:
    how, *paths = words or [""]
    try:
        if how == "write" and paths:
            sys.stdout.buffer.write(write(paths))
        elif how == "read" and len(paths) > 1:
            read(paths[0], paths[1:])
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except ImportError as e:
        print(f"rows.py: reading needs numpy: {e}", file=sys.stderr)
        return 4
    except sqlite3.Error as e:
        print(f"rows.py: not a database of answers: {e}", file=sys.stderr)
        return 3
    except (OSError, ValueError, RuntimeError) as e:
        print(f"rows.py: {e}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
