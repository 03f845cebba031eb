# SPDX-License-Identifier: Apache-2.0
"""items.py FOLDER [WORDS [SEED]]: the items of PLAN.md, as JSON lines for
`kvreplay evaluate --prompts`. Writes FOLDER/TASK.PLACE.jsonl, and prints each
file's SHA-256. WORDS: length of a context (default: 500, about 760 tokens).
SEED: 53 by default; 54 has other contexts, to tune parameters on.

Both places have the same contexts, questions and answers, token by token. Only
the compression happens elsewhere: with `after` the question comes after it,
with `before` the question is the end of the compressed prompt. In both, the
beginning of the answer is read after the compression, so that no token of the
answer is the uncompressed model's. All is plain text, because one of the models
has no chat template. A depth is the answer's place in the context, as a share;
depths are spread evenly from 3 to 88 %, so that no answer is in the last 64
tokens."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from typing import Callable, Iterator, NamedTuple, Sequence

import texts
from kvreplay.evaluate.tasks import words

WORDS = 500
SEED = 53
PEOPLE = """Alice Bruno Carla David Elena Felix Greta Hugo Irene Jonas Karin
    Louis Maria Nadia Oscar Paula Quentin Rosa Simon Tessa Victor
    Wanda""".split()


class Draft(NamedTuple):
    context: str
    question: str
    begin: str  # the beginning of the answer
    answer: str  # the rest
    source: str = ""  # the passage of the context that has it
    new: int = 12  # tokens to generate
    form: str = "\n\nQuestion: {}\nAnswer:"


def prose(r: random.Random, i: int, n: int) -> list[str]:
    """n words of the i-th text by turns, from a random place: sentences, with
    the blank or line ends after each."""
    names = [*texts.TEXTS]
    pages = texts.filler(names[i % len(names)])
    at, out = r.randrange(len(pages)), []
    while n > 0:
        page = pages[at % len(pages)]
        out += [x + " " for x in page]
        out[-1] = page[-1] + "\n\n"
        n -= sum(len(x.split()) for x in page)
        at += 1
    left = sum(len(x.split()) for x in out) + n
    return words.cut(out, left)


def depths(r: random.Random, n: int) -> list[float]:
    """n depths, a place in each n-th part, in order."""
    return [0.03 + 0.85 * (i + r.random()) / n for i in range(n)]


def needle(r: random.Random, i: int, depth: float, n: int) -> Draft:
    (key,), (value,) = words.keys(r, 1), words.numbers(r, 1, 6)
    line = f"One of the special magic numbers for {key} is: {value}. "
    about = f"special magic number for {key}"
    return Draft(words.among(prose(r, i, n - 14), [line], [depth]),
                 f"What is the {about}?", f"The {about} is", value,
                 line.strip())  # fmt: skip


# What someone did, what someone is asked for, and how the answer begins. Both
# share no word but "the", "a" and "is".
SAID = [
    ("{} feeds her puppy every morning. ", "Who owns a dog?"),
    ("{} repairs shoes in a small shop. ", "Who is a cobbler?"),
    ("{} plays the violin in an orchestra. ", "Who is a musician?"),
    ("{} bakes bread before sunrise. ", "Who works as the baker?"),
    ("{} flies passenger planes to Tokyo. ", "Who is the pilot?"),
    ("{} grows wheat and keeps cows. ", "Who is a farmer?"),
    ("{} treats patients in the hospital. ", "Who is the doctor?"),
    ("{} catches fish from a little boat. ", "Who works at sea?"),
    ("{} teaches children to read. ", "Who works in a school?"),
    ("{} paints portraits with oil. ", "Who is the artist?"),
]


def paraphrase(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """Of two people, one did what the question says in other words."""
    (said, asked), (other, _) = r.sample(SAID, 2)
    who, nobody = r.sample(PEOPLE, 2)
    lines = [said.format(who), other.format(nobody)]
    places = [depth, 0.88 * r.random()]
    return Draft(words.among(prose(r, i, n - 12), lines, places), asked,
                 f"The person who {asked[4:-1]} is", who, lines[0].strip())


def keyvalue(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """Numbers of two keys, each on a line; the question asks for one."""
    keys = [" ".join(x) for x in zip(r.sample(words.ADJECTIVES, 2),
                                     r.sample(words.NOUNS, 2))]  # fmt: skip
    values = words.numbers(r, 2, 4)
    lines = [f"\nThe code of the {x} is {y}.\n" for x, y in zip(keys, values)]
    return Draft(words.among(prose(r, i, n - 16), lines,
                             [depth, 0.88 * r.random()]),
                 f"What is the code of the {keys[0]}?",
                 f"The code of the {keys[0]} is", values[0],
                 lines[0].strip())  # fmt: skip


CLASSES = {"animal": 5, "body": 8, "place": 15}  # files of WordNet's editors
LABELS = "alpha beta gamma delta".split()


def fewshot(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """Nouns of WordNet's classes, with labels that do not say which.
    The asked noun is not among the examples."""
    labels = dict(zip(CLASSES, r.sample(LABELS, 3)))
    pairs = [(y, z) for x, z in labels.items()
             for y in r.sample(texts.nouns(CLASSES[x]), 60)]  # fmt: skip
    r.shuffle(pairs)
    (word, label), *pairs = pairs
    lines = [f"{x} is {y}\n" for x, y in pairs[: n // 3]]
    return Draft("".join(lines).strip(), word, "is", label, new=2, form="\n{}")


THINGS = """locker bicycle passport ticket suitcase library card house
    office""".split()


def conversation(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """A dialogue about a text. In one of its two turns the user mentions a
    number, in the other one a name."""
    thing, (value,) = r.choice(THINGS), words.numbers(r, 1, 4)
    said = [f"By the way, the number of my {thing} is {value}.",
            f"By the way, my sister's name is {r.choice(PEOPLE)}."]
    turn = said if depth < 0.45 else said[::-1]
    text, turns = prose(r, i, n - 50), []
    for j, x in enumerate(turn):
        part = "".join(text[j * len(text) // 2 : (j + 1) * len(text) // 2])
        turns.append(f"User: {x} I read this: {part.strip()}\n"
                     "Assistant: Thank you. I will remember that.\n")
    return Draft("".join(turns).strip(),
                 f"What did I say is the number of my {thing}?",
                 f"You said that the number of my {thing} is", value,
                 said[0], form="\nUser: {}\nAssistant:")  # fmt: skip


TOPICS = """parking breakfast laundry taxis museums pets smoking towels keys
    luggage swimming elevators""".split()


def instructions(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """A system prompt with two rules among other text; one applies."""
    topics, (code,) = r.sample(TOPICS, 2), words.numbers(r, 1, 4)
    rule = f"If a guest asks about {topics[0]}, the assistant must say the code"
    lines = [f"\n{rule} {code}.\n", f"\nIf a guest asks about {topics[1]}, the "
             f"assistant must call {r.choice(PEOPLE)}.\n"]
    head = "System: You are the assistant of a hotel. Obey each rule.\n"
    return Draft(head + words.among(prose(r, i, n - 36), lines,
                                    [depth, 0.88 * r.random()]),
                 f"I have a question about {topics[0]}.", rule, code,
                 lines[0].strip(), form="\n\nGuest: {}\nAssistant:")


def variables(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """Two chains of two assignments; the question asks for one end."""
    names, values = words.codes(r, 4), words.numbers(r, 2, 5)
    lines, places = [], []
    for j, x in enumerate(values):
        first = depth if j == 0 else 0.88 * r.random()
        places += sorted((first, 0.88 * r.random()))
        lines += [f"\nLet {names[2 * j]} = {x}.\n",
                  f"\nLet {names[2 * j + 1]} = {names[2 * j]}.\n"]
    return Draft(words.among(prose(r, i, n - 16), lines, places),
                 f"What number is {names[1]}?",
                 f"{names[1]} = {names[0]} =", values[0],
                 lines[0].strip())  # fmt: skip


def documentation(r: random.Random, i: int, depth: float, n: int) -> Draft:
    """Three C functions, described; the question asks for one."""
    some = r.sample(texts.functions(), 3)
    lines = [f"\nThe purpose of the function {x}() is: {y}.\n" for x, y in some]
    places = [depth, *(0.88 * r.random() for _ in lines[1:])]
    begin = f"The purpose of the function {some[0][0]}() is:"
    return Draft(words.among(prose(r, i, n - 30), lines, places),
                 f"What is the purpose of {some[0][0]}()?", begin,
                 some[0][1], lines[0].strip(), 16)  # fmt: skip


TASKS: dict[str, tuple[int, Callable[..., Draft]]] = {
    "needle": (40, needle), "key-value": (40, keyvalue),
    "paraphrase": (20, paraphrase), "few-shot": (20, fewshot),
    "conversation": (20, conversation), "instructions": (20, instructions),
    "variables": (20, variables), "documentation": (20, documentation),
}  # fmt: skip


def drafts(task: str, n: int, seed: int = SEED) -> Iterator[Draft]:
    """A task's items, the same on every machine. Halves have alike depths."""
    many, of = TASKS[task]
    r = random.Random(f"{seed} {task}")
    places = depths(r, many)
    r.shuffle(places)
    for i, depth in enumerate(places):
        yield of(random.Random(f"{seed} {task} {i}"), i, depth, n)


def item(task: str, i: int, x: Draft, place: str) -> dict[str, object]:
    asked = x.form.format(x.question)
    behind = [dict(role="question", text=f" {x.begin}" if x.question
                   else x.begin)]  # fmt: skip
    if place == "after":
        behind[0]["text"] = asked + behind[0]["text"]
        parts = [dict(role="context", text=x.context), *behind]
    else:  # role answer ends the question, so that it stays in the prompt
        body, _, end = asked.rpartition("\n")
        parts = [dict(role="context", text=x.context),
                 *([dict(role="question", text=body)] if body else []),
                 dict(role="answer", text="\n" + end), *behind]
    found = dict(id=f"{task}.{i}", answer=f" {x.answer}", segments=parts,
                 prompt="".join(y["text"] for y in parts), new=x.new)
    return dict(found, source=x.source) if x.source else found


def main(words: Sequence[str]) -> int:
    folder, *more = words
    n = int(more[0]) if more else WORDS
    seed = int(more[1]) if more[1:] else SEED
    os.makedirs(folder, exist_ok=True)
    for task in TASKS:
        found = [*drafts(task, n, seed)]
        for place in "after", "before":
            text = "".join(json.dumps(item(task, i, x, place)) + "\n"
                           for i, x in enumerate(found))  # fmt: skip
            name = f"{task}.{place}.jsonl"
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
            print(hashlib.sha256(text.encode()).hexdigest(), name)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as e:
        print(f"items.py: {e}", file=sys.stderr)
        sys.exit(3)
