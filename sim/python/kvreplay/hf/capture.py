# SPDX-License-Identifier: Apache-2.0
"""Records a trace of a Hugging Face model in your own program, for any tokens
[1, T]: q and k after RoPE, v, and the output of each layer in one forward pass,
as torch's attention computed it.

    capture(model, ids, prompt_len, "out.safetensors", source="my text")

`kvreplay record` records prompts. `kvtrace check out.safetensors` computes the
outputs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..record.layers import Layers
from ..record.request import Request
from ..record.write import record
from .identity import model_digest
from .model import need
from .plain import check_ids, check_turned_once
from .text import check_folder

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

# Metadata that the recorder finds and writes itself.
WRITTEN = set(
    "format version layers n_layers n_heads n_kv_heads head_dim prompt_len "
    "attn.scale attn.latent attn.softcap attn.sliding_window kv.shared "
    "rope.layout rope.scale channels recorder model_digest left".split()
)


def capture(
    model: PreTrainedModel,
    ids: Tensor,
    prompt_len: int,
    path: str,
    /,
    **metadata: Any,
) -> bool:
    """Writes the trace of ids [1, T], prompt_len of them the prompt, to path.
    Returns whether it has the rotation. If layers differ, for example by head
    size or window, it records the largest group that agrees."""
    check_folder(path)
    given = sorted(WRITTEN & {*metadata})
    need(
        not given,
        f"metadata {', '.join(given)}: the recorder finds and writes this "
        "itself; leave it out",
    )
    check_ids(ids, prompt_len)
    check_turned_once(model, prompt_len, ids.shape[1])
    tokens = ids[0].cpu().numpy().tolist()
    layers = Layers(model, ids)
    wanted = record(
        model, layers, [Request(None, tokens, prompt_len)], [path],
        digest=model_digest(model), metadata=[metadata])  # fmt: skip
    return layers.rotation(wanted).rope.freq is not None
