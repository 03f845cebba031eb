# SPDX-License-Identifier: Apache-2.0
"""check_deltakv.py DB CSV PAGE: the figures of runs of deltakv, as
tests/check_figures.sh named them: points are means over traces of rows of DB,
and stand on PAGE where their numbers say; ratios are those of the paper's
equations, computed here from the layers, and of runs what was counted. Standard
library only."""

import json
import re

from figures import db, near, rows, section, straight

runs = {}
for r in db.execute(
    "SELECT r.*, m.mean AS error FROM ran r JOIN metric m USING (run_id)"
    " WHERE method = 'deltakv' AND part = 0 AND measure = 'output_error'"
):
    p = json.loads(r["params"])
    key = (p["stride"], p["compressor"].split("/")[-1], p["references"],
           *([p["kept"]] if "kept" in p else []))
    runs.setdefault(key, []).append(r)
assert len(runs) == 6 and all(len(of) == 2 for of in runs.values()), runs


def mean(key, column):
    return sum(r[column] for r in runs[key]) / 2


def marks(name):
    return re.findall(
        r"translate\(([\d.]+) ([\d.]+)\)[^>]*><title>([^<;]*); [^<]*?"
        r"output error: (\S+); [^<]*: ([\d.]+)%?<", section(name))


dials = rows("dials")
assert [(r["dial"], r["value"], r["series"]) for r in dials] == [
    ("stride", s, "k=4 r=0.25 fp16 R=8 without compressor")
    for s in ("5", "10")], dials
for r in dials:
    near(float(r["output_error"]), mean((int(r["value"]), "none", "nearest"),
                                        "error"), "dials")
drawn = marks("stride")
assert [m[3:] for m in drawn] == [
    (f"{float(r['output_error']):.6g}", r["value"]) for r in dials], drawn
straight([(float(m[4]), float(m[0])) for m in drawn], "stride")
straight([(float(m[3]), float(m[1])) for m in drawn], "its error")

KINDS = {"DeltaKV": (10, "w.safetensors", "nearest"),
         "without compressor": (10, "none", "nearest"),
         "without references": (10, "alone.safetensors", "none"),
         "without references, learned with": (10, "w.safetensors", "none")}
ablations = {r["series"]: r for r in rows("ablations")}
assert ablations.keys() == KINDS.keys(), ablations
for kind, key in KINDS.items():
    near(float(ablations[kind]["output_error"]), mean(key, "error"), kind)
    near(float(ablations[kind]["kr"]), mean(key, "kr"), kind)
drawn = marks("ablations")
assert sorted(m[2] for m in drawn) == sorted(KINDS), drawn
straight([(mean(KINDS[m[2]], "kr"), float(m[0])) for m in drawn], "ablations")
straight([(mean(KINDS[m[2]], "error"), float(m[1])) for m in drawn],
         "their error")

# What the paper's tables print, and what its equations give: to the digits
# that it prints but for two slips, 7.2 % and CR of the r that it names.
ratios = rows("ratios")
paper = [r for r in ratios if r["part"] == "1"]
WANT = [(0.4516, 0.4094), (0.4516, 0.3), (0.4313, 0.3), (0.4313, 0.2),
        (0.2934, 0.3), (0.1129, None), (0.4727, 0.3), (0.4893, None),
        (0.4414, None)]
assert len(paper) == len(WANT)
for r, (kr, cr) in zip(paper, WANT):
    assert abs(float(r["equation_kr"]) - kr) < 6e-5, r
    assert (abs(float(r["equation_cr"]) - cr) < 6e-5 if cr
            else not r["equation_cr"]), r
    slip = "all in 4 bits" in r["what"]
    assert (abs(float(r["paper_kr"]) - kr) < 0.005) != slip, r
    slip = "as printed" in r["what"]
    assert not cr or (abs(float(r["paper_cr"]) - cr) < 0.005) != slip, r
FOUR = (10, "w.safetensors", "nearest", "int4")
counted = [r for r in ratios if r["part"] == "2"]
assert len(counted) == 6, counted
for r in counted:
    key = [k for k in runs if abs(mean(k, "kr") - float(r["kr"])) < 1e-12]
    assert len(key) == 1, r
    per = 0 if key[0][2] == "none" else 1 / key[0][0]
    near(float(r["cr"]), mean(key[0], "cr"), "CR counted")
    near(float(r["per_stride"]), per, "references")
    part = 0.25 if key[0] == FOUR else 1
    near(part * (0.5 + 0.5 * per) + 0.5 * float(r["z"]), float(r["kr"]),
         "equation 5")
    near(float(r["equation_cr"]), 0.5 + 0.5 * 0.25, "equation 6")
    assert f">{100 * float(r['kr']):.1f}%<" in section("ratios"), r


# All in 4 bits: its bytes, token by token, of a layer that is full and one that
# is not. Rows of 64 elements, of 2 heads' keys and values; latents of 32.
def held(seen, full):
    whole = (seen - 8) // 8
    end = 8 + (whole - 1) * 8 if whole > 1 else 0
    kept = sum(full or i < 8 or i % 10 == 0 for i in range(end))
    row = 64 // 2 + 2 + 2  # codes, scale and minimum
    block = 32 // 2 + 2 + 2 + 4 * 4 + 4  # ids of four references, a position
    return 4 * (kept * row + (seen - end) * 64 * 2) + (end - kept) * block


steps = range(112, 153)  # tokens seen, from the prompt's end on
near(sum((held(t, True) + held(t, False)) / (2 * t * 4 * 64 * 2)
         for t in steps) / len(steps), mean(FOUR, "kr"), "all in 4 bits")
