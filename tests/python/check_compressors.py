# SPDX-License-Identifier: Apache-2.0
"""check_compressors.py DB CSV PAGE: the figures of runs by compressors of
deltakv, as tests/check_figures.sh made them: points are means of rows of DB,
and stand on PAGE where their numbers say. Standard library only."""

import json

from figures import alike, db, rows

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
          across, "output error", view)
