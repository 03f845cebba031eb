# SPDX-License-Identifier: Apache-2.0
"""Writes the scores of a kvpress scorer press as a file for `score=file`: one
run of a costly scorer serves all budgets, ways of sharing them, and formats.

    from_scorer(model, make_press("KVzipPress()"), trace, "s.safetensors")
    kvreplay run T.safetensors -b 10%,20%,40% \\
        -m adakv:score=file:scores=s.safetensors

For a press within another (AdaKVPress(SnapKVPress())) these are the inner
press's scores: how to use them is up to the method. KVzip and FastKVzip keep
their scores until the prompt has ended, and give them then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import kvpress
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..hf.model import need
from ..scores import write_scores
from ..trace import Trace
from .decide import Watch, check_run, check_same, watching
from .expression import tried

LARGEST = float(np.finfo(np.float32).max)


def scorer_in(press: Any, name: str) -> Any:
    """The outermost press that has scores: this one or one within it."""
    inner = press
    while not isinstance(inner, kvpress.ScorerPress):
        if hasattr(inner, "compress_post"):
            return inner
        inner = getattr(inner, "press", None)
        need(
            inner is not None,
            f"{name} scores no tokens, so there are no scores to export; "
            "export its decisions without --scores",
        )
    return inner


class Scores:
    """A scorer press's scores of a prompt. of: {layer: float32 [KV heads,
    tokens]}. bound: are they only for this compression ratio?"""

    def __init__(self, press: Any) -> None:
        self.press, self.bound = press, False
        self.of: dict[int, np.ndarray] = {}

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Within this context the press scores but compresses nothing."""
        late = hasattr(self.press, "compress_post")
        name = "compress_post" if late else "compress"
        own, ratio = getattr(self.press, name), self.press.compression_ratio
        late_call = lambda model: self.post(own, model)  # noqa: E731
        setattr(self.press, name, late_call if late else self.compress)
        self.press.compression_ratio = ratio or 0.5  # at 0 no press scores
        try:
            yield
        finally:
            delattr(self.press, name)
            self.press.compression_ratio = ratio

    def compress(
        self,
        module: Any,
        hidden_states: Tensor,
        keys: Tensor,
        values: Tensor,
        attentions: Tensor | None,
        kwargs: dict[str, Any],
    ) -> tuple[Tensor, Tensor]:
        """Replaces the press's compress: scores at its ratio and at another one
        with the same random numbers."""
        p = self.press
        ratio, found = p.compression_ratio, []
        for p.compression_ratio in (0.25 if ratio != 0.25 else 0.75, ratio):
            with torch.random.fork_rng():
                given = hidden_states, keys, values, attentions, kwargs
                found.append(p.score(module, *given).clone())
        self.bound |= not torch.equal(*found)
        self.add(module.layer_idx, found[1])
        return keys, values

    def post(self, own: Any, model: PreTrainedModel) -> None:
        """Wraps the press's compress_post. After it, score_val [layers, 1, KV
        heads, tokens] is complete, also for sinks and windows."""
        own(model)
        for layer, scores in enumerate(self.press.score_val):
            self.add(layer, scores)

    def add(self, layer: int, scores: Tensor) -> None:
        """Scores [1, KV heads, tokens] of a layer; infinity becomes LARGEST."""
        x = scores.detach()[0].float().cpu().numpy()
        self.of[layer] = np.clip(x, -LARGEST, LARGEST)


@torch.no_grad()
def score(
    model: PreTrainedModel, press: Any, trace: Trace, name: str, attention: str
) -> tuple[Scores, Watch]:
    """The press's scores of a trace's prompt by an attention, and its cache."""
    tokens = torch.as_tensor(np.asarray(trace.tokens, np.int64)[None])
    watch = Watch(model, press, (None, False), trace.layers)
    scores = Scores(scorer_in(press, name))
    with watching(model, watch, attention), scores.asked():
        with scores.press(model):
            watch.feed(tokens.to(model.device), 0, trace.prompt_len)
    return scores, watch


def from_scorer(
    model: PreTrainedModel,
    press: Any,
    trace: Trace,
    path: str,
    name: str | None = None,
) -> Scores:
    """Writes a press's scores of a trace's prompt to path and returns them.
    name: the scorer's, for the file. ValueError: the press has no scores, or
    the trace is of another model."""
    name = check_run(model, press, trace, name)
    scores, watch = tried(name, lambda x: score(model, press, trace, name, x))
    check_same(model, trace, watch.cache.rows)
    of = {l: x for l, x in scores.of.items() if l in trace.layers}
    if scores.bound:
        ratio = scores.press.compression_ratio or 0.5
        name += f" (of a compression ratio of {ratio:g} alone)"
    write_scores(path, trace, name, of)
    return scores
