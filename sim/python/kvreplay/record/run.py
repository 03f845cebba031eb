# SPDX-License-Identifier: Apache-2.0
"""Records all prompts with one loaded model. Needs torch, transformers."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from typing import Any, Callable, Dict, List, Set, Tuple

import torch

from ..container import load as load_file
from ..hf.identity import model_digest
from ..hf.load import load, name_of
from ..hf.plain import stateful
from ..hf.text import reason
from ..programs import program
from ..scores import read_scores, write_scores
from ..trace import read_trace
from .file import sweep
from .forward import generate
from .layers import Layers
from .progress import Progress, groups, spans
from .prompts import Prompt
from .repeat import Repeat, repeat_of, score
from .request import Request, key_of, request_of
from .tokens import Asked, check_places, tokens_of
from .write import record


class Run:
    """A command line's prompts. there: recorded already. asked: to record."""

    def __init__(
        self, a: argparse.Namespace, prompts: List[Prompt],
        say: Callable[..., None],
    ) -> None:  # fmt: skip
        self.a, self.say = a, say
        self.said: Set[Tuple[int, ...]] = set()  # groups of layers announced
        os.makedirs(a.out, exist_ok=True)
        sweep(a.out)
        self.model, self.tokenizer = load(a.model, a.dtype, a.device)
        if a.repeat and stateful(self.model):
            raise ValueError(
                f"{a.model} also keeps a recurrent state, which a cache of "
                "keys and values cannot continue; leave out --repeat"
            )
        self.digest = model_digest(self.model)
        ids = torch.full((1, 2), 1, device=self.model.device)
        self.layers = Layers(self.model, ids, latent=not a.expanded)
        self.size = self.model.get_input_embeddings().weight.shape[0]
        self.most = getattr(self.model.config.get_text_config(),
                            "max_position_embeddings", None)  # fmt: skip
        options = [a.max_new, a.layers, a.rows, a.no_o, a.no_sums, a.dtype,
                   a.name]  # fmt: skip
        options += ["expanded"] if a.expanded else []
        self.key = {x.id: key_of(x, self.digest, options) for x in prompts}
        made = {x.id: self.made(x) for x in prompts}
        self.there = [x for x in prompts if made[x.id]]
        if self.there and not a.quiet:
            say(f"{len(self.there)} of {len(prompts)} traces exist in "
                f"{a.out}")  # fmt: skip
        self.asked = [self.tokens(x) for x in prompts if not made[x.id]]

    def path(self, prompt: Prompt) -> str:
        return os.path.join(self.a.out, prompt.id + ".safetensors")

    def made(self, prompt: Prompt) -> bool:
        path = self.path(prompt)
        if not os.path.lexists(path):
            return False
        if load_file(path)[0].get("request") != self.key[prompt.id]:
            raise ValueError(
                f"{path} exists, but belongs to another prompt, model or "
                f"options than {prompt.where}; give another -o, or remove it"
            )
        return True

    def tokens(self, prompt: Prompt) -> Asked:
        x = tokens_of(self.a.model, self.tokenizer, prompt, self.size)
        check_places(prompt.where, len(x.ids),
                     max(len(x.answer), self.a.max_new), self.most)
        if self.a.repeat:
            self.check_repeat(x)
        return x

    def metadata(self, request: Request) -> Dict[str, Any]:
        x = request.asked.prompt
        return dict(
            model=self.a.name or name_of(self.a.model),
            request=self.key[x.id], source=os.path.basename(x.where),
            answer_by=request.by)  # fmt: skip

    def notes(self, layers: List[int], n_tokens: int) -> None:
        """Prints once what the traces omit of the model."""
        if tuple(layers) in self.said:
            return
        self.said.add(tuple(layers))
        left = self.layers.left_out(layers, n_tokens)
        if left and not self.a.layers:
            self.say(f"recording layers {spans(layers)}, not {left}")
        if self.layers.rotation(layers).rope.freq is None:
            self.say(
                "recorded without RoPE, because not every layer rotates its "
                "heads alike by fixed frequencies. Methods that re-index are "
                "refused on these traces; all others run"
            )

    def group(self, group: List[Asked], progress: Progress) -> None:
        ids = torch.tensor([x.ids for x in group], device=self.model.device)
        new = generate(self.model, ids, self.a.max_new)
        alike: Dict[int, List[Request]] = {}
        for x, tokens in zip(group, new):
            request = request_of(self.tokenizer, x, tokens)
            alike.setdefault(len(request.tokens), []).append(request)
        for requests in alike.values():
            paths = [self.path(x.asked.prompt) for x in requests]
            layers = record(
                self.model, self.layers, requests, paths, digest=self.digest,
                asked=self.a.layers, rows=self.a.rows, o=not self.a.no_o,
                sums=not self.a.no_sums,
                metadata=[self.metadata(x) for x in requests])  # fmt: skip
            self.notes(layers, len(requests[0].tokens))
            for request in requests:
                if self.a.repeat:
                    self.score(request.asked)
                progress.add(request.asked.prompt.id, request)
            for request in requests:
                self.after(request)

    def scores(self, prompt: Prompt) -> str:
        return os.path.join(self.a.out, "scores", prompt.id + ".safetensors")

    def scored(self, prompt: Prompt) -> bool:
        """Do scores exist, and belong to the trace as it is now?"""
        path = self.scores(prompt)
        if not os.path.lexists(path):
            return False
        try:
            of = read_scores(path).get("trace")
        except ValueError as e:
            raise ValueError(
                f"{e}: no scores, or damaged; remove it to compute it again"
            ) from None
        return of == read_trace(self.path(prompt)).identity

    def check_repeat(self, asked: Asked) -> Repeat:
        """The passes of --repeat. ValueError if the model is too short."""
        x = repeat_of(self.tokenizer, asked)
        if x.places() > (self.most or x.places()):
            raise ValueError(
                f"{asked.prompt.where}: --repeat needs {x.places()} tokens, "
                f"but the model allows {self.most}; shorten the prompt"
            )
        return x

    def score(self, asked: Asked) -> None:
        """Writes KVzip's scores of a prompt, for layers without a window."""
        path, x = self.scores(asked.prompt), self.check_repeat(asked)
        t = read_trace(self.path(asked.prompt))
        wanted = [l for l in t.layers if not t.windows[l]]
        got = score(self.model, self.layers, asked.ids, wanted, x)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_scores(path, t, "KVzip", got)

    def score_again(self, prompt: Prompt) -> None:
        if not self.scored(prompt):
            self.score(self.tokens(prompt))

    def after(self, request: Request) -> None:
        where = request.asked.prompt.where
        if self.a.check:
            check(self.path(request.asked.prompt), self.say)
        if request.by == "user" and self.a.max_new:
            self.say(f"{where}: the model does not give the marked answer, "
                     f"{request.asked.prompt.answer.strip()[:60]!r}, but "
                     f"{request.said.strip()[:60]!r}; the trace continues with "
                     "the marked one")  # fmt: skip
        if request.asked.answer and not request.answers:
            self.say(f"{where}: the answer's source is not in the prompt, so "
                     "its trace has no needle; give one as source")  # fmt: skip


def check(path: str, say: Callable[..., None]) -> None:
    """Runs `kvtrace check`, which computes the outputs again from q, k, v."""
    x = subprocess.run(
        [program("kvtrace"), "check", "-f", "json", path],
        capture_output=True, text=True)  # fmt: skip
    if x.returncode not in (0, 1):
        raise ValueError(f"{path}: {x.stderr.strip()}")
    worst = max(json.loads(x.stdout)["layers"], key=lambda y: y["relative"])
    say(f"{path}: outputs differ by at most {worst['relative']:.1e} of their "
        f"length, in layer {worst['layer']}")  # fmt: skip
    if x.returncode:
        raise ValueError(
            f"{path}: more than rounding explains ({worst['tolerance']:.0e}); "
            "kvtrace check says where, so do not trust this trace"
        )


def record_all(
    a: argparse.Namespace, prompts: List[Prompt], say: Callable[..., None]
) -> int:
    """Returns the exit code: 3 if a prompt could not be recorded."""
    x, bad = Run(a, prompts, say), 0

    def tried(some: List[Prompt], make: Callable[..., None], *w: Any) -> int:
        """How many of these prompts failed: all or none."""
        try:
            make(*w)
            return 0
        except (ValueError, IndexError) as e:  # the others continue
            say(f"{', '.join(y.where for y in some)}: {reason(e)}")
            return len(some)

    for prompt in x.there if a.repeat else ():
        bad += tried([prompt], x.score_again, prompt)
    for prompt in x.there if a.check else ():
        bad += tried([prompt], check, x.path(prompt), say)
    progress = Progress(say, a.quiet, sum(len(y.ids) for y in x.asked),
                        len(x.asked))  # fmt: skip
    for group in groups(x.asked, a.together):
        bad += tried([y.prompt for y in group], x.group, group, progress)
    return 3 if bad else 0
