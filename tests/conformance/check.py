# SPDX-License-Identifier: Apache-2.0
"""check.py KVREPLAY: kvreplay decides as the authors' own code did, whose
decisions stand in tests/vectors: of each case of cases.csv as many are equal,
and ties, as it says, and none is another; at least eight methods, each on two
traces; and methods.csv, the table of METHODS.md, has a line
for each method except baselines. Needs numpy."""

import csv
import os
import re
import sys

import vectors

bad, methods = 0, {}
for case in vectors.cases():
    *found, wrong, why = vectors.graded(sys.argv[1], case, vectors.read(case))
    want = [int(case[x]) for x in ("decisions", "equal", "ties")]
    if found != want or wrong or not found[0]:
        print(f"{case['vectors']}: decisions, equal and ties are {found}, "
              f"{want} in cases.csv, and {wrong} others", *why)
        bad += 1
    methods.setdefault(case["method"], set()).add(case["trace"])
few = [x for x, of in methods.items() if len(of) < 2]
if len(methods) < 8 or few:
    print(f"{len(methods)} methods, on one trace alone: {few}")
    bad += 1
top = os.path.join(vectors.HERE, "..", "..")
with open(os.path.join(top, "methods.mk")) as f:
    names = re.findall(r"^METHODS \+= (\w+)[.]c", f.read(), flags=re.M)
for name in names:
    with open(os.path.join(top, "ref", "methods", name + ".c")) as f:
        if "Family: baseline" in f.read():
            names = [x for x in names if x != name]
with open(os.path.join(vectors.HERE, "methods.csv"), newline="") as f:
    said = {x["method"]: x["compared"] for x in csv.DictReader(f)}
ran = {x for x, how in said.items() if how == "run"}
if {*said} != {*names} or ran != {*methods}:
    print("methods.csv is not of", {*said} ^ {*names}, "run:", ran ^ {*methods})
    bad += 1
print(f"check_conformance: {len(methods)} methods, {bad} wrong")
sys.exit(bad > 0)
