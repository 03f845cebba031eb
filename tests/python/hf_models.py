# SPDX-License-Identifier: Apache-2.0
"""Small models of random weights, always the same, and what generation by
them gives: for the tests of the examples where transformers is installed."""

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


def generate(model, ids=IDS, new=32, **more):
    """Greedy: all ids, and the logits [new, vocabulary] in float32."""
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
