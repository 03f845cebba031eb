# SPDX-License-Identifier: Apache-2.0
"""The tasks of `kvreplay evaluate` (README.md lists them). A task is typed with
its options, like a method: niah_single_2:question=before.

    question=after   asked after the prompt's compression (the default)
    question=before  the question precedes the context; the prompt ends
                     with the context
    question=inside  the prompt ends with the question
    depth=0.5        position of the answer (default: .1, .5, .9, .3, .7 in
                     turn)
    length=1024      instead of the length for all tasks

drafts.py has the table of tasks. The same seed, tokenizer and length give the
same items on every machine. Fewer items are the first of many. They do not
depend on question=, so that its three values can be compared."""

from __future__ import annotations

import random
import re
from typing import Any

from ..compose import ENDS, Composer
from ..item import Item
from .drafts import TASKS

NAMES = [*TASKS]
DEPTHS = 0.1, 0.5, 0.9, 0.3, 0.7


def options_of(task: str) -> tuple[str, dict[str, Any]]:
    """A task's name and options. ValueError if wrong."""
    name, *given = task.split(":")
    if name not in NAMES:
        raise ValueError(f"no task is called {name}; choose from "
                         f"{', '.join(NAMES)}")
    known = TASKS[name].options
    found: dict[str, Any] = {}
    for x in given:
        key, _, value = x.partition("=")
        if key not in known:
            raise ValueError(f"{task}: no option {key}; {name} has "
                             f"{', '.join(known)}")  # fmt: skip
        good = {
            "question": "|".join(ENDS),
            "depth": r"0?\.\d+|[01](\.0*)?",
            "length": r"[1-9]\d{0,8}",
        }[key]
        if not re.fullmatch(good, value):
            raise ValueError(f"{task}: {key}={value}: give " + {
                "question": ", ".join(ENDS), "depth": "a number from 0 to 1",
                "length": "a number of tokens"}[key])  # fmt: skip
        found[key] = value
    return name, found


def make(
    task: str,
    tokenizer: Any,
    seed: int,
    n: int,
    length: int,
    name: str = "the model",
    size: int | None = None,
) -> list[Item]:
    """n items of the task, a name with options. Prompts have at most `length`
    tokens, and hardly less. name: the model's, for messages. size: its
    vocabulary (default: the tokenizer's)."""
    of, options = options_of(task)
    own = TASKS[of]
    c = Composer(name, tokenizer, size or len(tokenizer))
    length = int(options.get("length", length))
    ends = options.get("question", own.ends)
    found = []
    for i in range(n):
        r = random.Random(f"{of} {seed} {length} {i}")
        depth = float(options.get("depth", DEPTHS[i % len(DEPTHS)]))
        has = "depth" in own.options
        try:
            draft, most = own.draft(r, depth, c.chat), own.most
            text = c.fit(draft, most, length, ends) if most > 1 else draft(1)
            found.append(c.item(
                f"{of}.{length}.{seed}.{i}", task, text, ends,
                depth if has else None, own.new and own.new(length)))
        except ValueError as e:
            raise ValueError(f"{task} of {length} tokens: {e}") from None
    return found
