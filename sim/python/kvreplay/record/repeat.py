# SPDX-License-Identifier: Apache-2.0
"""KVzip's scores of a prompt's tokens (Kim et al. 2025, arXiv 2505.23416). With
the prompt in the cache, the model reads an instruction to repeat the context,
then the context itself, a chunk of CHUNK tokens at a time. A token's score is
the largest probability that any query of its chunk's pass gives it, over all
query heads of its KV head. As in the authors' program, a softmax covers the
tokens before the context, the chunk, and the pass itself.

The authors never evict what is not context: special tokens, what a chat
template puts before the first user's text and after the last, `question`
segments and all after them. Here these have the largest score, 1. Needs torch.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch
from transformers import DynamicCache

from ..hf.model import LayerCall, attending, need, register, with_cache
from ..hf.plain import check_stateless, check_turned_once
from .attention import own_output, second_of
from .layers import Layers
from .tokens import Asked, rendered

CHUNK, BEFORE = 2000, 8  # tokens of a chunk; tokens that say where it starts
FIRST = "\n\nRepeat the previous context exactly."
NEXT = "\n\nRepeat the part of the previous context exactly, starting with "


class Pass(NamedTuple):
    """Reading `ids` scores tokens start..end of the prompt."""

    start: int
    end: int
    ids: List[int]


class Repeat(NamedTuple):
    """first, last: the context's span in the prompt. The cache ends there."""

    first: int
    last: int
    passes: List[Pass]

    def places(self) -> int:
        """How many positions the longest pass needs."""
        return self.last + max(len(x.ids) for x in self.passes)


def span_of(tokenizer: Any, asked: Asked) -> Tuple[int, int, List[int]]:
    """The context's span in the prompt, and the tokens that a chat template
    puts after a user's text; for a plain prompt, a line end."""
    x, ids = asked.prompt, asked.ids

    def encode(text: str) -> List[int]:
        given = tokenizer(text, add_special_tokens=False)
        found: List[int] = given["input_ids"]
        return found

    first, last, behind = 0, len(ids), encode("\n")
    special = {*(getattr(tokenizer, "all_special_ids", None) or ())}
    if x.messages:
        text = rendered(x.where, tokenizer, x)
        user = [y["content"].strip() for y in x.messages if y["role"] == "user"]
        texts = user or [y["content"].strip() for y in x.messages]
        head = encode(text[: text.find(texts[0])])
        tail = encode(text[text.rfind(texts[-1]) + len(texts[-1]) :])
        first = len(head) if head == ids[: len(head)] else 0
        if tail and ids[-len(tail) :] == tail:
            last, behind = len(ids) - len(tail), tail
    while first < last and ids[first] in special:
        first += 1
    asks = [y["start"] for y in asked.segments if y["role"] == "question"]
    last = min([last, *asks])
    need(
        first < last,
        f"{x.where}: the prompt has no context to repeat, only special tokens "
        "or a question",
    )
    return first, last, behind


def repeat_of(tokenizer: Any, asked: Asked, chunk: int = CHUNK) -> Repeat:
    """A prompt's passes."""
    first, last, behind = span_of(tokenizer, asked)
    passes = []
    for start in range(first, last, chunk):
        end = min(last, start + chunk)
        say = tokenizer(FIRST if start == first else NEXT,
                        add_special_tokens=False)["input_ids"]  # fmt: skip
        if start > first:
            say = say + asked.ids[max(first, start - BEFORE) : start]
        passes.append(Pass(start, end, say + behind + asked.ids[start:end]))
    return Repeat(first, last, passes)


def most(call: LayerCall, scale: float, x: Repeat, at: Pass) -> torch.Tensor:
    """The scores of a pass's tokens, [KV heads, end - start]."""
    q, key, n = call.q[0].float(), call.k, call.q.shape[2]
    softcap, sinks = second_of(call)
    keep = [key[0, :, : x.first], key[0, :, at.start : at.end], key[0, :, -n:]]
    keys = torch.cat(keep, 1).float()
    later = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    group, found = len(q) // len(keys), []
    for h in range(len(q)):
        s = q[h] @ keys[h // group].mT * scale
        s = softcap * torch.tanh(s / softcap) if softcap else s
        s[:, -n:].masked_fill_(later, -torch.inf)
        if sinks is not None:
            s = torch.cat([s, sinks[h].float().expand(n, 1)], 1)
        p = s.softmax(-1)[:, x.first : x.first + at.end - at.start]
        found.append(p.amax(0))
    return torch.stack(found).view(len(keys), group, -1).amax(1)


@torch.no_grad()
def score(
    model: Any, layers: Layers, ids: List[int], wanted: List[int], x: Repeat
) -> Dict[int, np.ndarray]:
    """{layer: float32 [KV heads in a trace, tokens of the prompt]}. layers: the
    model's Layers. ids: the prompt. wanted: layers to score."""
    check_stateless(model)
    check_turned_once(model, x.last, x.places())
    found = {
        l: torch.ones(layers.look[l].alike[1], len(ids)) for l in wanted
    }
    at = None  # the current pass; None: the prompt itself

    def attend(call: LayerCall) -> torch.Tensor:
        layer = call.layer
        if at is not None and layer in found:
            scale = layers.look[layer].alike[4]
            got = most(call, scale, x, at).cpu()
            if layers.look[layer].nope:  # latent form has one KV head
                got = got.amax(0, keepdim=True)
            found[layer][:, at.start : at.end] = got
        return own_output(own, call)

    own, cache = register("kvrepeat", attend), DynamicCache()

    def read(decoder: Any, tokens: List[int], first: int) -> None:
        decoder(
            input_ids=torch.tensor([tokens], device=model.device),
            position_ids=torch.arange(
                first, first + len(tokens), device=model.device)[None],
            use_cache=True, **with_cache(decoder, cache))  # fmt: skip

    with attending(model, "kvrepeat") as decoder:
        read(decoder, ids[: x.last], 0)
        for at in x.passes:
            read(decoder, at.ids, x.last)
            cache.crop(-len(at.ids))  # a number to remove must be negative
    return {l: y.numpy() for l, y in found.items()}
