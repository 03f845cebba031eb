# SPDX-License-Identifier: Apache-2.0
"""An Item of `kvreplay evaluate`: a prompt, which a method compresses at its
end, and the questions that follow. `tasks` and item_of() make them. Needs no
torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from ..record.prompts import Prompt
from ..record.tokens import alike, check_places, places, tokens_of

NEW = 32  # tokens to generate for a user's prompt without `new`


@dataclass(frozen=True)
class Question:
    """A question after the prompt's compression, independent of others."""

    tokens: tuple[int, ...]  # after the prompt; (): the prompt contains it
    answer: tuple[int, ...]  # the right answer; (): none
    accept: tuple[str, ...]  # texts in a right answer; (): not judged
    any: bool = False  # one of these texts is enough; else all are needed
    spans: tuple[tuple[int, int], ...] = ()  # [start, end) with the answer
    # For people, None if there is none; a digest of items leaves them out.
    asked: str | None = field(default=None, repr=False)  # its last turn alone
    reference: str | None = field(default=None, repr=False)  # right answer

    def right(self, text: str) -> bool:
        """Does the text contain what is accepted, as whole words and numbers,
        ignoring case and accents?"""
        of = any if self.any else all
        return of(
            places(text, x, True) or places(alike(text), alike(x), True)
            for x in self.accept
        )


@dataclass(frozen=True)
class Item:
    """A prompt and its questions, as tokens of one model's tokenizer."""

    id: str  # within its task
    task: str  # as typed, or the name of the file
    prompt: tuple[int, ...]
    questions: tuple[Question, ...]
    new: int  # at most this many tokens are generated per question
    depth: float | None = None  # position of the answer: 0 first, 1 last
    context: str = field(default="", repr=False)  # of context_of()

    def check(self, most: int | None) -> None:
        """ValueError if the item exceeds a model of `most` positions."""
        more = (len(x.tokens) + max(len(x.answer), self.new)
                for x in self.questions)  # fmt: skip
        where = f"{self.task}, item {self.id}"
        check_places(where, len(self.prompt), max(more), most)


def context_of(text: str) -> str:
    """Names a context, wherever its question is; "" if there is none.
    Statistics treat answers about one context as dependent."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def text_of(x: Prompt, role: str) -> str:
    """A prompt's context or question; "" if it does not say which it is."""
    own = x.context if role == "context" else x.question
    return (own or "").strip() or "".join(
        y["text"] for y in x.segments or () if y["role"] == role)


def item_of(task: str, name: str, tokenizer: Any, x: Prompt, size: int) -> Item:
    """A user's prompt as an item. Trailing question segments become the
    question; without them the prompt is all of it."""
    asked = tokens_of(name, tokenizer, x, size)
    end, source = len(asked.ids), asked.source
    for part in reversed(asked.segments):
        if part["role"] != "question":
            break
        end = part["start"]
    if not 0 < end:
        raise ValueError(
            f"{x.where}: nothing precedes the question; give context segments, "
            "too"
        )
    if source and source[1] > end:
        raise ValueError(
            f"{x.where}: the answer's source is in the question, not in the "
            "context before it; give the source's text in the context"
        )
    question = Question(
        tuple(asked.ids[end:]),
        tuple(asked.answer),
        (x.answer.strip(),) if x.answer else (),
        spans=(source,) if source else (),
        asked=text_of(x, "question") or None,
        reference=x.answer,
    )
    prompt = tuple(asked.ids[:end])
    depth = source[0] / len(prompt) if source else None
    return Item(x.id, task, prompt, (question,), x.new or NEW, depth,
                context_of(text_of(x, "context")))  # fmt: skip
