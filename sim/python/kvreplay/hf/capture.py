# SPDX-License-Identifier: Apache-2.0
"""A trace of a Hugging Face model: q and k after RoPE, v and the output of
every layer of one forward, as torch's own attention computed it.

    python -m kvreplay.hf.capture MODEL TEXT.txt OUT.safetensors 64

The text is the prompt, and 64 tokens that the model adds, greedily, are the
decode steps. --name is what the model is called in the trace, else MODEL as it
is typed; what it is (model_digest) is written beside it. In a program of your
own, of any tokens [1, T]:

    capture(model, ids, prompt_len, "out.safetensors", source="my text")

Then `kvtrace check out.safetensors` computes the outputs again.
"""

import sys

from .text import NAME, arguments, check_folder, go_on, load, read_text
from .text import require, run

if __name__ == "__main__":
    require("numpy", "torch", "transformers")

import torch
import transformers

from ..trace import read_trace, write_trace
from .identity import model_digest
from .model import attending, layer_of, need, register, rotation, to_numpy
from .plain import STATES, TYPES, agreeing, check_ids, check_layers
from .plain import check_plain, check_turned_once

# Of a trace's metadata: what is written here, or by write_trace.
WRITTEN = set(
    "format version layers n_layers n_heads n_kv_heads head_dim prompt_len "
    "attn.scale rope.layout rope.scale recorder model_digest".split()
)


def check_asked(model, ids, prompt_len, path, metadata):
    """What can be told before anything is computed."""
    check_folder(path)
    given = sorted(WRITTEN & {*metadata})
    need(
        not given,
        f"metadata {', '.join(given)}: is what the recorder finds and writes "
        "itself, and cannot be given",
    )
    check_layers(model, TYPES | STATES)
    check_ids(ids, prompt_len)
    check_turned_once(model, prompt_len, ids.shape[1])


def rows_of(model, ids, wanted):
    """{layer: {q, k, v, o}} of one forward: of those layers alone."""
    layers = {}

    def attend(
        module, query, key, value, attention_mask, dropout=0.0, **kwargs
    ):
        kwargs["dropout"], layer = dropout, layer_of(module)
        out = torch_attention(
            module, query, key, value, attention_mask, **kwargs
        )
        if layer in wanted:
            check_plain(module, query, attention_mask, key.shape[2], kwargs)
            x = dict(q=query, k=key, v=value, o=out[0].transpose(1, 2))
            layers[layer] = {y: to_numpy(x[y]) for y in x}
        return out

    torch_attention = register("kvcapture", attend)
    with attending(model, "kvcapture") as decoder:
        decoder(input_ids=ids, use_cache=False)
    return layers


@torch.no_grad()
def capture(model, ids, prompt_len, path, /, **metadata):
    """Returns whether the rotation is in the trace, too. Where layers attend in
    several ways - two sizes of heads, some by no attention - those are recorded
    that agree, the most of them."""
    check_asked(model, ids, prompt_len, path, metadata)
    wanted, scale = agreeing(model, ids)
    layers = rows_of(model, ids, wanted)
    freq, paired, factor = rotation(model, wanted)
    if freq is not None:
        metadata["rope.layout"] = "interleaved" if paired else "half"
        metadata["rope.scale"] = factor
    metadata["attn.scale"] = scale
    metadata["n_layers"] = model.config.get_text_config().num_hidden_layers
    config = model.config.get_text_config()
    if getattr(config, "kv_lora_rank", None):  # expanded: no such cache is held
        metadata["attn.latent"] = config.kv_lora_rank + config.qk_rope_head_dim
    metadata["recorder"] = f"transformers {transformers.__version__}"
    digest = model_digest(model)
    if digest:
        metadata["model_digest"] = digest
    tokens = ids[0].cpu().numpy()
    write_trace(path, layers, prompt_len, None, tokens, None, freq, metadata)
    return freq is not None


def say(path, turned):
    """What of the model is not in the trace."""
    t = read_trace(path)
    if len(t.layers) < t.n_layers:
        print(
            f"{path} has {len(t.layers)} of {t.n_layers} layers, "
            f"{t.metadata['layers']}: the others attend by heads of another "
            "size or scale, or do not attend.",
            file=sys.stderr,
        )
    if not turned:
        print(
            f"{path} is without RoPE: not every layer turns whole heads by "
            "frequencies that stand still. Methods that re-index are refused "
            "on it, all others run.",
            file=sys.stderr,
        )


def main():
    a = arguments(__doc__, "model", "text", "out", options=NAME, new=64)
    check_folder(a.out)
    model, _, ids = load(a.model, read_text(a.text))
    n, ids = ids.shape[1], go_on(model, ids, a.new)
    say(a.out, capture(model, ids, n, a.out, model=a.name or a.model))


if __name__ == "__main__":
    sys.exit(run(main))
