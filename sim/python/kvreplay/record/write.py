# SPDX-License-Identifier: Apache-2.0
"""Requests of one length through the model and into their files, a layer at a
time. Needs torch."""

import errno
import json
import os

import numpy as np
import torch
import transformers

from ..container import NUMPY
from ..hf.model import need
from ..hf.plain import check_turned_once
from .file import TraceFile
from .forward import bits, forward
from .rows import rows_kept
from .sums import column_sums

NAMES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}


def texts(metadata):
    """As they stand in a file; None is left out."""
    return {
        x: y if isinstance(y, str) else json.dumps(y, separators=(",", ":"))
        for x, y in metadata.items()
        if y is not None
    }


class Plan:
    """What the trace of a request has: layers, rows of q and o, sizes."""

    def __init__(self, layers, wanted, dtype, request, rows, o, sums):
        heads, kv, d, d_v, self.scale = layers.geometry[wanted[0]]
        self.layers, self.dtype = wanted, dtype
        n, p = len(request.tokens), request.prompt_len
        self.rows = rows_kept(p, n, rows)
        self.sums = sums and self.rows is not None
        kept, kind = n if self.rows is None else len(self.rows), NAMES[dtype]
        need(
            kept,
            "no query row is left to record: the prompt has no decode steps, "
            "and --rows decode takes these alone; give last=N, or --max-new",
        )
        one = {"q": (kind, (heads, kept, d)), "k": (kind, (kv, n, d)),
               "v": (kind, (kv, n, d_v))}  # fmt: skip
        if o:
            one["o"] = kind, (heads, kept, d_v)
        if self.rows is not None:
            one["rows"] = "I32", (kept,)
        if self.sums:
            one["colsum"] = "I64", (heads, p)
        self.shapes = {f"layers.{l}.{x}": y for l in wanted
                       for x, y in one.items()}  # fmt: skip
        self.shapes["tokens"] = "I32", (n,)
        self.metadata = dict(
            format="kvtrace", version="1", n_layers=layers.n, n_heads=heads,
            n_kv_heads=kv, head_dim=d, prompt_len=p,
            layers="all" if len(wanted) == layers.n else ",".join(
                map(str, wanted)))  # fmt: skip
        self.metadata["attn.scale"] = self.scale

    def turn(self, freq, paired, factor):
        """The rotation is in the trace, too."""
        self.freq = freq
        if freq is not None:
            self.shapes["rope.inv_freq"] = "F32", freq.shape
            self.metadata["rope.layout"] = "interleaved" if paired else "half"
            self.metadata["rope.scale"] = factor

    def put(self, file, layer, x):
        """A layer's q, k, v and o, [heads, tokens, d], of one request."""
        at = f"layers.{layer}."
        x = {y: z.to(dtype=self.dtype) for y, z in x.items()}
        k = bits(x["k"])
        file.put(at + "k", k)
        file.put(at + "v", bits(x["v"]))
        if self.sums:
            p = self.metadata["prompt_len"]
            sums = column_sums(bits(x["q"]), k, p, self.scale)
            file.put(at + "colsum", sums)
        for name in "qo":
            if f"{at}{name}" in self.shapes:
                y = x[name]
                file.put(at + name, bits(
                    y if self.rows is None else y[:, self.rows[0] :]
                ))  # fmt: skip
        if self.rows is not None:
            file.put(at + "rows", np.array(self.rows, "<i4"))


def check_room(folder, plans):
    """OSError where the disk has no room for what is to be written."""
    size = sum(
        int(np.prod(s)) * NUMPY[t].itemsize
        for plan in plans
        for t, s in plan.shapes.values()
    )
    disk = os.statvfs(folder)
    if size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, f"no room for {size} bytes", folder)


def record(model, layers, requests, paths, *, digest=None, asked=None,
           rows=None, o=True, sums=True, metadata=()):
    """Writes a trace of each request; all have one number of tokens.
    metadata: a dict for each. Returns the layers recorded."""
    n = len(requests[0].tokens)
    for x in requests:
        check_turned_once(model, x.prompt_len, n)
    wanted = layers.of(n, asked)
    config, plans, files = model.config.get_text_config(), [], []
    for request, own in zip(requests, metadata):
        plan = Plan(layers, wanted, layers.dtype, request, rows, o, sums)
        plan.turn(*layers.rotation(wanted))
        if getattr(config, "kv_lora_rank", None):  # expanded, never held so
            plan.metadata["attn.latent"] = (
                config.kv_lora_rank + config.qk_rope_head_dim
            )
        plan.metadata.update(
            recorder=f"kvreplay, transformers {transformers.__version__}",
            model_digest=digest,
            answers=request.answers or None,
            segments=request.segments or None,
        )
        plan.metadata.update(own)
        plans.append(plan)
    check_room(os.path.dirname(paths[0]) or ".", plans)
    try:
        for path, plan in zip(paths, plans):
            files.append(TraceFile(path, texts(plan.metadata), plan.shapes))
        put(model, requests, plans, files)
        for file in files:
            file.finish()
    finally:
        for file in files:
            file.leave()
    return wanted


def put(model, requests, plans, files):
    ids = torch.tensor([x.tokens for x in requests], device=model.device)

    def take(layer, x):
        for i, (plan, file) in enumerate(zip(plans, files)):
            plan.put(file, layer, {y: z[i] for y, z in x.items()})

    forward(model, ids, plans[0].layers, take)
    for request, plan, file in zip(requests, plans, files):
        file.put("tokens", np.array(request.tokens, "<i4"))
        if plan.freq is not None:
            file.put("rope.inv_freq", plan.freq.astype("<f4"))
