# SPDX-License-Identifier: Apache-2.0
"""check_residuals.py DB CSV PAGE: the figures of how alike tokens are, as
tests/check_figures.sh made them: of each, the numbers that are drawn on PAGE,
and where, are those of the files that kvreport exported to CSV, and these are
means of rows of DB, asked here in other words. Standard library only."""

import math

from figures import alike, db, near

# --- how alike tokens are ---

HOW = {"kv": "K and V, by distance", "k": "K, by cosine"}
WHAT = {"raw": "as it is", "nearest": "without the nearest",
        "random": "without a random one",
        "references": "without the mean of 4 references"}


def both(sql, *bind):
    """Mean over both traces; one that has no such row counts as 0."""
    found = [r[0] for r in db.execute(sql, bind)]
    assert 1 <= len(found) <= 2, (sql, bind)
    return sum(found) / 2


SPACE = {v: k for k, v in HOW.items()}
nearest = alike(
    "nearest", "layer", "share",
    lambda r: both("SELECT " + (
        "chance FROM similarity WHERE space = 'k'" if "any" in r["series"] else
        ("far" if r["series"][:3] == "far" else "close") +
        " * 1.0 / tokens FROM similarity WHERE space = '" +
        SPACE[r["series"].split(": ")[1]] + "'") + " AND layer = ?",
        r["layer"]),
    "layer", "tokens%")
assert len(nearest) == 2 * 5
for name, what, x, scale, across in (
        ("distances", "distance", "distance", 1, "tokens back"),
        ("cosines", "cosine", "cosine", 20, "cosine"),
        ("norms", "norm", "octave", 4, "norm, as a power of two"),
        ("elements", "value", "element", 8,
         "element, in root mean squares of raw ones")):
    def share(r):
        c = float(r[x])
        c = math.log2(c) if x == "distance" else c * scale - 0.5
        kind = r.get("kind", "nearest")
        assert c == int(c) and r["layer"] in r["panel"]
        assert HOW[r["space"]] in r["panel"] + r["series"]
        assert "kind" not in r or WHAT[kind] == r["series"]
        total = sum(n for n, in db.execute(
            "SELECT value FROM figure"
            " WHERE (layer, series, part, figure) = (?, ?, ?, ?)",
            (r["layer"], r["space"], kind, "class." + what)))
        return sum(n for n, in db.execute(
            "SELECT value FROM figure WHERE"
            " (layer, series, part, figure, x) = (?, ?, ?, ?, ?)",
            (r["layer"], r["space"], kind, "class." + what, int(c)))) / total
    view = alike(name, x, "share", share, across,
                 "elements%" if name == "elements" else "tokens%",
                 log=name == "distances")
    sums = {}
    for r in view:
        key = (r["panel"], r["series"])
        sums[key] = sums.get(key, 0) + float(r["share"])
    assert len(sums) == (14 if "kind" in view[0] else 4), name
    for key, n in sums.items():
        near(n, 1, f"{name}: {key}")
left = alike("residuals", "layer", "share",
             lambda r: both("SELECT share FROM residual WHERE (layer, space,"
                            " kind) = (?, ?, ?)", r["layer"], r["space"],
                            r["kind"]),
             "layer", "squares left%")
assert len(left) == 14
for r in left:
    near(float(r["norm"]), both(
        "SELECT norm FROM residual WHERE (layer, space, kind) = (?, ?, ?)",
        r["layer"], r["space"], r["kind"]), "norms")
alike("strides", "k", "share",
      lambda r: both("SELECT value FROM figure WHERE figure = 'missed' AND"
                     " x = -1 AND (layer, series, part) = (?, ?, ?)",
                     r["layer"], r["stride"], r["k"]),
      "references, k", "squares missed%", log=True)
alike("positions", "position", "share",
      lambda r: both("SELECT value FROM figure WHERE figure = 'missed' AND"
                     " (layer, series, part, x) = (?, '10', '4', ?)",
                     r["layer"],
                     int(math.log2(float(r["position"])))),
      "position", "squares missed%", log=True)
alike("entropies", "layer", "bits",
      lambda r: both("SELECT bits FROM entropy WHERE (layer, part, coding) ="
                     " (?, ?, ?)", r["layer"], r["part"], r["coding"]),
      "layer", "bits an element")
if db.execute("SELECT count(*) FROM spectrum").fetchone()[0]:  # with LAPACK
    spectra = alike(
        "spectra", "direction", "total",
        lambda r: both("SELECT total FROM spectrum WHERE (layer, space, kind,"
                       " direction) = (?, ?, ?, ?)", r["layer"], r["space"],
                       r["kind"], r["direction"]),
        "directions", "squares%", log=True)
    last = {(r["panel"], r["series"]): float(r["total"]) for r in spectra}
    for key, n in last.items():
        near(n, 1, f"spectrum of {key}")
