# SPDX-License-Identifier: Apache-2.0
"""kvreplay.hf.capture. With torch and transformers: the model of traces/tiny,
fed a bundled trace's tokens, gives its q, k, v and o; small models of random
weights give traces in three number types. Without them only tokens are checked.
`kvtrace check` recomputes all outputs, and `kvreplay run -m dense` those of the
decode steps. Called by cases/session_py.cases: KVTRACE KVREPLAY FOLDER TINY."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import numpy as np

from kvreplay.trace import read_trace
from shared import PATH, asset_digest, check_replays, folder, kvreplay
from shared import left_out, refused, run, tiny


def check_tiny(torch, capture):
    """Against its recorded trace. With the torch that recorded it the bits were
    the same; another can round differently."""
    from transformers import AutoModelForCausalLM

    want = read_trace(tiny + "/retrieval_16.safetensors")
    ids = torch.from_numpy(np.array(want.tokens, np.int64))[None]
    model = AutoModelForCausalLM.from_pretrained(
        tiny + "/model", dtype=torch.bfloat16
    )
    capture(model, ids, want.prompt_len, PATH, model="kvtiny-6l")
    got = check_replays(0.02)
    for l in want.layers:
        for x in "qkv":
            a, b = getattr(want, x)(l), getattr(got, x)(l)
            apart = np.linalg.norm(a - b) / np.linalg.norm(a)
            assert apart < 0.02, (l, x, apart)
    assert np.allclose(want.inv_freq, got.inv_freq, rtol=1e-6)
    for key in ("rope.layout", "n_layers", "layers", "prompt_len"):
        assert want.metadata[key] == got.metadata[key], key
    assert np.isclose(want.scale, got.scale)
    assert want.tokens.tolist() == got.tokens.tolist()


def check_text_of_tiny(torch, tokenizer):
    """Each bundled trace's text gives its tokens, and they give the text."""
    for name in sorted(os.listdir(tiny)):
        if name.endswith(".safetensors"):
            want = read_trace(os.path.join(tiny, name)).tokens.tolist()
            text = bytes(want[1:]).decode()
            assert tokenizer(text)["input_ids"] == want, name
            assert tokenizer.decode(want[1:]) == text, name
    text = "\u00e9\u4e2d \U0001f600 <bos>  \t\x00\r\n"
    bare = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(bare) == text


def check_program(torch):
    """`kvreplay record` of a text has the bundled trace's prompt."""
    want = read_trace(tiny + "/retrieval_8_small.f32.safetensors")
    text = os.path.join(folder, "text.txt")
    with open(text, "wb") as f:
        f.write(bytes(want.tokens[1 : want.prompt_len].tolist()))
    shutil.copytree(tiny + "/model", folder + "/other")
    rows = []
    for model, *more in (
        (os.path.abspath(tiny + "/model"),),
        (folder + "/other",),
        (folder + "/other", "--name", "some/Name"),
    ):
        out = f"{folder}/recorded{len(rows)}"
        run(sys.executable, "-m", "kvreplay.record", model, "--prompts", text,
            "-o", out, "--max-new", "5", "--check", *more)  # fmt: skip
        got = read_trace(out + "/text.safetensors")
        assert (got.tokens[: want.prompt_len] == want.tokens[:137]).all()
        assert (got.prompt_len, got.n_tokens) == (137, 142)
        assert got.metadata["model"] == (
            more[-1] if more else os.path.basename(model)
        )
        rows.append(weights_found(out))
    assert len({(x["journal"], x["code"]) for x in rows}) == 1, rows


def weights_found(out):
    """A trace of the bundled model, recorded under another path and name, finds
    the files trained for the model."""
    shutil.copytree(tiny + "/assets", out + "/assets")
    x = subprocess.run(
        [kvreplay, "run", out + "/text.safetensors", "-m", "less", "-b", "20%",
         "-q", "-f", "jsonl"], capture_output=True, text=True)  # fmt: skip
    row = json.loads(x.stdout)
    assert row["status"] == "ok", row
    return row


def check_kinds(torch, hf, capture):
    """Unsupported attention, each with its sentence; rotations."""
    four = transformers.__version__ < "5"  # BERT computes attention itself
    bert = "model computes attention itself" if four else "it sees later tokens"
    for name, says, config in (
        ("Mamba", "has no visible attention", {}),
        ("Phi3", "beyond 62 the model turns", hf.longrope(62)),
        ("Llama", "beyond 62 the model turns", hf.dynamic(62)),
        ("Bert", bert, dict(is_decoder=False)),
        ("Bloom", "model computes attention itself", dict(n_layer=2, n_head=4)),
        ("Doge", "adds to logits", {}),
    ):
        refused(says, capture, hf.model(name, **config), hf.IDS, 60, PATH + "x")
    types = ["sliding_attention"] * 2 + ["full_attention"]
    for name, config, layout in (
        ("Bert", dict(is_decoder=True), None),
        ("NanoChat", {}, "half"),  # rotates backwards
        ("Afmoe", dict(num_experts_per_tok=1, num_experts=4), "half"),
        ("SmolLM3", dict(no_rope_layers=[1, 0, 1]), None),
        ("Mistral", dict(sliding_window=32), "half"),
        ("Gemma3Text", dict(head_dim=16, layer_types=types), "half"),
    ):
        if not hasattr(transformers, name + "Config") or (
            four and name == "Bert"
        ):
            continue
        model = hf.model(name, **config)
        assert capture(model, hf.IDS, 60, PATH) == bool(layout), name
        freq = check_replays(1e-5).inv_freq
        assert freq is None or (freq[0] < 0) == (name == "NanoChat"), freq
    check_in_part(torch, hf, capture)
    config = dict(text_config=dict(hf.SIZES, model_type="llama"))
    config["vision_config"] = dict(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, image_size=28, patch_size=14)  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(**config)
    ).eval()
    assert capture(model, hf.IDS, 60, PATH)
    check_replays(1e-5)


def check_in_part(torch, hf, capture):
    """The layers that agree, in models whose layers differ. Longrope on one
    side of its limit, with the keys of a prefill. Of layers that share K and V
    the owner is recorded, and dense counts its bytes once."""
    windows = ["sliding_attention"] * 2 + ["full_attention"]
    shared = "3: reads the K and V of layer 1; 4: reads the K and V of layer 2"
    for name, layers, config, left in (
        ("Jamba", [1], dict(num_experts=2, attn_layer_period=3,
                            attn_layer_offset=1, mamba_d_state=8,
                            use_mamba_kernels=False), "0,2: does not attend"),
        ("Gemma3nText", [0, 1, 2], dict(
            sliding_window=32, laurel_rank=8, altup_num_inputs=2,
            activation_sparsity_pattern=[0.0] * 5), shared),
        ("Gemma4Text", [0, 1], dict(sliding_window=99, global_head_dim=32),
         "2: heads of another size or scale; " + shared),
        ("Gemma4Text", [2], dict(sliding_window=32, global_head_dim=32),
         "0-1: heads of another size or scale; " + shared),
    ):  # fmt: skip
        if not hasattr(transformers, name + "Config") or (
            name == "Jamba" and transformers.__version__ < "5"
        ):  # computes attention itself there
            continue
        if name != "Jamba":
            config.update(head_dim=16, layer_types=windows + windows[1:],
                          num_hidden_layers=5, num_kv_shared_layers=2,
                          vocab_size_per_layer_input=128,
                          hidden_size_per_layer_input=16)  # fmt: skip
        capture(hf.model(name, **config), hf.IDS, 60, PATH)
        assert check_replays(1e-5).layers == layers, (name, config)
        assert left_out() == left, (name, left_out())
        if name == "Gemma3nText":
            row = run(kvreplay, "run", PATH, "-m", "dense", "-q", "-f", "jsonl")
            held = json.loads(row)["bytes"]["end"]["total"]
            assert held == (64 + 2 * 31) * 2 * 2 * 16 * 4, held
    for limit, prompt in (64, 60), (50, 60):
        model = hf.model("Phi3", **hf.longrope(limit))
        capture(model, hf.IDS, prompt, PATH)
        cache = transformers.DynamicCache()
        model.model(input_ids=hf.IDS[:, :prompt], past_key_values=cache)
        want = cache.layers[0].keys[0].detach().numpy()
        assert abs(read_trace(PATH).k(0)[:, :prompt] - want).max() < 1e-5


def check_identity(torch, hf):
    """A digest depends on a model's numbers and configuration, not its folder
    or the loaded number type. A fine-tune has another."""
    from kvreplay.hf.identity import model_digest, settled
    from transformers import AutoModelForCausalLM

    want = asset_digest("less")
    for dtype in torch.bfloat16, torch.float32:
        model = AutoModelForCausalLM.from_pretrained(
            tiny + "/model", dtype=dtype
        )
        assert model_digest(model) == want, (dtype, model_digest(model))
    with torch.no_grad():  # a fine-tune: the last number of the last layer
        model.model.layers[5].mlp.down_proj.weight[-1, -1] += 1
    assert model_digest(model) != want
    for config in {}, dict(rope_theta=1e5), dict(rms_norm_eps=1e-5):
        model = hf.model("Llama", **config)
        assert (model_digest(model) == model_digest(hf.model("Llama"))) == (
            not config
        ), config
    model = hf.model("Llama")
    with torch.no_grad():  # the first number of the first tensor
        next(model.parameters())[0, 0] += 1
    assert model_digest(model) != model_digest(hf.model("Llama"))
    model.state_dict = lambda: {"x": None}
    assert model_digest(model) is None  # only its name identifies it
    four = dict(rope_theta=1e4, rope_scaling=dict(rope_type="yarn", factor=2))
    five = dict(rope_theta=1e4, rope_type="yarn", factor=2)
    assert settled(four) == settled(dict(rope_parameters=five, _x=1, a=None))
    five["rope_type"] = "default"
    assert settled(four) != settled(dict(rope_parameters=five)) == settled(
        dict(rope_theta=1e4, factor=2))  # fmt: skip


def check_rotation(hf, capture):
    """Records the rotation that one token's keys prove: none if the model's
    frequencies are not those of its keys, and none for keys of zeros."""
    for by in 1.01, 0, 1:
        model = hf.model("Llama")
        model.model.rotary_emb.register_forward_pre_hook(
            lambda module, args, kwargs: (args, dict(
                kwargs, position_ids=kwargs["position_ids"] * (by or 1))),
            with_kwargs=True)  # fmt: skip
        if not by:
            for layer in model.model.layers:
                layer.self_attn.k_proj.weight.data.zero_()
        assert capture(model, hf.IDS, 60, PATH) == (by == 1), by


def check_refused_first(hf, capture):
    """Errors before anything is computed; nothing is written."""

    class Encoding(dict):  # what a chat template returns
        pass

    model, path = hf.model("Llama"), PATH + "x"
    model.model.forward = None  # must not run
    refused("no folder", capture, model, hf.IDS, 60, path + "/none/t")
    for key in "layers", "prompt_len", "attn.scale", "model_digest", "n_heads":
        refused(f"metadata {key}: ", lambda: capture(
            model, hf.IDS, 60, path, **{key: "0,3"}))  # fmt: skip
    for wrong, says in (
        (Encoding(input_ids=hf.IDS), 'use ["input_ids"]'),
        ([*range(64)], "the tokens are a list"),
        (hf.IDS[0], "shape [64]; give one sequence"),
        (hf.IDS.reshape(2, -1), "shape [2, 32]"),
    ):
        refused(says, capture, model, wrong, 60, path)
    for n in 0, 65:
        refused(f"prompt_len is {n}; it must be from 1", capture, model, hf.IDS,
                n, path)  # fmt: skip


def real():
    import torch
    import hf_models as hf
    from kvreplay.hf.capture import capture

    check_tiny(torch, capture)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny + "/model")
    check_text_of_tiny(torch, tokenizer)
    check_program(torch)
    for name, dtype, near in (
        ("Llama", torch.float32, 1e-5),
        ("Cohere", torch.bfloat16, 0.01),
        ("OPT", torch.float16, 0.002),  # without RoPE
    ):
        model = hf.model(name, dtype)
        ids, _ = hf.generate(model)
        capture(model, ids, hf.IDS.shape[1], PATH)
        t = check_replays(near)
        assert model.config._attn_implementation == "eager"
        assert t.metadata.get("rope.layout") == {
            "Llama": "half",
            "Cohere": "interleaved",
        }.get(name)
    check_kinds(torch, hf, capture)
    check_identity(torch, hf)
    check_rotation(hf, capture)
    check_refused_first(hf, capture)
    print(f"transformers {transformers.__version__}, torch", torch.__version__)


def check_tokenizer():
    """The bundled model's: bytes, without losses."""
    with open(tiny + "/model/tokenizer.json", encoding="ascii") as f:
        x = json.load(f)
    vocab, level = x["model"]["vocab"], x["pre_tokenizer"]
    names = sorted((y for y in vocab if len(y) == 1), key=vocab.get)
    assert [vocab[y] for y in names] == [*range(256)] and not x["normalizer"]
    assert level["type"] == x["decoder"]["type"] == "ByteLevel"
    assert not level["add_prefix_space"] and not x["model"]["merges"]
    assert [names[y] for y in b"aZ0~ \n"] == [*"aZ0~\u0120\u010a"]
    made = os.path.join(folder, "made")
    os.mkdir(made)
    run(sys.executable, tiny + "/provenance/tokenizer.py", made)
    for name in os.listdir(made):
        with open(os.path.join(made, name)) as a:
            with open(os.path.join(tiny, "model", name)) as b:
                assert a.read() == b.read(), name


class Loses:
    """A tokenizer of bytes that drops every x."""

    def __call__(self, text, **kwargs):
        return {"input_ids": [y for y in text.encode() if chr(y) not in "x"]}

    def decode(self, ids):
        return bytes(ids).decode().upper()  # case is ignored


def check_text():
    from kvreplay.hf.text import encode

    assert encode("m", Loses(), "a  b\n", 256) == [*b"a  b\n"]
    refused("changes the text: 'xc' comes back as 'c'", encode, "m", Loses(),
            "ab xc", 256)  # fmt: skip
    refused("the model has 99", encode, "m", Loses(), "abc", 99)
    refused("has no token", encode, "m", Loses(), "", 256)


check_tokenizer()
assert len({asset_digest(x) for x in ("less", "palu", "deltakv")}) == 1
check_text()
if importlib.util.find_spec("torch") and importlib.util.find_spec(
        "transformers"):
    import transformers

    real()
else:
    print("no torch")
