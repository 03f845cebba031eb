# SPDX-License-Identifier: Apache-2.0
"""check.py KVREPLAY: kvreplay decides as the authors' own code did, whose
decisions stand in tests/vectors: of each case of cases.tsv as many are equal,
and ties, as it says, and none is another; at least eight methods, each on two
traces. Needs numpy."""

import sys

import vectors

bad, methods = 0, {}
for case in vectors.cases():
    *found, wrong, why = vectors.graded(sys.argv[1], case, vectors.read(case))
    want = [int(case[x]) for x in ("decisions", "equal", "ties")]
    if found != want or wrong or not found[0]:
        print(f"{case['vectors']}: decisions, equal and ties are {found}, "
              f"{want} in cases.tsv, and {wrong} others", *why)
        bad += 1
    methods.setdefault(case["method"], set()).add(case["trace"])
few = [x for x, of in methods.items() if len(of) < 2]
if len(methods) < 8 or few:
    print(f"{len(methods)} methods, on one trace alone: {few}")
    bad += 1
print(f"check_conformance: {len(methods)} methods, {bad} wrong")
sys.exit(bad > 0)
