# SPDX-License-Identifier: Apache-2.0
"""A prompt with the tokens that follow: where its answer is, and the key that
identifies its trace. Needs only Python."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .prompts import Prompt
from .tokens import Asked, decode, find


class Request(NamedTuple):
    """tokens: prompt_len of the prompt, then the decode steps. answers,
    segments: as in a trace. by: "model" if the model gave the answer, "user" if
    it did not, so that the user's replaces its own, `said`; or None."""

    asked: Any  # Asked; None for hf.capture, whose tokens are the caller's
    tokens: List[int]
    prompt_len: int
    answers: Sequence[Dict[str, int]] = ()
    segments: Sequence[Dict[str, Any]] = ()
    by: Optional[str] = None
    said: str = ""


def request_of(tokenizer: Any, asked: Asked, new: List[int]) -> Request:
    """A prompt and the tokens that the model added. If they contain the
    answer's text, it is marked there. Otherwise the answer's tokens become the
    decode steps, which the model then reads."""
    ids, p, by, span = asked.ids, len(asked.ids), None, None
    said = decode(tokenizer, new)
    if asked.answer:
        n, span = find(tokenizer, new, asked.prompt.answer or "")
        by = "model" if n else "user"
        new, span = (new, span) if n else (asked.answer, (0, len(asked.answer)))
    tokens, answers = ids + new, []
    if span and asked.source:
        answers = [
            dict(start=p + span[0], end=p + span[1],
                 source_start=asked.source[0], source_end=asked.source[1])
        ]  # fmt: skip
    segments = [*asked.segments]
    if segments and new:
        segments.append(dict(start=p, end=len(tokens), role="answer"))
    return Request(asked, tokens, p, answers, segments, by, said)


def key_of(prompt: Prompt, digest: Optional[str], options: List[Any]) -> str:
    """Identifies what a trace was made of: it differs for another prompt, model
    or option. options: those that change the trace."""
    text = json.dumps([prompt.asked(), digest, options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
