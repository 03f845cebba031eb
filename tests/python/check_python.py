# SPDX-License-Identifier: Apache-2.0
"""Laws of kvreplay.trace: check_python.py SOURCE FOLDER.

It reads what C reads: identity, sizes, data to the byte. C accepts what it
writes. It names what it refuses, and then writes nothing.
"""
import glob
import json
import os
import subprocess
import sys
import time
import unittest

import numpy as np

from kvreplay import container, trace

SOURCE, FOLDER = sys.argv.pop(1), sys.argv.pop(1)
TINY = os.path.join(SOURCE, "traces", "tiny")
TRACES = sorted(glob.glob(os.path.join(TINY, "*.safetensors")))
SMALL = os.path.join(TINY, "retrieval_8_small.safetensors")


def at(name):
    return os.path.join(FOLDER, name)


def call(program, *words, code=0):
    """Standard output, or standard error if a code other than 0 is expected."""
    done = subprocess.run([os.environ.get(program, program), *words],
                          capture_output=True, text=True)
    if done.returncode != code:
        raise AssertionError(f"{program} {words}: exit {done.returncode}, not "
                             f"{code}: {done.stdout}{done.stderr}")
    return done.stderr if code else done.stdout


def copy(t, path, **more):
    trace.write_trace(path, {x: t.layer(x) for x in t.layers}, t.prompt_len,
                        **{**dict(tokens=t.tokens, positions=t.positions,
                                  inv_freq=t.inv_freq, metadata=t.metadata),
                           **more})


def random_layers(n=9, layers=(0, 1)):
    g = np.random.default_rng(1)
    return {x: {name: g.normal(size=(h, n, 8)).astype(np.float32)
                for name, h in (("q", 4), ("k", 2), ("v", 2))}
            for x in layers}


class Case(unittest.TestCase):
    def refused(self, sentence, f, *args, **kwargs):
        with self.assertRaises(ValueError) as caught:
            f(*args, **kwargs)
        self.assertIn(sentence, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))


class Traces(Case):
    def test_identity_and_sizes_are_those_of_c(self):
        self.assertEqual(len(TRACES), 8)
        for path in TRACES:
            t = trace.read_trace(path)
            c = json.loads(call("KVTRACE", "info", "-i", "-f", "json", path))
            self.assertEqual(t.identity, c["identity"])
            for mine, theirs in (
                    ("n_layers", "n_layers"), ("n_heads", "n_heads"),
                    ("n_kv_heads", "n_kv_heads"), ("head_dim", "head_dim"),
                    ("n_tokens", "tokens"), ("prompt_len", "prompt_len"),
                    ("value_dim", "value_dim"), ("metadata", "metadata"),
                    ("segments", "segments")):
                self.assertEqual(getattr(t, mine), c[theirs], mine)
            self.assertEqual([x["start"] for x in t.answers],
                             [x["start"] for x in c["answers"]])
            self.assertEqual(t.layers, [x["layer"] for x in c["layers"]])
            self.assertAlmostEqual(t.scale, c["scale"], 7)

    def test_what_is_read_attends_as_the_model_did(self):
        t = trace.read_trace(SMALL)
        for x in t.layers:
            group = t.n_heads // t.n_kv_heads
            k, v = (y.repeat(group, 0) for y in (t.k(x), t.v(x)))
            p = t.q(x) @ k.swapaxes(1, 2) * t.scale
            p[:, np.arange(t.n_tokens) > t.rows(x)[:, None]] = -np.inf
            p = np.exp(p - p.max(2, keepdims=True))
            o = p / p.sum(2, keepdims=True) @ v
            self.assertLess(np.abs(o - t.o(x)).max(), 2e-2)

    def test_a_copy_has_the_same_bytes_and_c_takes_it(self):
        for path in TRACES:
            t, out = trace.read_trace(path), at("copy.safetensors")
            copy(t, out)
            again = trace.read_trace(out)
            self.assertEqual(again.identity, t.identity)
            for x in t.layers:
                for name, data in t.layer(x).items():
                    self.assertEqual(again.layer(x)[name].tobytes(),
                                     data.tobytes())
            call("KVTRACE", "check", out)
            with open(out, "rb") as f:
                n = int.from_bytes(f.read(8), "little")
            self.assertEqual((8 + n) % 64, 0)
        self.assertEqual([x for x in os.listdir(FOLDER) if "copy" in x],
                         ["copy.safetensors"])

    def test_every_dtype_is_written_to_the_nearest(self):
        layers, out = random_layers(), at("types.safetensors")
        for dtype, error in (("f32", 0), ("f16", 2**-11), ("bf16", 2**-8)):
            trace.write_trace(out, layers, 5, dtype)
            call("KVTRACE", "check", out)
            t = trace.read_trace(out)
            said = call("KVTRACE", "info", "-i", out)
            self.assertIn(dtype.upper() + ";", said)
            self.assertIn(t.identity, said)
            for x in layers:
                for name, y in layers[x].items():
                    z = getattr(t, name)(x)
                    self.assertEqual(z.dtype, np.float32)
                    self.assertTrue((abs(z - y) <= abs(y) * error).all())
            copy(t, at("again.safetensors"))
            self.assertEqual(trace.read_trace(
                at("again.safetensors")).identity, t.identity)
            copy(t, out, dtype="f32")
            copy(trace.read_trace(out), out, dtype=dtype)
            self.assertEqual(trace.read_trace(out).identity, t.identity)

    def test_convert_rounds_as_numpy_does(self):
        t, out = trace.read_trace(SMALL.replace(".safe", ".f32.safe")), at(
            "c.safetensors")
        for dtype in "f16", "bf16", "f32":
            if os.path.exists(out):
                os.unlink(out)  # convert does not overwrite a trace
            call("KVTRACE", "convert", "-q", t.path, "-d", dtype, "-o", out)
            copy(t, at("again.safetensors"), dtype=dtype)
            mine = trace.read_trace(at("again.safetensors"))
            got = trace.read_trace(out)
            for x in t.layers:
                for name in "qkv":
                    self.assertEqual(got.layer(x)[name].tobytes(),
                                     mine.layer(x)[name].tobytes())
            self.assertEqual(got.o(0) is None, dtype != "f32")
            self.assertEqual(got.metadata.get("converted"), None if dtype ==
                             "f32" else "F32 to " + dtype.upper())
            self.assertEqual(got.answers, t.answers)

    def test_bfloat16_rounds_to_nearest_even(self):
        high = np.arange(0, 0x7f80, 3, dtype=np.uint32)
        for low in 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff:
            for sign in 0, 0x8000:
                x = ((high | sign) << 16 | low).view("<f4")
                got = container.bfloat16(x)
                up = (low > 0x8000) | ((low == 0x8000) & (high % 2 == 1))
                self.assertTrue((got == (high | sign) + up).all())

    def test_rows_columns_and_a_subset_of_layers(self):
        layers, out = random_layers(9, (1, 3)), at("rows.safetensors")
        rows = np.array([2, 5, 6, 7, 8])
        for x in layers.values():
            x["q"], x["rows"] = x["q"][:, rows], rows
            x["colsum"] = np.full((4, 5), 2**40)
        trace.write_trace(out, layers, 5, metadata={"n_layers": 6})
        t = trace.read_trace(out)
        self.assertEqual((t.layers, t.n_layers), ([1, 3], 6))
        self.assertEqual(t.rows(3).tolist(), rows.tolist())
        self.assertEqual(t.colsum(1).sum(), 20 * 2**40)
        self.assertIsNone(t.o(1))
        self.assertIn("2 of 6 recorded", call("KVTRACE", "info", out))
        call("KVTRACE", "check", out)

    def test_shards_are_one_trace(self):
        t = trace.read_trace(SMALL)
        names, files = sorted(t._tensors), {}
        for i, part in enumerate((names[::2], names[1::2])):
            container.save(at(f"s{i}.safetensors"), t.metadata,
                          {x: t._tensors[x] for x in part})
            files.update(dict.fromkeys(part, f"s{i}.safetensors"))
        index = at("s.safetensors.index.json")

        def write(weight_map):
            with open(index, "w") as f:
                json.dump({"weight_map": weight_map}, f)
        write(files)
        self.assertEqual(trace.read_trace(index).identity, t.identity)
        self.assertIn(t.identity, call("KVTRACE", "info", "-i", index))
        write({**files, names[0]: "s1.safetensors"})
        self.refused("contradict", trace.read_trace, index)
        write({**files, names[0]: "../s0.safetensors"})
        self.refused("leaves the folder", trace.read_trace, index)
        write({**files, names[0]: 7})
        self.refused("give each tensor a file", trace.read_trace, index)
        for text in ("{}", "[]", "7", '{"weight_map": ["x"]}', "{", "\xff",
                     "[" * 10**5, '{"weight_map": null}'):
            with open(index, "w", encoding="latin-1") as f:
                f.write(text)
            self.refused(index + ": its weight_map", trace.read_trace, index)

    def test_damaged_files_are_refused(self):
        with open(SMALL, "rb") as f:
            good = f.read()
        head = good[8:8 + int.from_bytes(good[:8], "little")]
        rest = good[8 + len(head):]

        def same(a, b):
            new = head.replace(a, b, 1)
            self.assertNotEqual(new, head)
            return len(new).to_bytes(8, "little") + new + rest
        offsets = head[head.index(b'"data_offsets":[0,'):]
        offsets = offsets[:offsets.index(b"]")]
        for data, sentence in (
                (b"short", "too short"), (good[:-9], "9 bytes missing"),
                (good + b"12", "2 bytes trailing"), (b"\xff" * 64, "header"),
                ((len(head) + 5).to_bytes(8, "little") + head + bytes(5) + rest,
                 "zero bytes pad the header"),
                (same(b"{", b"("), "broken header"),
                (same(b'"dtype"', b'"dtipe"'), "broken header"),
                (same(b'"format":"kvtrace"', b'"format":1'), "no text"),
                (same(b'"kvtrace"', b'"pt"'), "not kvtrace, 1"),
                (same(b'"n_heads":"8"', b'"n_heads":"-8"'), "n_heads is -8"),
                (same(b'"prompt_len":"1', b'"prompt_len":"9'), "prompt_len"),
                (same(b'"layers":"all"', b'"layers":"0,7"'), "layers is 0,7"),
                (same(b'"version"', b'"attn.sinks":"4","version"'),
                 "attn.sinks is set"),
                (same(offsets, offsets + b"0"), "overlaps")):
            with open(at("bad.safetensors"), "wb") as f:
                f.write(data)
            self.refused(sentence, trace.read_trace, at("bad.safetensors"))
            call("KVTRACE", "info", at("bad.safetensors"), code=3)

    def test_metadata_of_any_size_is_refused_at_once(self):
        t, out = trace.read_trace(SMALL), at("meta.safetensors")
        meta, tensors = container.load(SMALL)
        long = "9" * 10**5
        for key, text in (
                ("n_layers", "1000000000"), ("n_layers", "100001"),
                ("n_layers", long), ("n_heads", long), ("head_dim", "70000"),
                ("n_kv_heads", "0" * 10**6), ("attn.scale", "1e" + long),
                ("prompt_len", long), ("layers", long), ("layers", ""),
                ("layers", "0," * 10**6 + "1"), ("layers", "1,0"),
                ("layers", "0,0"),
                *((x, y) for x in ("answers", "segments") for y in (
                    "[" * 10**5, '{"a":' * 10**5, "{}", "5", "null", '"x"',
                    "[" * 900 + "]" * 900, "[{}]", "[" + long + "]", '["x"]',
                    '[{"start":0,"end":%d}]' % (t.n_tokens + 1)))):
            container.save(out, {**meta, key: text}, tensors)
            started = time.process_time()
            self.refused("metadata " + key, trace.read_trace, out)
            self.assertLess(time.process_time() - started, 2, key)
        meta.update(n_layers="100000", layers="all")
        container.save(out, meta, tensors)
        self.refused("tensor layers.4.k", trace.read_trace, out)

    def test_foreign_names_are_one_plain_line(self):
        out = at("a\n\x1b[31m\u202e.safetensors")
        meta, tensors = container.load(SMALL)
        container.save(out, {**meta, "prompt_len": "\x1b\n" * 1000}, tensors)
        with self.assertRaises(ValueError) as caught:
            trace.read_trace(out)
        self.assertTrue(str(caught.exception).isprintable())
        self.assertIn(r"a\n\x1b[31m\u202e.safetensors: metadata prompt_len",
                      str(caught.exception))

    def test_wrong_arrays_are_refused_and_nothing_is_written(self):
        out = at("never.safetensors")

        def write(prompt_len=5, layer=1, more=None, **kwargs):
            layers = random_layers()
            layers[layer].update(more or {})
            trace.write_trace(out, layers, prompt_len, **kwargs)
        big, nan = (np.full((2, 9, 8), x, np.float32) for x in (1e5, np.nan))
        for sentence, kwargs in (
                ("prompt_len is 10", dict(prompt_len=10)),
                ("tensor layers.1.v is", dict(more={"v": big[:, :8]})),
                ("tensor layers.1.k is", dict(more={"k": big[:1]})),
                ("layers.1.k: holds NaN or Inf", dict(more={"k": nan})),
                ("layers.1.v: holds NaN or Inf at [0, 0, 0]", dict(
                    more={"v": big}, dtype="f16")),
                ("float64", dict(more={"k": big.astype(float)})),
                ("F64", dict(dtype="f64")),
                ("tensor tokens is", dict(tokens=[1, 2])),
                ("tensor rope.inv_freq is", dict(inv_freq=[1.0])),
                ("layers.1.colsum is", dict(more={"colsum": [[1]]})),
                ("attn.scale is 0", dict(metadata={"attn.scale": 0})),
                ("heads do not divide", dict(metadata={"n_kv_heads": 3})),
                ("layers.1.q is", dict(more={"rows": [1, 2]})),
                ("layers.1.rows must rise", dict(
                    more={"rows": np.arange(9) + 1})),
                ("layers.1.q: (9, 8) must be [heads,", dict(
                    more={"q": big[0]})),
                ("layers.1.q: (4, 0, 8) must", dict(
                    more={"q": np.zeros((4, 0, 8), np.float32)})),
                ("layers.1.q: is not an", dict(more={"q": [[1], [1, 2]]})),
                ("layer 1: has q, v; there are only", dict(more={"k": None})),
                ("layer 1: has q, k, v, Q; there", dict(more={"Q": big})),
                ("tensor tokens: float64 must", dict(tokens=[.5] * 9)),
                ("tensor tokens: int64 must", dict(tokens=[2**31] * 9)),
                ("colsum: float64 must", dict(more={"colsum": [[.5]]})),
                ("rope.inv_freq: holds NaN", dict(inv_freq=[np.nan] * 4)),
                ("rope.inv_freq: is not an array", dict(inv_freq="none")),
                ("prompt_len is 2.5", dict(prompt_len=2.5)),
                ("layers is 0,1, n_layers only 1", dict(
                    metadata={"n_layers": 1})),
                ("metadata answers: Exp", dict(metadata={"answers": "[0"})),
                ("metadata: ", dict(metadata={"x": {1}})),
                ("metadata: ", dict(metadata=None)),
                ("float32 as <CLASS", dict(dtype=np.float16))):
            self.refused(sentence, write, **kwargs)
        q, good = random_layers()[0].pop("q"), random_layers()
        for sentence, layers in (
                ("layers must be {number", {}), ("layers must be", [good[0]]),
                ("layer 1: must be a number", {**good, 1: None}),
                ("layer x: must be a number", {**good, "x": good[0]}),
                ("layer -1: must be a number", {**good, -1: good[0]}),
                ("layer 0: has q; there are only q", {**good, 0: {"q": q}}),
                ("layer 0: has nothing; there are only q", {**good, 0: {}})):
            self.refused(sentence, trace.write_trace, out, layers, 5)
        for bits in 0x7fffffff, 0xffffffff, 0x7f800001:  # NaN; some round to 0
            for dtype in "f32", "f16", "bf16":
                one = np.full((2, 9, 8), bits, np.uint32).view(np.float32)
                self.refused("layers.1.k: holds NaN", write, more={"k": one},
                             dtype=dtype)
        for path in FOLDER, "/dev/null":
            self.refused("no regular file", trace.write_trace, path,
                         random_layers(), 5)
        self.assertFalse([x for x in os.listdir(FOLDER) if "never" in x])


if __name__ == "__main__":
    unittest.main(verbosity=2)
