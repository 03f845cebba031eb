#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM under tensor parallelism writes what its attention layers see, for

    kvtrace pack FOLDER

usage: dump_vllm.py MODEL PROMPT.txt FOLDER [RANKS [MAX_NEW]]

Never run inside vLLM: it follows the source of vLLM's v1 engine
(model_executor/layers/attention/attention.py of commit 71169c16e, the metadata
of v1/attention/backends/triton_attn.py of 001ceb3e9, which flash_attn.py has,
too, and worker_extension_cls) and is tested against a stub of that interface.
`append` is all that another engine needs; traces/PACK.md has the format.

One request at a time, in eager mode, without prefix caching: hooks see no
compiled graph, and no tokens that were computed earlier. Refused are layers
that read another layer's KV cache, add biases (ALiBi) or attend within chunks
(Llama 4), for which a trace has no words, and a KV cache in FP8, whose outputs
are of rounded K and V that hooks do not see. Layers without a KV cache of heads
(a state, latent attention) are left out.
"""

import json
import os
import re
import struct
import sys


def append(path, start, q, k, v, o=None, **line):
    """Appends tokens from `start` on to the file of a rank and layer, each a
    tensor [tokens, heads, d] of torch. line: layer; head and kv_head, the first
    of this rank's heads; sinks, where the model has some."""
    import torch

    with open(path, "ab") as f:
        if f.tell() == 0:
            line.update(dtype=str(q.dtype), heads=q.shape[1], o=o is not None)
            line.update(kv_heads=k.shape[1], head_dim=q.shape[2])
            line.update(value_dim=v.shape[2])
            f.write(json.dumps(line).encode() + b"\n")
        f.write(struct.pack("<qq", start, q.shape[0]))
        for x in (q, k, v) if o is None else (q, k, v, o):
            x = x.detach().contiguous().view(torch.uint8)
            f.write(x.cpu().numpy().data)


class Dump:
    """What vLLM adds to each of its workers (worker_extension_cls)."""

    def dump_to(self, folder):
        """Hooks this rank's layers; returns what it knows of them."""
        from vllm.distributed import get_tensor_model_parallel_rank

        rank = get_tensor_model_parallel_rank()
        ranks = self.parallel_config.tensor_parallel_size
        kv_heads = self.model_config.get_total_num_kv_heads()
        found = {
            "n_layers": self.model_config.hf_text_config.num_hidden_layers,
            "n_kv_heads": kv_heads,
            "layers": {},
            **self.dump_rope(),
        }
        all_layers = self.compilation_config.static_forward_context
        for name, module in all_layers.items():
            if not hasattr(module, "num_kv_heads") or hasattr(
                module, "kv_lora_rank"
            ):
                continue
            if getattr(module, "kv_sharing_target_layer_name", None):
                raise ValueError(f"{name} reads another layer's KV cache")
            if getattr(module.impl, "alibi_slopes", None) is not None:
                raise ValueError(f"{name} adds biases to its logits")
            if getattr(module, "attention_chunk_size", None):
                raise ValueError(
                    f"{name} attends within chunks of "
                    f"{module.attention_chunk_size} tokens, which no trace says"
                )
            kind = getattr(module, "kv_cache_dtype", "auto")
            if kind not in ("auto", "float16", "bfloat16", "float32"):
                raise ValueError(
                    f"{name} has its KV cache in {kind}: serve the model with "
                    "kv_cache_dtype='auto'"
                )
            layer = int(re.search(r"\.(\d+)\.", name)[1])
            sinks = getattr(module.impl, "sinks", None)
            line = {"layer": layer, "head": rank * module.num_heads}
            # A KV head that several ranks have: each of them writes it.
            line["kv_head"] = rank * kv_heads // ranks
            if sinks is not None:
                line["sinks"] = sinks.float().tolist()
            path = f"{folder}/layer{layer}.rank{rank}.chunks"
            module.register_forward_hook(hook(name, path, line))
            found["n_heads"] = module.num_heads * ranks
            found["layers"][str(layer)] = {
                "window": module.sliding_window or 0,
                "softcap": getattr(module.impl, "logits_soft_cap", 0) or 0,
                "scale": module.impl.scale,
                "head_dim": module.head_size,
            }
        if not found["layers"]:
            raise ValueError("no layer here has a KV cache of heads")
        return found

    def dump_rope(self):
        """Frequencies, where one rotary embedding turns whole heads by those
        that it computes; others scale them further."""
        ropes = {
            id(x): x
            for x in self.get_model().modules()
            if type(x).__name__.endswith("RotaryEmbedding")
        }
        if len(ropes) != 1:
            return {}
        (x,) = ropes.values()
        plain = type(x).__name__ in ("RotaryEmbedding", "Llama3RotaryEmbedding")
        if not plain or x.rotary_dim != x.head_size:
            return {}
        layout = "half" if x.is_neox_style else "interleaved"
        frequencies = x._compute_inv_freq(x.base).float().cpu().tolist()
        return {"rope.layout": layout, "rope.inv_freq": frequencies}


def hook(name, path, line):
    from vllm.forward_context import get_forward_context

    def after(module, given, output):
        meta = get_forward_context().attn_metadata
        if meta is None:  # vLLM measures its memory, or warms up
            return
        if isinstance(meta, dict):
            meta = meta[name]
        if len(meta.query_start_loc) != 2:
            raise ValueError("one request at a time: max_num_seqs=1")
        n = int(meta.query_start_loc[1])  # without padding
        heads, kv, d = module.num_heads, module.num_kv_heads, module.head_size
        d_v = getattr(module, "head_size_v", d)
        q, k, v, o = (
            x.reshape(-1, *size)[:n]
            for x, size in zip(
                (*given[:3], output),
                ((heads, d), (kv, d), (kv, d_v), (heads, d_v)),
            )
        )
        append(path, int(meta.seq_lens[0]) - n, q, k, v, o, **line)

    return after


def trace_json(workers, tokens, prompt_len, model):
    """What no rank knows, and what all of them say alike."""
    layers = {}
    for x in workers:  # of pipeline parallelism each has its own
        layers.update({int(l): y for l, y in x["layers"].items()})
    one, first = workers[0], layers[min(layers)]
    for l, x in layers.items():
        for key in "scale", "softcap", "head_dim":
            if x[key] != first[key]:
                raise ValueError(f"layer {l} has another {key}")
    n = one["n_layers"]
    windows = [layers[l]["window"] if l in layers else 0 for l in range(n)]
    return {
        "model": model,
        "recorder": "dump_vllm.py",
        **{x: one[x] for x in ("n_layers", "n_heads", "n_kv_heads")},
        **{x: y for x, y in one.items() if x.startswith("rope.")},
        "head_dim": first["head_dim"],
        "attn.scale": first["scale"],
        "attn.softcap": first["softcap"] or None,
        "attn.sliding_window": windows if any(windows) else None,
        "prompt_len": prompt_len,
        "tokens": tokens,
        "layers": sorted(layers),
    }


def main(model, prompt, folder, ranks="1", new="64"):
    # Workers import this file by its name.
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = here + (os.pathsep + path if path else "")
    from vllm import LLM, SamplingParams

    os.makedirs(folder)  # a new one: chunks are appended
    folder = os.path.abspath(folder)
    llm = LLM(
        model,
        tensor_parallel_size=int(ranks),
        enforce_eager=True,
        enable_prefix_caching=False,
        max_num_seqs=1,
        worker_extension_cls="dump_vllm.Dump",
    )
    workers = llm.collective_rpc("dump_to", args=(folder,))
    with open(prompt, encoding="utf-8") as f:
        how = SamplingParams(temperature=0, max_tokens=int(new))
        (got,) = llm.generate([f.read()], how)
    prompt = got.prompt_token_ids
    # The last token is never attended from: nothing was computed of it.
    tokens = [*prompt, *got.outputs[0].token_ids][:-1]
    said = trace_json(workers, tokens, len(prompt), model)
    with open(f"{folder}/trace.json", "w") as f:
        json.dump(said, f)
    print(f"kvtrace pack {folder}")


if __name__ == "__main__":
    if not 4 <= len(sys.argv) <= 6:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
