# SPDX-License-Identifier: Apache-2.0
"""traces/examples/capture_hf.py: with torch and transformers the model of
traces/tiny, fed the tokens of a bundled trace, gives that trace's q, k, v and
o, and small models of random weights in three formats; without them a made-up
model. `kvtrace check` computes the outputs of each again, and so does
`kvreplay run -m dense` those of the decode steps. Called by
check_session_py.sh: KVTRACE KVREPLAY FOLDER TINY."""

import json
import os
import subprocess
import sys

import numpy as np

kvtrace, kvreplay, folder, tiny = sys.argv[1:]
sys.path.append(os.path.join(tiny, ".."))
from kvtrace import read_trace  # noqa: E402

PATH, DENSE = (os.path.join(folder, x + ".safetensors") for x in ("t", "o"))
LAYERS, H, G, D, T, PROMPT = 2, 4, 2, 16, 40, 30  # of the made-up model


def run(*words):
    x = subprocess.run(words, capture_output=True, text=True)
    assert x.returncode == 0, (words, x.stdout, x.stderr)


def check_replays(near):
    """PATH, whose o differs by at most `near`, relative to its largest. Seen:
    4.3e-7 of float32, 3.1e-4 of float16, 3.1e-3 of bfloat16."""
    run(kvtrace, "check", PATH)
    run(kvreplay, "run", PATH, "-m", "dense", "-q", "--outputs", DENSE)
    t = read_trace(PATH)
    with open(DENSE, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        f.seek(8 + n)
        dense = np.frombuffer(f.read(), np.float32)
    own = np.stack([t.o(l)[:, t.prompt_len :] for l in t.layers])
    apart = abs(dense.reshape(own.shape) - own).max() / abs(own).max()
    assert own.size and apart <= near, apart
    return t


def check_tiny(torch, capture):
    """Against what was recorded of it. Seen with the torch that recorded it:
    the same bits; another may round elsewhere."""
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
    """The text of each bundled trace gives its tokens, and they the text."""
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
    """capture_hf.py from a text: its prompt is the bundled trace's."""
    want = read_trace(tiny + "/retrieval_8_small.f32.safetensors")
    text = os.path.join(folder, "text.txt")
    with open(text, "wb") as f:
        f.write(bytes(want.tokens[1 : want.prompt_len].tolist()))
    program = os.path.join(tiny, "../examples/capture_hf.py")
    run(sys.executable, program, tiny + "/model", text, PATH, "5")
    got = read_trace(PATH)
    assert (got.tokens[: want.prompt_len] == want.tokens[:137]).all()
    assert (got.prompt_len, got.n_tokens) == (137, 142)
    # Without a tokenizer: one may load all the same, or want a package.
    bare = os.path.join(folder, "bare")
    os.mkdir(bare)
    for name in "config.json", "model.safetensors":
        os.symlink(os.path.realpath(f"{tiny}/model/{name}"), f"{bare}/{name}")
    for words, says in (
        ((bare, text, PATH + "x"), "capture_hf.py: "),
        ((tiny + "/model", text, "/none/x"), "no folder /none"),
        ((tiny + "/model", "/none", PATH + "x"), "/none"),
    ):
        x = subprocess.run(
            [sys.executable, program, *words], capture_output=True, text=True
        )
        said = x.stderr.splitlines()[-1]
        assert x.returncode in (3, 4 if words[0] == bare else 3), (words, x)
        assert says in said, (words, said)
    assert not os.path.exists(PATH + "x")


def check_kinds(torch, hf, capture):
    """Attention that is none of ours, each with its sentence; rotations."""
    four = transformers.__version__ < "5"  # there BERT attends by itself
    bert = "the model attends by itself" if four else "it sees later tokens"
    for name, says, config in (
        ("Mistral", "a sliding window", dict(sliding_window=32)),
        ("Bert", bert, dict(is_decoder=False)),
        ("Bloom", "the model attends by itself", dict(n_layer=2, n_head=4)),
        ("Doge", "adds to logits", {}),
    ):
        refused(says, capture, hf.model(name, **config), hf.IDS, 60, PATH + "x")
    types = ["sliding_attention"] * 2 + ["full_attention"]
    for name, config, layout in (
        ("Bert", dict(is_decoder=True), None),
        ("NanoChat", {}, "half"),  # the other way round
        ("Afmoe", dict(num_experts_per_tok=1, num_experts=4), "half"),
        ("SmolLM3", dict(no_rope_layers=[1, 0, 1]), None),
        ("Gemma3Text", dict(head_dim=16, layer_types=types), None),  # has two
    ):
        if not hasattr(transformers, name + "Config") or (
            four and name == "Bert"
        ):
            continue
        model = hf.model(name, **config)
        assert capture(model, hf.IDS, 60, PATH) == bool(layout), name
        freq = check_replays(1e-5).inv_freq
        assert freq is None or (freq[0] < 0) == (name == "NanoChat"), freq
    config = dict(text_config=dict(hf.SIZES, model_type="llama"))
    config["vision_config"] = dict(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, image_size=28, patch_size=14)  # fmt: skip
    model = transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(**config)
    ).eval()
    assert capture(model, hf.IDS, 60, PATH)
    check_replays(1e-5)


def real():
    import torch
    import transformers
    import hf_models as hf
    from capture_hf import capture

    check_tiny(torch, capture)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny + "/model")
    check_text_of_tiny(torch, tokenizer)
    check_program(torch)
    for name, dtype, near in (
        ("Llama", torch.float32, 1e-5),
        ("Cohere", torch.bfloat16, 0.01),
        ("OPT", torch.float16, 0.002),  # no rotation
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
    print(f"transformers {transformers.__version__}, torch", torch.__version__)


def refused(says, capture, *args):
    try:
        capture(*args)
    except ValueError as e:
        assert says in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")
    assert not os.path.exists(PATH + "x")


class Rope:
    """A rotary embedding, and what it makes of one key [1, heads, 1, d]."""

    def __init__(self, kind):
        self.kind, freq = kind, 0.5 ** np.arange(D // 2)
        self.attention_scaling = 1.0
        self.inv_freq = hf_made_up.Tensor(freq.astype(np.float32))

    def turn(self, key, at):
        angle = np.outer(at, self.inv_freq.a)
        angle *= {"reversed": -1, "faster": 1.01}.get(self.kind, 1)
        turn = np.exp(1j * angle)
        if self.kind == "interleaved":
            x = (key[..., ::2] + 1j * key[..., 1::2]) * turn
            out = np.stack([x.real, x.imag], -1).reshape(*x.shape[:-1], D)
        else:
            x = (key[..., : D // 2] + 1j * key[..., D // 2 :]) * turn
            out = np.concatenate([x.real, x.imag], -1)
        return (out if self.kind != "zeros" else 0 * out).astype(np.float32)


def check_rotation(rows):
    """What is recorded is what the keys of one token prove."""
    from capture_hf import capture

    ids = hf_made_up.Tensor(np.arange(T)[None])
    for kind, layout, sign in (
        ("half", "half", 1),
        ("interleaved", "interleaved", 1),
        ("reversed", "half", -1),
        ("faster", None, 0),  # not by the frequencies that it says
        ("zeros", None, 0),  # which any rotation explains
    ):
        rope = Rope(kind)
        model = hf_made_up.model(rows, rope)
        assert capture(model, ids, PROMPT, PATH) == bool(layout), kind
        t = read_trace(PATH)
        assert t.metadata.get("rope.layout") == layout, (kind, t.metadata)
        assert not layout or (t.inv_freq == sign * rope.inv_freq.a).all()


def check_refused(rows):
    """With a sentence, and before anything runs where it can be told."""
    from capture_hf import capture

    ids = hf_made_up.Tensor(np.arange(T)[None])
    args, path = (ids, PROMPT), PATH + "x"
    model = hf_made_up.model(rows, is_causal=False)
    refused("it sees later tokens", capture, model, *args, path)
    model = hf_made_up.model(rows)
    refused("no folder", capture, model, *args, path + "/none/t.safetensors")
    assert model.get_decoder().calls == 0
    model.get_decoder().layers[1].self_attn.layer_idx = 0
    refused("layer 0 attends twice", capture, model, *args, path)
    model = hf_made_up.model(rows)
    model.get_decoder().layers.clear()
    refused("the model attends by itself", capture, model, *args, path)


def check_tokenizer():
    """Of the bundled model: bytes, and nothing is lost."""
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
    """A tokenizer of bytes that forgets every x."""

    def __call__(self, text, return_tensors=None, **kwargs):
        ids = [y for y in text.encode() if chr(y) not in "x"]
        x = np.array([ids]) if return_tensors else ids
        return {"input_ids": x}

    def decode(self, ids):
        return bytes(ids).decode().upper()  # case may change


def check_text():
    from hf_text import encode

    assert encode("m", Loses(), "a  b\n", 256).tolist() == [[*b"a  b\n"]]
    refused("loses the text: 'xc' comes back as 'c'", encode, "m", Loses(),
            "ab xc", 256)  # fmt: skip
    refused("the model has 99", encode, "m", Loses(), "abc", 99)
    refused("has no token", encode, "m", Loses(), "", 256)


def made_up():
    from capture_hf import capture

    r = np.random.default_rng(3)
    rows = [
        [
            r.standard_normal((1, h, T, D)).astype(np.float32)
            for h in (H, G, G)
        ]
        for l in range(LAYERS)
    ]
    model = hf_made_up.model(rows)
    ids = hf_made_up.Tensor(np.arange(T)[None])
    assert not capture(model, ids, PROMPT, PATH, source="test")
    t = check_replays(1e-5)
    for l, (q, k, v) in enumerate(rows):
        assert (t.q(l) == q[0]).all() and (t.k(l) == k[0]).all()
        assert (t.v(l) == v[0]).all()
    assert (t.scale, t.prompt_len) == (0.3, PROMPT), (t.scale, t.prompt_len)
    assert t.tokens.tolist() == [*range(T)]
    assert model.config._attn_implementation == "sdpa"
    check_rotation(rows)
    check_refused(rows)
    print("made-up modules")


check_tokenizer()
try:
    import torch  # noqa: F401
    import transformers  # noqa: F401
except ImportError:
    import hf_made_up

    check_text()
    made_up()
else:
    check_text()
    real()
