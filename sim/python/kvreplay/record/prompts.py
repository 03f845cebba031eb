# SPDX-License-Identifier: Apache-2.0
"""Reads the prompts of a recording: a file of JSON lines, or a .txt, which is
one prompt. Checks all of it before a model is loaded. An error is a ValueError:
one sentence with file and line. Needs only Python.

A line of FILE.jsonl is an object, such as {"context": "...", "question": "...",
"answer": "..."} or {"prompt": "..."}. Its keys, also for `kvreplay evaluate`:

    id        name of the trace: DIR/ID.safetensors (default: p and the line's
              number)
    context, question   two texts. The model's chat template joins them; without
              one they are plain text
    place     of the question: after the context (default), before or inside.
              inside is the same text as after, but a method compresses both
    prompt    instead of context and question: a text, or
    messages  [{"role": "user", "content": "..."}, ...], for the chat template
    answer    optional: text of the right answer
    source    optional: text in the prompt that says the answer. With both, or
              if the answer is in the prompt exactly once, the trace has a
              needle (the column `on the answer`)
    segments  optional: [{"role": "context", "text": "..."}, ...], parts of a
              prompt in order, for `kvreplay run --observe`; roles: context,
              question, answer
    new       only for `kvreplay evaluate`: how many tokens to generate
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional

from ..hf.text import read_text
from ..need import need

ROLES = "context", "question", "answer"
KEYS = ("id prompt messages answer source segments context question place "
        "new").split()  # fmt: skip
ENDS = "after", "before", "inside"  # where the question is
HALF = re.compile("[\ud800-\udfff]")  # half a character, possible in JSON


class Prompt(NamedTuple):
    where: str  # file and line, for messages
    id: str
    prompt: Optional[str] = None
    messages: Optional[List[Dict[str, str]]] = None
    answer: Optional[str] = None
    source: Optional[str] = None
    segments: Optional[List[Dict[str, str]]] = None
    context: Optional[str] = None
    question: Optional[str] = None
    place: Optional[str] = None
    new: Optional[int] = None

    def asked(self) -> Dict[str, Any]:
        """What determines its trace: all but where, id and new."""
        return {x: y for x, y in zip(self._fields[2:-1], self[2:]) if y}


def is_text(x: object) -> bool:
    return isinstance(x, str) and x.strip() != "" and not HALF.search(x)


def pairs_of(x: object, first: str, second: str) -> bool:
    """Is x a non-empty list of {first: text, second: text}?"""
    return isinstance(x, list) and x != [] and all(
        isinstance(y, dict) and is_text(y.get(first)) and is_text(y.get(second))
        for y in x
    )


def prompt_of(where: str, number: int, x: Any) -> Prompt:
    """The prompt in a line's object."""
    need(isinstance(x, dict), where, 'is not an object; give {"prompt": "..."}')
    odd = sorted({*x} - {*KEYS})
    need(not odd, where, "has ", ", ".join(odd), "; the keys are ",
         ", ".join(KEYS))  # fmt: skip
    need(sum(y in x for y in ("context", "prompt", "messages")) == 1, where,
         "give a context with a question, or a prompt, or messages")
    need(("context" in x) == ("question" in x), where, "give context and "
         "question together")  # fmt: skip
    need("messages" not in x or pairs_of(x["messages"], "role", "content"),
         where, 'messages must be a list of {"role": "user", "content": "..."}'
         )  # fmt: skip
    for key in "prompt", "context", "question", "answer", "source":
        need(key not in x or is_text(x[key]), where, key, " must be a text")
    need("place" not in x or "context" in x and x["place"] in ENDS, where,
         "place must be ", ", ".join(ENDS), ", and belongs to a context")
    need("context" not in x or "segments" not in x, where, "segments are of a "
         "prompt or messages; a context and its question are two already")
    need("source" not in x or "answer" in x, where, "has a source but no "
         "answer; give both, or neither")  # fmt: skip
    parts = x.get("segments")
    need(parts is None or pairs_of(parts, "role", "text") and
         {y["role"] for y in parts} <= {*ROLES}, where, 'segments must be a '
         'list of {"role": "context", "text": "..."}, with roles ',
         ", ".join(ROLES))  # fmt: skip
    new = x.get("new")
    need(new is None or type(new) is int and 0 < new < 10**6, where,
         "new must be a number of tokens, 1 or more")  # fmt: skip
    name = x.get("id", f"p{number:05}")
    name = str(name) if type(name) is int else name
    need(isinstance(name, str) and re.fullmatch(r"[\w-][\w.-]{0,199}", name),
         where, f"id {name!r} cannot name a file; use at most 200 letters, "
         "digits and - . _, with no dot first")  # fmt: skip
    return Prompt(where, name, **{y: x.get(y) for y in KEYS[1:]})


def parse(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{where}: not JSON: {e}") from None


def read_prompts(path: str) -> List[Prompt]:
    """The prompts in a .jsonl, or the one in a .txt."""
    text = read_text(path)
    if path.endswith(".txt"):
        name = os.path.splitext(os.path.basename(path))[0]
        return [prompt_of(path, 1, {"id": name, "prompt": text})]
    found: List[Prompt] = []
    lines: Dict[str, int] = {}  # {id: line}
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        if not line.strip():
            continue
        found.append(prompt_of(where, number, parse(where, line)))
        name = found[-1].id
        need(name not in lines, where, f"id {name} is also the id of line ",
             lines.get(name), "; give each its own")  # fmt: skip
        lines[name] = number
    need(found, path, "has no prompt; write one JSON object a line")
    return found
