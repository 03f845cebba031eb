# SPDX-License-Identifier: Apache-2.0
"""Laws of kvreplay.scores and `score=file`, like check_python.py.

Scores are read as written. numpy works out what each method keeps for random
scores, and `replay` follows that: journal and output are the same. Each error
is one sentence, from writer and program. A layer with a sliding window needs no
scores. If a file is replaced, the row is another, and `verify` says so."""
import json
import os
import unittest

import numpy as np

from check_python import SMALL, Case, at, call, copy
from kvreplay import container, decisions, scores, trace

B = 30  # entries per lane


def best(score, n):
    """Indexes of the n largest, ascending. Ties: the first ones."""
    return np.sort(np.argsort(-score, kind="stable")[:n])


class Scores(Case):
    def setUp(self):
        self.t, self.out = trace.read_trace(SMALL), at("s.safetensors")
        r = np.random.default_rng(34)
        self.p, self.all = self.t.prompt_len, {
            x: r.standard_normal((self.t.n_kv_heads, self.t.prompt_len)).astype(
                "f4") for x in self.t.layers}

    def write(self, given=None, t=None, **more):
        scores.write_scores(self.out, t or self.t, "random",
                            given or self.all, **more)

    def rows(self, specs, path=SMALL, *words):
        return json.loads(call("KVREPLAY", "run", path, "-q", "--format",
                               "json", *words, "-m", ",".join(specs)))

    def test_what_goes_comes_back(self):
        self.write()
        back = scores.read_scores(self.out)
        self.assertEqual([back[x] for x in ("format", "version", "scorer",
                                            "trace")],
                         ["kvscores", "1", "random", self.t.identity])
        for x, given in self.all.items():
            np.testing.assert_array_equal(back["scores"][x], given)

    def follow(self, name, spec, keep):
        """A replay of keep(a layer's scores) decides as the specification."""
        out = at(name + ".safetensors")
        decisions.write_decisions(out, self.t, name, {
            x: {self.p: keep(s)} for x, s in self.all.items()})
        theirs, ours = self.rows([f"replay:file={out}",
                                  f"{spec}:scores={self.out}"])
        for what in "journal", "output":
            self.assertEqual(theirs[what], ours[what], spec)

    def test_methods_keep_what_numpy_says(self):
        self.write()
        ends = np.arange(self.p - 5, self.p)
        self.follow("best", f"topk:budget={B}", lambda s: [
            best(x, B) for x in s])
        self.follow("ends", f"topk:budget={B}:window=5", lambda s: [
            np.append(best(x[:-5], B - 5), ends) for x in s])
        self.follow("least", "topk:threshold=0.5", lambda s: [
            np.flatnonzero(x >= 0.5) for x in s])
        self.follow("both", f"topk:threshold=0.5:budget={B}", lambda s: [
            np.intersect1d(best(x, B), np.flatnonzero(x >= 0.5)) for x in s])
        self.follow("even", f"adakv:score=file:alpha=1:budget={B}",
                    lambda s: [best(x, B) for x in s])
        self.follow("heads", f"headkv:score=file:budget={B}", lambda s: [
            best(x, B) for x in s])

        def shared(s):
            chosen = best(s.reshape(-1), B * len(s))
            return [chosen[chosen // self.p == h] % self.p
                    for h in range(len(s))]
        self.follow("shared", f"adakv:score=file:alpha=0:budget={B}", shared)

    def test_a_row_names_the_bytes_of_its_file(self):
        db = at("scores.db")
        self.write()
        first, = self.rows([f"topk:scores={self.out}"], SMALL, "-b", "20%",
                           "-d", db)
        call("KVREPLAY", "verify", db, "-q")
        self.all[0] = -self.all[0]
        self.write()
        second, = self.rows([f"topk:scores={self.out}"], SMALL, "-b", "20%")
        self.assertNotEqual(first["code"], second["code"])
        self.assertNotEqual(first["journal"], second["journal"])
        self.assertIn("of other code", call("KVREPLAY", "verify", db, "-q",
                                            code=3))

    def test_two_files_of_a_method(self):
        heads = at("heads.safetensors")
        table = np.ones((self.t.n_layers, self.t.n_heads), "f4")
        container.save(heads, {"format": "x"}, {
            "scores": container.tensor("F32", table)})
        self.write()
        own = f"headkv:score=file:scores={self.out}:budget={B}:beta=1"
        alike, one = self.rows([f"{own}:table={heads}", own])
        self.assertEqual(alike["output"], one["output"])
        self.assertNotEqual(alike["code"], one["code"])
        table[:, 0] = 9
        container.save(heads, {"format": "x"}, {
            "scores": container.tensor("F32", table)})
        other, = self.rows([f"{own}:table={heads}"])
        self.assertNotEqual(alike["code"], other["code"])
        self.assertNotEqual(alike["output"], other["output"])
        self.all[0] = -self.all[0]  # prefers the other of two
        self.write()
        third, = self.rows([f"{own}:table={heads}"])
        self.assertNotEqual(other["code"], third["code"])
        if os.environ.get("KV_EMU"):
            self.assertIn("1 equal", call("KVREPLAY", "check", SMALL, "-q",
                                          "-m", f"{own}:table={heads}"))

    def test_layers_with_a_window_need_none(self):
        path = at("windowed.safetensors")
        copy(self.t, path, metadata={**self.t.metadata,
                                     "attn.sliding_window": "[0,8,0,8]"})
        t = trace.read_trace(path)
        self.write({x: self.all[x] for x in (0, 2)}, t)
        row, = self.rows([f"topk:budget={B}:scores={self.out}"], path)
        self.assertEqual((row["status"], row["reason"]), ("ok", None))

    def test_what_is_wrong_is_named(self):
        s, one = self.all, self.all[1]
        bad = one.copy()
        bad[2, 5] = np.nan
        for given, sentence in (
                ({}, "for layers [], but the recorded layers are [0, 1, 2, 3]"),
                ({**s, 1: one[:3]}, "layer 1: scores are float32 [3, 137]"),
                ({**s, 1: one[:, 1:]}, "or up to 305 tokens"),
                ({**s, 1: bad}, "layer 1: head 2, token 5: nan")):
            self.refused(sentence, scores.write_scores, self.out, self.t, "x",
                         given)
        self.refused("scorer must be a text", scores.write_scores, self.out,
                     self.t, "", s)
        name = "layers.1.scores"
        meta, good = (self.write(), container.load(self.out))[1]
        for change, sentence in (
                ({name: container.tensor("F32", one[:3])},
                 f"tensor {name} has shape [3, 137]; it must have [4, *]"),
                ({name: container.tensor("F32", bad)},
                 f"tensor {name} holds NaN or Inf at [2, 5]"),
                ({name: container.tensor("F32", one[:, 1:])},
                 "layer 1 has scores of 136 tokens but needs 137"),
                ({name: None}, f"tensor {name} is missing"),
                ({"trace": "0" * 64}, "belongs to another trace"),
                ({"trace": None}, "metadata trace is missing"),
                ({"version": "2"}, "metadata version is 2; write 1"),
                ({"format": "kvdecisions"}, "write kvscores")):
            new, told = dict(good), dict(meta)
            for x, y in change.items():
                where = told if x in meta else new
                where.pop(x) if y is None else where.update({x: y})
            os.unlink(self.out)
            container.save(self.out, told, new)
            self.assertIn(sentence, call(
                "KVREPLAY", "run", SMALL, "-q", "-m",
                f"topk:budget={B}:scores={self.out}", code=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
