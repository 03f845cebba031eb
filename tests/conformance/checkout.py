# SPDX-License-Identifier: Apache-2.0
"""Other people's modules, imported from a checkout as they lie there, and what
is fed to them.

They import transformers, flash attention, CUDA extensions or plotting, which
their selections need not: load() answers such an import with an empty module.
Nothing of a selection is replaced but what a function of once.py, steps.py
or presses.py names.

A selection mostly returns keys and values, not positions. Few look at values;
those that do not are given values of places(), each token's own position, and
what comes back says who stayed."""

import importlib.machinery
import importlib.util
import os
import sys
import types

import torch


class Nothing:
    """What an empty module has under every name."""

    def __init__(self, *_, **__):
        pass


class StandIn(types.ModuleType):
    """A module that has every name, each a class that does nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Nothing,), {})


class StandIns:
    """Finds an empty module for packages not to be had here, or not wanted, and
    all that is in them; `made` are those that are given."""

    def __init__(self, packages, made):
        self.packages, self.made = {*packages}, made

    def find_spec(self, name, path=None, target=None):
        if name in self.made or name.partition(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return self.made.get(spec.name) or StandIn(spec.name)

    def exec_module(self, module):
        pass


def load(folder, path, stand_ins=(), made=(), **names):
    """The module of folder/path. stand_ins: packages that are left empty; made:
    modules by name, one named `theirs` being the package that it lies in;
    names: what it finds under a name of its own, in its own one's place."""
    finder = StandIns(stand_ins, dict(made))
    name = path.removesuffix(".py").replace("/", "_")
    if "theirs" in finder.made:
        name = "theirs." + name
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, path))
    theirs = importlib.util.module_from_spec(spec)
    hidden = {x: sys.modules.pop(x) for x in [*sys.modules]
              if finder.find_spec(x)}
    sys.meta_path.insert(0, finder)
    try:
        spec.loader.exec_module(theirs)
    finally:
        sys.meta_path.remove(finder)
        for x in [*sys.modules]:
            if finder.find_spec(x):
                del sys.modules[x]
        sys.modules.update(hidden)
    vars(theirs).update(names)
    return theirs


def rows(trace, layer):
    """q, k of a recorded layer as [1, heads, tokens, d], binary32."""
    return [torch.from_numpy(x.copy())[None]
            for x in (trace.q(layer), trace.k(layer))]


def prompt(trace):
    """Layer, q and k of the prompt's rows, of each recorded layer."""
    for layer in trace.layers:
        yield (layer, *(x[:, :, :trace.prompt_len] for x in rows(trace, layer)))


def repeated(k, heads):
    """KV heads, each as often as it has query heads."""
    return k.repeat_interleave(heads // k.shape[1], 1)


def places(k, first=0):
    """Values [1, heads, tokens, d] that say which token each is of."""
    n = torch.arange(first, first + k.shape[2], dtype=k.dtype)
    return n[None, None, :, None].expand_as(k).clone()


def kept(values):
    """The positions that values of places() are of, a list a head."""
    return [x[:, 0].int().tolist() for x in values[0]]


def attention(q, k, scale):
    """softmax(q k scale) of rows q, the last of which sees all of k; the
    probabilities that a model's forward hands to a selection."""
    k = repeated(k, q.shape[1])
    logits = torch.matmul(q, k.transpose(2, 3)) * scale
    n, m = logits.shape[2:]
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
    logits.masked_fill_(hidden, torch.finfo(logits.dtype).min)
    return torch.softmax(logits, -1, dtype=torch.float32)
