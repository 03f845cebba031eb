# SPDX-License-Identifier: Apache-2.0
"""A model and its tokenizer, from a folder, a GGUF file or a hub's name; what
cannot be loaded is a ValueError of one sentence. Needs torch and transformers.
"""

import os

import torch
import transformers
from transformers.utils import logging

from ..container import load as load_file
from .prompts import need

DTYPES = {
    "auto": "auto",
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
# Weights that a checkpoint may lack: what is computed when a model is made.
MADE = "inv_freq", "rotary", "masked_bias", "attn.bias"

TOKENIZERS = "tokenizer.", "vocab", "merges.", "spiece", "tekken"


def source_of(name):
    """Folder or name, and what else from_pretrained() takes for a GGUF file."""
    if not name.endswith(".gguf"):
        return name, {}
    need(os.path.isfile(name) or not os.path.isabs(name), name, "no such file")
    folder, file = os.path.split(name)
    return folder or ".", {"gguf_file": file}


def check_folder(name):
    """Of a folder here, before transformers looks: what it says worst."""
    if not os.path.isdir(name):
        need(name.count("/") < 2 and name[:1] not in "./~", name,
             "there is no such folder")  # fmt: skip
        return
    config = os.path.join(name, "config.json")
    need(os.path.isfile(config), name, "the folder has no config.json: give "
         "that of a model as transformers saves it, or a .gguf")  # fmt: skip
    names = sorted(os.listdir(name))
    need(any(x.startswith(TOKENIZERS) or x.endswith(".model") for x in names),
         name, "the folder has no tokenizer (tokenizer.json, ...): copy that "
         "of the model into it")  # fmt: skip
    for file in names:
        if file.endswith(".safetensors"):
            load_file(os.path.join(name, file))  # as long as it says?


def said(e):
    """What transformers says, in one line without its advice."""
    return " ".join(str(e).split())[:300]


def load_tokenizer(name):
    where, more = source_of(name)
    return transformers.AutoTokenizer.from_pretrained(where, **more)


def load(name, dtype="auto", device=None):
    """The model, ready to record, and its tokenizer."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    where, more = source_of(name)
    if not more:
        check_folder(where)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, **more)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            where, dtype=DTYPES[dtype], output_loading_info=True, **more
        )
    except (ImportError, MemoryError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as e:  # of any library that reads one
        raise ValueError(f"{name}: no model that loads: {said(e)}") from e
    lacks = sorted(
        x for x in info["missing_keys"] if not any(y in x for y in MADE)
    )
    need(not lacks, name, f"has no weights {lacks[0] if lacks else ''} (",
         len(lacks), " in all), and a model without would be random: give its "
         "whole checkpoint")  # fmt: skip
    if device:
        try:
            model = model.to(device)
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, AssertionError) as e:
            raise ValueError(f"--device {device}: {said(e)}") from None
    return model.eval(), tokenizer
