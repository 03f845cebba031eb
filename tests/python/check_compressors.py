# SPDX-License-Identifier: Apache-2.0
"""check_compressors.py DB CSV PAGE: the figures of what compressors of deltakv
miss, and of runs by them, as tests/check_figures.sh made them: points are means
of rows of DB, and stand on PAGE where their numbers say. Standard library
only."""

import json
import math

from figures import alike, db, rows

# What compressors miss: of three files, two alike in hidden units and two in
# their latents; the mean alone misses the same by each.
files = {(f["latent"], f["hidden"]): f["digest"]
         for f in db.execute("SELECT * FROM compressor WHERE length = 512")}
assert files.keys() == {(16, 32), (32, 16), (32, 32)}, files


def missed(part, digest, octave):
    """Mean over layers and traces."""
    if part == "without compressor":
        sql = ("SELECT value FROM figure WHERE (figure, series, part, x) = "
               + ("('missed', '10', '4', ?1)" if octave >= 0 else
                  "('residual.share', 'kv', 'references', ?1 + 1)"))
        found = [r[0] for r in db.execute(sql, (octave,))]
    else:
        refs = {"DeltaKV": "nearest",
                "without references, learned with": "none"}[part]
        found = [r[0] for r in db.execute(
            "SELECT value FROM figure WHERE figure = 'rebuilt' AND"
            " (series, part, x) = (?, ?, ?)", (digest, refs, octave))]
    assert len(found) == 4, (part, octave)
    return sum(found) / 4


def widths(r):
    turn = int(r["turn"])
    return missed(r["part"], files[
        (turn, 32) if r["dial"] == "latent" else (32, turn)], -1)


for dial, across in (("latent", "elements of a latent vector, dc"),
                     ("hidden", "hidden units, d_h")):
    view = [r for r in rows("compressors") if r["dial"] == dial]
    assert len(view) == 6 and all(r["traces"] == "2" for r in view), view
    assert len({r["series"] for r in view}) == 3
    alike(dial, "turn", "share", widths, across, "squares missed%", view=view)
places = alike(
    "rebuilt", "position", "share",
    lambda r: missed(r["series"], r["digest"],
                     int(math.log2(float(r["position"])))),
    "position", "squares missed%", log=True, view=rows("rebuilt_at"))
assert len(places) == 3 * 3 * 4, len(places)  # octaves 4 to 7 of 152 tokens

# Output error of the runs by each file, which rows name by their code.
errors = {}
for code, params, error in db.execute(
        "SELECT code, params, m.mean FROM run JOIN metric m USING (run_id)"
        " WHERE method = 'deltakv' AND part = 0 AND measure = 'output_error'"):
    name = json.loads(params)["compressor"]
    errors.setdefault((name, code), []).append(error)
assert len(errors) == 3 and all(len(of) == 2 for of in errors.values()), errors
wide = {"w.safetensors": (32, 32), "narrow.safetensors": (16, 32),
        "thin.safetensors": (32, 16)}
by = {wide[name]: sum(of) / 2 for (name, _), of in errors.items()}
for figure, dial, at, across in (
        ("run_latent", "dc", lambda x: (x, 32), "elements of a latent vector,"
         " dc"), ("run_hidden", "d_h", lambda x: (32, x), "hidden units, d_h")):
    view = [r for r in rows("dials") if r["dial"] == dial]
    assert [r["value"] for r in view] == ["16", "32"], view
    alike(figure, "turn", "output_error", lambda r: by[at(int(r["turn"]))],
          across, "output error", view=view)
