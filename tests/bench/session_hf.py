# SPDX-License-Identifier: Apache-2.0
"""session_hf.py [MODEL]: CPU seconds of one thread that generating takes on a
dense session (kvreplay.hf.session), and on the model's own eager
attention, the tokens being the same. Of the model in traces/tiny, or MODEL; and
of a Llama of random weights. Needs torch, transformers and KVREPLAY_LIBRARY.
"""
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from kvreplay.hf.session import SessionCache  # noqa: E402
from kvreplay.hf.text import load  # noqa: E402

torch.set_num_threads(1)
RUNS, NEW = 3, 32


def seconds(model, ids, session):
    model.set_attn_implementation("kvsession" if session else "eager")
    more = {}
    if session:
        room = ids.shape[1] + NEW
        more["past_key_values"] = SessionCache(model, "dense", room=room)
    begin = time.process_time()
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), min_new_tokens=NEW,
        max_new_tokens=NEW, do_sample=False, **more)
    return time.process_time() - begin, out


@torch.no_grad()
def compare(name, model, n):
    torch.manual_seed(0)
    ids, best = torch.randint(3, 250, (1, n)), {}
    for i in range(RUNS):
        eager, want = seconds(model, ids, False)
        session, got = seconds(model, ids, True)
        assert torch.equal(want, got), "other tokens"
        best[0] = min(eager, best.get(0, eager))
        best[1] = min(session, best.get(1, session))
    print(f"{name}: {n} tokens and {NEW}: eager {best[0]:.2f} s, session "
          f"{best[1]:.2f} s, {best[1] / best[0]:.2f} x", flush=True)


def random_llama():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048,
        num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4,
        head_dim=64, pad_token_id=0, max_position_embeddings=4096)
    return transformers.LlamaForCausalLM(config).eval()


name = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
    os.path.dirname(__file__), "../../traces/tiny/model")
for n in 512, 900:
    compare(os.path.basename(name), load(name, None)[0], n)
for n in 512, 2048:
    compare("Llama, 97 M random weights", random_llama(), n)
