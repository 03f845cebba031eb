# SPDX-License-Identifier: Apache-2.0
"""`kvreplay record` for version 2 of the format (traces/README.md): windows, a
cap on logits, learned sinks, rotation of a part of the head, two rotations, V
in K. Small models of random weights, with prompts longer than their windows.
`kvtrace check` recomputes the outputs; the same tokens at later positions show
that frequencies are right. record_second.py KVTRACE KVREPLAY FOLDER TINY; needs
torch and transformers."""

import json
import subprocess

import numpy as np
import torch
import transformers
from shared import LINES, at, digests, kvreplay, kvtrace, lines, record, saved
from shared import trace

import hf_models as hf
from kvreplay.evaluate.attend import Model
from kvreplay.hf import load
from kvreplay.hf.model import decoder_of
from kvreplay.hf.rope import turned
from kvreplay.record import attention, latent
from kvreplay.record.layers import Layers
from kvreplay.record.request import Request
from kvreplay.record.write import record as write
from kvreplay.session import Session, SessionError
from kvreplay.trace import read_trace

attention.ROWS = latent.ROWS = 24  # several pieces of the 64 tokens
BY = 40  # positions to shift by
MIXED = ["sliding_attention", "full_attention"] * 2
SIZES = dict(vocab_size=260, max_position_embeddings=512, num_hidden_layers=4)
LATENT = dict(
    n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
    first_k_dense_replace=4, moe_intermediate_size=32, q_lora_rank=24,
    kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
    num_key_value_heads=4)  # fmt: skip
# Name, options, layout, and what the trace has: windows, softcap, sinks,
# frequencies of windowed layers, reordered channels, V in K.
MODELS = (
    ("Mistral", dict(sliding_window=20), "half", "windows"),
    ("Gemma2", dict(head_dim=16, sliding_window=20, layer_types=MIXED,
                    attn_logit_softcapping=0.5), "half", "windows softcap"),
    ("Gemma3Text", dict(head_dim=16, sliding_window=20, layer_types=MIXED),
     "half", "windows two"),
    ("Cohere2", dict(sliding_window=20, layer_types=MIXED), "interleaved",
     "windows two"),
    ("GptOss", dict(head_dim=16, sliding_window=20, layer_types=MIXED,
                    num_local_experts=2, num_experts_per_tok=1), "half",
     "windows sinks"),
    ("Phi", dict(partial_rotary_factor=0.5), "half", "channels"),
    ("Phi3", dict(partial_rotary_factor=0.75), "half", "channels"),
    ("GPTNeoX", dict(rotary_pct=0.25), "half", "channels"),
    ("Glm4", dict(head_dim=16), "interleaved", ""),
    ("DeepseekV3", LATENT, "interleaved", "shared channels"),
)  # fmt: skip


def made(name, config, dtype=torch.float32):
    own = dict(SIZES, **config)
    model = hf.model(name, dtype, **own)
    with torch.no_grad():  # initial norms and sinks are equal, logits small
        for key, x in model.named_parameters():
            x.mul_(6 if "q_proj" in key else 1)
            if "sinks" in key or "norm" in key:
                x.add_(torch.randn_like(x) * 0.3)
    return model


def recorded_of(model, name, ids, prompt, absorb=True):
    path = at(name + ".safetensors")
    layers = Layers(model, hf.IDS, latent=absorb)
    write(model, layers, [Request(None, ids, prompt)], [path], metadata=[{}])
    return read_trace(path)


def recorded(model, name, absorb=True):
    return recorded_of(model, name, hf.IDS[0].tolist(), 50, absorb)


def features(t):
    found = dict(
        windows=any(t.windows), softcap=t.softcap, two=t.windowed_inv_freq
        is not None, sinks=t.sinks(t.layers[0]) is not None, shared=t.shared,
        channels="channels" in t.metadata)  # fmt: skip
    return {x for x in found if found[x]}


def shift(_, args, kwargs):
    """Shifts the tokens by BY positions."""
    at = torch.arange(kwargs["input_ids"].shape[1])[None] + BY
    return args, dict(kwargs, position_ids=at)


def check_turned(model, t, name):
    """Shifted tokens have the recorded keys and queries, rotated further."""
    hook = decoder_of(model).register_forward_pre_hook(shift, with_kwargs=True)
    later = recorded(model, name + "_later")
    hook.remove()
    paired = t.metadata["rope.layout"] == "interleaved"
    for l in t.layers:
        freq = t.inv_freq
        if t.windows[l] and t.windowed_inv_freq is not None:
            freq = t.windowed_inv_freq
        for x in "qk":
            was, now = getattr(t, x)(l), getattr(later, x)(l)
            by = np.full(was.shape[1], BY)
            want = np.stack([turned(y, freq, paired, by) for y in was])
            assert abs(now - want).max() <= 2e-4 * abs(now).max(), (name, l, x)
            assert abs(now - was).max() > 0.05 * abs(now).max() or (
                not freq.any()), (name, l)  # fmt: skip


def check_models():
    for name, config, layout, has in MODELS:
        if not hasattr(transformers, name + "Config"):
            continue
        model = made(name, config)
        t = recorded(model, name)
        said = t.metadata.get("rope.layout"), features(t)
        assert said == (layout, {*has.split()}), (name, said)
        assert t.version == ("1" if {*has.split()} <= {"channels"} else "2")
        assert t.layers == [0, 1, 2, 3], (name, t.layers)
        x = subprocess.run([kvtrace, "check", "-f", "json", t.path],
                           capture_output=True, text=True)  # fmt: skip
        assert x.returncode == 0, (name, x.stdout, x.stderr)
        worst = max(y["relative"] for y in json.loads(x.stdout)["layers"])
        assert worst < 5e-6, (name, worst)
        check_turned(model, t, name)
        if "windows" in has:
            assert {20} == {*t.windows} - {0}, t.windows
            assert (0 in t.windows) == (name != "Mistral")


def check_key_bias():
    """Without weights a key is the bias alone, rotated. A session gets it, and
    codes what is left, nothing, without loss. Normalised keys have none."""
    for name, config in ("Qwen2", {}), ("Phi", dict(partial_rotary_factor=0.5)):
        model = made(name, config)
        with torch.no_grad():
            for key, x in model.named_parameters():
                if "k_proj" in key:
                    x.normal_() if "bias" in key else x.zero_()
        t = recorded(model, name + "_bias")
        assert t.version == "1" and not t.metadata.get("left")
        for l in t.layers:
            want = np.stack([turned(x[None].repeat(t.n_tokens, 0), t.inv_freq,
                                    False, range(t.n_tokens))
                             for x in t.k_bias(l)])
            assert abs(t.k(l) - want).max() < 1e-5, (name, l)
        apart = []
        for bias in "keep", "subtract":
            spec = f"quant:k=int2:v=raw:key_bias={bias}"
            said = subprocess.run(
                [kvreplay, "run", t.path, "-q", "-m", spec, "-f", "jsonl"],
                capture_output=True, text=True, check=True)  # fmt: skip
            apart.append(json.loads(said.stdout)["output_error"]["mean"])
        assert apart[1] < 1e-5 < 0.01 < apart[0], apart
        shape = Model(model).shape_of(64)
        with Session(spec, prompt_len=50, **shape) as session:
            assert session.lanes == t.n_kv_heads
    other = Model(made("Qwen3", {}))
    try:
        Session(spec, prompt_len=50, **other.shape_of(64))
        raise AssertionError("a model without a bias")
    except SessionError as e:
        assert "layers.L.k_bias" in str(e), e


def check_latent():
    """In latent form: DeepSeek-V3's 1,152 bytes per token are 2 * (32 + 8)
    here. --expanded gives version 1, as before."""
    model = made("DeepseekV3", LATENT, torch.bfloat16)
    t = recorded(model, "latent")
    assert (t.n_kv_heads, t.head_dim, t.value_dim) == (1, 40, 32)
    assert (t.k(0)[..., :32] == t.v(0)).all() and t.shared
    wide = recorded(model, "expanded", absorb=False)
    assert (wide.n_kv_heads, wide.head_dim, wide.value_dim) == (4, 24, 12)
    assert wide.version == "1" and wide.metadata["attn.latent"] == "40"
    # Both are the same attention: the logits agree.
    for l in t.layers:
        a = np.einsum("htd,sd->hts", t.q(l), t.k(l)[0]) * t.scale
        b = np.einsum("htd,hsd->hts", wide.q(l), wide.k(l)) * wide.scale
        assert np.abs(a - b).max() < 0.02 * np.abs(b).max(), l


def sums(t, layer):
    """The prompt's column sums in binary64, [heads, prompt_len]."""
    n, k = t.prompt_len, t.k(layer).astype(float)
    k = k.repeat(t.n_heads // t.n_kv_heads, 0)[:, :n]
    x = np.einsum("htd,hsd->hts", t.q(layer)[:, :n], k) * t.scale
    x = t.softcap * np.tanh(x / t.softcap) if t.softcap else x
    back = np.arange(n)[:, None] - np.arange(n)
    hidden = (back < 0) | (back >= (t.windows[layer] or n))
    x = np.exp(np.where(hidden, -np.inf, x))
    total = x.sum(-1, keepdims=True)
    if t.sinks(layer) is not None:
        total += np.exp(t.sinks(layer))[:, None, None]
    return (x / total).sum(1)


def check_command():
    """The command records such layers. Sums decide as rows do in all of them.
    Layers with chunks are named and left out."""
    lines(*LINES)
    for name, config in ("Gemma2", MODELS[1][1]), ("GptOss", MODELS[4][1]):
        path = saved(name, made(name, config))
        whole, slim = name + "_rows", name + "_slim"
        said = record(whole, "--max-new", "8", "--check", model=path)
        assert said.count("outputs differ by") == 3, said
        record(slim, "--max-new", "8", "--rows", "last=16,decode", model=path)
        t, rows = trace(slim, "one"), trace(whole, "one")
        for l in t.layers:
            apart = t.colsum(l) / 2.0**40 - sums(rows, l)
            assert np.abs(apart).max() < 1e-4, (name, l, np.abs(apart).max())
        assert t.metadata["model"] == name
        methods = "dense", "h2o", "streamingllm", "snapkv:window=16"
        same = digests(whole, "one", *methods)
        assert digests(slim, "one", *methods) == same, same
        assert {x[1] for x in same} == {"fixed", "ok"}, same
    if hasattr(transformers, "Llama4TextConfig"):
        config = dict(attention_chunk_size=32, intermediate_size_mlp=96,
                      num_local_experts=2, head_dim=16,
                      layer_types=["chunked_attention", "full_attention"] * 2)
        model = transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(
            **{**hf.SIZES, **SIZES, **config})).eval()  # fmt: skip
        path = saved("chunked", model)
        said = record("chunks", "--max-new", "0", model=path)
        left = "recording layers 1,3, not 0,2: sees chunks of 32 tokens"
        assert left in said, said
        assert trace("chunks", "one").layers == [1, 3]


def check_greedy():
    """Generation is greedy, whatever generation_config says."""
    model = made("Llama", {})
    ids = hf.IDS[:, :20]
    want = ids
    for _ in range(6):
        with torch.no_grad():
            best = model(want).logits[:, -1:].argmax(-1)
        want = torch.cat([want, best], 1)
    config = model.generation_config
    config.update(
        repetition_penalty=9.0, no_repeat_ngram_size=1, do_sample=True,
        temperature=5.0, suppress_tokens=[int(want[0, 20])], min_new_tokens=3)
    assert load.greedy(model, ids, 6).tolist() == want.tolist()
    assert model.generation_config is config
    other = model.generate(ids, do_sample=False, max_new_tokens=6)
    assert other.tolist() != want.tolist()


if __name__ == "__main__":
    check_models()
    check_key_bias()
    check_latent()
    check_command()
    check_greedy()
    print(f"transformers {transformers.__version__}, torch", torch.__version__)
