# SPDX-License-Identifier: Apache-2.0
"""Few-shot classification: words with the name of their kind behind each, and
one word more, which was not among them."""

from __future__ import annotations

import random

from ..compose import Ask, Draft, Text

TITLE = "the class of a word, by examples"
OPTIONS = ("length",)
MOST = 5000
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


def draft(r: random.Random, depth: float, chat: bool) -> Draft:
    words = {x: r.sample(y.split(), len(y.split())) for x, y in KINDS.items()}
    kind = r.choice([*KINDS])
    asked = words[kind].pop()
    shots: list[str] = []
    while len(shots) < MOST:
        shots += [f"{r.choice(words[x])}: {x}\n\n"
                  for x in r.sample([*KINDS], len(KINDS))]  # fmt: skip
    asks = (Ask(f"{asked}:", "", kind, (kind,)),)

    def text(n: int) -> Text:
        return Text("".join(shots[:n]).strip(), asks, True)

    return text
