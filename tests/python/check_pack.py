# SPDX-License-Identifier: Apache-2.0
"""kvtrace pack: a trace cut by ranks and chunks and packed again is the same
trace, in identity and in every byte of its tensors. Each error in a folder is
one sentence that says where. Needs only Python.

usage: check_pack.py KVTRACE FOLDER TRACES   all of it, in FOLDER
       check_pack.py --cut TRACE FOLDER RANKS   only cuts the trace
"""

import json
import os
import shutil
import struct
import subprocess
import sys

SIZE = {"F16": 2, "BF16": 2, "F32": 4, "I32": 4}
LISTS = {"tokens": "i", "positions": "i", "rope.inv_freq": "f",
         "rope.inv_freq.windowed": "f"}


def read(path):
    """Metadata and tensors, as (type, shape, bytes), of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    meta = header.pop("__metadata__")
    return meta, {y: (x["dtype"], x["shape"], data[slice(*x["data_offsets"])])
                  for y, x in header.items()}


def token_major(tensor, head, heads, first, n):
    """[all heads, tokens, d] as [n, heads, d], the layout of engines."""
    (_, tokens, d), data = tensor[1], tensor[2]
    row = d * SIZE[tensor[0]]
    at = [((head + h) * tokens + first + t) * row for t in range(n)
          for h in range(heads)]
    return b"".join(data[x:x + row] for x in at)


def pieces(prompt, tokens, n=60):
    """A prompt in pieces of n tokens, followed by single decode steps."""
    cut = [(x, min(n, prompt - x)) for x in range(0, prompt, n)]
    return cut + [(x, 1) for x in range(prompt, tokens)]


def cut(path, folder, ranks):
    """Writes the trace as `ranks` ranks of an engine do."""
    meta, tensors = read(path)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lists = {x: list(struct.unpack(f"<{y[1][0]}{LISTS[x]}", y[2]))
             for x, y in tensors.items() if x in LISTS}
    # Numbers instead of strings, as a program would write them.
    for key in "n_layers", "n_heads", "n_kv_heads", "head_dim", "prompt_len":
        meta[key] = int(meta[key])
    layers = sorted({int(x.split(".")[1]) for x in tensors
                     if x.startswith("layers.")})
    if meta["layers"] != "all":
        meta["layers"] = layers
    del meta["format"], meta["version"]
    with open(f"{folder}/trace.json", "w") as f:
        json.dump({**meta, **lists}, f)
    for l in layers:
        for r in range(ranks):
            write_rank(folder, meta, tensors, l, r, ranks)


def write_rank(folder, meta, tensors, l, r, ranks):
    of = {x: tensors[f"layers.{l}.{x}"] for x in ("q", "k", "v", "o", "sinks")
          if f"layers.{l}.{x}" in tensors}
    heads, kv = meta["n_heads"] // ranks, meta["n_kv_heads"]
    at = {"q": (r * heads, heads), "k": (r * kv // ranks, max(1, kv // ranks))}
    at["o"], at["v"] = at["q"], at["k"]
    line = dict(zip(("head", "heads", "kv_head", "kv_heads"),
                    at["q"] + at["k"]), layer=l, dtype=of["q"][0],
                head_dim=of["q"][1][2], value_dim=of["v"][1][2], o="o" in of)
    if "sinks" in of:
        line["sinks"] = struct.unpack(f"<{meta['n_heads']}f", of["sinks"][2])[
            r * heads:][:heads]
    with open(f"{folder}/layer{l}.rank{r}.chunks", "wb") as f:
        f.write(json.dumps(line).encode() + b"\n")
        for first, n in pieces(meta["prompt_len"], of["k"][1][1]):
            f.write(struct.pack("<qq", first, n))
            for x in "qkvo":
                if x in of:
                    f.write(token_major(of[x], *at[x], first, n))


# ---- the same trace again ---------------------------------------------------


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def identity(path):
    got = run(KVTRACE, "info", "-i", "-f", "json", path)
    return json.loads(got.stdout)["identity"]


def check_same(path, ranks):
    cut(path, "dump", ranks)
    if os.path.exists("dump.safetensors"):
        os.unlink("dump.safetensors")
    got = run(KVTRACE, "pack", "-q", "dump")
    assert got.returncode == 0, (path, ranks, got.stderr)
    assert read("dump.safetensors") == read(path), (path, ranks)
    assert identity("dump.safetensors") == identity(path), (path, ranks)
    return got.stderr


# ---- errors -----------------------------------------------------------------


def packed(code, *words, options=()):
    """Expects the exit code, one line with these words, and no file left."""
    before = set(os.listdir())
    got = run(KVTRACE, "pack", "-q", "bad", "-o", "x.safetensors", *options)
    lines = got.stderr.splitlines()
    assert got.returncode == code, (code, words, got.returncode, got.stderr)
    assert len(lines) == 1 and not got.stdout, got.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
    if code:
        assert set(os.listdir()) == before, set(os.listdir()) - before
    else:
        os.unlink("x.safetensors")


class Folder:
    """Within the block the folder `bad` is a copy of `dump`."""

    def __enter__(self):
        shutil.rmtree("bad", ignore_errors=True)
        shutil.copytree("dump", "bad")
        return self

    def __exit__(self, *_):
        shutil.rmtree("bad")

    def change(self, name, how):
        with open(f"bad/{name}", "rb") as f:
            data = how(f.read())
        with open(f"bad/{name}", "wb") as f:
            f.write(data)

    def line(self, name, **keys):
        def how(data):
            line, rest = data.split(b"\n", 1)
            line = {**json.loads(line), **keys}
            line = {x: y for x, y in line.items() if y is not None}
            return json.dumps(line).encode() + b"\n" + rest
        self.change(name, how)

    def json(self, **keys):
        keys = {x.replace("__", "."): y for x, y in keys.items()}
        self.change("trace.json", lambda x: json.dumps(
            {**json.loads(x), **keys}).encode())

    def without(self, *keys):
        self.change("trace.json", lambda x: json.dumps(
            {y: z for y, z in json.loads(x).items() if y not in keys}).encode())


def chunk(data, i, row):
    """Where chunk i begins and ends in a file."""
    at = data.index(b"\n") + 1
    for _ in range(i):
        at += 16 + struct.unpack_from("<q", data, at + 8)[0] * row
    return at, at + 16 + struct.unpack_from("<q", data, at + 8)[0] * row


def check_chunks(row):
    """`dump` has 2 ranks, a prompt of 137 in pieces of 60, and 168 steps."""
    one = "layer1.rank1.chunks"
    with Folder() as f:
        f.change(one, lambda x: x[:chunk(x, 9, row)[1] - 5])
        packed(3, one, "layer 1, heads 4 to 7, ends within its chunk of tokens "
               "143 to 143; --tokens 143 packs")
        packed(3, one, "--tokens 143", options=["--tokens", "144"])
        packed(3, "metadata answers: item 0", options=["--tokens", "143"])
        f.without("answers", "segments")
        packed(0, options=["--tokens", "143"])
        f.without("tokens", "positions")
        packed(3, one, "143 to 143")
    with Folder() as f:  # cut even within the chunk's header
        f.change(one, lambda x: x[:chunk(x, 1, row)[0] + 7])
        packed(3, one, "within the head of the chunk of token 60")
    with Folder() as f:
        f.change(one, lambda x: x[:x.index(b"\n")])
        packed(3, one, "has no first line")
    with Folder() as f:  # a chunk is missing: 60 to 119
        f.change(one, lambda x: x[:chunk(x, 1, row)[0]] +
                 x[chunk(x, 2, row)[0]:])
        packed(3, one, "layer 1, heads 4 to 7, lacks tokens 60 to 119")
    with Folder() as f:  # a chunk appears twice
        f.change(one, lambda x: x[:chunk(x, 1, row)[1]] +
                 x[chunk(x, 1, row)[0]:])
        packed(3, one, "has token 60 twice")
    with Folder() as f:  # killed within a chunk, then others appended
        f.change(one, lambda x: x[:chunk(x, 1, row)[1] - 9] +
                 x[chunk(x, 2, row)[0]:])
        packed(3, one, "should continue with token 120")
    with Folder() as f:  # a rank stopped early
        f.change(one, lambda x: x[:chunk(x, 99, row)[0]])
        packed(3, one, "heads 4 to 7, has 233 of 305 tokens")
        f.without("tokens", "positions")
        packed(3, one, "has 233 of 305 tokens; --tokens 233 packs")


def check_heads():
    with Folder():
        os.unlink("bad/layer2.rank1.chunks")
        packed(3, "no file has query heads 4 to 7 of layer 2")
    with Folder():
        os.unlink("bad/layer2.rank0.chunks")
        packed(3, "no file has query heads 0 to 3 of layer 2")
    with Folder():
        for r in 0, 1:
            os.unlink(f"bad/layer2.rank{r}.chunks")
        packed(3, "no file has layer 2 of the model's 4")
    with Folder():
        shutil.copy("bad/layer2.rank1.chunks", "bad/old.chunks")
        packed(3, "layer2.rank1.chunks", "old.chunks",
               "both have query head 4 of layer 2")
    with Folder() as f:
        f.line("layer0.rank1.chunks", kv_head=0)
        packed(3, "no file has KV heads 2 to 3 of layer 0")
    with Folder() as f:
        f.line("layer0.rank1.chunks", head=6)
        packed(3, "layer0.rank1.chunks", "query heads 6 to 9", "model has 8")


def check_lines():
    one, two = "layer0.rank1.chunks", "layer3.rank0.chunks"
    for keys, *words in (
            ({"layer": -1}, one, "layer", "whole number from 0"),
            ({"heads": None}, one, "heads", "is missing"),
            ({"head_dim": "64"}, one, "head_dim", "something else"),
            ({"heads": 1 << 20, "head_dim": 1 << 16}, one, "64 MiB"),
            ({"dtype": "F8_E4M3"}, one, "dtype", "must be F16, BF16 or F32"),
            ({"dtype": "torch.bfloat16"}, one, "differ in dtype"),
            ({"o": False, "kv_heads": 4, "kv_head": 0}, one,
             "whether there is o"),
            ({"sinks": [1, 2]}, one, "sinks", "one number for each"),
            ({"sinks": [1, 2, 3, 4]}, one, "whether there are sinks"),
            ({"sinc": 4}, one, "sinc", "an unknown key"),
            ({"value_dim": 16}, one, "differ in value_dim")):
        with Folder() as f:
            f.line(one, **keys)
            packed(3, *words)
    with Folder() as f:
        f.line(two, head_dim=16)
        packed(3, two, "layer0.rank0.chunks", "differ in head_dim")
    with Folder() as f:
        f.change(one, lambda x: b"{,\n" + x)
        packed(3, one, "first line is not valid JSON")


def check_json():
    for keys, *words in (
            ({"n_layers": 0}, "n_layers", "must be a whole number from 1"),
            ({"n_heads": "x"}, "n_heads", "must be a whole number from 1"),
            ({"n_layers": 3}, "layer3.rank0.chunks", "has layer 3"),
            ({"layers": [0, 1]}, "layers is 0,1, but there are files of 0,1,2"),
            ({"layers": [3, 2, 1, 0]}, "files of 0,1,2,3; list these, ascend"),
            ({"layers": []}, "layers is not a list"),
            ({"tokens": []}, "tokens must be a list of numbers"),
            ({"tokens": [1, 2]}, "trace.json", "prompt_len is 137; it must"),
            ({"tokens": ["a"]}, "tokens", "other than 32-bit numbers"),
            ({"positions": [1]}, "positions has 1 of 305 tokens"),
            ({"rope.inv_freq": [1e99]}, "rope.inv_freq", "other than 32-bit"),
            ({"rope.inv_freq": [1]}, "rope.inv_freq", "shape"),
            ({"rope.layout": "hlaf"}, "must be half or interleaved"),
            ({"prompt_len": 306}, "prompt_len", "from 1 to 305"),
            ({"attn.scale": None}, "attn.scale is missing"),
            ({"head_dim": 16}, "layers.0.k has shape"),
            ({"attn.sliding_window": [4, 0]}, "attn.sliding_window"),
            ({"attn.temperature": 2, "attn.softcap": 5}, "attn.temperature")):
        with Folder() as f:
            f.json(**keys)
            packed(3, *words)
    with Folder() as f:
        f.without("n_kv_heads")
        packed(3, "bad/trace.json: n_kv_heads is missing")
    with Folder():
        os.unlink("bad/trace.json")
        packed(3, "bad/trace.json: No such file")
    with Folder() as f:
        f.change("trace.json", lambda x: b" " * 100_000_001)
        packed(3, "bad/trace.json: the text is longer than 100000000 bytes")
    with Folder() as f:
        f.change("trace.json", lambda x: x[:-9])
        packed(3, "bad/trace.json", "not valid JSON")
    with Folder() as f:
        for name in os.listdir("bad"):
            os.unlink(f"bad/{name}")
        packed(3, "bad: has no NAME.chunks file")


def check_rows(row, parts):
    """Replicas that differ, and NaN, at token 60 + 7."""
    def set_number(part, head, what):
        def how(data):
            at = chunk(data, 1, row)[0] + 16
            for x in "qkvo":
                heads, size = parts[x]
                if x == part:
                    at += (7 * heads + head) * size + 6
                    return data[:at] + what + data[at + 2:]
                at += 60 * heads * size
        return how
    with Folder() as f:
        f.change("layer1.rank3.chunks", set_number("k", 0, b"\x11\x22"))
        packed(3, "layer1.rank3.chunks and bad/layer1.rank2.chunks differ in k "
               "of layer 1, KV head 1, token 67")
    with Folder() as f:
        f.change("layer1.rank3.chunks", set_number("v", 0, b"\x11\x22"))
        packed(3, "differ in v of layer 1, KV head 1, token 67")
        f.json(prompt_len=60)
        packed(0, options=["-t", "67"])  # stops before that token
    with Folder() as f:
        f.change("layer1.rank3.chunks", set_number("q", 1, b"\xff\x7f"))
        packed(3, "layer1.rank3.chunks: layer 1, head 7, token 67: q holds NaN")
    with Folder() as f:
        for r in 0, 1:
            f.change(f"layer1.rank{r}.chunks", set_number("v", 0, b"\x80\x7f"))
        packed(3, "layer1.rank0.chunks: layer 1, head 0, token 67: v holds NaN")


def check_out():
    with Folder():
        shutil.copy("dump.safetensors", "there.safetensors")
        for out, words in (("there.safetensors", "is a trace"),
                           ("bad/layer0.rank0.chunks", "would overwrite"),
                           ("bad/trace.json", "would overwrite")):
            got = run(KVTRACE, "pack", "-q", "bad", "-o", out)
            assert got.returncode == 2 and words in got.stderr, got
        got = run(KVTRACE, "pack", "-q", "dump///")  # dump.safetensors exists
        assert got.returncode == 2 and "is a trace" in got.stderr, got
        for folder in ".", "bad/..//":
            got = run(KVTRACE, "pack", "-q", folder)
            assert got.returncode == 2 and "give --out" in got.stderr, got


def main(traces):
    small, text = (f"{traces}/{x}.safetensors" for x in (
        "retrieval_8_small", "text_400"))
    run(KVTRACE, "synth", "-q", "-o", "two.safetensors", "-t", "90", "--record",
        "1,3", "--window", "16", "--full-every", "2", "--sinks", "--softcap",
        "30", "--output")
    check_same("two.safetensors", 4)
    check_same(text, 1)
    assert "12 copies of KV heads were equal" in check_same(text, 4)
    q, kv = (2, 128), (1, 128)
    check_rows(2 * 128 + 2 * 128, {"q": q, "k": kv, "v": kv})
    check_same(small, 1)
    assert "copies" not in check_same(small, 2)
    check_chunks(2 * 32 * (4 + 2 + 2 + 4))
    check_heads()
    check_lines()
    check_json()
    check_out()


if __name__ == "__main__":
    if sys.argv[1] == "--cut":
        cut(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        KVTRACE = os.path.abspath(sys.argv[1])
        traces = os.path.abspath(sys.argv[3])
        os.chdir(sys.argv[2])
        main(traces)
