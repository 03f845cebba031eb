# SPDX-License-Identifier: Apache-2.0
"""Few-shot classification: sentences with a label each, whose names say nothing
of their meaning, and one sentence more, about a thing not named before."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text

TITLE = "the class of a sentence, by examples"
OPTIONS = ("length",)
MOST = 2000
KINDS = {
    "animals": """badger bear cat cow crow deer dog donkey duck eagle fox frog
        goat goose hare hen horse lamb lion mouse otter owl pig rabbit rat
        seal sheep squirrel swan tiger trout wolf""",
    "foods": """apple bacon biscuit bread butter cabbage cake carrot cheese
        cherry cream egg grape ham honey jam lemon mushroom omelette onion
        orange pancake pear pie plum potato pudding rice salad sausage soup
        toast""",
    "vehicles": """airplane ambulance barge bicycle bus canoe car carriage cart
        coach ferry helicopter jeep kayak limousine lorry minibus moped
        motorcycle raft rowboat sailboat scooter sled submarine taxi tractor
        train tram truck van yacht""",
}
LABELS = "alpha beta gamma delta".split()
SAID = [
    "Yesterday we talked about the {} for a while.",
    "There was a picture of the {} on the wall.",
    "She wrote a short poem about the {}.",
    "He could not stop thinking of the {}.",
    "My uncle told me a story about the {}.",
]


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    labels = dict(zip(KINDS, r.sample(LABELS, len(KINDS))))
    words = {x: r.sample(y.split(), len(y.split())) for x, y in KINDS.items()}
    kind = r.choice([*KINDS])
    asked = r.choice(SAID).format(words[kind].pop())
    shots = []
    while len(shots) < MOST:
        for x in r.sample([*KINDS], len(KINDS)):
            said = r.choice(SAID).format(r.choice(words[x]))
            shots.append(f"Text: {said}\nLabel: {labels[x]}\n\n")
    right = labels[kind]
    asks = (Ask(f"Text: {asked}\nLabel:", "", right, (right,)),)

    def text(n: int) -> Text:
        return Text("".join(shots[:n]).strip(), asks, True)

    return text
