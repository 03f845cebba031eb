# SPDX-License-Identifier: Apache-2.0
"""kvtrace prefill: check_prefill.py FOLDER BOUNDED. Patterns on a grid of four
blocks, with the order of pairs worked out by hand; rows that attend evenly, in
closed form; and BOUNDED, a trace with windows, sinks and a cap, for which an
earlier implementation in C printed these rows. Needs numpy."""

import csv
import io
import os
import sys

import numpy as np
from kvreplay.prefill import PATTERNS, Head, drawn, measured, parser, taken
from kvreplay.trace import read_trace, write_trace

FOLDER, BOUNDED = sys.argv[1:]
# Eight tokens, four blocks of two. Pair (i, j) weighs 10 i + j, so weights tell
# the order of the pairs.
ROW, COLUMN = np.indices((4, 4))
ALL, NONE = ROW >= COLUMN, np.zeros(8, int)
EVEN, PEAK = np.ones(8, int), np.array([0, 0, 0, 0, 9, 0, 0, 0])
# Columns: 20 2 | 1 1 | 30 2 | 2 1. Block 0 leads, then 2 (32), 3 (3), 1 (2);
# they enter at 0, at the largest token, 30, at the mass of three tokens, 52,
# and of five, 56. Distances: 0 leads, then 2 (20), 3 (3), 1 (2), at 0, 30, 50,
# 56.
BY_HAND = (
    # The first column upwards, the diagonal upwards, then away from it.
    ("a_shape", ALL, {}, [30, 20, 10, 0, 33, 22, 11, 32, 21, 31]),
    # A window: each block sees itself and the previous one.
    ("a_shape", ALL & (ROW - COLUMN < 2), {}, [10, 0, 33, 22, 11, 32, 21]),
    # The best of each row, then the second best; ties: the lower block.
    ("block_topk", ALL, dict(pooled=np.array(
        [[5, 9, 9, 9], [1, 2, 9, 9], [7, 7, 1, 9], [0, -1, 3, 2]])),
     [32, 20, 11, 0, 33, 21, 10, 30, 22, 31]),
    ("vertical_slash", ALL, dict(
        column=np.array([20, 2, 1, 1, 30, 2, 2, 1]),
        distance=np.array([30, 4, 1, 1, 5, 15, 1, 2])),
     [30, 20, 10, 0, 33, 22, 11, 32, 31, 21]),
    # Lines of one kind enter at 0 1 3 5, those of the other at 9.
    ("vertical_slash", ALL, dict(column=PEAK, distance=EVEN),
     [30, 20, 10, 0, 33, 22, 11, 32, 21, 31]),
    ("vertical_slash", ALL, dict(column=EVEN, distance=PEAK),
     [30, 20, 10, 0, 33, 22, 11, 31, 21, 32]),
)  # fmt: skip
ROWS = """layer,head,pairs,needed,vertical_slash,a_shape,block_topk
0,0,34,17,0.901956218,0.88899398,0.897222326
0,1,34,25,0.880309455,0.869182685,0.923690125
0,2,34,29,0.939799743,0.939799743,0.941595526
0,3,34,28,0.932978602,0.932978602,0.912534767
0,4,34,17,0.772053797,0.772053797,0.899632332
0,5,34,29,0.921919083,0.921919083,0.919781096
0,6,34,15,0.930218964,0.923956579,0.912097745
0,7,34,30,0.932544534,0.932544534,0.929905825
1,0,55,41,0.937719152,0.937719152,0.810518145
1,1,55,48,0.949531041,0.949531041,0.947415916
1,2,55,31,0.927067534,0.911378611,0.940347927
1,3,55,48,0.941954424,0.899600861,0.944767496
1,4,55,24,0.881926859,0.8501009,0.853725706
1,5,55,39,0.943242685,0.934227136,0.942784243
1,6,55,45,0.914136891,0.914136891,0.933517959
1,7,55,44,0.938267957,0.855289113,0.947846544
"""


def rows_of(trace, *words):
    a = parser().parse_args([trace.path, *words])
    return (measured if a.map is None else drawn)(trace, a)


def near(a, b, by=1e-6):
    assert abs(a - b) < by, (a, b)


for name, seen, more, order in BY_HAND:
    x = dict(column=NONE, distance=NONE, pooled=ROW)
    got = taken(Head(10 * ROW + COLUMN, seen, **{**x, **more}), name, 2)
    assert [*got] == order, (name, got)

bounded = read_trace(BOUNDED)
wanted = [*csv.DictReader(io.StringIO(ROWS))]
found = rows_of(bounded, "-b", "16")
assert len(wanted) == len(found)
for want, got in zip(wanted, found):
    for key in want:
        near(float(want[key]), got[key])
assert {x["needed"] for x in rows_of(bounded, "-b", "160")} == {1}

# Row t gives 1 / (t + 1) to each token. With two blocks of 35, pair 00 has mass
# 35, pair 10 `far`, pair 11 the rest; 35 and far are 84.3 % of 70.
r = np.random.default_rng(1)
k, v = r.standard_normal((2, 1, 75, 8), np.float32)
path = os.path.join(FOLDER, "even.safetensors")
write_trace(path, {0: dict(q=np.zeros((2, 75, 8), "f4"), k=k, v=v)}, 70)
even = read_trace(path)
far = sum(35 / (t + 1) for t in range(35, 70))
for share, needed in ("90", 3), ("84", 2), ("50", 1), ("100", 3):
    for x in rows_of(even, "-b", "35", "-s", share):
        assert (x["pairs"], x["needed"]) == (3, needed), (share, x)
        near(x["a_shape"], [far, 35 + far, 70][needed - 1] / 70)
got = {(x["head"], x["query_block"], x["key_block"]): x["mass"]
       for x in rows_of(even, "-b", "30", "-m", "0")}  # fmt: skip
assert len(got) == 12
for h in 0, 1:  # the last block has only ten rows
    near(got[h, 0, 0], 1)
    near(got[h, 2, 0], sum(30 / (t + 1) for t in range(60, 70)) / 10)
    near(sum(got[h, 2, j] for j in range(3)), 1)
print(f"prefill: {len(BY_HAND)} orders by hand, {len(PATTERNS)} patterns")
