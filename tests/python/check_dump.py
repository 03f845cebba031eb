# SPDX-License-Identifier: Apache-2.0
"""traces/examples/dump_vllm.py with a stub of vLLM's interface: ranks serve a
trace, its prompt in pieces and then single steps, with padding rows and with
calls without a request. The dump packs into the same q, k, v and o. Uses
torch's tensors if Python has them, else made-up ones.

usage: check_dump.py KVTRACE FOLDER EXAMPLES
"""

import inspect
import json
import os
import shutil
import struct
import sys
import types

from check_pack import SIZE, pieces, read, run, token_major

try:
    import torch
except ImportError:
    torch = None


class Made:
    """The part of a tensor's interface that the dump uses."""

    def __init__(self, data, shape, dtype):
        self.bytes, self.shape, self.dtype = data, shape, dtype

    def reshape(self, _, heads, d):
        row = len(self.bytes) // self.shape[0]
        return Made(self.bytes, (len(self.bytes) // row, heads, d), self.dtype)

    def __getitem__(self, cut):
        row = len(self.bytes) // self.shape[0]
        return Made(self.bytes[:cut.stop * row], (cut.stop, *self.shape[1:]),
                    self.dtype)

    def detach(self):
        return self

    def view(self, _):
        return self

    contiguous = cpu = numpy = detach

    @property
    def data(self):
        return self.bytes


def tensor(data, tokens, width, dtype):
    """[tokens, heads * d], the layout of q, k and v in vLLM's models."""
    name = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}[dtype]
    if not torch:
        return Made(data, (tokens, width), "torch." + name)
    flat = torch.frombuffer(bytearray(data), dtype=getattr(torch, name))
    return flat.reshape(tokens, width)


class List(list):
    def float(self):
        return self

    def tolist(self):
        return list(self)


class Attention:
    def __init__(self, heads, kv_heads, d, window, softcap, sinks):
        self.num_heads, self.num_kv_heads = heads, kv_heads
        self.head_size = self.head_size_v = d
        self.sliding_window, self.kv_sharing_target_layer_name = window, None
        self.impl = types.SimpleNamespace(
            scale=0.125, logits_soft_cap=softcap, sinks=sinks,
            alibi_slopes=None)
        self.hooks = []

    def register_forward_hook(self, hook):
        self.hooks.append(hook)

    def __call__(self, query, key, value, output):
        for hook in self.hooks:
            hook(self, (query, key, value), output)


class RotaryEmbedding:
    head_size, is_neox_style, base = 64, True, 10000.0
    rotary_dim = 64

    def _compute_inv_freq(self, base):
        return types.SimpleNamespace(float=lambda: types.SimpleNamespace(
            cpu=lambda: List([1 / base ** (i / 64) for i in range(0, 64, 2)])))


CONTEXT = types.SimpleNamespace(attn_metadata=None)
RANK = [0]


def stub(dump):
    for name in "vllm", "vllm.distributed", "vllm.forward_context":
        sys.modules[name] = types.ModuleType(name)
    sys.modules["vllm.distributed"].get_tensor_model_parallel_rank = (
        lambda: RANK[0])
    sys.modules["vllm.forward_context"].get_forward_context = lambda: CONTEXT
    if not torch:
        sys.modules["torch"] = types.SimpleNamespace(uint8=None)

    class Worker(dump.Dump):  # like vLLM's worker_extension_cls
        def __init__(self, ranks, kv_heads, n_layers, layers, rope):
            self.parallel_config = types.SimpleNamespace(
                tensor_parallel_size=ranks)
            self.model_config = types.SimpleNamespace(
                get_total_num_kv_heads=lambda: kv_heads,
                hf_text_config=types.SimpleNamespace(
                    num_hidden_layers=n_layers))
            self.compilation_config = types.SimpleNamespace(
                static_forward_context=layers)
            self.modules = [*layers.values(), *rope]

        def get_model(self):
            return types.SimpleNamespace(modules=lambda: self.modules)

    return Worker


def serve(layers, tensors, at, first, n, pad):
    """A rank's forward: tokens first.. in every layer, and `pad` rows."""
    for name, module in layers.items():
        l = name.split(".")[2]
        given = []
        for x in "qkvo":
            whole = tensors[f"layers.{l}.{x}"]
            head, heads = at["q" if x in "qo" else "k"]
            width = heads * whole[1][2]
            data = token_major(whole, head, heads, first, n)
            data += b"\x7f" * (pad * width * SIZE[whole[0]])
            given.append(tensor(data, n + pad, width, whole[0]))
        module(*given)


def check(dump, path, folder, ranks, rope, windows, softcap, sinks):
    meta, tensors = read(path)
    heads, kv, d = (int(meta[x]) for x in ("n_heads", "n_kv_heads", "head_dim"))
    n_layers, prompt = int(meta["n_layers"]), int(meta["prompt_len"])
    tokens = tensors["layers.1.k"][1][1]
    recorded = sorted({int(x.split(".")[1]) for x in tensors if "layers" in x})
    Worker, workers = stub(dump), []
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for rank in range(ranks):
        RANK[0] = rank
        at = {"q": (rank * heads // ranks, heads // ranks),
              "k": (rank * kv // ranks, max(1, kv // ranks))}
        layers = {f"model.layers.{l}.self_attn.attn": Attention(
            at["q"][1], at["k"][1], d, windows[l], softcap,
            List(sinks(l)[at["q"][0]:][:at["q"][1]]) if sinks else None)
                  for l in recorded}
        other = {"model.layers.3.linear_attn": types.SimpleNamespace()}
        workers.append(Worker(ranks, kv, n_layers, {**other, **layers}, rope)
                       .dump_to(folder))
        CONTEXT.attn_metadata = None  # when vLLM measures its memory
        serve(layers, tensors, at, 0, 4, 0)
        for first, n in pieces(prompt, tokens, 50):
            one = types.SimpleNamespace(query_start_loc=[0, n],
                                        seq_lens=[first + n])
            CONTEXT.attn_metadata = dict.fromkeys(layers, one)
            serve(layers, tensors, at, first, n, 3)
    workers = json.loads(json.dumps(workers))  # as from other processes
    said = dump.trace_json(workers, list(range(tokens)), prompt, "stub")
    with open(f"{folder}/trace.json", "w") as f:
        json.dump(said, f)
    got = run(KVTRACE, "pack", "-q", folder)
    assert got.returncode == 0, got.stderr
    new, packed = read(folder + ".safetensors")
    for name, x in tensors.items():
        if name.startswith("layers."):
            assert packed[name] == x, name
    return new, packed


def check_refused(dump):
    """Two requests at once, and layers that a trace cannot hold."""
    for change, words in (
            (lambda x: setattr(x, "kv_sharing_target_layer_name", "y"),
             "another layer's KV cache"),
            (lambda x: setattr(x, "attention_chunk_size", 8192),
             "within chunks of 8192 tokens"),
            (lambda x: setattr(x, "kv_cache_dtype", "fp8_e4m3"),
             "KV cache in fp8_e4m3"),
            (lambda x: setattr(x, "kv_lora_rank", 512), "no layer here"),
            (lambda x: setattr(x.impl, "alibi_slopes", [1]), "biases")):
        module = Attention(2, 1, 64, None, 0, None)
        change(module)
        worker = stub(dump)(1, 1, 1, {"model.layers.0.attn": module}, [])
        try:
            worker.dump_to(".")
            assert False, words
        except ValueError as e:
            assert words in str(e), e
    module = Attention(2, 1, 64, None, 0, None)
    stub(dump)(1, 1, 1, {"model.layers.0.attn": module}, []).dump_to(".")
    CONTEXT.attn_metadata = {"model.layers.0.attn": types.SimpleNamespace(
        query_start_loc=[0, 1, 2], seq_lens=[1, 1])}
    try:
        module(None, None, None, None)
        assert False, "two requests"
    except ValueError as e:
        assert "one request at a time" in str(e), e


def check_page(dump, page):
    """PACK.md shows the function tested here."""
    lines = inspect.getsource(dump.append).rstrip().splitlines()
    with open(page) as f:
        shown = f.read()
    assert "\n".join("    " + x if x else "" for x in lines) in shown, page


def main(examples):
    sys.path.insert(0, examples)
    import dump_vllm as dump

    check_page(dump, f"{examples}/../PACK.md")
    run(KVTRACE, "synth", "-q", "-o", "served.safetensors", "-t", "90", "--dim",
        "64", "--heads", "8", "--kv-heads", "2", "--layers", "4", "--record",
        "0,1,2", "--window", "16", "--full-every", "2", "--sinks", "--softcap",
        "30", "--output")
    meta, tensors = read("served.safetensors")

    def sinks(l):
        return struct.unpack("<8f", tensors[f"layers.{l}.sinks"][2])

    windows = json.loads("[" + meta["attn.sliding_window"].strip("[]") + "]")
    for ranks in 1, 4:
        new, packed = check(dump, "served.safetensors", f"dumped{ranks}", ranks,
                            [RotaryEmbedding()], windows, 30.0, sinks)
        assert new["version"] == "2" and float(new["attn.softcap"]) == 30, new
        assert json.loads(new["attn.sliding_window"]) == windows, new
        assert new["layers"] == "0,1,2" and new["rope.layout"] == "half", new
        assert packed["rope.inv_freq"][1] == [32], packed["rope.inv_freq"]
        got = run(KVTRACE, "check", f"dumped{ranks}.safetensors")
        assert got.returncode == 0, got.stdout + got.stderr
    check_refused(dump)


if __name__ == "__main__":
    import check_pack
    KVTRACE = check_pack.KVTRACE = os.path.abspath(sys.argv[1])
    examples = os.path.abspath(sys.argv[3])
    os.chdir(sys.argv[2])
    main(examples)
    print("torch's tensors" if torch else "made-up tensors")
