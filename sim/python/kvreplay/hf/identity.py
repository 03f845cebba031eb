# SPDX-License-Identifier: Apache-2.0
"""Identifies a model, whatever its folder is called. capture.py writes
model_digest() into a trace, so that files trained for the model are found
(traces/README.md). Two fine-tunes of one architecture have different digests,
because their numbers differ."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping, Optional

import torch

# Numbers hashed at each end of a tensor, at most 8 KiB as binary32.
ENDS = 2048
# Keys of a configuration that change no number of the model, such as the dtype:
# numbers are hashed as binary32.
BESIDE = set(
    "transformers_version dtype torch_dtype name_or_path use_cache max_length "
    "length_penalty num_beam_groups num_beams num_return_sequences "
    "repetition_penalty temperature top_k top_p typical_p type id2label "
    "label2id".split()
)
ROPES = "rope_scaling", "rope_parameters"  # transformers 4 and 5


def settled(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without keys that change nothing, and with RoPE in one
    form. Drops what is off or absent, because versions differ in that."""
    config = {**config}
    for key in ROPES:
        rope = config.pop(key, None)
        config.update(rope if isinstance(rope, dict) else {})
    if config.get("rope_type", config.get("type")) == "default":
        config.pop("rope_type", None)
    return {
        str(key): settled(x) if isinstance(x, dict) else x
        for key, x in config.items()
        if key not in BESIDE and str(key)[0] != "_" and x
    }


def ends(x: torch.Tensor, dtype: Optional[torch.dtype] = None) -> bytes:
    """The bytes of a tensor's first and last numbers. Floats are rounded to
    dtype, if given, and then widened to binary32."""
    x = x.detach().reshape(-1)
    x = torch.cat([x[:ENDS], x[-ENDS:]])
    if x.is_floating_point():
        x = x.to(dtype or x.dtype).float()
    found: bytes = x.cpu().numpy().tobytes()
    return found


def model_digest(
    model: Any, dtype: Optional[torch.dtype] = None
) -> Optional[str]:
    """SHA-256 of the configuration and of each tensor's name, shape, first and
    last numbers. None if tensors are offloaded or not plain numbers; then only
    a name identifies the model. dtype: gives the digest that the model has when
    loaded in this dtype. None: as it is."""
    config = settled(model.config.to_dict())
    text = json.dumps(config, sort_keys=True, default=str)
    h = hashlib.sha256(text.encode())
    try:
        for name, x in sorted(model.state_dict().items()):
            h.update(f"\n{name} {[*x.shape]}\n".encode())
            h.update(ends(x, dtype))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return None
    return h.hexdigest()
