# SPDX-License-Identifier: Apache-2.0
"""Runs several sessions with one model: a batch for its linear layers, and for
each row's attention a session. The batch always has WIDTH rows, some unused,
because torch sums a matrix product in another order for another number of rows.
So a row's numbers do not depend on the other methods. Needs torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import numpy as np
import torch
from transformers import DynamicCache

from ..binding import SessionError
from ..hf.model import LayerCall, with_cache
from ..record.forward import bits
from ..session import Session
from .attend import Model
from .dense import Dense
from .measures import held_bytes

WIDTH = 16
PIECE = 32  # tokens of a row in one forward, to bound the logits' memory


class Seen(DynamicCache):
    """Tells the model how many tokens it has seen. The sessions hold them."""

    is_linear = [False]

    def __init__(self, seen: int) -> None:
        super().__init__()
        self.n = seen

    def update(self, *args: Any, **_: Any) -> Any:
        return args[:2]  # keys and values of the new tokens only

    def get_seq_length(self, *_: Any, **__: Any) -> int:
        return self.n

    get_query_offset = get_seq_length

    def get_mask_sizes(self, query: Any, *_: Any) -> tuple[int, int]:
        n = query.shape[0] if hasattr(query, "shape") else int(query)
        return self.n + n, 0


class Held:
    """A method's session on a request. why: the message of its failure, after
    which it gets no more tokens. session: None if it did not open."""

    def __init__(
        self, session: Optional[Session] = None, why: str = ""
    ) -> None:
        self.session, self.why = session, why

    @classmethod
    def open(cls, spec: str, **shape: Any) -> Held:
        held = cls()
        held.session = held.call(lambda _: Session(spec, **shape))
        return held

    def call(self, what: Callable[[Any], Any]) -> Any:
        """what(session), or None after a failure of this or an earlier call."""
        if self.why:
            return None
        try:
            return what(self.session)
        except SessionError as e:
            if e.code == 4:  # memory: end the whole run
                raise MemoryError(str(e)) from None
            self.why = str(e)
            return None

    def fork(self) -> Held:
        """A second one in the same state."""
        return Held(self.call(lambda s: s.fork()), self.why)

    def bytes(self) -> Dict[str, float]:
        """The ledger's bytes by name; {} without a session."""
        return held_bytes(self.session.ledger()) if self.session else {}

    def close(self) -> None:
        if self.session:
            self.session.close()


class Together:
    """Feeds sessions, `workers` of them at a time."""

    def __init__(self, model: Model, workers: int) -> None:
        self.model, self.pool = model, ThreadPoolExecutor(workers)
        self.held: Sequence[Held] = ()
        self.end = 0

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)

    def each(
        self, what: Callable[[Any], Any], of: Iterable[Any]
    ) -> List[Any]:
        return list(self.pool.map(what, of))

    def open(
        self, specs: Sequence[str], dense: Dense, room: int
    ) -> List[Held]:
        """One session per complete specification, fed all of `dense`."""
        n = dense.seen
        prompt = [[bits(x) for x in dense.rows(l)] for l in range(self.model.n)]

        def feed(s: Session) -> None:
            for l, (q, k, v) in enumerate(prompt):
                s.block(l, q, k, v)
            s.end_step(n)

        def fed(spec: str) -> Held:
            held = Held.open(
                spec, prompt_len=n, **self.model.shape_of(room))
            held.call(feed)
            return held

        return self.each(fed, specs)

    def fork(self, held: Sequence[Held]) -> List[Held]:
        return self.each(lambda x: x.fork(), held)

    def attend(self, call: LayerCall) -> torch.Tensor:
        layer, turned = call.layer, self.model.turned
        q, k = (bits(turned(x)) for x in (call.q, call.k))
        v = bits(call.v.to(self.model.dtype))
        rows, heads, n, _ = q.shape
        out = np.zeros((rows, n, heads, v.shape[3]), np.float32)

        def one(i: int) -> None:
            def step(s: Session) -> None:
                for t in range(n):
                    at = slice(t, t + 1)
                    o = s.block(layer, q[i][:, at], k[i][:, at], v[i][:, at],
                                out=True)  # fmt: skip
                    out[i, t] = o[:, 0]

            self.held[i].call(step)

        self.each(one, range(len(self.held)))
        return torch.from_numpy(out).to(call.q.dtype)

    def feed(
        self, held: Sequence[Held], tokens: Sequence[Sequence[int]],
        last: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """Feeds each session equally many tokens; all must have seen equally
        many. Logits [sessions, last or all, vocabulary]."""
        n = len(tokens[0])
        assert len(held) == len(tokens) <= WIDTH, "rows that fit"
        alive = [x.session for x in held if x.session and not x.why]
        seen = alive[0].seen[0] if alive else 0
        ids = [*map(list, tokens)]
        ids += [[0] * n] * (WIDTH - len(ids))
        self.held = held
        model = self.model.model
        logits = self.model.forward(
            self, ids, last or n, use_cache=True,
            **with_cache(model, Seen(seen)))  # fmt: skip
        self.each(lambda x: x.call(lambda s: s.end_step(seen + n)), held)
        return logits[: len(held)]
