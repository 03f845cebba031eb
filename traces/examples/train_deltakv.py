# SPDX-License-Identifier: Apache-2.0
"""DeltaKV's compressor trained with the model in the loop, as the paper's
Algorithm 1 does it: the bundled model, frozen, runs on with K and V that were
rebuilt from their latents, layer by layer, and the loss is the squared error
against K and V of a clean pass plus the loss of the next token.

    python train_deltakv.py MODEL RECORDING... -o W.safetensors --steps 2000

MODEL is traces/tiny/model, beside which this runs, so in the source tree alone;
of the recordings the tokens are read, and which model they are of. The file is
that of `kvreplay train deltakv`, which trains without a model, on the squared
error alone; --from begins with one. Needs numpy and torch.

--loss both|mse|ntp   which terms; both weigh the same
--refs raw|recon      references as the model computes them, which the method
                      keeps, or rebuilt ones, as Algorithm 1 has it

Every 50 steps what is needed to go on is in OUTPUT.part; the same command,
typed again after a kill, goes on from there with the same numbers.
"""

import argparse
import os
import sys
import time

from kvreplay.hf.text import require

if __name__ == "__main__":
    require("numpy", "safetensors", "torch")

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "../tiny/provenance"))
if not os.path.exists(sys.path[1]):
    sys.exit("train_deltakv.py: runs in the source tree, beside traces/tiny")
import model as tiny  # noqa: E402
from kvreplay.trace import read_trace  # noqa: E402

WIDTH = 2 * tiny.KV * tiny.D
IN, OUT, BACK = (
    "compress.in.weight",
    "compress.out.weight",
    "decompress.out.weight",
)


class Compressor(torch.nn.Module):
    """The light one of every layer: f_c(x) = (SiLU(x W1') * x W2') W3',
    f_d(z) = z W4'. Weights begin as N(0, 0.02^2)."""

    def __init__(self, hidden, latent):
        super().__init__()
        sizes = {
            IN: (2 * hidden, WIDTH),
            OUT: (latent, hidden),
            BACK: (WIDTH, latent),
        }
        self.w = torch.nn.ParameterList()
        for _ in range(tiny.L):
            for name in (IN, OUT, BACK):
                self.w.append(torch.randn(sizes[name]) * 0.02)

    def down(self, l, x):
        gate, up = (x @ self.w[3 * l].T).chunk(2, -1)
        return (F.silu(gate) * up) @ self.w[3 * l + 1].T

    def rebuild(self, l, x, mean):
        return (self.down(l, x) - self.down(l, mean)) @ self.w[
            3 * l + 2
        ].T + mean


class Delta:
    """An attention of model.forward: K and V of every token but sinks (and,
    with raw ones, references) are rebuilt. kept: K and V before that, a
    matrix [tokens][width] a layer; made: what is attended."""

    def __init__(self, net, refs="raw", stride=10, k=4, sinks=8, zero=False):
        self.net, self.refs, self.zero = net, refs, zero
        self.stride, self.k, self.sinks = stride, k, sinks
        self.kept, self.made = [], []

    def places(self, n):
        return [
            t for t in range(n) if t < self.sinks or t % self.stride == 0
        ]

    def means(self, x, at, refs, places):
        """Of tokens `at`, from references `refs` at `places`: the k nearest of
        those strictly earlier, fewer where there are fewer."""
        far = (refs * refs).sum(-1) - 2 * x.detach() @ refs.detach().T
        seen = places[None, :] < at[:, None]
        far = far.detach().masked_fill(~seen, float("inf"))
        value, which = far.topk(min(self.k, len(places)), -1, largest=False)
        near = value.isfinite()
        total = (refs[which] * near[..., None]).sum(1)
        return total / near.sum(-1, keepdim=True).clamp(min=1)

    def coded(self, l, x, mean):
        return mean if self.zero else self.net.rebuild(l, x, mean)

    def rebuilt_references(self, l, x, places):
        """One after the other, as each may look at those before it."""
        refs = []
        for i, t in enumerate(places.tolist()):
            row = x[t : t + 1]
            if t >= self.sinks:
                mean = self.means(
                    row, places[i : i + 1], torch.cat(refs), places[:i]
                )
                row = self.coded(l, row, mean)
            refs.append(row)
        return torch.cat(refs)

    def rebuild(self, l, x):
        n = len(x)
        places = torch.tensor(self.places(n))
        refs = (
            x[places]
            if self.refs == "raw"
            else self.rebuilt_references(l, x, places)
        )
        at = torch.arange(self.sinks, n)
        new = self.coded(
            l, x[self.sinks :], self.means(x[self.sinks :], at, refs, places)
        )
        out = torch.cat([x[: self.sinks], new])
        return out.index_copy(0, places, refs)

    def __call__(self, l, q, k, v):
        n = k.shape[-2]
        at = torch.arange(n)
        plain = tiny.rope(k, -at)  # turned back
        rows = torch.cat([plain[0], v[0]]).transpose(0, 1).reshape(n, WIDTH)
        made = self.rebuild(l, rows) if self.net or self.zero else rows
        self.kept.append(rows)
        self.made.append(made)
        k, v = made.view(n, 2 * tiny.KV, tiny.D).transpose(0, 1)[None].chunk(
            2, 1
        )
        return tiny.causal(l, q, tiny.rope(k, at), v)


def losses(w, net, ids, refs):
    """Squared error, summed over layers, and that of the next token."""
    clean, delta = Delta(None), Delta(net, refs)
    with torch.no_grad():
        tiny.forward(w, ids, clean)
    out = tiny.forward(w, ids, delta)[0, :, : tiny.V]
    error = sum(
        (a[delta.sinks :] - b[delta.sinks :]).pow(2).mean()
        for a, b in zip(clean.kept, delta.made)
    )
    return error, F.cross_entropy(out[:-1], ids[0, 1:])


def documents(paths, most, seed):
    """Pieces of the recordings' tokens, each from its beginning, for ever."""
    ids = [torch.from_numpy(np.array(read_trace(p).tokens)) for p in paths]
    r = np.random.default_rng(seed)
    while True:
        for i in r.permutation(len(ids)):
            yield ids[i][:most].long()[None]


def name(l, part):
    return f"layers.{l}.{part}"


def models(recordings):
    """Which model they are of, as kvreplay train writes it."""
    found = {}
    for path in recordings:
        for key, x in read_trace(path).metadata.items():
            if key in ("model", "model_digest"):
                found.setdefault(key, x)
    return found


def save(net, path, a):
    from safetensors.torch import save_file

    t = {}
    for i, x in enumerate(net.w):
        t[name(i // 3, (IN, OUT, BACK)[i % 3])] = x.detach().half()
    latent, hidden = net.w[1].shape
    save_file(
        t,
        path,
        {
            "format": "kvreplay-deltakv",
            "compressor": "swiglu",
            "latent": str(latent),
            "hidden": str(hidden),
            "trained_stride": "10",
            "trained_k": "4",
            "trained": f"{a.steps} steps, rate {a.rate}, loss {a.loss}, "
            f"references {a.refs}, with the model",
            **models(a.recordings),
        },
    )


def load(path):
    from safetensors.torch import load_file

    t = load_file(path)
    latent, hidden = t[name(0, OUT)].shape
    net = Compressor(hidden, latent)
    for i in range(len(net.w)):
        part = t[name(i // 3, (IN, OUT, BACK)[i % 3])]
        net.w[i].data.copy_(part.float())
    return net


def keep(path, told, i, *states):
    """Step i is done; a kill leaves this file or the one before, whole."""
    torch.save([told, i, *(x.state_dict() for x in states)], path + ".new")
    os.replace(path + ".new", path)


def resume(path, told, *states):
    """Steps that were done by an earlier, killed run of the same command."""
    if not os.path.exists(path):
        return 0
    was, i, *found = torch.load(path)
    if was != told:
        sys.exit(f"{path} is of another command: type that, or remove it")
    for x, y in zip(states, found):
        x.load_state_dict(y)
    return i


def train(w, net, a):
    todo = documents(a.recordings, a.tokens, a.seed)
    adam = torch.optim.AdamW(net.parameters(), a.rate, weight_decay=0)
    rise = max(1, round(0.02 * a.steps))
    pace = torch.optim.lr_scheduler.LambdaLR(
        adam,
        lambda i: min(
            (i + 1) / rise, (a.steps - i) / max(1, a.steps - rise)
        ),
    )
    part, told = a.output + ".part", str(vars(a))
    done = resume(part, told, net, adam, pace)
    for _ in range(done):
        next(todo)
    began = time.time()
    for i in range(done, a.steps):
        error, next_token = losses(w, net, next(todo), a.refs)
        loss = error * (a.loss != "ntp") + next_token * (a.loss != "mse")
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        pace.step()
        if i % 20 == 19:
            left = (time.time() - began) / (i + 1 - done) * (a.steps - i - 1)
            print(
                f"{i + 1} of {a.steps}: squared error "
                f"{error.item() / tiny.L:.5f} a layer, next token "
                f"{next_token.item():.4f}, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
        if i % 50 == 49:
            keep(part, told, i + 1, net, adam, pace)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("model")
    p.add_argument("recordings", nargs="+")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("--loss", choices=("both", "mse", "ntp"), default="both")
    p.add_argument("--refs", choices=("raw", "recon"), default="raw")
    p.add_argument("--from", dest="begin")
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--rate", type=float, default=2e-4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--latent", type=int, default=WIDTH // 4)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    w = tiny.load(a.model)
    net = load(a.begin) if a.begin else Compressor(a.hidden, a.latent)
    train(w, net, a)
    save(net, a.output, a)
    if os.path.exists(a.output + ".part"):
        os.remove(a.output + ".part")


if __name__ == "__main__":
    main()
