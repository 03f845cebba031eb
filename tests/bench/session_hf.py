# SPDX-License-Identifier: Apache-2.0
"""session_hf.py [MODEL...]: CPU seconds of one thread that a Hugging Face model
takes on a dense session (kvreplay.hf.session) and on its own eager attention,
the tokens being the same: of a prompt and of 64 decode steps; of ten questions
on one context, whose cache is forked for each, against a prompt and ten times
the decoding. And what a fork takes, against copying its bytes. Of the model in
traces/tiny, or of each MODEL (a folder, a .gguf). Needs torch, transformers and
KVREPLAY_LIBRARY.
"""
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from kvreplay.hf.load import load  # noqa: E402
from kvreplay.hf.model import decoder_of, with_cache  # noqa: E402
from kvreplay.hf.session import SessionCache  # noqa: E402
from transformers import DynamicCache  # noqa: E402

torch.set_num_threads(1)
RUNS, NEW, QUESTIONS = 3, 64, 10


def caches(model, session, room):
    """An empty cache, the attention that goes with it being set."""
    model.set_attn_implementation("kvsession" if session else "eager")
    return SessionCache(model, "dense", room=room) if session else (
        DynamicCache(config=model.config))


def forward(model, ids, cache):
    more = with_cache(decoder_of(model), cache)
    return model(ids, use_cache=True, **more).logits[:, -1:].argmax(-1)


def timed(call, *args):
    begin = time.process_time()
    out = call(*args)
    return time.process_time() - begin, out


def decode(model, token, cache):
    out = [token]
    for _ in range(NEW):
        out.append(forward(model, out[-1], cache))
    return torch.cat(out, 1)


def questions(model, ids, cache):
    """A context once; a fork a question, each of which decodes."""
    token = forward(model, ids, cache)
    for _ in range(QUESTIONS):
        with cache.fork() as own:
            decode(model, token, own)


def least(best, key, seconds):
    best[key] = min(seconds, best.get(key, seconds))


@torch.no_grad()
def compare(name, model, n):
    ids, best = torch.randint(3, 250, (1, n)), {}
    for _ in range(RUNS):
        said = []
        for session in False, True:
            cache = caches(model, session, n + NEW + 1)
            a, token = timed(forward, model, ids, cache)
            least(best, ("prompt", session), a)
            if session:
                least(best, "fork", timed(cache.fork)[0])
                held = cache.session.ledger()["payload"]
                rows = np.ones(held, np.uint8)
                least(best, "copy", timed(rows.copy)[0])
            b, out = timed(decode, model, token, cache)
            least(best, ("steps", session), b)
            said.append(out)
        assert torch.equal(*said), "other tokens"
        cache = caches(model, True, n + NEW + 1)
        least(best, "ten", timed(questions, model, ids, cache)[0])
    for what in "prompt", "steps":
        own, ours = (best[what, x] for x in (False, True))
        print(f"{name}, {n} tokens and {NEW}: {what} eager {own:.2f} s, "
              f"session {ours:.2f} s, {ours / own:.2f} x")
    once = best["prompt", True] + QUESTIONS * best["steps", True]
    print(f"{name}, {n}: {QUESTIONS} questions {best['ten']:.2f} s, "
          f"{best['ten'] / once:.2f} x a prompt and ten decodings; a fork "
          f"{1e3 * best['fork']:.1f} ms, {best['fork'] / best['copy']:.1f} x "
          f"copying {held / 1e6:.1f} MB", flush=True)


torch.manual_seed(0)
tiny = os.path.join(os.path.dirname(__file__), "../../traces/tiny/model")
for name in sys.argv[1:] or [tiny]:
    model = load(name, torch.float32, tokenizer=False)[0]
    most = model.config.max_position_embeddings
    for n in (512, 900) if most < 2048 else (512, 2048):
        compare(os.path.basename(name), model, n)
