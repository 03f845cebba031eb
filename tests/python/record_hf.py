# SPDX-License-Identifier: Apache-2.0
"""`kvreplay record` with the bundled model and small ones of random weights:
needles, rows with column sums, layers, batches, continued runs, bad input.
record_hf.py KVTRACE KVREPLAY FOLDER TINY; needs torch and transformers."""

import errno
import importlib.util
import json
import os
import shutil
import types

import numpy as np
import torch
from shared import LINES, MODEL, SOURCE, at, digests, lines, record
from shared import saved, trace

import hf_models as hf
from kvreplay import container
from kvreplay.record import write
from kvreplay.trace import read_trace


def check_needles():
    lines(*LINES)
    os.environ.pop("OMP_WAIT_POLICY", None)
    said = record("all", "--max-new", "8", "--name", "tiny", "--check")
    assert os.environ["OMP_WAIT_POLICY"] == "passive"  # set before torch loads
    assert "3 of 3" in said and "s left" in said, said
    assert said.count("outputs differ by") == 3, said
    for name, source in ("one", "27365"), ("two", "51802"):
        t = trace("all", name)
        (a,) = t.answers
        text = bytes(int(x) for x in t.tokens[1:]).decode(errors="replace")
        assert t.tokens[0] == 256 and t.metadata["model"] == "tiny"
        spans = (a["start"], a["end"]), (a["source_start"], a["source_end"])
        assert [text[x - 1 : y - 1] for x, y in spans] == [source] * 2, a
        assert a["source_start"] < t.prompt_len <= a["start"], a
    assert trace("all", "three").answers == []
    said = record("none", "--max-new", "0", "--layers", "1,3-4", "--no-o")
    assert "marked" not in said, said  # the model was not asked
    t = read_trace(at("none", "one.safetensors"))
    assert t.layers == [1, 3, 4] and t.n_layers == 6 and t.o(1) is None
    assert t.metadata["answer_by"] == "user" and t.n_tokens == (
        t.prompt_len + 5)  # fmt: skip
    assert read_trace(at("none", "three.safetensors")).n_tokens == (
        read_trace(at("all", "three.safetensors")).prompt_len)  # fmt: skip


def check_rows():
    """Sums give the same decisions as rows, to the bit. A method that needs
    more rows is refused with their name."""
    record("slim", "--max-new", "8", "--rows", "last=16,decode")
    record("bare", "--max-new", "8", "--rows", "decode", "--no-sums")
    whole, slim = trace("all", "one"), trace("slim", "one")
    p, n = whole.prompt_len, whole.n_tokens
    assert [*slim.rows(0)] == [*range(p - 16, n)]
    for l in range(6):
        assert (whole.k(l) == slim.k(l)).all()
        assert (whole.q(l)[:, p - 16 :] == slim.q(l)).all()
        assert (whole.o(l)[:, p - 16 :] == slim.o(l)).all()
    assert [*trace("bare", "one").rows(0)] == [*range(p, n)]
    assert trace("bare", "one").colsum(0) is None
    methods = "dense", "h2o", "streamingllm", "snapkv:window=16", "tova"
    same = digests("all", "one", *methods)
    assert len(same) == 5 and digests("slim", "one", *methods) == same
    (x,) = digests("slim", "one", "snapkv:window=32")
    assert x[1] == "refused", x
    (x,) = digests("bare", "one", "h2o")
    assert x[1] == "refused", x
    lines(LINES[2])
    said = record("rowless", "--max-new", "0", "--rows", "decode", code=3)
    assert "p.jsonl:1: no query row is left" in said, said
    assert os.listdir(at("rowless")) == []


def check_together():
    """Prompts of one length in one forward: same tokens, close numbers."""
    ids = "abc"
    lines(*(dict(id=x, prompt=f"{SOURCE}what is {x}? ") for x in ids),
          LINES[1])  # fmt: skip
    record("apart", "--max-new", "6", "--dtype", "f32")
    record("together", "--max-new", "6", "--dtype", "f32", "--together", "2")
    for x in (*ids, "two"):
        a, b = trace("apart", x), trace("together", x)
        assert a.tokens.tolist() == b.tokens.tolist()
        for l in a.layers:
            near = np.abs(a.k(l) - b.k(l)).max() / np.abs(a.k(l)).max()
            assert near < 1e-5, (x, l, near)


def check_resumed():
    """Existing traces stay unchanged. Those with other options are refused.
    Unfinished ones do not have a trace's name."""
    lines(*LINES)
    one = at("all", "one.safetensors")
    before = os.stat(one).st_mtime_ns
    os.unlink(at("all", "two.safetensors"))
    said = record("all", "--max-new", "8", "--name", "tiny")
    assert "2 of 3 traces exist in" in said and "1 of 1" in said, said
    assert os.stat(one).st_mtime_ns == before and trace("all", "two")
    for words in ("9", "--name", "tiny"), ("8",):
        said = record("all", "--max-new", *words, code=3)
        assert "one.safetensors exists, but belongs to another" in said, said
    said = record("all", "--max-new", "8", "--name", "tiny", "--check")
    assert said.count("outputs differ by") == 3, said
    os.unlink(at("all", "two.safetensors"))
    own, seen = container.Writer.put, []

    def full(self, name, x):
        seen.append(os.listdir(at("all")))
        if name == "layers.3.k":
            raise OSError(errno.ENOSPC, "No space left on device")
        own(self, name, x)

    container.Writer.put = full
    try:
        said = record("all", "--max-new", "8", "--name", "tiny", code=4)
    finally:
        container.Writer.put = own
    assert "No space left" in said and said.count("\n") == 2, said
    assert any("two.safetensors." in y for x in seen for y in x), seen
    assert sorted(os.listdir(at("all"))) == ["one.safetensors",
                                             "three.safetensors"]  # fmt: skip


def check_no_room():
    """Fails before anything is computed."""
    own = os.statvfs
    write.os.statvfs = lambda _: types.SimpleNamespace(
        f_bavail=1, f_frsize=4096)  # fmt: skip
    try:
        said = record("small", code=4)
    finally:
        write.os.statvfs = own
    assert "not enough disk" in said and not os.listdir(at("small")), said


def check_bad_models():
    lines(LINES[0])

    def refused(says, path, *words, code=3):
        said = record("bad", *words, code=code, model=path)
        assert says in said and said.count("\n") == 1, (says, said)
        assert os.listdir(at("bad")) == []

    os.mkdir(at("bad"))
    os.mkdir(at("empty"))
    refused("the folder has no config.json", at("empty"))
    refused("no such folder", at("nowhere"))
    refused("no such file", at("x.gguf"))
    path = saved("good", hf.model("Llama", vocab_size=260))
    name = os.path.join(path, "model.safetensors")
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)

    def changed(**more):
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump({**config, **more}, f)

    changed(model_type="llama9", architectures=["Llama9"])
    refused("llama9", path)
    changed(max_position_embeddings=64)
    refused(":1: 66 tokens and 64 to follow exceed the model's limit of 64",
            path)  # fmt: skip
    changed(num_hidden_layers=4)
    refused("has no weights model.layers.3", path)
    changed()
    os.unlink(os.path.join(path, "tokenizer.json"))
    refused("good: the folder has no tokenizer", path)
    shutil.copy(os.path.join(MODEL, "tokenizer.json"), path)
    model = hf.model("Llama", vocab_size=260)
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight[3, 3] = float("nan")
    model.save_pretrained(path)
    refused("layer 1: v holds NaN or Inf", path, "--max-new", "0")
    model = hf.model("Llama", vocab_size=100)
    model.save_pretrained(path)
    refused(":1: ", path)  # a tokenizer of another model
    size = os.path.getsize(name)
    os.truncate(name, size - 100)
    refused("model.safetensors: 100 bytes missing at the end", path)
    os.truncate(name, 4)
    refused("model.safetensors: too short for safetensors", path)
    gguf = at("cut.gguf")
    with open(gguf, "wb") as f:
        f.write(b"GGUF\3\0\0\0")
    known = importlib.util.find_spec("gguf")
    refused("cut.gguf: cannot load the model" if known else "gguf", gguf,
            code=3 if known else 4)  # fmt: skip
    lines(dict(messages=[{"role": "user", "content": "a"}]))
    refused(":1: ", MODEL)  # no chat template
    lines(LINES[0], dict(prompt="a", source="b", answer="b"))
    refused(":2: the source 'b' is not in the", MODEL)


check_needles()
check_rows()
check_together()
check_resumed()
check_no_room()
check_bad_models()
print(f"transformers {hf.transformers.__version__}, torch", torch.__version__)
