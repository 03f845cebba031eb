# SPDX-License-Identifier: Apache-2.0
"""record.py MODEL TEXTS OUT [name ...]: the bundled traces of the model in the
folder MODEL, by kvreplay.hf.capture. Prose is of the parts of the
texts that training did not see; seeds stand below. Weights and activations
are bfloat16, so the rows are what the model's attention was given."""

import os
import random
import sys
import tempfile

import numpy as np
import torch

import documents as doc
from documents import load_texts

from kvreplay.container import widen
from kvreplay.hf.capture import capture
from kvreplay.trace import read_trace, write_trace

MODEL = (
    "kvtiny-6l (byte-level, Qwen3's layout, 3.9 M parameters, trained for "
    "this project)"
)
WINDOW = 64  # prompt rows before the first decode step that a slim trace has


def greedy_right(model, ids, d):
    with torch.no_grad():
        best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
    for a in d.answers:
        a["dense_correct"] = (
            best[a["start"] - 1 : a["end"] - 1] == ids[a["start"] : a["end"]]
        )


def segments(d, n):
    """Questions and answers as documents ask them; the rest is context."""
    out, at = [], 0
    for a in d.answers:
        if a["question"] > at:
            out.append(dict(start=at, end=a["question"], role="context"))
        out += [
            dict(start=a["question"], end=a["start"], role="question"),
            dict(start=a["start"], end=a["end"], role="answer"),
        ]
        at = a["end"]
    return out + [dict(start=at, end=n, role="context")] * (at < n)


def column_sums(q, k, prompt, scale):
    """Of each head's probabilities over the prompt, times 2^40."""
    out = np.empty((len(q), prompt), np.int64)
    for h in range(len(q)):
        s = (
            q[h, :prompt].astype("f8")
            @ k[h * len(k) // len(q), :prompt].astype("f8").T
            * scale
        )
        s[np.triu_indices(prompt, 1)] = -np.inf
        p = np.exp(s - s.max(1, keepdims=True))
        out[h] = np.rint((p / p.sum(1, keepdims=True)).sum(0) * 2**40)
    return out


def record(model, out, name, ids, prompt, slim=False, layers=None, **metadata):
    with tempfile.TemporaryDirectory() as folder:
        wide = os.path.join(folder, "wide")
        capture(model, torch.tensor([ids]), prompt, wide)
        t = read_trace(wide)
        kept = {}
        for l in layers or t.layers:
            x = t.layer(l)
            del x["o"]  # a third of the bytes; kvtrace check has its own
            if slim:
                x["rows"] = np.arange(prompt - WINDOW, len(ids), dtype="i4")
                x["colsum"] = column_sums(
                    widen(x["q"]), widen(x["k"]), prompt, t.scale
                )
                x["q"] = x["q"][:, prompt - WINDOW :]
            kept[l] = x
        meta = {
            k: y
            for k, y in t.metadata.items()
            if k not in ("layers", "prompt_len")
        }
        meta.update(metadata, model=MODEL, tokenizer="bytes 0-255, 256=BOS")
        write_trace(
            os.path.join(out, name + ".safetensors"),
            kept,
            prompt,
            None,
            t.tokens,
            None,
            t.inv_freq,
            meta,
        )


def retrieval(r, n, text=None, gap=0):
    d, todo = doc.Doc(), doc.pairs(r, n, 4, 5)
    for p in todo:
        if text is not None:
            d.prose(r, text, gap, gap)
        d.define(p)
    d.prompt_len = len(d) + 1
    r.shuffle(todo)
    for p in todo:
        d.ask(p)
    return d


def turns(r, text):
    """Four turns: prose and three definitions, then two or three questions."""
    d, known, todo = doc.Doc(), [], doc.pairs(r, 12, 4, 5)
    for turn in range(4):
        d.prose(r, text, 40, 60)
        for p in todo[3 * turn : 3 * turn + 3]:
            d.define(p)
            known.append(p)
        d.prompt_len = d.prompt_len or len(d) + 1
        for p in r.sample(known, 2 + (turn > 0)):
            d.ask(p)
    return d


KEYS, PROSE = (
    "random keys and values (documents.py)",
    "King James Bible, Debian package bible-kjv-text 4.38, public domain, "
    "held out",
)


def asked(model, d, ids):
    """Metadata of a document that asks, and a line about it."""
    greedy_right(model, ids, d)
    right = sum(a["dense_correct"] for a in d.answers)
    print(len(ids), "tokens,", right, "of", len(d.answers), "answers right")
    return dict(answers=d.answers, segments=segments(d, len(ids)))


def prose(text, size, prompt):
    d = doc.Doc()
    d.add(text[:size], 50)
    d.prompt_len = prompt
    return d


def generated(model, prompt, n, seed):
    torch.manual_seed(seed)
    ids = torch.tensor([prompt])
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=n,
        min_new_tokens=n,
        do_sample=True,
        temperature=0.8,
        top_p=0.95,
        top_k=0,
    )[0].tolist()


def documents(kjv):
    """{name: (document, source, task, further arguments of record)}"""
    seed, both = random.Random, KEYS + "; " + PROSE
    later = "questions from prompt_len on"
    drawn = (
        PROSE + ", then 1,500 bytes that the model drew at temperature 0.8, "
        "top_p 0.95, seed 5"
    )
    return {
        "retrieval_16": (
            retrieval(seed(1), 16), KEYS,
            "all definitions first, " + later, {}),
        "haystack_8": (
            retrieval(seed(2), 8, kjv, 40), both,
            "definitions between prose, " + later, {}),
        "multiturn_11": (
            turns(seed(3), kjv), both,
            "four turns of prose, definitions and questions; "
            "prompt_len: the first question", {}),
        "text_400": (prose(kjv[20001:], 399, 200), PROSE, "prose", {}),
        "haystack_20_long": (
            retrieval(seed(4), 20, kjv, 58), both,
            "definitions between prose over 1,500 tokens, " + later,
            dict(slim=True)),
        "generated_1500": (
            prose(kjv[50000:], 63, 64), drawn, "generation",
            dict(layers=[1, 3, 5])),
    }  # fmt: skip


def main():
    from transformers import AutoModelForCausalLM

    folder, texts, out, *names = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16
    ).eval()
    todo = documents(load_texts(texts)[1][0])
    for name in names or todo:
        d, source, task, more = todo[name]
        ids = d.tokens()
        if d.answers:
            more = dict(more, **asked(model, d, ids))
        if task == "generation":
            ids = generated(model, ids, 1500, 5)
        record(
            model,
            out,
            name,
            ids,
            d.prompt_len,
            source=source,
            task=task,
            **more,
        )


if __name__ == "__main__":
    main()
