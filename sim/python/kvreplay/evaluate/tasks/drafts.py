# SPDX-License-Identifier: Apache-2.0
"""The tasks: one row of TASKS each. draft(r, depth, chat) draws a context and
its questions from r, and returns a Draft: the Text by number of units."""

from __future__ import annotations

import random
from typing import Callable, NamedTuple, Optional, Sequence

from ..compose import Ask, Draft, Text
from .words import ADJECTIVES, MOST, NOUNS, among, codes, cut, keys, listed
from .words import numbers, sentences


class Task(NamedTuple):
    options: tuple[str, ...]  # those that the task accepts
    draft: Callable[[random.Random, float, bool], Draft]
    most: int = MOST  # units in its draft
    ends: str = "after"  # default of question=
    new: Optional[Callable[[int], int]] = None  # tokens to generate, by length


def in_prose(head: str, prose: list[str], lines: list[str],
             depths: Sequence[float], asks: Sequence[Ask]) -> Draft:
    """Inserts lines between sentences."""
    return lambda n: Text(head + among(cut(prose, n), lines, [*depths]),
                          tuple(asks))


# --- RULER's needles: numbers of keys, in prose that RULER does not use ------

NEEDLE = "One of the special magic numbers for {} is: {}. "
HEAD = (
    "A special magic number is hidden within the following text. Make sure to "
    "memorize it. I will quiz you about the number afterwards.\n"
)
HEADS = (
    "Some special magic numbers are hidden within the following text. Make "
    "sure to memorize it. I will quiz you about the numbers afterwards.\n"
)
N = 4


def number_of(key: str, value: str) -> Ask:
    """The question for one number."""
    about = f"special magic number for {key} mentioned in the provided text"
    return Ask(
        f"What is the {about}?", f"The {about} is", value, (value,), (value,)
    )


def one_of(n: int) -> Callable[[random.Random, float, bool], Draft]:
    """Numbers of n keys; the question is about the first."""
    def draft(r: random.Random, depth: float, chat: bool) -> Draft:
        names, values, prose = keys(r, n), numbers(r, n, 7), sentences(r)
        lines = [NEEDLE.format(*x) for x in zip(names, values)]
        depths = [depth, *(r.random() for _ in names[1:])]
        asks = [number_of(names[0], values[0])]
        return in_prose(HEAD, prose, lines, depths, asks)

    return draft


def multivalue(r: random.Random, depth: float, chat: bool) -> Draft:
    (key,), values, prose = keys(r, 1), numbers(r, N, 7), sentences(r)
    lines = [NEEDLE.format(key, x) for x in values]
    depths = sorted(r.random() for _ in values)
    about = f"special magic numbers for {key} mentioned in the provided text"
    ask = Ask(f"What are all the {about}?", f"The {about} are",
              listed(values), tuple(values), tuple(values))
    return in_prose(HEADS, prose, lines, depths, [ask])


def multiquery(r: random.Random, depth: float, chat: bool) -> Draft:
    """RULER asks for all numbers at once; here each is its own question."""
    names, values, prose = keys(r, N), numbers(r, N, 7), sentences(r)
    lines = [NEEDLE.format(*x) for x in zip(names, values)]
    depths = [r.random() for _ in values]
    return in_prose(HEADS, prose, lines, depths,
                    [*map(number_of, names, values)])


# --- RULER's other two -------------------------------------------------------

HOPS = 2
COMMON = 3


def vt(r: random.Random, depth: float, chat: bool) -> Draft:
    """Variables with one value, through a chain of assignments."""
    names, (value,), prose = codes(r, HOPS + 1), numbers(r, 1, 5), sentences(r)
    said = [f"VAR {names[0]} = {value}"]
    said += [f"VAR {y} = VAR {x}" for x, y in zip(names, names[1:])]
    depths = sorted(r.random() for _ in said)
    ask = Ask(
        f"Find all variables that are assigned the value {value} in the text "
        "above.", "According to the chain(s) of variable assignment in the "
        f"text above, {len(names)} variables are assigned the value {value}, "
        "they are:", listed(names), tuple(names), tuple(said))
    return in_prose("Memorize and track the chain(s) of variable assignment "
                    "hidden in the following text.\n\n", prose,
                    [x + ". " for x in said], depths, [ask])


def cwe(r: random.Random, depth: float, chat: bool) -> Draft:
    """The most common words of a list."""
    words = r.sample(NOUNS + ADJECTIVES, len(NOUNS + ADJECTIVES))
    common, others = words[:COMMON], words[COMMON:]
    pool: list[str] = []
    while len(pool) < TASKS["cwe"].most:
        pool += r.sample(common * 2 + r.sample(others, 4), 2 * COMMON + 4)
    head = ("Below is a numbered list of words. In these words, some appear "
            "more often than others. Memorize the ones that appear most "
            "often.\n")
    ask = Ask(
        f"What are the {COMMON} most common words in the above list?",
        f"The top {COMMON} words that appear most often in the list are:",
        listed(common), tuple(common))
    return lambda n: Text(head + " ".join(
        f"{i + 1}. {x}" for i, x in enumerate(pool[:n])), (ask,))


# --- keys and values, and conversations about them ---------------------------


def value_of(key: str, value: str, chat: bool) -> Ask:
    """The question for one key. Without a chat template it is one line."""
    return Ask(f"what is {key}?", f"key {key}:" if chat else "", value,
               (value,), (value,))


def kv(r: random.Random, depth: float, chat: bool) -> Draft:
    """As many keys and values as fit; questions are about four of them."""
    most = TASKS["kv"].most
    names, values = codes(r, most), numbers(r, most, 5)
    lines = [f"key {x}: {y};\n" for x, y in zip(names, values)]
    others = [r.random() for _ in range(N - 1)]

    def text(n: int) -> Text:
        places = dict.fromkeys(int(x * (n - 1)) for x in [depth, *others])
        return Text(
            "".join(lines[:n]).strip(),
            tuple(value_of(names[i], values[i], chat) for i in places),
        )

    return text


def multiturn(r: random.Random, depth: float, chat: bool) -> Draft:
    """Three turns about one context. All questions come after its compression.
    Each follows the earlier ones with their right answers."""
    names, values, prose = codes(r, 6), numbers(r, 6, 5), sentences(r)
    lines = [f"\nkey {x}: {y};\n" for x, y in zip(names, values)]
    depths = [r.random() for _ in lines]
    asks: list[Ask] = []
    turns: tuple[tuple[str, str], ...] = ()
    for x in map(value_of, names[:3], values, [chat] * 3):
        asks.append(x._replace(earlier=turns))
        turns += ((x.question, f"{x.begin} {x.answer}".strip()),)
    return in_prose("", prose, lines, depths, asks)


# --- without a chat template, or without a context ---------------------------

KINDS = {
    "animal": """badger bear cat cow crow deer dog donkey duck eagle fox frog
        goat goose hare hen horse lamb lion mouse otter owl pig rabbit rat
        sheep squirrel swan tiger trout wolf""",
    "food": """apple bacon biscuit bread butter cabbage cake carrot cheese
        cherry cream egg grape ham honey jam lemon mushroom omelette onion
        pancake pear pie plum potato pudding rice salad sausage soup toast""",
    "vehicle": """airplane ambulance barge bicycle bus canoe car carriage cart
        ferry helicopter jeep kayak limousine lorry minibus moped motorcycle
        raft rowboat sailboat scooter sled submarine taxi tractor train tram
        truck van yacht""",
    "clothing": """apron belt blouse boots bonnet cap cape coat cloak dress
        gloves gown hat hood jacket jeans jumper mittens overalls pyjamas
        sandals scarf shawl shirt shoes shorts skirt socks sweater trousers
        waistcoat""",
}
PASSAGE = 256  # tokens of prose in the answer
ABOUT = "journey quarrel secret friendship storm discovery letter house".split()


def fewshot(r: random.Random, depth: float, chat: bool) -> Draft:
    """Words, each followed by the name of its kind, and one new word."""
    words = {x: r.sample(y.split(), len(y.split())) for x, y in KINDS.items()}
    kind = r.choice([*KINDS])
    asked = words[kind].pop()
    shots: list[str] = []
    while len(shots) < TASKS["fewshot"].most:
        shots += [f"{r.choice(words[x])}: {x}\n\n"
                  for x in r.sample([*KINDS], len(KINDS))]
    asks = (Ask(f"{asked}:", "", kind, (kind,)),)
    return lambda n: Text("".join(shots[:n]).strip(), asks, True)


def prose(r: random.Random, depth: float, chat: bool) -> Draft:
    """The prompt is a passage, and the answer is how it continues."""
    of = sentences(r)

    def text(n: int) -> Text:
        whole = "".join(cut(of, n + PASSAGE))  # a word has at least one token
        here = "".join(cut(of, n)).strip()
        asks = (Ask("", "", whole[len(here) :].strip()),)
        return Text(here, asks, True, PASSAGE)

    return text


def generate(r: random.Random, depth: float, chat: bool) -> Draft:
    """Generates exactly `length` tokens, to be compared with dense's."""
    (one, two), about = (x.replace("-", " ") for x in keys(r, 2)), r.choice(
        ABOUT)
    ask = Ask(
        f"Write a long story of many chapters about a {one}, a {two} and a "
        f"{about}. Describe every place and every person, and what they say.",
        "", "")
    return lambda n: Text("", (ask,))


TASKS = {
    "niah_single_2": Task(("question", "depth", "length"), one_of(1)),
    "niah_multikey_1": Task(("question", "depth", "length"), one_of(N)),
    "niah_multivalue": Task(("question", "length"), multivalue),
    "niah_multiquery": Task(("length",), multiquery),
    "vt": Task(("question", "length"), vt),
    "cwe": Task(("question", "length"), cwe, 5000),
    "kv": Task(("question", "depth", "length"), kv, 5000),
    "multiturn": Task(("length",), multiturn),
    "fewshot": Task(("length",), fewshot, 5000),
    "prose": Task(("length",), prose, new=lambda length: 32),
    "generate": Task(("length",), generate, 1, "inside", lambda length: length),
}
