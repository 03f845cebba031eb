# SPDX-License-Identifier: Apache-2.0
"""`kvreplay record --repeat`: KVzip's scores against a loop in binary64 over
one forward of prompt, instruction and chunk, without a cache; models with a cap
on logits, learned sinks, latent attention; a chat's context; files made again
if missing or of another trace; and what methods keep by them. record_repeat.py
KVTRACE KVREPLAY FOLDER TINY; needs torch and transformers."""

import os
import shutil

import numpy as np
import transformers
from shared import LINES, MODEL, at, digests, lines, record
from record_second import LATENT, MODELS, hf, made, recorded_of

from kvreplay.record.layers import Layers
from kvreplay.record.prompts import Prompt
from kvreplay.record.repeat import BEFORE, FIRST, NEXT, Pass, Repeat
from kvreplay.record.repeat import repeat_of, score
from kvreplay.record.tokens import Asked
from kvreplay.scores import read_scores
from kvreplay.trace import read_trace

N, START, LAST, CHUNK, SAY = 50, 3, 44, 15, [7, 9, 11, 5]


def passes():
    """Passes of hf.IDS[:N]: the context is tokens START to LAST, in chunks."""
    ids, found = hf.IDS[0, :N].tolist(), []
    for start in range(START, LAST, CHUNK):
        end = min(LAST, start + CHUNK)
        found.append(Pass(start, end, SAY + ids[start:end]))
    return ids, Repeat(START, LAST, found)


def by_hand(t, x):
    """A pass's scores, {layer: [KV heads, tokens]}; t: prompt and pass."""
    found = {}
    for l in t.layers:
        q, k = t.q(l).astype(float), t.k(l).astype(float)
        own = [*range(START), *range(x.start, x.end), *range(LAST, t.n_tokens)]
        best = np.zeros((t.n_kv_heads, x.end - x.start))
        for h in range(t.n_heads):
            g = h * t.n_kv_heads // t.n_heads
            for i in range(LAST, t.n_tokens):
                seen = [j for j in own if j <= i]
                s = k[g, seen] @ q[h, i] * t.scale
                s = t.softcap * np.tanh(s / t.softcap) if t.softcap else s
                p = np.exp(s)
                total = p.sum()
                if t.sinks(l) is not None:
                    total += np.exp(t.sinks(l)[h])
                p = p[START : START + x.end - x.start] / total
                best[g] = np.maximum(best[g], p)
        found[l] = best
    return found


def check_scores():
    for name, config in (
        ("Llama", {}),
        ("Gemma2", MODELS[1][1]),
        ("GptOss", MODELS[4][1]),
        ("DeepseekV3", LATENT),
    ):
        model, (ids, x) = made(name, config), passes()
        layers = Layers(model, hf.IDS, latent=True)
        wanted = [l for l in range(4) if not layers.look[l].window]
        got = score(model, layers, ids, wanted, x)
        assert [*got] == wanted and len(wanted) >= 2
        for part in x.passes:
            t = recorded_of(model, "once", ids[:LAST] + part.ids, LAST)
            want = by_hand(t, part)
            for l in wanted:
                apart = abs(got[l][:, part.start : part.end] - want[l]).max()
                assert apart < 1e-5, (name, l, part.start, apart)
                assert 0.02 < want[l].max() < 1
        for l in wanted:
            assert got[l].shape == (layers.look[l].alike[1], N)
            assert (got[l][:, :START] == 1).all()
            assert (got[l][:, LAST:] == 1).all()


def check_spans():
    """Contexts: a plain prompt, a chat, before a question; what is repeated."""
    tokens = transformers.AutoTokenizer.from_pretrained(MODEL)

    def bare(text):
        return tokens(text, add_special_tokens=False)["input_ids"]

    ids = tokens("a door, a key")["input_ids"]
    plain = Asked(Prompt("p:1", "a", "a door, a key"), ids, [], None, [])
    x = repeat_of(tokens, plain, 8)
    assert (x.first, x.last) == (1, len(ids)), x
    assert x.passes[0].ids == bare(FIRST + "\n") + ids[1:9]
    said = bare(NEXT) + ids[9 - BEFORE : 9] + bare("\n")
    assert x.passes[1].ids == said + ids[9:] and len(x.passes) == 2
    part = dict(start=8, end=len(ids), role="question")
    assert repeat_of(tokens, plain._replace(segments=[part])).last == 8
    tokens.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
        "{% if add_generation_prompt %}<bot>{% endif %}"
    )
    turn = [dict(role="system", content="be"), dict(role="user", content="a b")]
    text = "<system>be</><user>a b</><bot>"
    chat = Asked(Prompt("p:1", "a", None, turn), bare(text), [], None, [])
    x = repeat_of(tokens, chat)
    assert text[x.first : x.last] == "a b", x
    assert x.passes[0].ids == bare(FIRST + "</><bot>a b")


def check_command():
    lines(*LINES)
    record("zip", "--max-new", "4", "--repeat")
    t = read_trace(at("zip", "one.safetensors"))
    path = at("zip", "scores", "one.safetensors")
    x = read_scores(path)
    assert x["trace"] == t.identity and [*x["scores"]] == t.layers
    assert x["scores"][0].shape == (t.n_kv_heads, t.prompt_len)
    before = x["scores"][3].copy()
    os.unlink(path)
    said = record("zip", "--max-new", "4", "--repeat")
    assert "3 of 3 traces exist in" in said, said
    assert abs(read_scores(path)["scores"][3] - before).max() < 1e-6
    specs = [f"{x}:score=file:scores={path}" for x in ("topk", "adakv")]
    rows = digests("zip", "one", *specs)
    assert [x[1] for x in rows] == ["ok"] * 2 and rows[0][2] != rows[1][2], rows
    shutil.copy(at("zip", "scores", "two.safetensors"), path)
    record("zip", "--max-new", "4", "--repeat")
    assert abs(read_scores(path)["scores"][3] - before).max() < 1e-6
    with open(path, "w") as f:
        f.write("none")
    said = record("zip", "--max-new", "4", "--repeat", code=3)
    assert "remove it to compute it again" in said, said


check_scores()
check_spans()
check_command()
print(f"transformers {transformers.__version__}")
