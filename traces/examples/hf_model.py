# SPDX-License-Identifier: Apache-2.0
"""What a Hugging Face model calls its attention function with, as a session or
a trace wants it: rows in numpy, the rotation, and that it is plain causal
attention of one sequence. What is not is a ValueError of one sentence, for
kvreplay has no arithmetic for it. For hf_session.py and capture_hf.py, which
ran with transformers 4.57.3 and 5.23.0, torch 2.15.0."""

import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface

# Arguments of attention functions that make it another attention.
OTHERS = (
    "softcap s_aux sinks position_bias indices block_indices cu_seq_lens_q"
).split()
# Layers that are plain as long as their mask hides nothing.
TYPES = {"attention", "full_attention", "sliding_attention"}
TYPES |= {"chunked_attention"}


def need(true, sentence):
    if not true:
        raise ValueError(sentence)


def register(name, attend):
    """The function, with the masks of torch's own attention: None where there
    is nothing but causality. Without a mask padding would pass unseen. Returns
    torch's own attention."""
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, AttentionMaskInterface()["sdpa"])
    return AttentionInterface()["sdpa"]


def to_numpy(x):
    """[1, heads, tokens, d] to [heads, tokens, d]; bfloat16 as its bits."""
    x = x.detach().cpu()[0]
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.uint16)
    return x.numpy()


def layer_types(model):
    return {*(getattr(model.config.get_text_config(), "layer_types", 0) or ())}


def check_layers(model):
    others = layer_types(model) - TYPES
    need(not others, f"layers of {', '.join(others)}: take another model")


def check_plain(query, mask, n_seen, kwargs):
    """Each of the last n of n_seen tokens attends to all before it."""
    batch, _, n, _ = query.shape
    need(batch == 1, f"a batch of {batch}: give one sequence, and one beam")
    names = [x for x in OTHERS if kwargs.get(x) is not None]
    names += ["dropout"] if kwargs.get("dropout") else []
    if mask is None and n > 1 and kwargs.get("is_causal") is False:
        names += ["is_causal=False"]
    need(
        not names,
        f"the model's attention has {', '.join(names)}: there is no "
        "arithmetic for it; take another model (for dropout: model.eval())",
    )
    if mask is not None:
        sees = mask if mask.dtype == torch.bool else mask == 0
        causal = torch.ones(n, n_seen, dtype=torch.bool).tril(n_seen - n)
        need(
            (sees[..., :n_seen].cpu() == causal).all(),
            f"the mask of tokens {n_seen - n} to {n_seen - 1} hides earlier "
            "ones (padding, a sliding window, chunks) or shows later ones: "
            "give one sequence, not padded, no longer than the window",
        )


def rotation(model, module, d):
    """RoPE's d/2 frequencies, and whether it pairs 2i with 2i+1. None, False
    where not every layer turns whole heads by frequencies that stand still:
    methods that re-index then refuse."""
    config = model.config.get_text_config()
    rope = getattr(model.base_model, "rotary_emb", None)
    freq = getattr(rope, "inv_freq", None)
    # No attribute says how elements pair; the model's own code does it.
    turn = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    alike = len(layer_types(model)) < 2 and all(
        getattr(config, "no_rope_layers", None) or ()  # 1: it has RoPE
    )
    moves = getattr(rope, "rope_type", "") in ("dynamic", "longrope")
    if freq is None or turn is None or 2 * len(freq) != d or not alike or moves:
        return None, False
    paired = turn(torch.arange(4.0)).tolist() == [-1, 0, -3, 2]
    return freq.detach().float().cpu().numpy(), paired
