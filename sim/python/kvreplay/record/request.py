# SPDX-License-Identifier: Apache-2.0
"""What becomes of a prompt: its tokens and those that follow, what of them is
the answer, and how its trace is known again. Needs Python alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .prompts import Prompt
from .tokens import Asked, find


class Request(NamedTuple):
    """tokens: of the prompt, prompt_len of them, and of the decode steps.
    answers, segments: as in a trace. by: "model" where it gave the answer,
    "recorder" where it was given to it, or None."""

    asked: Any  # Asked; of hf.capture, whose tokens are the caller's, None
    tokens: List[int]
    prompt_len: int
    answers: Sequence[Dict[str, int]] = ()
    segments: Sequence[Dict[str, Any]] = ()
    by: Optional[str] = None


def request_of(tokenizer: Any, asked: Asked, new: List[int]) -> Request:
    """A prompt, and the tokens that the model added. Where these have the
    answer's text it stands there; else the answer's tokens are the decode
    steps, which the model is made to read."""
    ids, p, by, span = asked.ids, len(asked.ids), None, None
    if asked.answer:
        n, span = find(tokenizer, new, asked.prompt.answer or "")
        by = "model" if n else "recorder"
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
    return Request(asked, tokens, p, answers, segments, by)


def key_of(prompt: Prompt, digest: Optional[str], options: List[Any]) -> str:
    """What a trace was made of: another prompt, model or option, another key.
    options: those that change what is in it."""
    text = json.dumps([prompt.asked(), digest, options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
