# SPDX-License-Identifier: Apache-2.0
"""check_selection.py DB CSV PAGE: what shares of the probability select, and
drift, as tests/check_figures.sh made them: files that kvreport exported to CSV
are means of rows of DB, asked here in other words; maps have as many tokens as
heads select; PAGE draws as many points. Standard library only."""

import math
import re
import struct

from figures import db, near, rows, section


def points(name):
    return len(re.findall(r"<title>.*?; ", section(name)))


# --- maps ---

maps = {}
for identity, layer, token, adapter, share, blob in db.execute(
    "SELECT identity, layer, x, series, y, value FROM figure"
    " WHERE figure = 'selection.map'"
):
    maps[identity, layer, token, adapter, share] = sum(
        struct.unpack("<64i", blob)
    )
chosen = db.execute(
    "SELECT identity, layer, token, adapter, share, sum(after) FROM selection"
    " GROUP BY 1, 2, 3, 4, 5"
).fetchall()
assert len(chosen) == len(maps) == 2 * 2 * 16 * 3 * 2, (len(chosen), len(maps))
for *key, tokens in chosen:
    assert maps[tuple(key)] == tokens, key

# --- counts and temperatures ---

collapse = rows("collapse")
assert len(collapse) == 2 * 2 * 5 * 16, len(collapse)
for r in collapse:
    trace, share = re.match(r"(.*), P(\d+)$", r["panel"]).groups()
    adapter = r["series"].split(",")[0].replace("attention itself", "vanilla")
    column = "after" if r["series"].endswith("calibrated") else "before"
    found = [n for n, in db.execute(
        f"SELECT {column} FROM selection JOIN trace USING (identity) WHERE"
        " name = ? AND share = ? AND adapter = ? AND token = ?",
        (trace, int(share), adapter, int(r["token"])))]
    assert len(found) == 4, r
    near(float(r["tokens"]), sum(found) / 4, r)
    assert (int(r["least"]), int(r["most"])) == (min(found), max(found)), r
assert points("collapse") == 2 * 5 * 16, points("collapse")
assert points("temperatures") == 2 * 2 * 2 * 16, points("temperatures")
assert points("densities") == 2 * 5 * 16, points("densities")

# --- drift: the last point of a line is the run's ---

last = {}
for r in rows("drifts"):
    last[r["panel"], r["series"]] = float(r["drift"])
assert last and all(x != 0 for x in last.values()), last
for (trace, method), x in last.items():
    if method != "window":
        continue
    want, = db.execute(
        "SELECT drift FROM part JOIN run USING (run_id) JOIN trace USING"
        " (identity) JOIN ask USING (run_id) WHERE part = 0 AND name = ? AND"
        " method = 'window' AND target = '30%'", (trace,)).fetchone()
    assert want < 0 and math.isclose(x, want, rel_tol=1e-5), (x, want)
