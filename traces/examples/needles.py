#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a folder of traces with one needle each, for the report's needle map.

    needles.py OUT [--lengths 256,512,1024] [--depths 0,25,50,75,100]
        [--seeds 1] [--model MODEL [--text FILE]]

A prompt of LENGTH tokens is prose with one definition, "key K7Q2: 83914;".
DEPTH percent of the prose is before it. The decode steps ask for the definition
and give the answer. The model is the bundled one, computed here in binary32,
and the prose is its own (traces/tiny). So needles.py needs only numpy, and
makes the same questions everywhere.

--model records any MODEL that `kvreplay record` takes. Lengths are then in its
own tokens, without the question and the chat template. The prose is FILE, which
must be long enough. OUT/needles.jsonl has the prompts; existing traces are not
made again.

Then, for all of them at once,

    kvreplay run OUT/*.safetensors -m all -b 10% --db needles.db
    kvreplay html needles.db -o needles.html

kvreplay html reads depth and length from the name, needle_DEPTH_of_LENGTH. You
can add "_" and anything after it (here the seed, from the second on).
"""

import argparse
import itertools
import json
import os
import random
import sys

import numpy as np

from kvreplay.container import array, bfloat16, load, widen
from kvreplay.trace import read_trace, write_trace

HERE = os.path.dirname(os.path.abspath(__file__))
TINY = os.path.join(HERE, "..", "tiny")

BOS, ALNUM = 256, "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


class Model:
    """Qwen3's layout: RMSNorm, also of each head's q and k; RoPE in halves;
    SwiGLU."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json")) as f:
            c = json.load(f)
        path = os.path.join(folder, "model.safetensors")
        self.w = {x: widen(array(y)) for x, y in load(path)[1].items()}
        self.layers, self.eps = c["num_hidden_layers"], c["rms_norm_eps"]
        self.heads, self.kv = c["num_attention_heads"], c["num_key_value_heads"]
        self.d = c["head_dim"]
        self.freq = c["rope_theta"] ** (-np.arange(0, self.d, 2) / self.d)

    def norm(self, x, name):
        size = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self.eps))
        return x / size * self.w[name + ".weight"]

    def turn(self, x):
        """[heads, T, d] by their positions."""
        a = np.arange(x.shape[1])[:, None] * self.freq
        c, s = np.cos(a).astype("f4"), np.sin(a).astype("f4")
        u, v = np.split(x, 2, -1)
        return np.concatenate([u * c - v * s, v * c + u * s], -1)

    def attend(self, q, k, v):
        mask = np.triu_indices(q.shape[1], 1)
        out = np.empty_like(q)
        for h in range(self.heads):
            g = h * self.kv // self.heads
            s = q[h] @ k[g].T * np.float32(self.d**-0.5)
            s[mask] = -np.inf
            p = np.exp(s - s.max(1, keepdims=True))
            out[h] = p / p.sum(1, keepdims=True) @ v[g]
        return out

    def forward(self, ids):
        """{layer: q, k, v} and the most likely next token of each."""
        w, x, found = self.w, self.w["model.embed_tokens.weight"][ids], {}
        for i in range(self.layers):
            at = f"model.layers.{i}."
            y = self.norm(x, at + "input_layernorm")
            q, k, v = (
                (y @ w[f"{at}self_attn.{n}_proj.weight"].T)
                .reshape(len(ids), -1, self.d)
                .swapaxes(0, 1)
                for n in "qkv"
            )
            q = self.turn(self.norm(q, at + "self_attn.q_norm"))
            k = self.turn(self.norm(k, at + "self_attn.k_norm"))
            found[i] = dict(q=q, k=k, v=v)
            o = self.attend(q, k, v).swapaxes(0, 1).reshape(len(ids), -1)
            x = x + o @ w[at + "self_attn.o_proj.weight"].T
            y = self.norm(x, at + "post_attention_layernorm")
            gate = y @ w[at + "mlp.gate_proj.weight"].T
            up = y @ w[at + "mlp.up_proj.weight"].T
            y = gate / (1 + np.exp(-gate)) * up
            x = x + y @ w[at + "mlp.down_proj.weight"].T
        best = self.norm(x, "model.norm") @ w["lm_head.weight"].T
        return found, best.argmax(1)


def document(prose, length, depth, seed):
    """Tokens, and the answer's marks."""
    r = random.Random(f"{length} {depth} {seed}")
    key = "".join(r.choices(ALNUM, k=4))
    value = "".join(r.choices("0123456789", k=5))
    define = f"key {key}: {value};\n".encode()
    room = length - 1 - len(define)
    first = r.randrange(len(prose) - room + 1)
    text, cut = prose[first : first + room], room * depth // 100
    ask = f"what is {key}? ".encode()
    ids = [BOS, *text[:cut], *define, *text[cut:], *ask, *value.encode()]
    source, start = 1 + cut + len(define) - 7, length + len(ask)
    return ids + list(b";\n"), dict(
        start=start, end=start + 5, source_start=source, source_end=source + 5
    )


def segments(a, length, n):
    edges = [0, length, a["start"], a["end"], n]
    roles = ["context", "question", "answer", "context"]
    return [
        dict(start=x, end=y, role=z)
        for x, y, z in zip(edges, edges[1:], roles)
    ]


def make(model, prose, out, length, depth, seed):
    name = f"needle_{depth}_of_{length}" + (f"_{seed}" if seed > 1 else "")
    ids, answer = document(prose, length, depth, seed)
    layers, best = model.forward(np.array(ids))
    start, end = answer["start"], answer["end"]
    right = list(best[start - 1 : end - 1]) == ids[start:end]
    write_trace(
        os.path.join(out, name + ".safetensors"),
        {l: {n: bfloat16(x) for n, x in y.items()} for l, y in layers.items()},
        length,
        tokens=np.array(ids, "i4"),
        inv_freq=model.freq.astype("f4"),
        metadata={
            "rope.layout": "half",
            "answers": [answer],
            "segments": segments(answer, length, len(ids)),
            "model": "kvtiny-6l, in binary32",
            "source": "prose that the model drew (generated_1500)",
            "task": f"a definition after {depth}% of the prose, one question",
        },
    )
    print(f"{name}: the model's answer is {'right' if right else 'wrong'}")


def prompts(tokenizer, text, a):
    """Lines for `kvreplay record`: prose of so many tokens of that model, the
    definition in it, the question."""
    prose = tokenizer(text, add_special_tokens=False)["input_ids"]
    for length, depth, seed in itertools.product(
        a.lengths, a.depths, range(1, a.seeds + 1)
    ):
        if len(prose) < length:
            raise ValueError(f"the text has {len(prose)} tokens of this model, "
                             f"not {length}: give a longer --text")  # fmt: skip
        r = random.Random(f"{length} {depth} {seed}")
        key = "".join(r.choices(ALNUM, k=4))
        value = "".join(r.choices("0123456789", k=5))
        define = f"\nkey {key}: {value};\n"
        room = length - len(tokenizer(define)["input_ids"])
        first = r.randrange(len(prose) - room + 1)
        cut = first + room * depth // 100
        before, after = prose[first:cut], prose[cut : first + room]
        text = tokenizer.decode(before) + define + tokenizer.decode(after)
        ask = f"\nWhat is key {key}? Answer with its five digits alone."
        line = dict(id=f"needle_{depth}_of_{length}"
                    + (f"_{seed}" if seed > 1 else ""), answer=value,
                    source=value)  # fmt: skip
        if tokenizer.chat_template:
            turn = dict(role="user", content=text + ask)
            yield dict(line, messages=[turn])
        else:
            yield dict(line, prompt=f"{text}{ask}\nkey {key}: ")


def record_model(a):
    """The exit code of `kvreplay record`."""
    from kvreplay.record import main as record
    from kvreplay.hf.load import load_tokenizer

    with open(a.text, encoding="utf-8") as f:
        text = f.read()
    lines = [*prompts(load_tokenizer(a.model), text, a)]
    os.makedirs(a.out, exist_ok=True)
    path = os.path.join(a.out, "needles.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(x) + "\n" for x in lines)
    return record([a.model, "--prompts", path, "-o", a.out, "--max-new", "8"])


def numbers(low, high):
    def read(text):
        found = [int(x) for x in text.split(",")]
        if not all(low <= x <= high for x in found):
            raise ValueError
        return found

    read.__name__ = f"list of numbers of {low} to {high}"
    return read


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("out")
    p.add_argument("--lengths", type=numbers(32, 10**6), default="256,512,1024")
    p.add_argument("--depths", type=numbers(0, 100), default="0,25,50,75,100")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--model")
    p.add_argument("--text", help="prose, for --model")
    a = p.parse_args()
    if bool(a.model) != bool(a.text):
        p.error("give --model and --text, or neither")
    if a.model:
        try:
            return record_model(a)
        except (ImportError, OSError, ValueError) as e:
            said = " ".join(str(e).split())
            print(f"needles.py: {said}", file=sys.stderr)
            return 4 if isinstance(e, ImportError) else 3
    if max(a.lengths) > 1500:
        p.error("--lengths: the bundled model has places for 1500 tokens")
    if not os.path.isdir(TINY):
        p.error(f"there is no {TINY}: run it in the source tree of kvreplay")
    tokens = read_trace(os.path.join(TINY, "generated_1500.safetensors")).tokens
    prose = bytes(int(x) for x in tokens if x < BOS)
    model = Model(os.path.join(TINY, "model"))
    os.makedirs(a.out, exist_ok=True)
    for length in a.lengths:
        for depth in a.depths:
            for seed in range(1, a.seeds + 1):
                make(model, prose, a.out, length, depth, seed)


if __name__ == "__main__":
    sys.exit(main())
