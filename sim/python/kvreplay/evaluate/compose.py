# SPDX-License-Identifier: Apache-2.0
"""Turns a text and its questions into an Item: applies the chat template, finds
where the prompt ends, makes tokens and their spans, and fills the length. A
model without a chat template reads plain text. Needs no torch."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..hf.text import encode, tokenized
from ..record.prompts import ENDS, Prompt
from ..record.tokens import Asked, decode, find, follows, least, rendered
from ..record.tokens import source_of
from .item import Item, Question, context_of

MORE = 8  # tokens generated beyond the longest answer


class Ask(NamedTuple):
    """A question on a context. earlier: (question, answer) of former turns."""

    question: str
    begin: str  # the start of the assistant's answer, given to the model
    answer: str  # the rest, after one blank
    accept: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # passages of the context with the answer
    earlier: tuple[tuple[str, str], ...] = ()
    any: bool = False


class Text(NamedTuple):
    """A context and its questions. bare: never uses a chat template."""

    context: str
    asks: tuple[Ask, ...]
    bare: bool = False
    answers: int = 0  # tokens of an answer to keep; 0: all


Draft = Callable[[int], Text]  # by number of units: sentences, lines or words


class Composer:
    """For one model: name (for messages), tokenizer, size of vocabulary."""

    def __init__(self, name: str, tokenizer: Any, size: int) -> None:
        self.name, self.tokenizer, self.size = name, tokenizer, size
        self.chat = getattr(tokenizer, "chat_template", None) is not None

    def bare(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """The prompt and what follows it, without a chat template. Each turn is
        a line that the answer continues."""
        if ends == "before":
            behind = ask.begin or "Answer:"
            return f"{ask.question}\n\n{x.context}", f"\n\n{behind}"
        last = f"{ask.question} {ask.begin}".strip()
        lines = [*map(" ".join, ask.earlier), *([last] if last else [])]
        between = "\n\n" if x.context and lines else ""
        return x.context, between + "\n".join(lines)

    def messages(self, x: Text, ask: Ask, ends: str) -> list[dict[str, str]]:
        """For the chat template. The user's first message is the context and
        the first question, in the order that `ends` wants."""
        turns = [y for turn in ask.earlier for y in turn]
        first, *more = [*turns, ask.question]
        both = [x.context, first] if x.context else [first]
        if ends == "before":
            both.reverse()
        role, said = ("user", "assistant"), ["\n\n".join(both), *more]
        return [dict(role=role[i % 2], content=y) for i, y in enumerate(said)]

    def templated(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """As bare(), with the chat template."""
        text = rendered(self.name, self.tokenizer, Prompt(
            self.name, "", messages=self.messages(x, ask, ends)))  # fmt: skip
        last = x.context or [*ask.earlier, (ask.question, "")][0][0]
        if text.count(last) != 1:
            raise ValueError(f"{self.name}: its chat template changes the "
                             "user's text, or what is around it repeats it; "
                             "use another model or text")  # fmt: skip
        cut = text.index(last) + len(last)
        return text[:cut], text[cut:] + ask.begin

    def parts(self, x: Text, ask: Ask, ends: str) -> tuple[str, str]:
        """The prompt, and what follows after its compression."""
        by = self.templated if self.chats(x) else self.bare
        text, tail = by(x, ask, ends)
        return (text + tail, "") if ends == "inside" else (text, tail)

    def chats(self, x: Text) -> bool:
        return self.chat and not x.bare

    def length(self, x: Text, ends: str) -> int:
        """The prompt's number of tokens."""
        text, _ = self.parts(x, x.asks[0], ends)
        return len(tokenized(self.tokenizer, text, not self.chats(x)))

    def fit(self, draft: Draft, most: int, length: int, ends: str) -> Text:
        """The largest draft, up to `most` units, that fits `length` tokens.
        ValueError if one unit is too long, or all fill less than 3/4."""

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
        """The prompt's tokens and the question."""
        text, tail = self.parts(x, ask, ends)
        special = not self.chats(x)  # a template contains its special tokens
        prompt = encode(self.name, self.tokenizer, text, self.size, special)

        def after(text: str, ids: list[int], more: str) -> list[int]:
            return follows(self.tokenizer, text, ids, more, special)

        tokens = after(text, prompt, tail) if tail else []
        # An answer that is its own message has no leading blank.
        blank = "" if self.chats(x) and not ask.begin else " "
        answer = after(text + tail, prompt + tokens, blank + ask.answer
                       ) if ask.answer else []  # fmt: skip
        answer = answer[: x.answers or len(answer)]
        spans = tuple(self.span(prompt, y) for y in ask.sources)
        reference = decode(self.tokenizer, answer) if x.answers else ask.answer
        return prompt, Question(
            tuple(tokens), tuple(answer), ask.accept, ask.any, spans,
            ask.question or None, reference.strip() or None)

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
        """The item. It has several questions only if they follow the prompt.
        new: tokens to generate (default: enough for the longest answer)."""
        asks = x.asks if ends == "after" else x.asks[:1]
        found = [self.question(x, y, ends) for y in asks]
        questions = tuple(y for _, y in found)
        if new is None:
            new = max(len(y.answer) for y in questions) + MORE
        return Item(id, task, tuple(found[0][0]), questions, new, depth,
                    context_of(x.context))  # fmt: skip


def composed(name: str, tokenizer: Any, x: Prompt, size: int) -> Asked:
    """A user's context and question as Asked. The segment context is what is
    compressed before the segment question, if anything follows."""
    c, place = Composer(name, tokenizer, size), x.place or ENDS[0]
    ask = Ask((x.question or "").strip(), "", (x.answer or "").strip())
    text = Text((x.context or "").strip(), (ask,))
    try:
        prompt, q = c.question(text, ask, place)
    except ValueError as e:
        raise ValueError(f"{x.where}: {e}") from None
    ids = [*prompt, *q.tokens]
    if c.chats(text):  # for who looks for the template's own tokens
        x = x._replace(messages=c.messages(text, ask, place))
    spans = (0, len(prompt), "context"), (len(prompt), len(ids), "question")
    return Asked(x, ids, [*q.answer], source_of(tokenizer, x, prompt),
                 [dict(start=a, end=b, role=y) for a, b, y in spans
                  ] if q.tokens else [])  # fmt: skip
