# SPDX-License-Identifier: Apache-2.0
"""A trace of a Hugging Face model: q and k after RoPE, v and the output of
every layer of one forward, as torch's own attention computed it.

    python capture_hf.py MODEL TEXT.txt OUT.safetensors 64

The text is the prompt, and 64 tokens that the model adds, greedily, are the
decode steps. In a program of your own, of any tokens [1, T]:

    capture(model, ids, prompt_len, "out.safetensors", source="my text")

Then `kvtrace check out.safetensors` computes the outputs again.
"""

import os
import sys

from hf_text import arguments, check_folder, go_on, load, read_text, require
from hf_text import run

if __name__ == "__main__":
    require("numpy", "torch", "transformers")

import torch
import transformers

from hf_model import attending, check_layers, check_plain, layer_of, need
from hf_model import register, rotation, to_numpy

sys.path.insert(1, os.path.join(os.path.dirname(__file__), ".."))
from kvtrace import write_trace  # noqa: E402


@torch.no_grad()
def capture(model, ids, prompt_len, path, /, **metadata):
    """Returns whether the rotation is in the trace, too."""
    layers, scales = {}, set()

    def attend(
        module, query, key, value, attention_mask, dropout=0.0, **kwargs
    ):
        kwargs["dropout"], layer = dropout, layer_of(module)
        check_plain(module, query, attention_mask, key.shape[2], kwargs)
        need(
            layer not in layers and key.shape[2] == query.shape[2],
            f"layer {layer} attends twice, or to other tokens than its own: "
            "take a decoder alone",
        )
        scale = kwargs.get("scaling")
        scales.add(query.shape[3] ** -0.5 if scale is None else float(scale))
        out = torch_attention(
            module, query, key, value, attention_mask, **kwargs
        )
        x = dict(q=query, k=key, v=value, o=out[0].transpose(1, 2))
        layers[layer] = {y: to_numpy(x[y]) for y in x}
        return out

    check_folder(path)
    check_layers(model)
    torch_attention = register("kvcapture", attend)
    with attending(model, "kvcapture") as decoder:
        decoder(input_ids=ids, use_cache=False)
    need(
        layers,
        "the model attends by itself, not by transformers' attention "
        "interface, so its attention cannot be seen: take another model",
    )
    need(len(scales) == 1, f"scales {scales}: a trace has one")
    freq, paired, factor = rotation(model)
    if freq is not None:
        metadata["rope.layout"] = "interleaved" if paired else "half"
        metadata["rope.scale"] = factor
    metadata["attn.scale"] = scales.pop()
    metadata["n_layers"] = model.config.get_text_config().num_hidden_layers
    metadata["recorder"] = f"transformers {transformers.__version__}"
    tokens = ids[0].cpu().numpy()
    write_trace(path, layers, prompt_len, None, tokens, None, freq, metadata)
    return freq is not None


def main():
    a = arguments(__doc__, "model", "text", "out", new=64)
    check_folder(a.out)
    model, _, ids = load(a.model, read_text(a.text))
    n, ids = ids.shape[1], go_on(model, ids, a.new)
    if not capture(model, ids, n, a.out, model=a.model):
        print(
            f"{a.out} is without RoPE: not every layer turns whole heads by "
            "frequencies that stand still. Methods that re-index are refused "
            "on it, all others run.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(run(main))
