# SPDX-License-Identifier: Apache-2.0
"""Records requests of one length, layer by layer. Needs torch."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import torch
import transformers

from ..container import NUMPY, Writer
from ..hf.plain import check_turned_once
from .forward import forward
from .layers import Layers
from .plan import Plan, texts
from .request import Request


def check_room(folder: str, plans: Sequence[Plan]) -> None:
    """OSError if the disk has too little space for the traces."""
    size = sum(
        int(np.prod(s)) * NUMPY[t].itemsize
        for plan in plans
        for t, s in plan.shapes.values()
    )
    disk = os.statvfs(folder)
    if size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, f"not enough disk space for {size} "
                      "bytes", folder)


def record(
    model: Any,
    layers: Layers,
    requests: Sequence[Request],
    paths: Sequence[str],
    *,
    digest: Optional[str] = None,
    asked: Optional[List[int]] = None,
    rows: Optional[int] = None,
    o: bool = True,
    sums: bool = True,
    metadata: Sequence[Mapping[str, Any]] = (),
) -> List[int]:
    """Writes a trace of each request to its path. All must have equally many
    tokens. digest: the model's. asked: layers, None: all that are possible.
    rows: how many of the prompt's last, None: all. o: outputs? sums: column
    sums, if rows are left out? metadata: a dict each. Returns the layers."""
    n = len(requests[0].tokens)
    for x in requests:
        check_turned_once(model, x.prompt_len, n)
    wanted = layers.of(n, asked)
    config, plans, files = model.config.get_text_config(), [], []
    for request, own in zip(requests, metadata):
        plan = Plan(layers, wanted, request, rows, o, sums)
        if getattr(config, "kv_lora_rank", None) and not plan.shared:
            # Expanded keys, which no engine stores.
            plan.metadata["attn.latent"] = (
                config.kv_lora_rank + config.qk_rope_head_dim
            )
        plan.metadata.update(
            recorder=f"kvreplay, transformers {transformers.__version__}",
            model_digest=digest,
            left=layers.left_out(wanted, n, asked is not None) or None,
            answers=request.answers or None,
            segments=request.segments or None,
        )
        plan.metadata.update(own)
        plans.append(plan)
    check_room(os.path.dirname(paths[0]) or ".", plans)
    try:
        for path, plan in zip(paths, plans):
            files.append(Writer(path, texts(plan.metadata), plan.shapes))
        put(model, layers, requests, plans, files)
        for file in files:
            file.finish()
    finally:
        for file in files:
            file.leave()
    return wanted


def put(
    model: Any,
    layers: Layers,
    requests: Sequence[Request],
    plans: Sequence[Plan],
    files: Sequence[Writer],
) -> None:
    """One forward pass of all requests, written as it computes."""
    ids = torch.tensor([x.tokens for x in requests], device=model.device)

    def take(
        layer: int, x: Dict[str, torch.Tensor], sinks: Optional[torch.Tensor]
    ) -> None:
        for i, (plan, file) in enumerate(zip(plans, files)):
            own = {y: z[i] for y, z in x.items()}
            plan.put(file, layer, dict(own, sinks=sinks))

    windows = {l: plans[0].windows[l] for l in plans[0].layers}
    forward(model, layers, ids, windows, take)
    for request, plan, file in zip(requests, plans, files):
        plan.finish(file, request)
