# SPDX-License-Identifier: Apache-2.0
"""kvreplay.kvpress.Press on the model of traces/tiny, in binary32. It keeps the
rows that kvpress's presses keep (as KVPRESS.md says), and answers like them in
kvpress's pipeline. At the full budget logits are the model's, to the bit. Coded
rows are those that the session attends to; bytes are the ledger's; impossible
methods are refused. A scorer's scores rank as its press keeps. Called by
press_hf.py if kvpress is installed."""

import contextlib

import numpy as np
import torch
from kvpress import AdaKVPress, ComposedPress, PrefillDecodingPress
from kvpress import SnapKVPress, TOVAPress
from transformers import AutoTokenizer, DynamicCache, pipeline
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from kvreplay.kvpress import Press, from_scorer, make_press
from kvreplay.scores import read_scores
from kvreplay.session import SessionError

QUESTION = 5  # tokens after the prompt, fed at once
SNAP = dict(window=16, kernel=7, pooling="avg")


@torch.no_grad()
def after(model, ids, press, new=6, question=QUESTION):
    """Logits of question and greedy tokens, like kvpress's pipeline; cache."""
    n, cache = ids.shape[1] - question, DynamicCache()
    decodes = isinstance(press, PrefillDecodingPress)
    with press(model) if press else contextlib.nullcontext():
        model.model(input_ids=ids[:, :n], past_key_values=cache)
    held = [(x.keys.clone(), x.values.clone()) for x in cache.layers]
    out, token = [], ids[:, n:]
    with press(model) if decodes else contextlib.nullcontext():
        for _ in range(new):
            at = torch.arange(n, n + token.shape[1])[None]
            n += token.shape[1]
            out.append(model(input_ids=token, past_key_values=cache,
                             position_ids=at).logits[:, -1:])  # fmt: skip
            token = out[-1].argmax(-1)
    return torch.cat(out, 1) if out else None, held


def rows_of(held, hidden=None):
    """{layer, KV head: its rows as a set of bytes}. hidden: {layer: rows that
    kvpress hides}, which are left out."""
    out = {}
    for l, (k, _) in enumerate(held):
        _, heads, rows = (hidden or {}).get(l) or ((), (), ())
        gone = {(int(g), int(i)) for g, i in zip(heads, rows)}
        for g, lane in enumerate(k[0].numpy()):
            out[l, g] = {
                x.tobytes() for i, x in enumerate(lane) if (g, i) not in gone
            }
    return out


def hidden_by(model):
    """What presses hide in each layer; then hides nothing."""
    out = {}
    for x in model.model.layers:
        out[x.self_attn.layer_idx] = x.self_attn.masked_key_indices
        x.self_attn.masked_key_indices = None
    return out


def check_full(model, ids):
    """A press that keeps everything changes nothing, to the bit."""
    for attention in "sdpa", "eager":
        model.set_attn_implementation(attention)
        own, _ = after(model, ids, None)
        for press in Press("snapkv", 0.0), Press("dense"):
            got, _ = after(model, ids, press)
            assert torch.equal(own, got), (attention, press)
            assert press.result()["share"] == 1, press.result()
        got, _ = after(model, ids, Press("dense", decode=True))
        assert (own - got).abs().max() < 2e-4, (own - got).abs().max()
    model.set_attn_implementation("sdpa")


def check_kept(model, ids):
    """Keeps kvpress's rows, and counts their bytes."""
    for theirs, ours in (
        (SnapKVPress(0.5, 16, 7), Press("snapkv", 0.5, **SNAP)),
        (
            TOVAPress(0.3),
            Press("tova", 0.3, variant="prefill", protect_newest=True),
        ),
        (
            AdaKVPress(SnapKVPress(0.5, 16, 7)),
            Press("adakv", 0.5, safeguard="minimum", **SNAP),
        ),
    ):
        a, held = after(model, ids, theirs)
        want = rows_of(held, hidden_by(model))
        b, held = after(model, ids, ours)
        assert rows_of(held, hidden_by(model)) == want, ours
        assert (a - b).abs().max() < 1e-4, (ours, (a - b).abs().max())
        row, config = ours.result(), model.config
        n = sum(len(x) for lanes in ours.kept.values() for x in lanes)
        d = config.head_dim
        assert row["payload"] == n * 2 * d * 4, row
        assert row["kept"] == n / len(want) == int(
            row["prompt"] * (1 - ours.compression_ratio)
        ), row
        assert n * 2 * d * 4 <= row["cache"], row


def check_coded(model, ids):
    """The cache holds what the session attends to, also if coded."""
    own, _ = after(model, ids, None, new=1, question=1)
    for method, budget in ("kivi", None), ("snapkv+int4", 64), ("leankv", None):
        a, _ = after(model, ids, Press(method, budget=budget), 1, 1)
        hidden_by(model)
        press = Press(method, budget=budget, decode=True)
        b, _ = after(model, ids, press, 1, 1)
        assert (a - b).abs().max() < 1e-4 < 0.1 < (a - own).abs().max()
        row = press.result()
        assert row["step"] == ids.shape[1] and row["share"] < 0.6, row
    h2o = Press("h2o", 0.5, decode=True)
    after(model, ids, h2o)
    row = h2o.result()
    assert row["kept"] == int(row["prompt"] * 0.5), row
    assert row["step"] == ids.shape[1] + 5, row
    assert len(h2o.session.view(0, 0)) and h2o.session.digest()["journal"]
    h2o.compression_ratio = 0.75  # set like kvpress's evaluation does
    after(model, ids, h2o)
    assert h2o.result()["kept"] == int(row["prompt"] * (1 - 0.75))
    assert len(h2o.rows) == 2


def check_pipeline(model, folder):
    """Answers in kvpress's pipeline equal those of its own press."""
    pipe = pipeline(
        "kv-press-text-generation", model=model,
        tokenizer=AutoTokenizer.from_pretrained(folder),
    )  # fmt: skip
    text = "In the beginning God created the heaven and the earth. " * 4
    say = dict(question="And the earth", max_new_tokens=8)
    say["press"] = SnapKVPress(0.5, 16, 7)
    want = pipe(text, **say)["answer"]
    say["press"] = ours = Press("snapkv", 0.5, **SNAP)
    assert pipe(text, **say)["answer"] == want and len(ours.rows) == 1, want
    say["press"] = ours = Press("quest:page=16:skip=0", budget=64, decode=True)
    assert pipe(text, **say)["answer"], ours
    row = ours.result()
    assert row["step"] > row["prompt"] and row["share"] > 1, row
    with Press("snapkv", 0.5)(model), torch.no_grad():
        ids = torch.arange(40)[None]
        mask = torch.ones_like(ids)
        out = model.generate(ids, attention_mask=mask, max_new_tokens=4,
                             min_new_tokens=4, do_sample=False)  # fmt: skip
    assert out.shape[1] == 44


def refused(model, ids, press, says):
    try:
        after(model, ids, press)
    except (SessionError, ValueError) as e:
        assert says in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")
    hidden_by(model)


def check_refused(model, ids):
    """Each gives its sentence, and leaves the model's attention intact."""
    sdpa, own = ALL_ATTENTION_FUNCTIONS["sdpa"], model.config.to_dict()
    for press, says in (
        (Press("quest", budget=64), "reads only some of its entries"),
        (Press("streamingllm", budget=64), "rotates keys to new positions"),
        (Press("zsmerge", budget=64), "adds to the logits of merged entries"),
        (Press("snapkv:group=query_head", budget=64), "each of 8 query heads"),
        (Press("quest", budget=64), "Press(.., decode=True) runs it"),
        (ComposedPress([Press("snapkv", 0.5)]), "cannot be within another"),
        (Press("h2o", 0.5, decode=True, room=6), "make Press(room=)"),
        (Press("nothing", 0.5), "nothing"),
    ):
        refused(model, ids, press, says)
    two = torch.cat([ids, ids])
    refused(model, two, Press("snapkv", 0.5), "a batch of 2")
    for call, says in (
        (lambda: Press("snapkv", 1.0), "the compression ratio is 1.0"),
        (lambda: Press("snapkv", 0.5, budget=9), "not both"),
        (lambda: Press("snapkv", 0.5, pooling="a:b"), "as given to -m"),
    ):
        try:
            call()
        except ValueError as e:
            assert says in str(e), e
        else:
            raise AssertionError(says)
    model.set_attn_implementation("eager")
    ada = Press("adakv", 0.5, safeguard="minimum", **SNAP)
    refused(model, ids, ada, "lanes of unequal length")
    model.set_attn_implementation("sdpa")
    assert sdpa is ALL_ATTENTION_FUNCTIONS["sdpa"]
    assert own == model.config.to_dict()


def check_scores(model, trace, path):
    """A file of scores ranks as its press keeps."""
    for text, bound in (
        ("SnapKVPress(0.5, 16, 7)", False),
        ("AdaKVPress(SnapKVPress(0.5, 16, 7))", False),
        ("KVzipPress()", False),
        ("StreamingLLMPress(0.5)", True),
    ):
        found = from_scorer(model, make_press(text), trace, path, text)
        read = read_scores(path)
        assert found.bound == bound == ("alone" in read["scorer"]), text
        assert {*read["scores"]} == {*trace.layers}, text
        if text.startswith("Snap"):
            snap = read["scores"]
    tokens = np.asarray(trace.tokens, np.int64)[None, : trace.prompt_len]
    ids = torch.as_tensor(tokens)
    for ratio in 0.5, 0.8:
        _, held = after(model, ids, SnapKVPress(ratio, 16, 7), 0, 0)
        _, full = after(model, ids, None, 0, 0)
        n = held[0][0].shape[2]
        for (l, g), x in rows_of(held).items():
            rows = full[l][0][0, g].numpy()
            best = np.argsort(-snap[l][g], kind="stable")[:n]
            assert x == {rows[t].tobytes() for t in best}, (ratio, l, g)
    try:
        from_scorer(model, make_press("ThinKPress(0.5)"), trace, path)
    except ValueError as e:
        assert "scores no tokens" in str(e), e
    else:
        raise AssertionError("ThinKPress has no scores")


def check(model, folder, trace, path):
    """All checks. trace: of the model, in binary32."""
    ids = torch.as_tensor(np.asarray(trace.tokens, np.int64)[None])
    ids = ids[:, : trace.prompt_len]
    check_full(model, ids)
    check_kept(model, ids)
    check_coded(model, ids)
    check_pipeline(model, folder)
    check_refused(model, ids)
    check_scores(model, trace, path)
