# SPDX-License-Identifier: Apache-2.0
"""`kvreplay train-hf` with real models, the bundled one and a small Llama of
random weights: losses equal those of `kvreplay train` where they should; losses
fall; an interrupted run ends like an uninterrupted one; methods read the files;
bad input. train_hf.py KVTRACE KVREPLAY FOLDER TINY; needs torch and
transformers."""

import contextlib
import io
import json
import math
import os
import re
import subprocess

import numpy as np
import torch
from shared import LINES, MODEL, PROMPTS, at, kvreplay, lines, record
from shared import saved, tiny

import hf_models as hf
from kvreplay.container import load
from kvreplay.train import main as train_traces
from kvreplay.train import steps
from kvreplay.train.data import packed
from kvreplay.train.hf import main

TEXT = os.path.join(tiny, "text_400.safetensors")
HAYSTACK = os.path.join(tiny, "haystack_8.safetensors")
SMALL = {
    "deltakv": ["--hidden", "24", "--tokens", "96", "--rate", "2e-3"],
    "less": ["--hidden", "16", "--tokens", "96", "--rate", "3e-3"],
    "duoattention": ["--sink", "4", "--recent", "8", "--rate", "0.1"],
}


def train(method, *words, model=MODEL, prompts=(TEXT,), code=0, out=None):
    """Standard output and standard error."""
    said, printed = io.StringIO(), io.StringIO()
    words = [*words, "-o", out or at(method + ".safetensors")]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
        got = main([method, model, "--prompts", *prompts, *words])
    assert got == code, (method, words, got, said.getvalue())
    return printed.getvalue() + said.getvalue()


def held(said, name):
    """A held-out loss, from the last line that has it."""
    return float(re.findall(rf"^held out .*{name} ([^ ,\n]+)", said, re.M)[-1])


def replayed(trace, spec, budget=()):
    """The output error of a method that reads a file."""
    x = subprocess.run(
        [kvreplay, "run", trace, "-m", spec, "-q", "-f", "jsonl", *budget],
        capture_output=True, text=True)  # fmt: skip
    (row,) = map(json.loads, x.stdout.splitlines())
    assert row["status"] in ("ok", "fixed"), (row, x.stderr)
    return row


def of_traces(spec, trace, held_out, out, *words):
    """The held-out loss of `kvreplay train`, and the loss without weights."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert not train_traces(
            [spec, trace, "--hold-out", held_out, "--dtype", "f32", "-q", "-o",
             out, "--tokens", "96", *words])  # fmt: skip
    return [float(y) for y in printed.getvalue().split()[-2:]]


def check_same():
    """With one layer, no earlier one changes K and V: DeltaKV's squared error
    equals that of `kvreplay train`. So does LESS's, without a projection."""
    model = hf.model("Llama", vocab_size=320, num_hidden_layers=2)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.data = torch.eye(64)
        layer.self_attn.q_proj.weight.data *= 40  # makes attention uneven
    folder = saved("eye", model)
    lines(*LINES)
    record("one", "--max-new", "0", "--layers", "0", model=folder)
    trace, other = (at("one", f"{x}.safetensors") for x in ("one", "two"))
    for method, spec, own in (
        ("deltakv", "deltakv:hidden=24", ["--sinks", "8"]),
        ("less", "less:hidden=16:budget=8", ["--budget", "8"]),
    ):
        out = at(method + "_traces.safetensors")
        loss, without = of_traces(spec, other, trace, out, "--steps", "40",
                                  "--rate", "5e-3")  # fmt: skip
        assert loss < without, (method, loss, without)
        said = train(method, *own, "--from", out, "--rate", "1e-12",
                     "--steps", "1", "--layers", "0", "--hold-out", trace,
                     model=folder, prompts=[other])  # fmt: skip
        mine = held(said, "squared error"), held(said, "alone")
        for a, b in zip(mine, (loss, without)):
            assert math.isclose(a, b, rel_tol=2e-3), (method, mine, loss,
                                                      without)  # fmt: skip


def check_falls():
    """Losses fall, and methods read the files."""
    lines(*LINES)
    record("tiny", "--max-new", "0", "--layers", "0", "--dtype", "f16")
    digest = load(at("tiny", "one.safetensors"))[0]["model_digest"]
    for method, own, budget in (
        ("deltakv", ["--hold-out", TEXT], ()),
        ("less", ["--hold-out", TEXT], ("-b", "32")),
        ("duoattention", ["--hold-out", PROMPTS], ()),
    ):
        answers = method == "duoattention"
        found = []
        for steps in "2", "24":
            said = train(method, "--steps", steps, *own, *SMALL[method],
                         prompts=[PROMPTS] if answers else [TEXT])  # fmt: skip
            loss = held(said, "squared error")
            if method == "deltakv":
                loss += held(said, "next token")
            if answers:
                loss += 0.05 * held(said, "mean gate")
            found.append(loss)
        assert found[1] < found[0], (method, found)
        name = dict(deltakv="compressor", less="weights", duoattention="table")
        path = at(method + ".safetensors")
        replayed(TEXT, f"{method}:{name[method]}={path}", budget)
        meta = load(path)[0]
        assert digest in meta["model_digest"].split(), meta
        assert meta["model"] == "model" and "with the model" in meta["trained"]
    gates = load(path)[1]["gates"]
    assert gates[:2] == ("F32", (6, 2)), gates
    said = train("less", "--steps", "2", "--loss", "both", *SMALL["less"])
    assert "next token" in said, said
    said = train("deltakv", "--steps", "2", "--refs", "recon", "--layers",
                 "1,3", *SMALL["deltakv"])  # fmt: skip
    assert sorted({x.split(".")[1] for x in load(at("deltakv.safetensors"))[1]}
                  ) == ["1", "3"]  # fmt: skip


def check_resume():
    """Interrupted after a checkpoint and repeated: the same bytes."""
    lines(*LINES)
    prompts, keep = [PROMPTS, HAYSTACK], steps.Run.keep
    for method in "deltakv", "less", "duoattention":
        words = ["--steps", "6", "--keep", "0", *SMALL[method]]
        whole, broken = (at(f"{x}.safetensors") for x in ("whole", "broken"))
        train(method, *words, prompts=prompts, out=whole)

        def stop(self, done, *states):
            keep(self, done, *states)
            if done == 4:
                raise KeyboardInterrupt

        steps.Run.keep = stop
        try:
            said = train(method, *words, prompts=prompts, out=broken, code=130)
        finally:
            steps.Run.keep = keep
        assert not os.path.exists(broken), said
        said = train(method, *words, "--seed", "1", prompts=prompts,
                     out=broken, code=3)  # fmt: skip
        assert "is of another command" in said, said
        said = train(method, *words, prompts=prompts, out=broken)
        assert "4 of 6 steps were in" in said, said
        assert not os.path.exists(broken + ".training")
        with open(whole, "rb") as a, open(broken, "rb") as b:
            assert a.read() == b.read(), method
        os.unlink(broken)


def check_bad():
    """One sentence each."""
    lines(dict(id="a", prompt="abc"), dict(id="b", prompt=LINES[0]["prompt"]))
    one = ["--steps", "1"]
    window = hf.model("Mistral", vocab_size=320, sliding_window=16)
    for method, words, more, want in (
        ("less", one, dict(prompts=["no.jsonl"]), "no such file of prompts"),
        ("less", one, dict(out=at("x")), "must be called NAME.safetensors"),
        ("less", one, dict(out=at("nowhere", "x.safetensors")), "no folder"),
        ("less", ["--budget", "600"], {}, "leaves nothing to drop"),
        ("less", ["--layers", "9"], {}, "the model has 6 layers, from 0 on"),
        ("less", ["--from", TEXT], {}, "is not a kvreplay-less"),
        ("less", ["--budget", "400"], {}, "no piece has more than 400"),
        ("deltakv", ["--sinks", "500"], {}, "first 500 are never coded"),
        ("deltakv", ["--from", f"{tiny}/assets/deltakv-alone.kvtiny-6l."
                     "safetensors"], {}, "--from needs swiglu with references"),
        ("deltakv", ["--from", f"{tiny}/assets/deltakv.kvtiny-6l.safetensors",
                     "--hidden", "24"], {}, "give a file of these layers"),
        ("deltakv", one, dict(model=saved("part", hf.model(
            "StableLm", vocab_size=320))), "not all rotated by plain RoPE"),
        ("less", ["--layers", "0"], dict(model=saved("window", window),
                                         prompts=[PROMPTS]), "a window"),
        ("less", one, dict(model=at("eye"), prompts=[
            at("tiny", "one.safetensors")]), "is of another model"),
        ("duoattention", one, dict(prompts=[PROMPTS]), "more than 321 tokens"),
        ("duoattention", SMALL["duoattention"], dict(prompts=[PROMPTS]),
         "has an answer"),
    ):  # fmt: skip
        said = train(method, *words, code=3, **more)
        assert want in said and said.count("\n") == 1, (method, words, said)
    try:
        packed("x", "F16", np.array([1.0, 1e6]))
        raise AssertionError("a weight that fp16 cannot hold")
    except ValueError as e:
        assert "a weight is not finite; use a lower --rate" in str(e), e


check_same()
check_falls()
check_resume()
check_bad()
print("train_hf: 3 trainers")
