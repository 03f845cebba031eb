# SPDX-License-Identifier: Apache-2.0
"""Tokenizes prompts and finds texts in them. Spans are [start, end)."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..hf.text import encode, folded, tokenized
from ..need import need
from .prompts import Prompt


# A number, with a sign or point before it. A comma separates thousands (1,234)
# or decimals (0,12; 1.234,5), but not in a list (12,13,14). Other marks only
# separate thousands.
MARKS = ",'\u2019_"
NUMBER = re.compile(r"(?:(?<![\w.\-\u2212\u2013])[-\u2212\u2013]?\.?)?"
                    rf"(?:(?<!\d,)(?:\d{{1,3}}(?:[{MARKS}]\d{{3}})+(?!\d)|"
                    r"\d+(?:\.\d{3})*,\d{1,3}(?![.,]?\d))|\d+)"
                    r"(?:\.\d+)*")  # fmt: skip


class Asked(NamedTuple):
    """A prompt as tokens. answer: tokens of the right answer, as they would
    follow. source: its span in the prompt, or None. segments: as in a trace."""

    prompt: Prompt
    ids: List[int]
    answer: List[int]
    source: Optional[Tuple[int, int]]
    segments: List[Dict[str, Any]]


def decode(tokenizer: Any, ids: List[int]) -> str:
    """The text of tokens, without special ones."""
    text: str = tokenizer.decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return text


def least(low: int, high: int, true: Callable[[int], bool]) -> int:
    """The smallest of low..high that makes true(x) true; high does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle + 1, high)
    return low


def squeezed(text: str) -> str:
    """The text without blanks."""
    return "".join(text.split())


def joined(a: str, b: str) -> bool:
    """Do two neighboring characters belong to one word? Letters without case
    (Chinese, Thai, ..) are words: blanks do not separate words there."""
    return all(x.isalnum() and unicodedata.category(x) != "Lo" for x in (a, b))


def borders(text: str) -> List[bool]:
    """For each non-blank character, and for the end of the text: does a word or
    number begin or end before it? [len(squeezed(text)) + 1]."""
    found, before = [], " "
    inside = {i for x in NUMBER.finditer(text) for i in range(*x.span())[1:]}
    for i, x in enumerate(text):
        if not x.isspace():
            found.append(i not in inside and not joined(before, x))
        before = x
    return [*found, True]


def alike(text: str) -> str:
    """Folded, except for numeric characters that are not digits: a 5 with a
    small 2 is not 52. A minus sign becomes a hyphen."""
    return "".join(
        x if x.isnumeric() and not x.isdecimal() else folded(x)
        for x in text.replace("\u2212", "-")
    )


def thousands(text: str) -> List[str]:
    """The text itself, without thousands separators, and with each kind."""
    bare = re.sub(rf"(?<=\d)[{MARKS}](?=\d{{3}}(?!\d))", "", text)
    before = re.compile(r"(?<=\d)(?=(\d{3})+(?!\d))")
    return [text, bare, *(before.sub(x, bare) for x in MARKS)]


def places(text: str, want: str, words: bool) -> List[Tuple[int, int]]:
    """The spans of `want` in the text, [start, end), ignoring blanks in both.
    words: only as whole words and numbers, so that 7 is not found in 2017, 1.7
    or -7, and 1234 is found in 1,234 but not in 12 34."""
    whole, at, found = squeezed(text), borders(text), []
    for form in dict.fromkeys(thousands(want) if words else [want]):
        short, own = squeezed(form), borders(form)
        i = whole.find(short)
        while short and i >= 0:
            end = i + len(short)
            good = not words or at[i : end + 1] == own
            found += [(i, end)] if good else []
            i = whole.find(short, end if good else i + 1)
    return sorted(found)


def find(
    tokenizer: Any, ids: List[int], text: str, first: int = 0,
    words: bool = True,
) -> Tuple[int, Optional[Tuple[int, int]]]:  # fmt: skip
    """How often the text occurs in the ids from first on, and the shortest span
    of its first occurrence; (0, None) if never. Ignores blanks, and, if the
    exact text does not occur, case and accents. words: as for places()."""
    for same in (lambda x: x), alike if words else folded:
        whole = same(decode(tokenizer, ids[first:]))
        found = places(whole, same(text), words)
        if found:
            break
    else:
        return 0, None

    def part(start: int, end: int) -> str:
        return squeezed(same(decode(tokenizer, ids[start:end])))

    whole, (i, j), n = squeezed(whole), found[0], len(ids)
    upto, behind = whole[:j], whole[i:]
    end = least(first, n, lambda x: part(first, x).startswith(upto))
    # The last start after which the text is still complete.
    start = least(first + 1, end, lambda x: not part(x, n).endswith(behind))
    return len(found), (start - 1, end)


def rendered(name: str, tokenizer: Any, x: Prompt) -> str:
    """The text of a prompt's messages by the model's chat template. Templates
    that state the date (Llama 3) get a fixed one: their own default."""
    template = getattr(tokenizer, "chat_template", "")
    need(template is not None, x.where, f"{name} has no chat template for "
         "messages; give prompt, a text, or another model")  # fmt: skip
    day = {"date_string": "26 Jul 2024"} if "date_string" in template else {}
    try:
        text: str = tokenizer.apply_chat_template(
            x.messages, tokenize=False, add_generation_prompt=True, **day
        )
        return text
    except Exception as e:  # jinja's, or the template's own
        said = " ".join(str(e).split())[:200]
        raise ValueError(
            f"{x.where}: {name}'s chat template refuses these messages: {said}"
        ) from None


def ids_of(
    name: str, tokenizer: Any, x: Prompt, size: int
) -> Tuple[str, List[int]]:
    """A prompt as text and as tokens."""
    try:
        if x.prompt is not None:
            return x.prompt, encode(name, tokenizer, x.prompt, size)
        text = rendered(name, tokenizer, x)
        return text, encode(name, tokenizer, text, size, special=False)
    except ValueError as e:
        at = str(e)
        raise ValueError(
            at if at.startswith(x.where) else f"{x.where}: {at}"
        ) from None


def follows(
    tokenizer: Any, text: str, ids: List[int], more: str, special: bool
) -> List[int]:
    """The tokens of `more` after the ids of text: from both texts tokenized at
    once, if that leaves the first one's tokens unchanged; else on its own."""
    both = tokenized(tokenizer, text + more, special)
    if both[: len(ids)] == ids and len(both) > len(ids):
        return both[len(ids) :]
    own: List[int] = tokenizer(more, add_special_tokens=False)["input_ids"]
    return own


def source_of(
    tokenizer: Any, x: Prompt, ids: List[int]
) -> Optional[Tuple[int, int]]:
    """The span of the answer's source: the line's, or the answer itself if it
    occurs once in the prompt."""
    if not x.answer:
        return None
    n, span = find(tokenizer, ids, x.source or x.answer)
    if not x.source:
        return span if n == 1 else None
    need(n > 0, x.where, f"the source {x.source[:40]!r} is not in the prompt, "
         "as whole words of the model's tokens")  # fmt: skip
    need(n == 1, x.where, f"the source {x.source[:40]!r} appears {n} times in "
         "the prompt; give more of the text around it")  # fmt: skip
    return span


def segments_of(
    tokenizer: Any, x: Prompt, ids: List[int]
) -> List[Dict[str, Any]]:
    """Segments as in a trace: each starts where the previous one ends."""
    found, first = [], 0
    for part in x.segments or ():
        _, span = find(tokenizer, ids, part["text"], first, words=False)
        need(span, x.where, f"the segment {part['text'][:40]!r} is not in the "
             "prompt after the earlier ones")  # fmt: skip
        assert span is not None
        # Starts at the previous end: text in between belongs to this one.
        found.append(dict(start=first, end=span[1], role=part["role"]))
        first = span[1]
    return found


def check_places(where: str, n: int, more: int, most: Optional[int]) -> None:
    """ValueError if n tokens and `more` to follow exceed the model's positions.
    most: their number, None if the model does not say."""
    need(most is None or n + more <= most, where, f"{n} tokens and {more} to "
         f"follow exceed the model's limit of {most}; shorten the prompt, or "
         "let fewer follow")  # fmt: skip


def tokens_of(name: str, tokenizer: Any, x: Prompt, size: int) -> Asked:
    """A Prompt as Asked. size: the model's vocabulary."""
    if x.context is not None:
        from ..evaluate.compose import composed  # it needs this module

        return composed(name, tokenizer, x, size)
    text, ids = ids_of(name, tokenizer, x, size)
    answer, special = x.answer or "", x.prompt is not None
    return Asked(
        x,
        ids,
        follows(tokenizer, text, ids, answer, special) if answer else [],
        source_of(tokenizer, x, ids),
        segments_of(tokenizer, x, ids),
    )
