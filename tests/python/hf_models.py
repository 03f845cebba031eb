# SPDX-License-Identifier: Apache-2.0
"""Small models of fixed random weights, and their greedy text, for tests."""

import torch
import transformers
from transformers.utils import logging

logging.set_verbosity_error()
torch.set_num_threads(1)
SIZES = dict(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
    bos_token_id=None,
    eos_token_id=None,
)
torch.manual_seed(1)
IDS = torch.randint(1, 128, (1, 64))


def model(name, dtype=torch.float32, attention="eager", **config):
    torch.manual_seed(7)
    config = getattr(transformers, name + "Config")(**{**SIZES, **config})
    kind = name.removesuffix("Text") + "ForCausalLM"
    kind = {"Bert": "BertLMHeadModel"}.get(name, kind)
    x = getattr(transformers, kind)(config).eval().to(dtype)
    x.set_attn_implementation(attention)
    return x


def rope(**said):
    """A configuration's rotation, by this transformers' name for it."""
    if transformers.__version__ < "5":
        said.pop("original_max_position_embeddings", None)
        return dict(rope_scaling={"type": said.pop("rope_type"), **said})
    return dict(rope_parameters=dict(said, rope_theta=1e4))


def longrope(limit):
    """Other frequencies beyond so many tokens, for heads of 16."""
    return dict(
        rope(rope_type="longrope", short_factor=[1.0] * 8,
             long_factor=[2.0] * 8, original_max_position_embeddings=limit),
        max_position_embeddings=512, original_max_position_embeddings=limit,
    )  # fmt: skip


def dynamic(limit):
    """Frequencies that change with each token beyond so many."""
    return dict(
        rope(rope_type="dynamic", factor=2.0), max_position_embeddings=limit
    )


def generate(model, ids=IDS, new=32, **more):
    """Greedy text: all ids, and logits [new, vocabulary] in float32."""
    more.setdefault("attention_mask", torch.ones_like(ids))
    out = model.generate(
        ids,
        max_new_tokens=new,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        **more,
    )
    return out.sequences, torch.cat(out.logits).float()
