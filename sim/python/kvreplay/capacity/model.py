# SPDX-License-Identifier: Apache-2.0
"""Computes what a model stores for one request, and the weights that a step
reads. Exact arithmetic on a config.json (kvreplay/capacity/config.py), or on
`kvreplay lengths` for a model of its table."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

SIZE = {"F16": 2, "BF16": 2, "F32": 4}


class Cache(NamedTuple):
    """The cache of one layer: `heads` rows of d + d_v numbers per token. A
    latent is one row with d_v 0, stored whole by each tensor parallel rank."""

    layer: int
    heads: int
    d: int
    d_v: int
    products: int  # multiplications per attended token
    window: int = 0  # tokens of sliding attention; 0: none
    chunk: int = 0  # tokens per chunk of chunked attention; 0: none
    readers: int = 1  # layers that read it, including its own
    latent: bool = False

    def held(self, t: int) -> int:
        """How many tokens are stored when t have been seen."""
        if self.chunk:
            return (t - 1) % self.chunk + 1
        return min(t, self.window - 1) if self.window else t

    def read(self, t: int) -> int:
        """How many tokens the last of t attends to."""
        return min(t, self.window) if self.window else self.held(t)


class Weights(NamedTuple):
    all: int = 0  # 0: unknown
    active: int = 0  # weights that a token is multiplied with
    embedding: int = 0  # of all: looked up, so not read
    experts: int = 0  # in a layer; 0: none
    routed: int = 0  # experts per token

    def read(self, users: float) -> float:
        """Weights that a step with so many tokens reads. If each is routed to k
        of E experts, the expected number of distinct experts is
        E (1 - (1 - k / E)^users)."""
        rest = self.all - self.embedding
        if not self.experts or users <= 0:
            return rest
        unread: float = (1 - self.routed / self.experts) ** (users - 1)
        return rest - (rest - self.active) * unread


class Stored(NamedTuple):
    """Bytes of one request over all ranks, as from `kvreplay lengths`."""

    bytes: int  # after a compression, at the decode step with the most
    peak: int  # the most at any time
    codes: int  # of bytes: K and V or their codes
    codes_peak: int
    read: float | None  # mean of a decode step; None: queries decide it
    attended: float | None
    fullest: int  # the fullest rank has the share fullest / of
    of: int


class Model(NamedTuple):
    name: str
    layers: int
    heads: int  # query heads
    type: str  # type of K and V, a key of SIZE
    caches: list[Cache]
    state: int = 0  # bytes of recurrent layers, at any length
    weights: Weights = Weights()
    experts: bool = False  # does it have experts, even if weights are unknown?
    looked_up: int = 0  # weights of embeddings, if weights are unknown

    def only_dense(self) -> str:
        """Why only dense can be counted, or "": the cache consists of other
        things than equal lanes of KV heads."""
        c = self.caches
        if c[0].latent:
            return ("works by KV heads, but this model keeps one latent per "
                    "token for all heads; only dense is known")
        if any(x.readers > 1 for x in c):
            return ("decides by a layer's own queries, but layers of this "
                    "model share K and V; only dense is known")
        if any(x.chunk for x in c):
            return ("keeps tokens of the whole text, but layers of this model "
                    "attend to chunks; only dense is known")
        if len({x[1:4] for x in c}) > 1:
            return ("is replayed with the same heads in every layer, but those "
                    "of this model differ; only dense is known")
        return ""

    def ranks(self) -> list[int]:
        """Numbers that --tp must divide."""
        return [self.heads if x.latent else x.heads for x in self.caches]

    def dense(self, context: int, output: int, tp: int) -> Stored:
        """A request's bytes without a method."""
        steps = range(context + 1, context + output + 1)
        full = {context // x.chunk * x.chunk for x in self.caches
                if 0 < x.chunk <= context}  # fmt: skip

        def over(of: Callable[[Cache, int], int],
                 weight: Callable[[Cache], int], *before: int) -> list[int]:
            kinds: dict[Cache, int] = {}
            for x in self.caches:
                kind = Cache(0, 0, 0, 0, 0, x.window, x.chunk)
                kinds[kind] = kinds.get(kind, 0) + weight(x)
            return [sum(n * of(x, t) for x, n in kinds.items())
                    for t in (*before, *steps)]

        size = SIZE[self.type]
        held = over(Cache.held, lambda x: size * x.heads * (x.d + x.d_v),
                    context, *full)  # fmt: skip
        read = over(Cache.read, lambda x: size * x.heads * (x.d + x.d_v) *
                    x.readers)
        steady, peak = max(held[-output:]), max(held)
        whole = self.caches[0].latent
        return Stored(steady, peak, steady, peak, sum(read) / output,
                      (context + 1 + context + output) / 2, 1,
                      1 if whole else tp)

    def macs(self, attended: float, context: int, output: int) -> float:
        """Multiplications of a decode step's attention: over `attended` tokens
        in layers that see all, else over as many as the layer sees."""
        steps = range(context + 1, context + output + 1)
        seen: dict[tuple[int, int], float] = {(0, 0): attended}
        total = 0.0
        for x in self.caches:
            kind = x.window, x.chunk
            if kind not in seen:
                seen[kind] = sum(map(x.read, steps)) / output
            total += seen[kind] * x.products * x.readers
        return total


def of_table(name: str, found: dict[str, Any]) -> Model:
    """A model from the output of `kvreplay lengths`."""
    heads, d, d_v = found["heads"], found["d"], found["d_v"]
    caches = [Cache(i, found["kv_heads"], d, d_v, heads * (d + d_v), window)
              for i, window in zip(found["layer"], found["window"])]
    w = Weights(found["parameters"], found["active"], found["embedding"],
                found["experts"], found["routed"])
    return Model(name, found["layers"], heads, found["type"], caches,
                 weights=w, experts=w.experts > 0)


def shape(m: Model) -> dict[str, Any]:
    """A model as input for `kvreplay lengths`."""
    c = m.caches[0]
    return dict(layers=m.layers, heads=m.heads,
                kv_heads=1 if m.only_dense() else c.heads, d=c.d,
                d_v=c.d_v or c.d, type=m.type, refused=m.only_dense(),
                layer=[x.layer for x in m.caches],
                window=[x.window for x in m.caches])
