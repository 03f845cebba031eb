# SPDX-License-Identifier: Apache-2.0
"""Compares our method with kvpress's press of the same name: kvpress's own code
on the same model and tokens, with as many entries after the prompt.

A press compresses the prompt in a forward of its own. The model continues with
that cache and its own attention. Parameters that both have are set alike. Needs
torch; Presses needs kvpress."""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import re
from typing import Any, Dict, Iterator, List, Sequence

import torch
from transformers import DynamicCache

from ..hf.model import attending, need, with_cache
from .asks import DEFAULTS, PREFIX, Ask, head_of
from .attend import Model
from .dense import Dense
from .together import Held, Together

HIDDEN = "masked_key_indices"  # kvpress's attribute of a layer's attention
# {r}: compression ratio. {scorer}: the press for the parameter `score`. Others:
# parameters of our method, as in `kvreplay methods NAME`.
PRESSES = {
    "adakv": "AdaKVPress({scorer}, {alpha})",
    "chunkkv": "ChunkKVPress({scorer}, {chunk})",
    "criticalkv": "CriticalKVPress({scorer}, {epsilon}, {first})",
    "expected": "ExpectedAttentionPress({r}, {future}, {sinks}, {covariance}, "
                "{vnorm}, {epsilon})",
    "h2o": "ObservedAttentionPress({r})",
    "keydiff": "KeyDiffPress({r})",
    "knorm": "KnormPress({r})",
    "lagkv": "LagKVPress({r}, {sinks}, {lag}, {cross})",
    "pyramidkv": "PyramidKVPress({r}, {window}, {kernel}, {beta})",
    "random": "RandomPress({r}, {seed})",
    "snapkv": "SnapKVPress({r}, {window}, {kernel})",
    "streamingllm": "StreamingLLMPress({r}, {sink})",
    "tova": "TOVAPress({r})",
}  # fmt: skip
SCORERS = "snapkv", "h2o", "knorm", "keydiff", "tova"


def is_press(ask: Ask) -> bool:
    return ask.method.startswith((PREFIX, DEFAULTS))


def ours(ask: Ask) -> Ask:
    """The method that a press is compared with. A method itself."""
    return ask._replace(
        method=ask.method.removeprefix(PREFIX).removeprefix(DEFAULTS))


def beside(asks: Sequence[Ask], prefixes: Sequence[str]) -> List[Ask]:
    """Each method, followed by kvpress's presses of that name, if any."""
    found: List[Ask] = []
    for x in asks:
        found.append(x)
        if head_of(x.method)[0] in PRESSES and "+" not in x.method:
            found += [x._replace(method=y + x.method) for y in prefixes]
    return found


def ratio(prompt: int, kept: int) -> float:
    """The shortest decimal compression ratio with which kvpress, which keeps
    int(prompt * (1 - ratio)) tokens, keeps so many."""
    r, digits = 0.0, 0
    while int(prompt * (1 - r)) != min(kept, prompt):
        digits += 1
        r = round(1 - (kept + 0.5) / prompt, digits)
    return r


def expression(
    name: str, params: Dict[str, Any], prompt: int, bare: bool = False
) -> str:
    """The press for a method's parameters and `budget`; ValueError if none.
    bare: only its ratio, and what it wraps."""
    presses = {x: re.sub(r", {(?!scorer)\w+}", "", y) if bare else y
               for x, y in PRESSES.items()}  # fmt: skip
    said = {"yes": True, "no": False}
    words = {x: said.get(y, y) for x, y in params.items()}
    words["r"] = ratio(prompt, params["budget"])
    score = words.get("score", SCORERS[0])
    need(score in SCORERS, f"the press of {name} cannot have score={score}; "
         f"choose {', '.join(SCORERS)}")  # fmt: skip
    if "score" in words:
        words["scorer"] = presses[score].format(**words)
    return presses[name].format(**words)


def size(cache: DynamicCache) -> int:
    """Bytes of the cache's tensors."""
    layers: Any = cache.layers
    return sum(x.keys.nbytes + x.values.nbytes for x in layers)


class Pressed(Held):
    """A cache that a press compressed. seen: tokens fed."""

    def __init__(self, cache: DynamicCache, seen: int, why: str = "") -> None:
        super().__init__(None, why)
        self.cache, self.seen = cache, seen
        self.hidden: Dict[int, Any] = {}  # rows treated as evicted, by layer
        self.sizes = [size(cache)]  # bytes after the prompt and each token

    def fork(self) -> Pressed:
        return copy.deepcopy(self)

    def bytes(self) -> Dict[str, float]:
        mean = sum(self.sizes) / len(self.sizes)
        return {"bytes.mean": mean, "bytes.end": float(self.sizes[-1])}


def code() -> str:
    """A press's `code` in a row."""
    return "kvpress " + importlib.metadata.version("kvpress")


class Presses(Together):
    """Feeds caches of presses, one at a time, through one model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model, 1)
        from ..kvpress import attention, expression

        self.make, self.tried = expression.make_press, expression.tried
        self.spelled = expression.spelled
        self.modules = attention.attention_modules(model.model)

    def row(self, ask: Ask, row: Dict[str, Any], prompt: int) -> Dict[str, Any]:
        """A press's open-loop row, from its method's, which has the budget."""
        found = dict(spec=ask.method, budget=None, status=row["status"],
                     reason=row["reason"], achieved=None)  # fmt: skip
        if row["status"] == "refused":
            return found
        try:
            name, params = head_of(ours(ask).method)[0], row["params"]
            bare = ask.method.startswith(DEFAULTS)
            spec = expression(name, params, prompt, bare)
            found["spec"] = self.spelled(spec) if bare else spec
            found["budget"] = min(params["budget"], prompt)
        except ValueError as e:
            found.update(status="refused", reason=str(e))
        return found

    def open(self, specs: Sequence[str], dense: Dense, _: int) -> List[Held]:
        """Compresses the prompt, all tokens in `dense`, with each press."""
        return [self.pressed(x, dense.tokens) for x in specs]

    def pressed(self, spec: str, tokens: Sequence[int]) -> Pressed:
        model = self.model.model

        def run(name: str) -> DynamicCache:
            cache = DynamicCache()
            with attending(model, name) as decoder, self.make(spec)(model):
                decoder(input_ids=torch.tensor([tokens]), use_cache=True,
                        **with_cache(decoder, cache))  # fmt: skip
            return cache

        with self.hiding({}):
            try:
                x = Pressed(self.tried(spec, run), len(tokens))
            except ValueError as e:
                return Pressed(DynamicCache(), 0, str(e))
            x.hidden = {l: getattr(y, HIDDEN) for l, y in self.modules.items()}
        return x

    @contextlib.contextmanager
    def hiding(self, rows: Dict[int, Any]) -> Iterator[None]:
        """Within this context, kvpress's attention ignores these rows."""
        for l, x in self.modules.items():
            setattr(x, HIDDEN, rows.get(l))
        try:
            yield
        finally:
            for x in self.modules.values():
                setattr(x, HIDDEN, None)

    def feed(
        self, held: Sequence[Any], tokens: Sequence[Sequence[int]],
        last: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """As Together.feed, for one cache. The model makes one mask for all
        layers, so if they differ in rows, tokens go one by one."""
        (x,), (ids,) = held, tokens
        model, n, parts = self.model.model, len(ids), []
        at = torch.arange(x.seen, x.seen + n)[None]
        rows = {y.keys.shape[2] for y in x.cache.layers}
        step = n if len(rows) == 1 else 1
        with attending(model, "sdpa"), self.hiding(x.hidden):
            try:
                for i in range(0, 0 if x.why else n, step):
                    piece = ids[i : i + step]
                    parts.append(self.model.forward(
                        None, [piece], len(piece), use_cache=True,
                        position_ids=at[:, i : i + step],
                        **with_cache(model, x.cache)))  # fmt: skip
            except ValueError as e:  # kvpress found no key to hide rows with
                x.why = str(e)
        if x.why:
            config = model.config.get_text_config()
            return torch.zeros(1, last or n, config.vocab_size)
        x.seen += n
        each = (size(x.cache) - x.sizes[-1]) // n
        x.sizes += [x.sizes[-1] + each * (i + 1) for i in range(n)]
        return torch.cat(parts, 1)[:, -(last or n) :]
