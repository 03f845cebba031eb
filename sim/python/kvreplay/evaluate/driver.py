# SPDX-License-Identifier: Apache-2.0
"""Runs items through a model under each method. The model reads an item's
prompt once, with its own attention. The resulting q, k and v go into a trace,
which `kvreplay run` replays, and into one session per method, forked for each
question. Then the model answers, with WIDTH sessions at a time. Presses of
kvpress run one by one, each with its own cache. Needs torch and the library."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional
from typing import Sequence, Tuple

import torch

from ..record.tokens import decode
from .asks import Ask
from .assets import bare
from .attend import Model
from .dense import Dense
from .item import Item, Question
from .measures import answer_digest, common, divergences, ends_for, finite
from .measures import logliks, perplexities, replayed, request_digest
from .press import Presses, is_press, ours
from .replay import Traces
from .together import PIECE, WIDTH, Held, Together


class Truth(NamedTuple):
    """The answer of the model with its own attention."""

    prompt: torch.Tensor  # logits [vocabulary] after the prompt
    tokens: List[int]  # the greedy answer
    logits: torch.Tensor  # its logits [tokens, vocabulary]
    loglik: torch.Tensor  # of the right answer's tokens; [] without one


Row = Dict[str, Any]
Answers = List[Tuple[Dict[str, float], List[int]]]  # values, greedy tokens
Codes = Mapping[str, Optional[str]]  # {method as typed: its code}


def named(item: Item, n: int, ask: Ask, codes: Codes) -> Row:
    """A row's key, except for the model and platform."""
    x = item.questions[n]
    tokens = len(item.prompt) + len(x.tokens)
    return dict(
        task=item.task, item=item.id, question=n,
        prompt_len=len(item.prompt), method=ask.method,
        code=codes.get(ask.method), request_digest=request_digest(item, x),
        tokens=tokens + max(len(x.answer), item.new), basis=ask.basis,
        target=ask.target)  # fmt: skip


class Driver:
    """item() yields rows for a Store, each as soon as it is complete."""

    def __init__(
        self, model: Model, tokenizer: Any, ends: Sequence[int], threads: int,
        metadata: Dict[str, Any], typed: Mapping[str, str] = {},
        codes: Codes = {}, width: int = WIDTH,
        presses: Optional[Presses] = None,
    ) -> None:  # fmt: skip
        """ends: tokens that end an answer. metadata: for its traces. typed:
        {method as typed: the same with the path of its file}. codes: as for
        named(). presses: kvpress, if wanted."""
        self.model, self.tokenizer, self.ends = model, tokenizer, [*ends]
        self.threads, self.metadata, self.width = threads, metadata, width
        self.typed, self.codes = typed, codes
        self.together, self.traces = Together(model, threads), Traces()
        self.presses: Any = presses
        self.by = self.together  # what feeds the current sessions

    def close(self) -> None:
        self.together.close()
        if self.presses:
            self.presses.close()
        self.traces.close()

    def item(
        self, item: Item, asked: Dict[int, List[Ask]]
    ) -> Iterator[Row]:
        """The rows. asked: the methods and budgets for each question."""
        room = len(item.prompt) + max(
            len(x.tokens) + max(len(x.answer), item.new)
            for x in item.questions)  # fmt: skip
        self.model.check(room)
        with self.model.attending():
            dense = Dense(self.model)
            last = dense.feed(item.prompt, 1)[0]
            every = [*dict.fromkeys(y for x in asked.values() for y in x)]
            asks = [*dict.fromkeys(map(ours, every))]
            truths: Dict[int, Truth] = {}
            replays: Dict[int, Dict[Ask, Row]] = {}
            for n in sorted({0, *asked}):  # question 0 determines the budgets
                truths[n] = self.truth(dense, last, item, item.questions[n])
                replays[n] = self.replay(asks, replays.get(0))
                dense.crop(len(item.prompt))
                for x in filter(is_press, every):
                    replays[n][x] = self.presses.row(
                        x, replays[0][ours(x)], len(item.prompt))
            well: Dict[bool, List[Ask]] = {False: [], True: []}
            for ask in every:
                row = replays[0][ask]
                if row["status"] != "refused":
                    well[is_press(ask)].append(ask)
                    continue
                for n in (x for x in asked if ask in asked[x]):
                    yield self.row(item, n, ask, row, "refused", row["reason"])
            for self.by, left, width in (
                (self.together, well[False], self.width),
                (self.presses, well[True], 1),
            ):
                for i in range(0, len(left), width):
                    yield from self.some(
                        item, asked, left[i : i + width], dense, room, truths,
                        replays)  # fmt: skip

    def truth(
        self, dense: Dense, last: torch.Tensor, item: Item, question: Question
    ) -> Truth:
        """The model's own answer. Leaves `dense` with the question and the
        right answer (without one, the model's), and writes their trace."""
        first, n = last, len(item.prompt) + len(question.tokens)
        if question.tokens:
            first = dense.feed(question.tokens, 1)[0]
        ends = ends_for(question, self.ends)
        tokens, logits = dense.go_on(first, item.new, ends)
        loglik = torch.zeros(0)
        if question.answer:
            dense.crop(n)
            answer = torch.cat([first[None], dense.feed(question.answer)])
            loglik = logliks(answer[:-1], question.answer)
        self.traces.write(self.model, dense, len(item.prompt), question,
                          dict(self.metadata, source=item.id))  # fmt: skip
        return Truth(last, tokens, logits, loglik)

    def replay(
        self, asks: Sequence[Ask], first: Optional[Dict[Ask, Row]]
    ) -> Dict[Ask, Row]:
        """Each method's open-loop row. For a later question, only methods that
        ran on the first one, with the budgets found there."""
        if first is None:
            return dict(self.traces.asked(asks, self.typed, self.threads))
        well = {x: first[x]["spec"] for x in asks
                if first[x]["status"] != "refused"}  # fmt: skip
        specs = [*dict.fromkeys(well.values())]
        rows = self.traces.run(specs, [], self.threads) if specs else []
        of = dict(zip(specs, rows))
        return {x: of[y] for x, y in well.items()}

    def some(
        self, item: Item, asked: Dict[int, List[Ask]], asks: Sequence[Ask],
        dense: Dense, room: int, truths: Dict[int, Truth],
        replays: Dict[int, Dict[Ask, Row]],
    ) -> Iterator[Row]:  # fmt: skip
        """The rows of methods that run together."""
        specs = [replays[0][x]["spec"] for x in asks]
        held, left = self.by.open(specs, dense, room), [*asked]
        try:
            while left:
                n = left.pop(0)
                which = [i for i, x in enumerate(asks) if x in asked[n]]
                own = [held[i] for i in which]
                if left:
                    own = self.by.fork(own)
                try:
                    found = self.answer(own, item, item.questions[n],
                                        truths[n])  # fmt: skip
                finally:
                    for x in own if left else ():
                        x.close()
                for x, i, (values, tokens) in zip(own, which, found):
                    row = replays[n][asks[i]]
                    if row["status"] == "refused":
                        x.why = row["reason"]
                    values, why = finite({**values, **replayed(row)})
                    row = dict(row, spec=specs[i],
                               budget=replays[0][asks[i]]["budget"])
                    yield self.row(
                        item, n, asks[i], row, "failed" if x.why else "ok",
                        x.why or why, values, tokens)  # fmt: skip
        finally:
            for x in held:
                x.close()

    def answer(
        self, held: Sequence[Held], item: Item, question: Question, truth: Truth
    ) -> Answers:
        """Each session's answer. Feeds the question and generated tokens."""
        first = truth.prompt.expand(len(held), -1)
        if question.tokens:
            first = self.by.feed(
                held, [question.tokens] * len(held), 1)[:, 0]
        values: List[Dict[str, float]] = [{} for _ in held]
        tokens = self.beside_dense(held, first, truth, values)
        if question.answer:
            self.answered(held, first, question.answer, truth, values)
        ends = ends_for(question, self.ends)
        left = [i for i, x in enumerate(tokens) if not x]
        for i, found in zip(left, self.greedy(
            [held[i] for i in left], first[left], item.new, ends)):  # fmt: skip
            tokens[i] = found
        for x, found in zip(values, tokens):
            x["agree"] = float(common(found, truth.tokens))
            if question.accept:
                text = decode(self.tokenizer, found)
                x["exact"] = float(question.right(text))
        return [*zip(values, tokens)]

    def read(
        self, held: Sequence[Held], first: torch.Tensor,
        tokens: Sequence[int], fed: int,
        values: List[Dict[str, float]],
    ) -> Iterator[Tuple[slice, torch.Tensor]]:  # fmt: skip
        """Logits [sessions, n, vocabulary] that predict the tokens, by slices.
        Copies of the sessions read the first `fed` of them: all, or all but the
        last. In the end puts their bytes into values."""
        forks = self.by.fork(held)
        try:
            yield slice(0, 1), first[:, None]
            for i in range(0, fed, PIECE):
                piece = tokens[i : min(i + PIECE, fed)]
                at = slice(i + 1, min(i + 1 + len(piece), len(tokens)))
                logits = self.by.feed(forks, [piece] * len(forks))
                if at.stop > at.start:
                    yield at, logits[:, : at.stop - at.start]
            for i, (fork, own) in enumerate(zip(forks, held)):
                own.why = own.why or fork.why
                if not own.why:
                    values[i].update(fork.bytes())
        finally:
            for fork in forks:
                fork.close()

    def beside_dense(
        self, held: Sequence[Held], first: torch.Tensor, truth: Truth,
        values: List[Dict[str, float]],
    ) -> List[List[int]]:  # fmt: skip
        """Reads dense's answer with each session for `kl`. Returns it for each
        session that would have given the same, else []."""
        kl = torch.zeros(len(held), dtype=torch.float64)
        same, n = [True] * len(held), len(truth.tokens)
        for at, logits in self.read(held, first, truth.tokens, n - 1, values):
            want = torch.tensor(truth.tokens[at])
            for i, x in enumerate(logits):
                kl[i] += divergences(truth.logits[at], x).sum()
                same[i] &= bool((x.argmax(-1) == want).all())
        for x, y in zip(values, kl):
            x["kl"] = float(y) / n
        return [[*truth.tokens] if x else [] for x in same]

    def answered(
        self, held: Sequence[Held], first: torch.Tensor, answer: Sequence[int],
        truth: Truth, values: List[Dict[str, float]],
    ) -> None:  # fmt: skip
        """Reads the right answer with each session, to its last token, so that
        bytes cover the tokens on which the budget was found."""
        found: List[List[torch.Tensor]] = [[] for _ in held]
        for at, logits in self.read(held, first, answer, len(answer), values):
            for i, x in enumerate(logits):
                found[i].append(logliks(x, answer[at]))
        for x, parts in zip(values, found):
            loglik = torch.cat(parts)
            x["loglik_token"] = float(loglik.mean())
            x.update(perplexities(truth.loglik, loglik))

    def greedy(
        self, held: Sequence[Held], first: torch.Tensor, new: int,
        ends: Sequence[int],
    ) -> List[List[int]]:  # fmt: skip
        """Each session's greedy answer, token by token."""
        found = [[int(x.argmax())] for x in first]
        while True:
            left = [i for i, x in enumerate(found)
                    if len(x) < new and x[-1] not in ends and not held[i].why
                    ]  # fmt: skip
            if not left:
                return found
            logits = self.by.feed(
                [held[i] for i in left], [found[i][-1:] for i in left])
            for i, x in zip(left, logits):
                found[i].append(int(x[0].argmax()))

    def row(
        self, item: Item, n: int, ask: Ask, replay: Row,
        status: str, why: str, values: Dict[str, float] = {},
        tokens: Sequence[int] = (),
    ) -> Row:  # fmt: skip
        """A complete row."""
        budget, question = replay["budget"], item.questions[n]
        said = [*tokens] if status == "ok" else None
        return dict(
            named(item, n, ask, self.codes), context=item.context,
            asked=question.asked, reference=question.reference,
            said=None if said is None else decode(self.tokenizer, said),
            said_tokens=said, spec=bare(replay["spec"]),
            status=status, reason=why or None,
            budget=None if budget is None else str(budget),
            values=values if status == "ok" else {},
            answer_digest=answer_digest(said) if said else None)
