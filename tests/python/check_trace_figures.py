# SPDX-License-Identifier: Apache-2.0
"""check_trace_figures.py DB CSV [FOLDER]: do the numbers that `kvreplay
attention`, `residuals` and `selection` stored for bundled traces agree with
CSV? An earlier program in C made the CSV: for each trace, figure, series and
part the count of numbers, their sum, and a sum with weights that differ by
layer, head and position. Agreement is to 1e-6, except where one rounding to a
class or a thousandth can differ: there latent vectors were binary32. FOLDER:
the pictures, each with its title. --write makes the CSV. Standard library only.
"""

import csv
import os
import sqlite3
import struct
import sys

COLUMNS = "trace", "figure", "series", "part", "numbers", "sum", "weighted"


def numbers(value):
    if isinstance(value, bytes):
        return struct.unpack(f"<{len(value) // 4}i", value)
    return [value]


def sums(path):
    out = {}
    for *key, layer, head, x, y, value in sqlite3.connect(path).execute(
            "SELECT name || ' ' || dtype, figure, series, part, layer, head, x,"
            " y, value FROM figure JOIN trace USING (identity)"):
        of = out.setdefault(tuple(key), [0, 0, 0])
        for i, n in enumerate(numbers(value)):
            of[0] += 1
            of[1] += n
            of[2] += n * (1 + (3 * layer + 5 * head + 7 * x + y + i) % 11)
    return out


def far(key, found, want):
    count, *rest = zip(found, want)
    by = 1e-3 if key[3] == "z" else 1e-6
    return count[0] != count[1] or any(
        abs(a - b) > by * max(1e-3, abs(b)) for a, b in rest)


def main(path, known, *rest):
    found = sums(path)
    if "--write" in rest:
        with open(known, "w", newline="", encoding="utf-8") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(COLUMNS)
            out.writerows([*k, *(f"{x:.12g}" for x in v)]
                          for k, v in sorted(found.items()))
        return
    with open(known, encoding="utf-8") as f:
        rows = list(csv.reader(f))[1:]
    want = {tuple(r[:4]): [float(x) for x in r[4:]] for r in rows}
    other = sorted(found.keys() ^ want.keys())
    assert not other, f"{len(other)} other figures: {other[:3]}"
    wrong = [f"{k}: {found[k]}, not {want[k]}" for k in want
             if far(k, found[k], want[k])]
    assert not wrong, f"{len(wrong)} sums, the first: {wrong[0]}"
    for folder in rest:
        pictures = sorted(os.listdir(folder))
        assert len(pictures) == 20, pictures
        for name in pictures:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                assert "<!-- " in f.read(), name


main(*sys.argv[1:])
