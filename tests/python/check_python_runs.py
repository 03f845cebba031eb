# SPDX-License-Identifier: Apache-2.0
"""Laws of decisions and results in Python, like check_python.py.

Decisions are read as written; `replay` follows them; errors are named. All
forms of results agree. The example's row is in the table by its own name."""
import glob
import json
import math
import os
import subprocess
import sys
import unittest

import numpy as np

from check_python import SMALL, SOURCE, TRACES, Case, at, call
from kvreplay import container, decisions, results, trace

EXAMPLE = os.path.join(SOURCE, "traces", "examples", "my_method.py")


class Decisions(Case):
    def setUp(self):
        self.t, self.out = trace.read_trace(SMALL), at("d.safetensors")

    def lists(self, heads, make, steps):
        return {x: {s: [make(s, h) for h in range(heads)] for s in steps}
                for x in self.t.layers}

    def same(self, a, b):
        def plain(x):
            return {y: {s: [[*map(int, z)] for z in lists]
                        for s, lists in x[y].items()} for y in x}
        self.assertTrue(plain(a) == plain(b))  # a diff would be slow

    def replayed(self, name, prompt_len=None):
        words = ["--prompt-len", str(prompt_len)] if prompt_len else []
        row, = json.loads(call("KVREPLAY", "run", SMALL, "-q", *words, "-m",
                               f"replay:file={self.out}", "--format", "json"))
        self.assertEqual((row["status"], row["reason"]), ("fixed", None))
        self.assertIn(name, call("KVREPLAY", "run", SMALL, "-q", *words, "-m",
                                 f"replay:file={self.out}"))
        return row

    def test_stored_lists_come_back_and_are_held(self):
        p, n = self.t.prompt_len, self.t.n_tokens
        lists = self.lists(4, lambda s, h: [h, *range(s - 20 - h, s)],
                           range(p, n + 1))
        decisions.write_decisions(self.out, self.t, "windows", lists)
        back = decisions.read_decisions(self.out)
        self.same(back["lists"], lists)
        self.assertEqual(back["trace"], self.t.identity)
        self.assertEqual([back[x] for x in ("name", "kind", "head", "unit",
                                            "reindex", "views")],
                         ["windows", "stored", "kv", "token", False, {}])
        row = self.replayed("windows")
        self.assertEqual((row["kept_min"], row["kept_max"]), (21, 24))

    def test_views_of_pages_are_attended(self):
        steps = range(self.t.prompt_len + 1, self.t.n_tokens + 1)
        lists = self.lists(8, lambda s, h: [h, (s - 1) // 16], steps)
        decisions.write_decisions(self.out, self.t, "pages", lists, "view",
                                "query", "page:16", prompt_len=137)
        back = decisions.read_decisions(self.out)
        self.same(back["lists"], lists)
        self.assertEqual((back["unit"], back["prompt_len"]), ("page:16", 137))
        row = self.replayed("pages")
        self.assertLess(row["attended"], 33)
        self.assertGreater(row["attended"], 16)
        self.assertEqual(row["kept"], self.t.n_tokens)

    def test_stored_and_views_blocks_and_reindex(self):
        p, n = self.t.prompt_len, self.t.n_tokens
        lists = self.lists(4, lambda s, h: np.arange(s - 30, s),
                           [64, 128, *range(p, n + 1)])
        views = self.lists(8, lambda s, h: np.arange(s - 9, s),
                           range(p + 1, n + 1))
        decisions.write_decisions(self.out, self.t, "both", lists,
                                  "stored+view", reindex=True, block=64,
                                  views=views)
        back = decisions.read_decisions(self.out)
        self.same(back["lists"], lists)
        self.same(back["views"], views)
        self.assertEqual((back["block"], back["reindex"], back["view_head"]),
                         (64, True, "query"))
        row = self.replayed("both")
        self.assertEqual((row["kept_max"], row["attended"]), (30, 9))
        again = {x: back[x] for x in back if x not in (
            "format", "version", "trace", "name")}
        decisions.write_decisions(at("e.safetensors"), self.t, "both", **again)
        with open(self.out, "rb") as f, open(at("e.safetensors"), "rb") as g:
            self.assertEqual(f.read(), g.read())

    def test_a_layer_without_a_step_changes_nothing(self):
        decisions.write_decisions(self.out, self.t, "all", self.lists(
            4, None, ()))
        self.same(decisions.read_decisions(self.out)["lists"],
                  {x: {} for x in self.t.layers})
        row = self.replayed("all")
        self.assertEqual(row["output_error"]["max"], 0)

    def test_wrong_lists_are_refused(self):
        t, p = self.t, self.t.prompt_len

        def write(one=(0, 1), step=p, heads=4, name="x", drop=0, **kwargs):
            lists = self.lists(heads, lambda s, h: [0, 1], (step,))
            lists[3][step][heads - 1] = one
            for x in range(drop):
                del lists[x]
            decisions.write_decisions(at("no.safetensors"), t, name, lists,
                                    **kwargs)
        at_last = f"layer 3: step {p}, head 3: "
        view = dict(kind="view", step=p + 1)
        for sentence, kwargs in (
                (at_last + "names one twice", dict(one=[7, 3, 7])),
                (at_last + "must have a list", dict(one=[])),
                (at_last + "must have a list", dict(one=[0.5])),
                (at_last + "must have a list", dict(one=[[1]])),
                (at_last + "-1 is not", dict(one=[5, -1])),
                (at_last + f"{p} is not", dict(one=[p])),
                (at_last + "9 is not among the ones seen: 0 to 8",
                 dict(one=[9], unit="page:16")),
                ("step 136", dict(step=136)),
                ("step 64", dict(step=64, block=60)),
                ("step 0", dict(step=0)), ("step 306", dict(step=306)),
                (f"step {p}", dict(kind="view")),
                ("3 lists for 4 heads", dict(heads=3)),
                ("4 lists for 8 heads", dict(head="query")),
                ("recorded layers are [0, 1, 2, 3]", dict(drop=1)),
                (at_last + "16 is not among", dict(
                    one=np.array([16], np.int8), unit="page:16")),
                ("head 0: 1 is not among the ones seen: 0 to 0", dict(
                    unit="page:" + "9" * 10)),
                ("name must be a text", dict(name=3)),
                ("name must be a text", dict(name=None)),
                ("unit", dict(unit=16)), ("prompt_len is 0", dict(
                    prompt_len=0)),
                ("prompt_len is 1.5", dict(prompt_len=1.5)),
                ("prompt_len is 306", dict(prompt_len=306)),
                ("block -4", dict(block=-4)), ("block 4.0", dict(block=4.0)),
                ("name", dict(name="")), ("unit", dict(unit="page:0")),
                ("kind", dict(kind="both")), ("head", dict(head="all")),
                ("views need kind", dict(kind="stored+view")),
                ("views need kind", dict(views={0: {}})),
                ("8 heads", dict(head="query", **view))):
            self.refused(sentence, write, **kwargs)
        self.assertFalse(os.path.exists(at("no.safetensors")))
        write()
        write(step=64, block=32)
        write(one=[8], unit="page:16")

    def test_damaged_lists_are_refused(self):
        p = self.t.prompt_len
        decisions.write_decisions(self.out, self.t, "good", self.lists(
            4, lambda s, h: [h, 9], (p, p + 1)))
        meta, good = container.load(self.out)
        l = "layers.2."

        def saved(drop=(), meta=meta, **more):
            container.save(at("lists.safetensors"), meta, {
                **{x: y for x, y in good.items() if x not in drop},
                **{x: container.tensor(*y) for x, y in more.items()}})
            return decisions.read_decisions(at("lists.safetensors"))
        self.same(saved()["lists"], decisions.read_decisions(self.out)["lists"])
        ends = [0, 2, 4, 6, 8, 10, 12, 14, 16]
        for y in ([5, -2, 3], [], [0], ends[1:], ends[:-1], [1, *ends[1:]],
                  [*ends[:-1], 15], [0, 2, 1, *ends[3:]], [*ends, 16]):
            self.refused(l + "indptr: ", saved, **{l + "indptr": ("I64", y)})
        for y in [p + 1, p], [p, p]:
            self.refused(l + "indptr: ", saved, **{l + "steps": ("I32", y)})
        for x, y in (("indptr", ("I32", ends)), ("steps", ("I64", [p, p + 1])),
                     ("positions", ("I32", [[0] * 16])),
                     ("positions", ("F32", [0] * 16))):
            self.refused(l + "steps: give", saved, **{l + x: y})
        for x in "indptr", "positions":
            self.refused(l + "steps: give", saved, [l + x])
        for x in "foo.steps", "steps", "layers.x.steps", "layers.1.foo.steps":
            self.refused(x + ": give layers.N.", saved, **{x: ("I32", [p])})
        for x in "block", "prompt_len":
            self.refused(x + " is many, no number", saved, (), {
                **meta, x: "many"})

    def test_what_is_not_live_c_names(self):
        p = self.t.prompt_len
        decisions.write_decisions(self.out, self.t, "undead", self.lists(
            4, lambda s, h: [p - s + 1, 4], (p, p + 1)))
        done = subprocess.run(
            [os.environ["KVREPLAY"], "run", SMALL, "-q", "-m",
             f"replay:file={self.out}"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("step 138, layer 0, lane 0: position 0 is not live: it "
                      "was dropped at step 137", done.stdout)

    def test_decisions_of_a_method_come_back(self):
        if "--decisions" not in call("KVREPLAY", "run", "--help=all"):
            self.skipTest("run has no --decisions")
        rows = call("KVREPLAY", "run", SMALL, "-q", "-m", "h2o", "-b", "20%",
                    "--decisions", at("dec"), "--format", "jsonl")
        path, = glob.glob(os.path.join(at("dec"), "*"))
        d = decisions.read_decisions(path)
        self.assertEqual(d["trace"], self.t.identity)
        keys = ("kind", "head", "unit", "reindex", "block", "prompt_len")
        decisions.write_decisions(self.out, self.t, "again", d["lists"], **{
            x: d[x] for x in keys if x in d})
        self.assertEqual(self.replayed("again")["output"],
                         json.loads(rows)["output"])


class Results(Case):
    def run_all(self, form, *more):
        done = subprocess.run(
            [os.environ["KVREPLAY"], "run", SMALL, "-q", "-m", "h2o,kivi,"
             "snapkv:window=16", "-b", "20%,10", "--format", form, *more],
            capture_output=True, check=True)
        with open(at("rows." + form), "wb") as f:
            f.write(done.stdout)
        return results.read_results(at("rows." + form))

    def test_json_lines_and_the_database_say_the_same(self):
        rows = self.run_all("json", "--db", at("r.db"))
        lines = self.run_all("jsonl")
        data = results.read_results(at("r.db"))
        with open(at("rows.csv"), "wb") as f:
            f.write(subprocess.run(
                [os.environ["KVREPLAY"], "run", SMALL, "-q", "-m", "h2o", "-b",
                 "20%", "--format", "csv"], capture_output=True,
                check=True).stdout)
        with open(at("rows.csv")) as f:
            columns = f.readline().strip().split(",")
        none = {x for x in columns if x.split(".")[0] in rows[0] and
                "." in x}  # columns of measures that are null as a whole
        columns = [x for x in columns if x not in none]
        self.assertEqual({*rows[0]},
                         {*columns} | {x.split(".")[0] for x in none})
        self.assertEqual({x.split(".")[0] for x in none}, {
            "prompt_error", "prompt_mass", "prompt_attended"})
        self.assertLess({*columns}, {*data[0]})
        self.assertEqual(len(rows), 5)

        def order(x):
            return x["spec"], x["target"] or ""
        rows, lines, data = (sorted(x, key=order) for x in (rows, lines, data))
        for a, b, c in zip(rows, lines, data):
            for key in columns:
                if key not in ("identity", "code"):  # only in a database
                    self.assertTrue(a[key] == b[key] or
                                    math.isnan(a[key] + b[key]), key)
                if key != "code":  # only a database has it for built-ins
                    self.assertTrue(a[key] == c[key] or
                                    math.isnan(a[key] + c[key]), key)
        self.assertEqual(rows[0]["params"]["budget"], 10)
        self.assertGreater(np.nanmean(
            [x["output_error.mean"] for x in data]), 0)

    def test_steps_make_intervals(self):
        rows = self.run_all("json", "--db", at("steps.db"))
        steps = results.read_steps(at("steps.db"))
        rows = {x["spec"]: x for x in results.read_results(at("steps.db"))
                if x["output"]}  # without the refused one
        self.assertEqual({*steps}, {x["key"] for x in rows.values()})
        for row in rows.values():
            for measure, means in steps[row["key"]].items():
                self.assertEqual(len(means),
                                 row["n_tokens"] - row["prompt_len"])
                if not measure.startswith("needle"):  # steps weigh alike
                    self.assertAlmostEqual(np.mean(means),
                                           row[measure + ".mean"], 6)
        a, b = [steps[x["key"]]["output_error"] for x in rows.values()
                if x["method"] in ("h2o", "kivi")][:2]
        mean, error = results.paired(a, b)
        self.assertAlmostEqual(mean, np.mean(a) - np.mean(b), 12)
        self.assertGreater(error, 0)

    def test_intervals_are_of_batches(self):
        nan = math.nan
        self.assertEqual(results.interval([1, 3, nan, 5, 7]), (4, 2))
        self.assertEqual(results.paired([2, 5, 8, 11], [1, 2, 3, 4]),
                         (4, 2))
        self.assertEqual(results.interval([0, 0, 0, 1, 1, 1, 2, 2, 2]),
                         (1, math.sqrt(1 / 3)))
        mean, error = results.interval([1, 2, 4])
        self.assertTrue(mean == 7 / 3 and math.isnan(error))
        with self.assertRaisesRegex(ValueError, "3 steps against 2"):
            results.paired([1, 2, 3], [1, 2])

    def test_what_is_missing_is_nan(self):
        t = trace.read_trace(SMALL)
        decisions.write_decisions(at("d.safetensors"), t, "mine", {
            x: {} for x in t.layers})
        done = subprocess.run(
            [os.environ["KVREPLAY"], "run", TRACES[0], "-q", "-m",
             f"dense,replay:file={at('d.safetensors')}", "--format", "json"],
            capture_output=True)  # cases/cli.cases tests the exit code
        with open(at("nan.json"), "wb") as f:
            f.write(done.stdout)
        dense, mine = results.read_results(at("nan.json"))
        self.assertEqual(dense["output_error.mean"], 0)
        self.assertTrue(math.isnan(mine["output_error.mean"]))
        self.assertTrue(math.isnan(mine["bytes.end.total"]))
        self.assertIsNone(mine["output"])
        self.assertIn("trace", mine["reason"])

    def test_no_results_are_named(self):
        for text in (b"\x80\xff\0", b"no JSON", b"[1]", b"SQLite format 3\0",
                     b"[" * 10**5, b'[{"a":' * 10**5, b"[" + b"9" * 10**5):
            with open(at("none.db"), "wb") as f:
                f.write(text)
            with self.assertRaisesRegex(ValueError, r"none\.db: no results"):
                results.read_results(at("none.db"))
            for read in results.read_steps, results.read_evaluations:
                with self.assertRaisesRegex(ValueError, r"none\.db is not a"):
                    read(at("none.db"))
                with self.assertRaises(FileNotFoundError):
                    read(at("nowhere.db"))
                self.assertFalse(os.path.exists(at("nowhere.db")))

    def test_the_example_stands_in_the_table(self):
        with open(EXAMPLE) as f:
            self.assertLessEqual(len(f.readlines()), 25)
        t = trace.read_trace(SMALL)
        for words in (), (SMALL,), *(
                (SMALL, at("no.safetensors"), x) for x in (
                    "many", "0", "-1", str(t.prompt_len + 1))):
            said = call(sys.executable, EXAMPLE, *words, code=1)
            self.assertRegex(said, r"\Ausage: my_method.py TRACE .*\n\Z")
        call(sys.executable, EXAMPLE, SMALL, at("mine.safetensors"),
             str(t.prompt_len))
        for path in TRACES:
            if trace.read_trace(path).n_tokens > 1000:
                continue  # the example's loops are slow
            call(sys.executable, EXAMPLE, path, at("mine.safetensors"), "40")
            words = "run", path, "-q", "-m", (
                f"replay:file={at('mine.safetensors')}")
            self.assertRegex(call("KVREPLAY", *words), r"\nmy-method ")
            row, = json.loads(call("KVREPLAY", *words, "--format", "json"))
            self.assertEqual((row["kept_min"], row["kept_max"]), (40, 40))
            self.assertLess(row["output_error"]["mean"], 0.7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
