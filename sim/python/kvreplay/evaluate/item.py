# SPDX-License-Identifier: Apache-2.0
"""What `kvreplay evaluate` asks: an Item is a prompt, which a method compresses
when it ends, and the questions that follow. `tasks` makes them; read_items()
reads a file of the user's. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..record.prompts import Prompt, read_prompts
from ..record.tokens import alike, check_places, places, tokens_of

NEW = 32  # tokens that follow a user's prompt, where its line has no `new`


@dataclass(frozen=True)
class Question:
    """What is asked once the prompt was compressed. Each question of an item
    follows its prompt by itself: none sees another."""

    tokens: tuple[int, ...]  # after the prompt; (): the prompt has the question
    answer: tuple[int, ...]  # the right one, as it follows; (): there is none
    accept: tuple[str, ...]  # texts that a right answer has; (): not judged
    any: bool = False  # one of these is enough, else all
    spans: tuple[tuple[int, int], ...] = ()  # [start, end) of what answers it

    def right(self, text: str) -> bool:
        """Does a generated text have what is accepted, as whole words and
        numbers? Case and accents do not count."""
        of = any if self.any else all
        return of(
            places(text, x, True) or places(alike(text), alike(x), True)
            for x in self.accept
        )


@dataclass(frozen=True)
class Item:
    """A prompt and its questions, as tokens of one model's tokenizer."""

    id: str  # of its task
    task: str  # as it was asked for, or the file
    prompt: tuple[int, ...]
    questions: tuple[Question, ...]
    new: int  # the most tokens that are generated for a question
    depth: float | None = None  # where the answer stands: 0 first, 1 last

    def check(self, most: int | None) -> None:
        """ValueError where a model of `most` places has too few of them."""
        more = (len(x.tokens) + max(len(x.answer), self.new)
                for x in self.questions)  # fmt: skip
        where = f"{self.task}, item {self.id}"
        check_places(where, len(self.prompt), max(more), most)


def item_of(task: str, name: str, tokenizer: Any, x: Prompt, size: int) -> Item:
    """A user's prompt as an item. Where its segments end with questions the
    prompt ends before these, else it is all that was given."""
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
    )
    prompt = tuple(asked.ids[:end])
    depth = source[0] / len(prompt) if source else None
    return Item(x.id, task, prompt, (question,), x.new or NEW, depth)


def read_items(
    path: str, name: str, tokenizer: Any, size: int, task: str | None = None
) -> list[Item]:
    """The items of a file of JSON lines, as `kvreplay record` reads them.
    name: the model's, for sentences; size: tokens that it knows; task: what
    they are called (default: path)."""
    return [item_of(task or path, name, tokenizer, x, size)
            for x in read_prompts(path)]  # fmt: skip
