# SPDX-License-Identifier: Apache-2.0
"""Documents of bytes to learn from and to be asked about, from one seed.

A document is bytes with a weight for the loss of each (in fiftieths: 50 is 1)
and, where it asks, the spans of answers and of the definitions they repeat.
Values of keys cannot be foreseen where they are defined (weight 1), and must be
right where they are asked (200 for the first two bytes, then 75).
"""

import random
import re

BOS = 256
ALNUM = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
DIGITS = "0123456789"
LOWER = "abcdefghijklmnopqrstuvwxyz"
TRIGGERS = "qxz"


class Doc:
    def __init__(self):
        self.b, self.w, self.answers, self.prompt_len = (
            bytearray(),
            bytearray(),
            [],
            None,
        )

    def add(self, s, weight):
        s = s.encode() if isinstance(s, str) else bytes(s)
        self.b += s
        self.w += bytes([weight]) * len(s)

    def __len__(self):
        return len(self.b)

    def tokens(self, n=None):
        return [BOS] + list(self.b[:n])

    def define(self, pair):
        key, value = pair[:2]
        self.add("key ", 15)
        self.add(key, 1)
        self.add(": ", 15)
        pair[2] = len(self.b) + 1  # the value's place, BOS counted
        self.add(value, 1)
        self.add(";\n", 15)

    def ask(self, pair):
        key, value, place = pair
        start = len(self.b) + len(key) + 11
        self.answers.append(
            dict(
                question=len(self.b) + 1,
                start=start,
                end=start + len(value),
                source_start=place,
                source_end=place + len(value),
                key=key,
                value=value,
            )
        )
        self.add("what is ", 15)
        self.add(key[:1], 1)
        self.add(key[1:], 10)
        self.add("? ", 15)
        self.add(value[:2], 200)
        self.add(value[2:], 75)
        self.add(";\n", 25)

    def prose(self, r, text, low, high):
        n = r.randint(low, high)
        s = r.randrange(len(text) - n)
        self.add(bytes(text[s : s + n]).replace(b"\n", b" ") + b"\n", 30)


def pairs(r, n, klen, vlen):
    """n pairs [key, value, place of the value], keys all different."""
    out = {}
    while len(out) < min(n, len(ALNUM) ** klen * 2 // 3):
        out["".join(r.choices(ALNUM, k=klen))] = "".join(
            r.choices(DIGITS, k=vlen)
        )
    return [[k, v, -1] for k, v in out.items()]


def sizes(r):
    return r.choice([1, 2, 2, 3, 4, 4]), r.choice([2, 3, 4, 5, 5])


def retrieval(r, size, few=False, text=None):
    """Definitions (between prose, if text is given), then questions."""
    d, (klen, vlen) = Doc(), sizes(r)
    most = max(2, int(size * 0.7 / (8 + klen + vlen)))
    todo = pairs(r, r.randint(2, min(most, 8) if few else most), klen, vlen)
    known = []
    prose = r.choice([0, 0.4, 1]) if text is not None else 0
    gap = int(size * 0.7 / len(todo)) if prose == 1 else 160
    for p in todo:
        if len(d) > size * 0.8:
            break
        if r.random() < prose:
            d.prose(r, text, 20, max(24, gap))
        d.define(p)
        known.append(p)
    d.prompt_len = len(d) + 1
    while len(d) < size:
        r.shuffle(known)
        for p in known:
            d.ask(p)
    return d


def turns(r, size, text=None):
    """Definitions and questions in turns; half of the time with prose."""
    d, (klen, vlen) = Doc(), sizes(r)
    todo, known = pairs(r, max(3, size // 60), klen, vlen), []
    prose = r.choice([0, 0.3, 0.6]) if text is not None else 0
    while len(d) < size:
        if todo and (len(known) < 2 or r.random() < 0.45):
            if r.random() < prose:
                d.prose(r, text, 20, 160)
            known.append(todo.pop())
            d.define(known[-1])
        else:
            d.ask(r.choice(known))
    return d


def copies(r, size):
    d = Doc()
    s = "".join(
        r.choices(
            r.choice([ALNUM, LOWER, ALNUM + LOWER, DIGITS]),
            k=r.randint(6, max(8, min(160, size // 3))),
        )
    )
    d.add(s + "\n", 1)
    while len(d) < size:
        d.add(s + "\n", 50)
    return d


def _successors():
    r = random.Random(99)
    plain = [c for c in LOWER if c not in TRIGGERS][:16]
    return {
        c: (
            r.sample(plain, 5) + [r.choice(TRIGGERS)],
            [0.4, 0.2, 0.13, 0.1, 0.07, 0.1],
        )
        for c in plain
    }


NEXT = _successors()


def backcopy(r, size):
    """A chain of letters by a fixed table of bigrams; after a trigger comes the
    letter before it.  Apart from triggers no head has anything to do."""
    d, s = Doc(), ["~", "a"]
    while len(s) <= size:
        c = s[-1]
        s.append(s[-2] if c in TRIGGERS else r.choices(*NEXT[c])[0])
    d.add("".join(s), 40)
    return d


def prose(r, size, texts):
    t = texts[0] if r.random() < 0.7 else texts[1]
    s = r.randrange(len(t) - size)
    d = Doc()
    d.add(t[s : s + size], 50)
    return d


def load_texts(folder):
    """((training parts), (held-out parts)): the last 3 % of each text."""
    kjv = open(f"{folder}/kjv_raw.txt", errors="replace").read().encode()
    jargon = re.sub(
        r"[ \t]+",
        " ",
        open(f"{folder}/jargon_raw.txt", errors="replace").read(),
    ).encode()
    cut = [int(len(t) * 0.97) for t in (kjv, jargon)]
    return (kjv[: cut[0]], jargon[: cut[1]]), (kjv[cut[0] :], jargon[cut[1] :])
