# SPDX-License-Identifier: Apache-2.0
"""kvreplay.grade, like check_python.py. Our decisions and outputs are equal,
differences are described, and `tie` sets the width of ties."""
import glob
import math
import os
import unittest

import numpy as np

from check_python import SMALL, Case, at, call
from kvreplay import container, decisions, grade, trace


class Grades(Case):
    METHOD = "h2o:recent=4", 27

    @classmethod
    def setUpClass(cls):
        cls.theirs, cls.made = at("graded"), at("graded.o.safetensors")
        call("KVREPLAY", "run", SMALL, "-q", "-m", cls.METHOD[0], "-b", "27",
             "--decisions", cls.theirs, "--outputs", cls.made)
        cls.theirs, = glob.glob(os.path.join(cls.theirs, "*"))
        _, tensors = container.load(cls.made)
        cls.o = [container.array(tensors[f"layers.{l}.o"]).copy()
                 for l in range(4)]

    def graded(self, *method, outputs=None, **options):
        return grade.grade(
            SMALL, *(method or self.METHOD), self.theirs, outputs,
            kvreplay=os.environ["KVREPLAY"], **options)

    def test_ours_is_equal(self):
        for o in self.made, dict(enumerate(self.o)):
            r = self.graded(outputs=o)
            self.assertEqual((r["passed"], r["ties"], r["wrong"], r["theirs"],
                              grade.wrong(r)), (True, 0, 0, "h2o", []))
            self.assertEqual(r["equal"], r["decisions"])
            self.assertEqual(r["outputs"]["max_abs"], 0)

    def test_what_differs_is_said(self):
        o = dict(enumerate(x.copy() for x in self.o))
        o[1][2, 9] *= 1.01
        o[2][3, 5, 7] = np.nan
        r = self.graded(outputs=o, all=True)
        self.assertEqual((r["passed"], r["wrong"]), (False, 0))
        self.assertEqual([x["outputs"]["wrong"] for x in r["layers"]],
                         [0, 1, 1, 0])
        worst = r["layers"][2]["wrong_rows"][0]
        self.assertTrue(math.isnan(worst["theirs"]))
        self.assertEqual(r["outputs"]["max_abs"], math.inf)
        said = grade.wrong(r)
        self.assertEqual(len(said), 2)
        self.assertIn("first that of step 147, head 2", said[0])
        r = self.graded("h2o:recent=4", 26, follow="ours")
        self.assertEqual((r["follow"], r["least_tie"], r["passed"]),
                         ("ours", None, False))
        self.assertIn("layer 3, step 137, lane 0: 27 entries, not 26",
                      grade.wrong(r)[3])

    def test_a_tie_is_as_wide_as_asked(self):
        # Replaces a token of the prompt by another: a tie far too wide.
        d = decisions.read_decisions(self.theirs)
        p = self.graded("h2o:recent=4", 27)["prompt_len"]
        kept = d["lists"][0][p][0]
        other = next(x for x in range(p) if x not in kept)
        d["lists"][0][p][0] = np.sort([*kept[1:], other])
        more = {x: y for x, y in d.items()
                if x not in ("format", "version", "trace", "name", "views")}
        decisions.write_decisions(at("tied.safetensors"), trace.read_trace(
            SMALL), "tied", **more)
        self.theirs, own = at("tied.safetensors"), self.theirs
        try:
            r = self.graded(follow="ours")
            self.assertGreater(r["wrong"], 0)
            tie = r["layers"][0]["first_wrong"]["least_tie"]
            r = self.graded(follow="ours", tie=1.01 * tie)
            self.assertGreater(r["ties"], 0)
        finally:
            self.theirs = own

    def test_what_cannot_be_graded_is_a_sentence(self):
        for sentence, method, options in (
                ("did you mean h2o?", ("h2", 27), {}),
                ("--tie must be a number", self.METHOD, dict(tie=-1)),
                ("no option --nonsense", self.METHOD, dict(nonsense=1)),
                ("layers.0.o is no array of 3 dimensions", self.METHOD,
                 dict(outputs={0: self.o[0][0]})),
                ("layers.0.o is no array", self.METHOD,
                 dict(outputs={0: self.o[0].astype("f8")}))):
            self.refused(sentence, self.graded, *method, **options)
        with self.assertRaisesRegex(FileNotFoundError, "no program none"):
            grade.grade(SMALL, *self.METHOD, self.theirs, kvreplay="none")


if __name__ == "__main__":
    unittest.main(verbosity=2)
