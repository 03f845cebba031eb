# SPDX-License-Identifier: Apache-2.0
"""A trace of a Hugging Face model: q and k after RoPE, v and the output of
every layer of one forward, as torch's own attention computed it.

    python capture_hf.py MODEL TEXT.txt OUT.safetensors [NEW]

The text is the prompt, and NEW tokens (64) that the model adds, greedily, are
the decode steps. In a program of your own, of any tokens [1, T]:

    capture(model, ids, prompt_len, "out.safetensors", source="my text")

Then `kvtrace check out.safetensors` computes the outputs again.
"""

import os
import sys

import torch
import transformers

from hf_model import check_layers, check_plain, need, register, rotation
from hf_model import to_numpy

sys.path.insert(1, os.path.join(os.path.dirname(__file__), ".."))
from kvtrace import write_trace  # noqa: E402


@torch.no_grad()
def capture(model, ids, prompt_len, path, /, **metadata):
    layers, scales, rope = {}, set(), (None, False)

    def attend(module, query, key, value, mask, scaling=None, **kwargs):
        nonlocal rope
        check_plain(query, mask, key.shape[2], kwargs)
        scales.add(query.shape[3] ** -0.5 if scaling is None else scaling)
        rope = rotation(model, module, key.shape[3])
        out = torch_attention(
            module, query, key, value, mask, scaling=scaling, **kwargs
        )
        x = dict(q=query, k=key, v=value, o=out[0].transpose(1, 2))
        layers[module.layer_idx] = {y: to_numpy(x[y]) for y in x}
        return out

    check_layers(model)
    own = model.config._attn_implementation
    torch_attention = register("kvcapture", attend)
    model.set_attn_implementation("kvcapture")
    try:
        model(ids, use_cache=False)
    finally:
        model.set_attn_implementation(own)
    need(len(scales) == 1, f"scales {scales}: a trace has one")
    if rope[0] is not None:
        metadata["rope.layout"] = "interleaved" if rope[1] else "half"
        metadata["rope.scale"] = model.base_model.rotary_emb.attention_scaling
    metadata["attn.scale"] = scales.pop()
    metadata["n_layers"] = model.config.get_text_config().num_hidden_layers
    metadata["recorder"] = f"transformers {transformers.__version__}"
    tokens = ids[0].cpu().numpy()
    write_trace(path, layers, prompt_len, None, tokens, None, rope[0], metadata)


def main(name, text, path, new="64"):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(name)
    text = open(text, encoding="utf-8").read()
    ids = AutoTokenizer.from_pretrained(name)(text, return_tensors="pt")
    n = ids["input_ids"].shape[1]
    ids = model.generate(**ids, max_new_tokens=int(new), do_sample=False)
    capture(model, ids, n, path, model=name)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
