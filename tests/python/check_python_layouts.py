# SPDX-License-Identifier: Apache-2.0
"""Layouts and regular indices in float64 with numpy, like check_python.py.

Recomputes what layouts of regular indices hold and load, rank by rank, from
what query heads attended to, which another file says. kvreplay.base attends to
the same tokens as the first pass, so its outputs are those of plain attention
over them. It stores a token as long as any head of any layer will attend to it,
and the ledger counts exactly that.
"""
import glob
import json
import os
import sqlite3
import unittest

import numpy as np

from check_python import SMALL, Case, at, call
from kvreplay import base, container, decisions, trace

METHODS = ("hardkv:upper=100:lower=10:window=4:every=6:p=0.6",
           "hardkv:upper=137:lower=10:window=1:sinks=0:local=0:every=1:"
           "adapter=vanilla:variant=code")  # fmt: skip
STORES = ("base", "ls:sparse", "ls:max", "la:max", "hs:max", "ha:max",
          "ls:sparse:masks=layer")  # fmt: skip
LAYOUTS = [x + y for y in ("", ":tp=2") for x in STORES] + [
    "base:tp=4", "hs:sparse:tp=4"]  # fmt: skip


def run(*words):
    return json.loads(call("KVREPLAY", "run", SMALL, "-q", "--format", "json",
                           *words))[0]


def column(db, query):
    with sqlite3.connect(db) as c:
        return [x for x, in c.execute(query)]


class Layouts(Case):
    @classmethod
    def setUpClass(cls):
        cls.t = trace.read_trace(SMALL)
        cls.slot = 2 * cls.t.head_dim * cls.t.layer(
            cls.t.layers[0])["k"].dtype.itemsize
        cls.plain = at("plain.db")
        run("-m", "window", "-b", "20%", "--layout", "slots,ha:max", "--db",
            cls.plain)
        cls.first = []
        for i, method in enumerate(METHODS):
            made = [at(f"{i}{x}") for x in ("dec", "out.safetensors", "r.db")]
            row = run("-m", method, "--decisions", made[0], "--db", made[2],
                      "--layout", ",".join(LAYOUTS))
            run("-m", method, "--outputs", made[1])
            path, = glob.glob(made[0] + "/*")
            cls.first.append((row, path, made[1], made[2]))

    def attended(self, path):
        """[layers, steps, query heads, tokens] from the decisions at path."""
        t, d = self.t, decisions.read_decisions(path)
        views = d["lists"] if d["kind"] == "view" else d["views"]
        lists = {} if d["kind"] == "view" else d["lists"]
        return np.array([base.attended(
            t, t.prompt_len, t.n_kv_heads, lists.get(l, {}), views.get(l, {}))
                         for l in t.layers])

    def lanes(self, path):
        """[layers, steps, KV heads, tokens] held, without the step's own."""
        t, seen = self.t, self.attended(path)
        group = t.n_heads // t.n_kv_heads
        lanes = seen.reshape(*seen.shape[:2], -1, group, t.n_tokens)
        self.assertTrue((lanes.any(3) == lanes.all(3)).all())
        lanes = lanes.any(3)
        for i in range(lanes.shape[1]):
            lanes[:, i, :, t.prompt_len + i] = False
        return lanes

    def dealt(self, lanes, ranks):
        return np.split(lanes, ranks, axis=2)

    def held(self, db, name):
        """[steps, pages and bytes] of the layout with that name."""
        with sqlite3.connect(db) as c:
            return np.array(c.execute(
                "SELECT pages, bytes FROM layout_step WHERE layout = ?"
                " ORDER BY step", (name,)).fetchall())

    def counted(self, name, lanes):
        """Slots in use after each step but the last, for lanes [layers, steps,
        lanes, tokens]; and bytes of masks."""
        layers, steps, heads, _ = lanes.shape
        n, union = lanes.sum(3), lanes.any(axis=2).sum(2)
        seen = self.t.prompt_len + np.arange(steps)
        masks = np.zeros(steps, int)
        if ":sparse" in name:
            slots = layers * heads * seen
            masks = layers * (1 if "=layer" in name else heads) * (
                (seen + 7) // 8)
        elif name.startswith("base"):
            slots = layers * heads * lanes.any(axis=(0, 2)).sum(1)
        elif name.startswith("l"):
            slots = layers * heads * union.max(0)
        elif name.startswith("hs"):
            slots = heads * n.max(2).sum(0)
        else:
            slots = layers * heads * n.max(axis=(0, 2))
        return slots, masks

    def test_layouts_are_what_heads_attend_to(self):
        for row, path, _, db in self.first:
            lanes = self.lanes(path)
            for name in LAYOUTS:
                held = self.held(db, name)
                parts = self.dealt(lanes, int(name.partition("tp=")[2] or 1))
                found = [self.counted(name, x) for x in parts]
                same = [(held[:-1, 0] == 2 * slots).all() and
                        (held[:-1, 1] == slots * self.slot + masks).all()
                        for slots, masks in found]
                self.assertTrue(any(same), name)
                slots = found[same.index(True)][0]
                of = row["layout"][name]
                self.assertEqual(of["lanes"], parts[0].shape[0] *
                                 parts[0].shape[2])
                self.assertEqual(of["loads"], (slots + of["lanes"]).sum())

    def test_the_fullest_rank_stands_beside_its_layout(self):
        for _, path, _, db in self.first:
            lanes = self.lanes(path)
            rows = json.loads(call("KVREPORT", "table", db, "--layouts", "-f",
                                   "json"))
            self.assertEqual([(x["layout"], x["ranks"]) for x in rows], sorted(
                [(x, 2) for x in STORES] + [("base", 4), ("hs:sparse:tp=4", 4)]
            ))  # fmt: skip
            for row in rows:
                name = row["layout"].partition(":tp=")[0]
                ranks = [self.counted(name, x)
                         for x in self.dealt(lanes, row["ranks"])]
                most = max(ranks, key=lambda x: sum(x[0] * self.slot + x[1]))
                held = [self.held(db, x)[:, 1].mean() for x in
                        (row["layout"], f"{name}:tp={row['ranks']}")]
                self.assertEqual(row["rank_lanes"], lanes.shape[0] *
                                 lanes.shape[2] // row["ranks"])
                self.assertEqual(row["rank_loads"],
                                 sum(most[0] + row["rank_lanes"]), name)
                self.assertAlmostEqual(row["bytes_mean"], held[0])
                self.assertAlmostEqual(row["rank_bytes_mean"], held[1])
                if name == row["layout"]:
                    self.assertAlmostEqual(row["rank_even"], row["ranks"] *
                                           held[1] / held[0])
                else:  # needs ranks
                    self.assertIsNone(row["rank_even"])
            text = call("KVREPORT", "table", db, "--layouts")
            self.assertRegex(text, r"(?m)^method .* tp +tp K +even +tp loads$")
            self.assertLessEqual(max(map(len, text.splitlines())), 100)
            traces = {row["trace"] for row in rows}
            self.assertEqual(traces, traces & set(text.splitlines()))
            other = call("KVREPORT", "table", self.plain, "--layouts")
            self.assertNotRegex(other, r"(?m)^method .* tp ")

    def test_the_base_attends_to_the_same_and_holds_what_any_head_will(self):
        t = self.t
        for _, path, outputs, db in self.first:
            out, second = db + ".base.safetensors", db + ".base"
            base.share(path, t, out)
            run("-m", f"replay:file={out}", "--db", second, "--outputs",
                db + ".again.safetensors")
            seen = self.attended(path)
            self.assertTrue((self.attended(out) == seen).all())
            any_head = seen.any(axis=(0, 2))
            later = np.maximum.accumulate(any_head[::-1])[::-1]
            for i in range(len(later)):  # tokens that have not entered
                later[i, t.prompt_len + i:] = False
            # Bytes of K and V after each step but the last.
            lane = 2 * t.head_dim * t.layer(t.layers[0])["k"].dtype.itemsize
            codes = column(second, "SELECT codes FROM step_cost ORDER BY step")
            alone = column(db, "SELECT bytes FROM layout_step "
                           "WHERE layout = 'base' ORDER BY step")
            mine = later.sum(1) * len(t.layers) * t.n_kv_heads * lane
            self.assertEqual(codes[:-1], [*mine])
            # A token that leaves and returns stays here, but not in layouts.
            self.assertTrue(all(x >= y for x, y in zip(codes, alone)))
            self.near(seen, db + ".again.safetensors", outputs)
            self.stored(out, codes)

    def stored(self, decisions, codes):
        """On a device, the base gives the same on every backend, and the layout
        counts as many bytes as the ledger of the second pass."""
        backends = ("ref", "emu") if os.environ.get("KV_EMU") else ("ref",)
        rows = [run("-m", f"replay:file={decisions}", "--layout", "base",
                    "--backend", x, "--db", f"{decisions}.{x}.db")
                for x in backends]
        for row, name in zip(rows, backends):
            self.assertEqual([row[x] for x in ("journal", "state", "output")],
                             [rows[0][x] for x in
                              ("journal", "state", "output")])
            held = self.held(f"{decisions}.{name}.db", "base")[:, 1]
            self.assertEqual([*held], codes)

    def near(self, seen, *paths):
        """Outputs at paths agree with attention in float64."""
        t = self.t
        group = t.n_heads // t.n_kv_heads
        for i, l in enumerate(t.layers):
            rows = np.flatnonzero(t.rows(l) >= t.prompt_len)
            q = t.q(l)[:, rows].astype(np.float64)
            k, v = (np.repeat(x(l).astype(np.float64), group, axis=0)
                    for x in (t.k, t.v))
            z = np.einsum("hsd,htd->hst", q, k) * t.scale
            z[~seen[i].transpose(1, 0, 2)] = -np.inf
            p = np.exp(z - z.max(axis=2, keepdims=True))
            o = np.einsum("hst,htd->hsd", p / p.sum(2, keepdims=True), v)
            for path in paths:
                mine = container.array(container.load(path)[1][f"layers.{l}.o"])
                self.assertLess(np.abs(mine - o).max(), 1e-5)

    def test_what_has_no_base_is_refused(self):
        other = trace.read_trace(SMALL)
        other.identity = "0" * 64
        path = self.first[0][1]
        self.refused("is of another trace", base.share, path, other,
                     at("no.safetensors"))
        lists = {s: [[0]] * self.t.n_heads for s in
                 range(self.t.prompt_len + 1, self.t.n_tokens + 1)}
        decisions.write_decisions(
            at("pages.safetensors"), self.t, "pages",
            {l: lists for l in self.t.layers}, "view", "query", "page:16")
        self.refused("must be tokens", base.share, at("pages.safetensors"),
                     self.t, at("no.safetensors"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
