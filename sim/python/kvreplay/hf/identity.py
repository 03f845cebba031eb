# SPDX-License-Identifier: Apache-2.0
"""Which model this is, whatever its folder is called: model_digest(), which
capture.py writes into a trace, so that the files that were trained for a
model are found by what it is (traces/README.md). Two fine-tunes of one
architecture differ in their numbers, and so in it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping, Optional

import torch

# Numbers of each end of a tensor: 4 KiB of 16-bit ones, 8 KiB of others.
ENDS = 2048
# Of a configuration: what changes no number of the model. The dtype is one of
# them, as what is hashed are the numbers as binary32.
BESIDE = set(
    "transformers_version dtype torch_dtype name_or_path use_cache max_length "
    "length_penalty num_beam_groups num_beams num_return_sequences "
    "repetition_penalty temperature top_k top_p typical_p type id2label "
    "label2id".split()
)
ROPES = "rope_scaling", "rope_parameters"  # of transformers 4 and 5


def settled(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without what changes nothing, and one way to say how RoPE
    turns; what is off or absent is left out, as versions differ in that."""
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
    """The bytes of a tensor's first and last numbers, floats as binary32, and
    before that rounded to a dtype, if there is one."""
    x = x.detach().reshape(-1)
    x = torch.cat([x[:ENDS], x[-ENDS:]])
    if x.is_floating_point():
        x = x.to(dtype or x.dtype).float()
    found: bytes = x.cpu().numpy().tobytes()
    return found


def model_digest(
    model: Any, dtype: Optional[torch.dtype] = None
) -> Optional[str]:
    """SHA-256 of the configuration, and of name, shape, first and last numbers
    of every tensor; None where tensors are not at hand (offloaded, or of a kind
    that has no plain numbers): such a model is known by its name alone. dtype:
    of what the model is when it is loaded in it; None: as it is."""
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
