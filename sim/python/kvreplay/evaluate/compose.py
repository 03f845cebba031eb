# SPDX-License-Identifier: Apache-2.0
"""From a text and what is asked about it to an Item: the chat template, where
the prompt ends, tokens and their spans, and as much text as a length allows.
For `tasks`; a text without a chat template is taken as it is. Needs no torch.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..hf.text import encode, tokenized
from ..record.prompts import Prompt
from ..record.tokens import find, follows, least, rendered
from .item import Item, Question

ENDS = "after", "before", "inside"  # question=
MORE = 8  # tokens generated beyond those of the longest answer


class Ask(NamedTuple):
    """A question on a context. earlier: (question, answer) of the turns of the
    conversation between the two."""

    question: str
    begin: str  # of the assistant's answer, which the model is given
    answer: str  # how it goes on; one blank comes between
    accept: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # texts of the context that answer it
    earlier: tuple[tuple[str, str], ...] = ()
    any: bool = False


class Text(NamedTuple):
    """A context and its questions. bare: as it is, without a chat template."""

    context: str
    asks: tuple[Ask, ...]
    bare: bool = False
    answers: int = 0  # tokens that are kept of an answer; 0: all of it


Draft = Callable[[int], Text]  # of so many units: sentences, lines, words


class Composer:
    """Of one model: its name for sentences, its tokenizer, and how many tokens
    it knows."""

    def __init__(self, name: str, tokenizer: Any, size: int) -> None:
        self.name, self.tokenizer, self.size = name, tokenizer, size
        self.chat = getattr(tokenizer, "chat_template", None) is not None

    def bare(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """The prompt's text and what follows it, without a chat template: a
        turn is a line, which the answer goes on."""
        if ends == "before":
            behind = ask.begin or "Answer:"
            return f"{ask.question}\n\n{x.context}", f"\n\n{behind}"
        last = f"{ask.question} {ask.begin}".strip()
        lines = [*map(" ".join, ask.earlier), *([last] if last else [])]
        between = "\n\n" if x.context and lines else ""
        return x.context, between + "\n".join(lines)

    def templated(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """The same by the chat template: the context is what a user says
        first, with the first question behind it or in front."""
        turns = [y for turn in ask.earlier for y in turn]
        first, *more = [*turns, ask.question]
        both = [x.context, first] if x.context else [first]
        if ends == "before":
            both.reverse()
        role, said = ("user", "assistant"), ["\n\n".join(both), *more]
        messages = [dict(role=role[i % 2], content=y)
                    for i, y in enumerate(said)]  # fmt: skip
        text = rendered(self.name, self.tokenizer,
                        Prompt(self.name, "", messages=messages))  # fmt: skip
        last = x.context or first
        if text.count(last) != 1:
            raise ValueError(f"{self.name}: its chat template changes the "
                             "user's text; use another model")  # fmt: skip
        cut = text.index(last) + len(last)
        return text[:cut], text[cut:] + ask.begin

    def parts(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """The prompt's text and what follows it when it was compressed."""
        by = self.templated if self.chats(x) else self.bare
        text, tail = by(x, ask, ends)
        return (text + tail, "") if ends == "inside" else (text, tail)

    def chats(self, x: Text) -> bool:
        return self.chat and not x.bare

    def length(self, x: Text, ends: str) -> int:
        """Tokens of the prompt."""
        text, _ = self.parts(x, x.asks[0], ends)
        return len(tokenized(self.tokenizer, text, not self.chats(x)))

    def fit(self, draft: Draft, most: int, length: int, ends: str) -> Text:
        """The draft of as many units, of `most`, as `length` tokens hold.
        ValueError where one is too many, or all are far too few."""

        def over(n: int) -> bool:
            return self.length(draft(n), ends) > length

        high = 1
        while high <= most and not over(high):
            high *= 2
        n = least(high // 2, min(high, most + 1), lambda k: k > most or over(k))
        if n <= 1 and over(1):
            raise ValueError(
                f"it needs at least {self.length(draft(1), ends)} tokens; give "
                "a greater length"
            )
        x = draft(n - 1)
        if n > most and self.length(x, ends) < length * 3 // 4:
            raise ValueError(
                f"its text has at most {self.length(x, ends)} tokens of this "
                "model; give a smaller length"
            )
        return x

    def question(
        self, x: Text, ask: Ask, ends: str
    ) -> tuple[list[int], Question]:
        """The prompt's tokens, and the question."""
        text, tail = self.parts(x, ask, ends)
        special = not self.chats(x)  # a template brings its own
        prompt = encode(self.name, self.tokenizer, text, self.size, special)

        def after(text: str, ids: list[int], more: str) -> list[int]:
            return follows(self.tokenizer, text, ids, more, special)

        tokens = after(text, prompt, tail) if tail else []
        # In an answer of its own line nothing stands before the first word.
        blank = "" if self.chats(x) and not ask.begin else " "
        answer = after(text + tail, prompt + tokens, blank + ask.answer
                       ) if ask.answer else []  # fmt: skip
        answer = answer[: x.answers or len(answer)]
        spans = tuple(self.span(prompt, y) for y in ask.sources)
        return prompt, Question(
            tuple(tokens), tuple(answer), ask.accept, ask.any, spans)

    def span(self, prompt: list[int], source: str) -> tuple[int, int]:
        n, span = find(self.tokenizer, prompt, source)
        if n != 1 or span is None:
            raise ValueError(
                f"the answer's source, {source[:40]!r}, appears {n} times in "
                "the prompt as this tokenizer reads it; use another model or "
                "seed"
            )
        return span

    def item(
        self, id: str, task: str, x: Text, ends: str, depth: float | None,
        new: int | None = None,
    ) -> Item:  # fmt: skip
        """The item. Only where the questions follow can there be several; else
        it is the first. new: default: what the longest answer needs."""
        asks = x.asks if ends == "after" else x.asks[:1]
        found = [self.question(x, y, ends) for y in asks]
        questions = tuple(y for _, y in found)
        if new is None:
            new = max(len(y.answer) for y in questions) + MORE
        return Item(id, task, tuple(found[0][0]), questions, new, depth)
