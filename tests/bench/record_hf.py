# SPDX-License-Identifier: Apache-2.0
"""record_hf.py [TOKENS]: CPU seconds of one thread that recording a prompt of a
Llama of 106 million random weights takes (kvreplay.record, to memory, without
column sums), those of its plain forward, and by how much memory grows above it;
then the same with 256 rows and column sums. Needs torch, transformers, the
package and KVREPLAY_LIBRARY.
"""

import os
import resource
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402

from kvreplay.record.layers import Layers  # noqa: E402
from kvreplay.record.request import Request  # noqa: E402
from kvreplay.record.write import record  # noqa: E402

torch.set_num_threads(1)
RUNS, PATH = 3, f"/dev/shm/record_hf.{os.getpid()}.safetensors"


def llama():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048,
        num_hidden_layers=9, num_attention_heads=12, num_key_value_heads=4,
        head_dim=64, pad_token_id=0, max_position_embeddings=4096)
    return transformers.LlamaForCausalLM(config).eval()


def seconds(run):
    begin = time.process_time()
    run()
    return time.process_time() - begin


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.no_grad()
def main(n):
    model = llama()
    ids = torch.randint(3, 250, (1, n))
    layers, request = Layers(model, ids), Request(None, ids[0].tolist(), n)
    layers.rotation(range(layers.n))
    best, plain = {}, lambda: model.get_decoder()(ids, use_cache=False)
    ways = dict(
        forward=plain,
        recorded=lambda: record(model, layers, [request], [PATH],
                                metadata=[{}]),
        sums=lambda: record(model, layers, [request], [PATH], rows=256,
                            metadata=[{}]))
    for name, run in ways.items():
        before = peak()
        for _ in range(RUNS):
            best[name] = min(seconds(run), best.get(name, 1e9))
        if name != "forward":
            size = os.path.getsize(PATH) / 2**20
            os.unlink(PATH)
            print(f"{name}: {n} tokens, {size:.0f} MiB, "
                  f"{best[name]:.2f} s, {best[name] / best['forward']:.2f} x "
                  "forward, "
                  f"memory + {peak() - before:.0f} MiB", flush=True)
        else:
            x = sum(x.numel() for x in model.parameters()) / 1e6
            print(f"forward of {x:.0f} M: {best[name]:.2f} s", flush=True)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 2048)
