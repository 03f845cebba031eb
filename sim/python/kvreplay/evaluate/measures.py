# SPDX-License-Identifier: Apache-2.0
"""Measures of answers, from tokens and logits. Needs torch."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch

from .item import Item, Question

TOTAL = "payload metadata columns side slack".split()  # kinds of held bytes


def request_digest(item: Item, question: Question) -> str:
    """SHA-256 of prompt, question and answer: each its length and its tokens,
    as int32."""
    h = hashlib.sha256()
    for x in item.prompt, question.tokens, question.answer:
        h.update(np.array([len(x), *x], "<i4").tobytes())
    return h.hexdigest()


def answer_digest(tokens: Sequence[int]) -> str:
    """SHA-256 of the tokens, as int32."""
    return hashlib.sha256(np.array(tokens, "<i4").tobytes()).hexdigest()


def logliks(logits: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
    """Log-probability of each token by logits [tokens, vocabulary], float64."""
    x = torch.log_softmax(logits.double(), -1)
    return x.gather(1, torch.tensor(tokens)[:, None])[:, 0]


def divergences(dense: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """KL(dense || other) of the next token, in nats, float64 [tokens]. A token
    impossible for dense (logit -inf) adds nothing."""
    p, q = (torch.log_softmax(x.double(), -1) for x in (dense, other))
    return (p.exp() * (p - q)).masked_fill(p == -math.inf, 0).sum(-1)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def perplexities(dense: torch.Tensor, other: torch.Tensor) -> Dict[str, float]:
    """Perplexity minus dense's, from log-probabilities [tokens]: over all, and
    over positions 0-15, 16-31, 32-63 and so on, named by the first."""
    n, found, first, end = len(dense), {}, 0, 16

    def apart(a: int, b: int) -> float:
        x, y = (-float(z[a:b].mean()) for z in (other, dense))
        most = max(x, y)
        return math.exp(x) - math.exp(y) if most < 709 else most * math.inf

    found["ppl.all"] = apart(0, n)
    while first < n:
        found[f"ppl.{first}"] = apart(first, min(n, end))
        first, end = end, 2 * end
    return found


def finite(values: Dict[str, float]) -> Tuple[Dict[str, float], str]:
    """The finite values, and a sentence about the others, or ""."""
    lost = [x for x, y in values.items() if not math.isfinite(y)]
    why = ("no " + ", ".join(lost) + ": the model's logits hold NaN, or give "
           "no probability to a token that it needs")  # fmt: skip
    return {x: y for x, y in values.items() if x not in lost}, why * bool(lost)


def held_bytes(ledger: Dict[str, Any]) -> Dict[str, float]:
    """The bytes in a session's ledger."""
    return {
        "bytes.mean": float(ledger["mean"]),
        "bytes.peak": float(ledger["peak"]),
        "bytes.end": float(sum(ledger[x] for x in TOTAL)),
    }


def replayed(row: Dict[str, Any]) -> Dict[str, float]:
    """open.NAME for each number in a row of `kvreplay run -f jsonl`. A measure
    of each decode step, layer and head gives mean, median and tails."""
    found: Dict[str, float] = {}

    def add(name: str, x: Any) -> None:
        if isinstance(x, dict):
            for key, y in x.items():
                add(f"{name}.{key}", y)
        elif isinstance(x, (int, float)) and math.isfinite(x):
            found[name] = float(x)

    for key in list(row)[list(row).index("achieved"):]:
        add("open." + key, row[key])
    return found


def ends_for(question: Question, ends: List[int]) -> List[int]:
    """The tokens that end an answer. None without a question, so that all
    methods generate equally many."""
    return ends if question.accept else []
