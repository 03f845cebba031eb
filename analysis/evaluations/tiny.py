# SPDX-License-Identifier: Apache-2.0
"""Sixty requests of the bundled model, as JSON lines: definitions of keys, by
turns alone and in prose, and after them the value of one key is asked for."""

import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(TOP, "traces", "tiny", "provenance"))
sys.path.insert(0, os.path.join(TOP, "sim", "python"))

import documents  # noqa: E402
from kvreplay.evaluate.tasks import book  # noqa: E402


def request(i, text):
    r, prose = random.Random(500 + i), i % 2
    d, pairs = documents.Doc(), documents.pairs(r, 8 if prose else 16, 4, 5)
    for x in pairs:
        if prose:
            d.prose(r, text, 40, 40)
        d.define(x)
    r.shuffle(pairs)
    d.ask(pairs[0])
    asked = d.answers[0]

    def part(start, end):  # places count the token that begins a document
        return d.b[start - 1 : end - 1].decode("latin1")

    context = part(1, asked["question"])
    question = part(asked["question"], asked["start"])
    return dict(
        id=f"{'haystack' if prose else 'retrieval'}.{i}",
        prompt=context + question,
        answer=part(asked["start"], asked["end"]),
        segments=[
            dict(role="context", text=context),
            dict(role="question", text=question),
        ],
        new=6,
    )


prose = book.read().encode()
for i in range(60):
    print(json.dumps(request(i, prose)))
