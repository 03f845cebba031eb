# SPDX-License-Identifier: Apache-2.0
"""`kvreplay train` against plain loops in binary64: vectors, directions, tables
of heads, references, the losses of both compressors and of the perceptrons;
losses fall; a run that was interrupted ends as one that was not; files say what
they are of; bad input is one sentence. check_train.py FOLDER [torch]: with the
word it fails where torch is missing, without it that part is skipped."""

import contextlib
import io
import math
import os
import sys
import unittest

import numpy as np

from kvreplay.container import array, load
from kvreplay.train import data, main
from kvreplay.trace import read_trace, write_trace

FOLDER, MUST = sys.argv[1], sys.argv[2:] == ["torch"]
try:
    import torch

    from kvreplay.train import deltakv, steps
except ImportError:
    if MUST:
        raise
    torch = None
HEADS, KV, D, LONG, PIECE = 4, 2, 8, 90, 40
FREQ = (0.5 ** np.arange(D // 2)).astype("f4")
ANSWERS = [dict(start=70, end=74, source_start=12, source_end=16),
           dict(start=80, end=83, source_start=50, source_end=53)]


def at(name):
    return os.path.join(FOLDER, name)


def turned(k, sign, paired):
    """Keys [heads, tokens, D] rotated by their positions, or back (-1)."""
    z = k[..., ::2] + 1j * k[..., 1::2] if paired else (
        k[..., : D // 2] + 1j * k[..., D // 2 :])
    z = z * np.exp(sign * 1j * np.arange(k.shape[1])[:, None] * FREQ)
    both = [z.real, z.imag]
    return np.stack(both, -1).reshape(k.shape) if paired else np.concatenate(
        both, -1)


def recorded(name, seed=0, layout="half", layers=(0, 1), d=D, **meta):
    """A trace of two layers: keys and values are somewhat like those of 20
    tokens before, values have two directions, and rows see some tokens more."""
    r = np.random.default_rng(seed)
    made = {l: {x: r.standard_normal((HEADS if x == "q" else KV, LONG, d))
                .astype("f4") for x in "qkv"} for l in layers}
    for x in made.values():
        for y in "kv":
            x[y][:, 20:] += 2 * x[y][:, :-20]
        x["v"] = x["v"][..., :2] @ np.sin(np.arange(2 * d, dtype="f4")
                                          ).reshape(2, d)
        x["q"] *= 2
    write_trace(at(name), made, LONG - 10, inv_freq=FREQ if d == D else None,
                metadata={"rope.layout": layout, "n_layers": 2,
                          "answers": ANSWERS, **meta})
    return at(name)


def train(*words, code=0, out="w.safetensors"):
    """What is printed, and said on standard error."""
    said, printed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        got = main([*words, "-q", "-o", at(out), "-t", str(PIECE)])
    assert got == code, (words, got, said.getvalue())
    return printed.getvalue() + said.getvalue()


def made(out="w.safetensors"):
    """Metadata, and tensors in binary64."""
    meta, tensors = load(at(out))
    return meta, {x: array(y).astype("f8") for x, y in tensors.items()}


def held(said):
    """The loss and that without, of the last line."""
    return [float(x) for x in said.splitlines()[-1].split()[-2:]]


def token_vectors(t, layer):
    k, v = (x.astype("f8") for x in (t.k(layer), t.v(layer)))
    k = turned(k, -1, t.metadata["rope.layout"] == "interleaved")
    return np.concatenate([*k, *v], 1)


def rows_of(t, layer):
    """Of each row that gives an answer: the answer, its token, and of each
    query head the probabilities."""
    q, k = t.q(layer).astype("f8"), t.k(layer).astype("f8")
    for a in t.answers:
        for row in range(a["start"] - 1, a["end"] - 1):
            s = [[q[h, row] @ k[h // 2, j] * t.scale for j in range(row + 1)]
                 for h in range(HEADS)]
            p = np.exp(s)
            yield a, row, p / p.sum(1, keepdims=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.paths = [recorded("a.safetensors", 1), recorded(
            "b.safetensors", 2, "interleaved")]
        self.traces = [read_trace(x) for x in self.paths]

    def near(self, a, b, by=1e-5):
        self.assertTrue(np.allclose(a, b, by, by * 1e-3), (a, b))


class Numpy(Case):
    def test_vectors_are_keys_before_their_rotation(self):
        for t in self.traces:
            for first, end in (0, LONG), (7, 30):
                self.near(data.vectors(t, 1, end, first),
                          token_vectors(t, 1)[first:end], 1e-3)

    def test_scores_are_those_by_hand(self):
        train("headkv", *self.paths)
        got = made()[1]["scores"]
        for layer in 0, 1:
            for h in range(HEADS):
                sum = 0
                for t in self.traces:
                    for a, row, p in rows_of(t, layer):
                        first, end = a["source_start"], a["source_end"]
                        best = sorted(p[h])[first - end]
                        sum += sum_of(p[h, i] for i in range(first, end)
                                      if p[h, i] >= best) / (end - first)
                self.near(got[layer, h], sum / 4)
        self.assertTrue((got > 0).any())

    def test_gates_are_those_by_hand(self):
        said = train("duoattention:sink=3:recent=10:penalty=0.01", *self.paths,
                     "--hold-out", recorded("c.safetensors", 3))
        got, own = made()[1]["gates"], read_trace(at("c.safetensors"))
        left = without = squares = 0
        for layer in 0, 1:
            apart, square = self.apart(self.traces, layer)
            want = np.maximum(0, 1 - 0.01 / (2 * apart * KV / square))
            self.near(got[layer], want)
            apart, square = self.apart([own], layer)
            left += ((1 - want) ** 2 * apart).sum()
            without, squares = without + apart.sum(), squares + square
        self.near(held(said), [left / squares, without / squares], 1e-4)
        self.assertTrue((got > 0).any())

    def apart(self, traces, layer):
        apart, square = np.zeros(KV), 0
        for t in traces:
            v = t.v(layer).astype("f8")
            for _, row, p in rows_of(t, layer):
                for h in range(HEADS):
                    seen = [j for j in range(row + 1)
                            if j < 3 or j >= row - 10]
                    full = p[h] @ v[h // 2, : row + 1]
                    stream = p[h, seen] @ v[h // 2, seen] / p[h, seen].sum()
                    apart[h // 2] += ((full - stream) ** 2).sum()
                    square += (full**2).sum()
        return apart, square

    def test_directions_are_singular_vectors(self):
        for turn in 1, 4:
            said = train(f"palu:turn={turn}:share=0.5", *self.paths, "--dtype",
                         "f32", "--hold-out", recorded("c.safetensors", 3))
            meta, got = made()
            self.assertEqual((meta["heads"], meta["turn"]), ("2", str(turn)))
            left = square = 0
            own = read_trace(at("c.safetensors"))
            for layer in 0, 1:
                for side, cut in (("key", slice(0, KV * D)),
                                  ("value", slice(KV * D, None))):
                    x, y = (np.concatenate([
                        token_vectors(t, layer)[:, cut] for t in of])
                        for of in (self.traces, [own]))
                    b, = got[f"layers.{layer}.{side}.basis"]
                    energy, = got[f"layers.{layer}.{side}.energy"]
                    self.near(b @ b.T + 1, np.eye(len(b)) + 1)
                    of = np.linalg.svd(x, compute_uv=False) ** 2
                    of = of.reshape(-1, turn).mean(1).repeat(turn) / of.sum()
                    self.near(energy, of, 1e-4)
                    along = (x @ b.T) ** 2
                    self.near(along.sum(0).reshape(-1, turn).mean(1).repeat(
                        turn) / along.sum(), of, 1e-3)
                    half = b[: len(b) // 2]
                    left += ((y - y @ half.T @ half) ** 2).sum()
                    square += (y**2).sum()
            most = np.abs(b[0 if turn == 1 else slice(0, 0)])
            self.assertTrue(turn > 1 or b[0, most.argmax()] > 0)
            n = 2 * LONG * 2 * KV * D
            self.near(held(said), [left / n, square / n], 1e-3)

    def test_a_file_is_for_the_model_that_its_traces_are_of(self):
        one, two = "1" * 64, "2" * 64
        a = recorded("a.safetensors", model="x", model_digest=one)
        b = recorded("b.safetensors", model="y", model_digest=one)
        c = recorded("c.safetensors", model="x", model_digest=two)
        d = recorded("d.safetensors", model="x")
        for paths in (a, b), (d, a):
            train("palu", *paths)
            got = made()[0]
            self.assertEqual((got["model"], got["model_digest"]), ("x", one))
            self.assertEqual(got["trained"], f"2 traces, {2 * LONG} tokens, 6 "
                             "steps, rate 0, seed 0")
            self.assertEqual(got["trained_length"], str(PIECE))
        train("palu", d)
        self.assertNotIn("model_digest", made()[0])
        for paths, key in ((a, c), "model_digest"), ((b, d), "model"):
            self.assertIn(f"is of the {key} ", train("palu", *paths, code=3))

    def test_what_is_wrong_is_one_sentence(self):
        a, b = self.paths
        wide = recorded("wide.safetensors", d=16)
        unturned = at("unturned.safetensors")
        write_trace(unturned, {0: self.traces[0].layer(0)}, 50)
        for words, code, want in (
            (["deltakv"], 2, "no trace to train on"),
            (["delta", a], 2, "trained delta; did you mean deltakv?"),
            (["deltakv:k=0", a], 2, "k must be from 1 to 64, not 0"),
            (["deltakv:k=x", a], 2, "k must be a number, not 'x'"),
            (["deltakv:compressor=x", a], 2, "one of swiglu|gelu"),
            (["deltakv:x=1", a], 2, "training deltakv has no parameter x"),
            (["deltakv:x", a], 2, "deltakv: x is not key=value"),
            (["palu", a, "--hold-out", a], 2, "trained on and held out"),
            (["palu", a, a], 2, "trained on and trained on"),
            (["palu", a, "--rate", "2"], 2, "number above 0 and up to 1"),
            (["palu:heads=3", a], 2, "groups of 3 KV heads do not divide"),
            (["palu:turn=3", a], 2, "turn=3 must be a power of two"),
            (["palu", a, wide], 3, "one file of weights is for one model"),
            (["palu", unturned], 3, "has no RoPE frequencies"),
            (["headkv", unturned], 3, "but no trace has any"),
            (["palu", a, recorded("one.safetensors", layers=[1])], 3,
             "does not record layer [0]"),
            (["palu", at("none.safetensors")], 3, "No such file"),
        ):
            said = train(*words, code=code)
            self.assertTrue(want in said and said.count("\n") == 1, said)
        for out in "w", "nowhere/at.safetensors":
            code = 2 if out == "w" else 3
            said = train("palu", a, code=code, out=out)
            self.assertIn("NAME.safetensors" if out == "w" else "no folder",
                          said)


def sum_of(x):
    return math.fsum(x)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


@unittest.skipIf(torch is None, "no torch here")
class Gradients(Case):
    def test_references_are_the_nearest_before(self):
        x, raw = ([[0, 0], [3, 4], [0.5, 0], [2, 2.1]],
                  [[0, 1], [1, 0], [3, 3], [0, 0]])
        self.assertEqual(deltakv.places(21, 2, 10), [0, 1, 10, 20])
        self.assertEqual(len(deltakv.places(20, 2, 10)), 3)
        got = deltakv.means(torch.tensor(x), torch.arange(9, 13), torch.tensor(
            raw).float(), torch.tensor([0, 1, 10, 20]), 2)
        # 9 and 10 see 0 and 1 alone: not themselves. 12 sees 10 first.
        self.near(got, [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [1.5, 2]])

    def compressed(self, got, layer, x):
        """f_c of a vector, and f_d of a latent one."""
        def w(name):
            return got.get(f"layers.{layer}.{name}", 0)

        if not isinstance(w("compress.in.bias"), int):
            return (lambda x: w("compress.out.weight") @ gelu(
                w("compress.in.weight") @ x + w("compress.in.bias")
                ) + w("compress.out.bias"), lambda z: w(
                "decompress.out.weight") @ gelu(w("decompress.in.weight") @ z
                + w("decompress.in.bias")) + w("decompress.out.bias"))

        def down(x):
            gate, up = np.split(w("compress.in.weight") @ x, 2)
            return w("compress.out.weight") @ (gate / (1 + np.exp(-gate)) * up)

        return down, lambda z: w("decompress.out.weight") @ z

    def test_losses_of_compressors_are_those_by_hand(self):
        for own, latent in (("", 8), (":references=none", 12),
                            (":compressor=gelu:back=7", 8),
                            (":references=none:compressor=gelu", 12)):
            alone = "none" in own
            said = train(f"deltakv:sinks=3:hidden=9{own}", self.paths[0], "-n",
                         "30", "-r", "0.01", "--dtype", "f32", "--hold-out",
                         self.paths[1], "-j", "1")
            meta, got = made()
            self.assertEqual(
                [meta.get(f"trained_{x}") for x in ("references", "stride", "k")
                 ], ["none", None, None] if alone else [None, "10", "4"])
            self.assertEqual(meta["latent"], str(latent))
            moved = [x.any() for x in got.values()]  # biases, too
            self.assertTrue(all(moved) or not alone)  # z - z has none of f_c's
            error, without = [], []
            for layer in 0, 1:
                x = token_vectors(self.traces[1], layer)
                down, up = self.compressed(got, layer, x)
                for t in range(3, LONG):
                    refs = [j for j in range(t) if j < 3 or j % 10 == 0]
                    near = sorted(refs, key=lambda j: sum((x[j] - x[t]) ** 2))
                    mean = np.mean(x[near[:4]], 0) * (not alone)
                    z = down(x[t]) - (0 if alone else down(mean))
                    error.append(((up(z) + mean - x[t]) ** 2).mean())
                    without.append(((mean - x[t]) ** 2).mean())
            self.near(held(said), [np.mean(error), np.mean(without)], 1e-3)

    def test_losses_of_perceptrons_are_those_by_hand(self):
        said = train("less:rank=3:hidden=5:budget=8:context=20", self.paths[0],
                     "-n", "30", "-r", "0.05", "--dtype", "f32", "--hold-out",
                     self.paths[1], "-j", "1")
        t, (meta, got) = self.traces[1], made()
        self.assertEqual(meta["trained_budget"], "8")
        error, without = [], []
        for layer in 0, 1:
            w = {x.split(".", 2)[2]: y for x, y in got.items()
                 if x.startswith(f"layers.{layer}.")}
            for first in range(0, LONG, PIECE):
                n = min(20, LONG - first)
                q, k, v = (x[:, first : first + n].astype("f8") for x in (
                    t.q(layer), t.k(layer), t.v(layer)))
                for g in range(KV if n > 8 else 0):
                    for a, b in self.rows(w, t.scale, g, q, k[g], v[g]):
                        error.append(a)
                        without.append(b)
        self.near(held(said), [np.mean(error), np.mean(without)], 1e-3)
        self.assertNotEqual(*held(said))

    def rows(self, w, scale, g, q, k, v):
        """Squared errors of each row from 8 on, of a KV head's query heads."""
        def low(x, of, h):
            x = gelu(x @ w[of + ".in.weight"][h].T)
            return gelu(x @ w[of + ".out.weight"][h].T)

        kappa = abs(w["key.scale"][g]) * low(k, "key", g)
        psi = abs(kappa + w["key.mix.scale"][g] * (
            kappa @ w["key.mix.weight"][g].T))
        heads, n = (2 * g, 2 * g + 1), len(k)
        e = {h: np.exp(q[h] @ k.T * scale) for h in heads}
        total = np.zeros(n)
        for t in range(n):
            kept = [*range(t + 1)]
            if t >= 8:
                before = sorted(range(t - 4), key=lambda j: -total[j])[:4]
                kept = sorted(before) + [*range(t - 4, t + 1)]
                rest = [j for j in range(t + 1) if j not in kept]
                for h in heads:
                    phi = abs(low(q[h, t : t + 1], "query", h))[0]
                    few, more = e[h][t, kept], psi[rest] @ phi
                    all_ = e[h][t, : t + 1]
                    full = all_ @ v[: t + 1] / all_.sum()
                    is_ = (few @ v[kept] + more @ v[rest]) / (
                        few.sum() + more.sum())
                    alone = few @ v[kept] / few.sum()
                    yield (((is_ - full) ** 2).mean(),
                           ((alone - full) ** 2).mean())
            now = np.zeros(n)
            for h in heads:
                now[: t + 1] += e[h][t, : t + 1] / e[h][t, : t + 1].sum()
            total = (total + now) * [j in kept for j in range(n)]

    def test_losses_fall(self):
        for words in (["deltakv", "-n", "200", "-r", "0.005"],
                      ["less:budget=8", "-n", "100", "-r", "0.01"]):
            loss, without = held(train(*words, *self.paths[:1], "--hold-out",
                                       self.paths[1]))
            self.assertLess(loss, 0.9 * without, words)

    def test_an_interrupted_run_goes_on(self):
        words = ["deltakv:latent=4:hidden=6", *self.paths, "-n", "30",
                 "--keep", "0", "-j", "1"]
        part, keep = at("x.safetensors.training"), steps.Run.keep
        train(*words)

        def stop(self, done, *states):
            keep(self, done, *states)
            if done == 17:
                raise KeyboardInterrupt

        steps.Run.keep = stop
        try:
            train(*words, code=130, out="x.safetensors")
        finally:
            steps.Run.keep = keep
        self.assertFalse(os.path.exists(at("x.safetensors")))
        for other in (["--seed", "1"], ["-n", "31"], ["deltakv:latent=5"]):
            more = other + words[1:] if ":" in other[0] else words + other
            said = train(*more, code=3, out="x.safetensors")
            self.assertIn("is of another command", said)
        train(*words, out="x.safetensors")
        with open(at("w.safetensors"), "rb") as a, open(
                at("x.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertFalse(os.path.exists(part))
        with open(part, "wb") as f:
            f.write(b"not a checkpoint")
        said = train(*words, code=3, out="x.safetensors")
        self.assertIn("not a checkpoint, or a damaged one", said)
        os.unlink(part)

    def test_what_is_wrong_is_one_sentence(self):
        for own, want in (
            ("deltakv:back=3", "back=3 only applies to"),
            ("deltakv:references=none:stride=5", "stride=5 has no effect"),
            ("deltakv:references=none:k=2", "k=2 has no effect"),
            ("less:context=8:budget=8", "leaves nothing to drop"),
        ):
            self.assertIn(want, train(own, self.paths[0], code=2))
        said = train("deltakv", self.paths[0], "-n", "3", "-r", "1", "--dtype",
                     "f16")
        self.assertIn("deltakv: 1 traces", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
