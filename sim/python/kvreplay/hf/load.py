# SPDX-License-Identifier: Apache-2.0
"""Loads models and tokenizers from folders, GGUF files or a hub, and generates
greedily. A bad model is a ValueError. Needs torch and transformers."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any, Iterator

import torch
import transformers

from ..container import load as load_file
from ..need import need

DTYPES = {
    "auto": "auto",
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
# Weights that a checkpoint can lack, because models compute them.
MADE = "inv_freq", "rotary", "masked_bias", "attn.bias"

TOKENIZERS = "tokenizer.", "vocab", "merges.", "spiece", "tekken"


def source_of(name: str) -> tuple[str, dict[str, str]]:
    """Folder or name, and from_pretrained()'s arguments for a GGUF file."""
    if not name.endswith(".gguf"):
        return name, {}
    need(os.path.isfile(name) or not os.path.isabs(name), name, "no such file")
    folder, file = os.path.split(name)
    return folder or ".", {"gguf_file": file}


def name_of(model: str) -> str:
    """A model's readable name: that of its folder or file, the hub's name for a
    folder in the hub's cache, else `model` itself."""
    path = os.path.abspath(model)
    if not os.path.exists(path):
        return model
    cached = re.search(r"/models--([^/]+)--([^/]+)/snapshots/", path + "/")
    if cached:
        return "/".join(cached.groups())
    return os.path.basename(path).removesuffix(".gguf")


def check_model(name: str, tokenizer: bool = True) -> None:
    """Checks a local folder for errors that transformers explains badly."""
    if not os.path.isdir(name):
        need(name.count("/") < 2 and name[:1] not in "./~", name,
             "no such folder; give a model's folder, a .gguf file or a hub "
             "name")  # fmt: skip
        return
    config = os.path.join(name, "config.json")
    need(os.path.isfile(config), name, "the folder has no config.json; give a "
         "model's folder as transformers saves it, or a .gguf "
         "file")  # fmt: skip
    names = sorted(os.listdir(name))
    need(not tokenizer or any(
        x.startswith(TOKENIZERS) or x.endswith(".model") for x in names),
         name, "the folder has no tokenizer (tokenizer.json, ...); copy the "
         "model's tokenizer into it")  # fmt: skip
    for file in names:
        if file.endswith(".safetensors"):
            load_file(os.path.join(name, file))  # checks its length


def said(e: BaseException) -> str:
    """The message in one line, without transformers' long advice."""
    return " ".join(str(e).split())[:300]


def hush() -> None:
    """Silences transformers' warnings and progress bars."""
    library: Any = transformers
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a folder, a GGUF file or a hub name."""
    hush()
    where, more = source_of(name)
    return transformers.AutoTokenizer.from_pretrained(where, **more)


def load(
    name: str,
    dtype: str | torch.dtype = "auto",
    device: str | None = None,
    tokenizer: bool = True,
    **more: Any,
) -> tuple[Any, Any]:
    """The model, ready to run, and its tokenizer (None if not wanted). dtype: a
    key of DTYPES, or torch's. more: for from_pretrained()."""
    hush()
    library: Any = transformers
    where, file = source_of(name)
    if not file:
        check_model(where, tokenizer)
    make = library.AutoModelForCausalLM.from_pretrained
    try:
        tokens = load_tokenizer(name) if tokenizer else None
        model, info = make(
            where, dtype=DTYPES.get(str(dtype), dtype),
            output_loading_info=True,
            **file, **more)  # fmt: skip
    except (ImportError, MemoryError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as e:  # of any library that reads models
        raise ValueError(f"{name}: cannot load the model: {said(e)}") from e
    lacks = sorted(
        x for x in info["missing_keys"] if not any(y in x for y in MADE)
    )
    need(not lacks, name, f"has no weights {lacks[0] if lacks else ''} (",
         len(lacks), " in all), and would be random without them; give the "
         "whole checkpoint")  # fmt: skip
    if device:
        try:
            model = model.to(device)
        except torch.cuda.OutOfMemoryError:
            raise
        except (RuntimeError, AssertionError) as e:
            raise ValueError(f"--device {device}: {said(e)}") from None
    return model.eval(), tokens


def limits(name: str) -> tuple[int, int | None]:
    """The size of the vocabulary, and how many positions a model has, by its
    configuration alone."""
    hush()
    where, more = source_of(name)
    if not more:
        check_model(where)
    config: Any = transformers.AutoConfig
    own = config.from_pretrained(where, **more).get_text_config()
    return own.vocab_size, getattr(own, "max_position_embeddings", None)


def ends_of(model: Any) -> list[int]:
    """The tokens that end a model's text."""
    ends = model.generation_config.eos_token_id
    return [ends] if isinstance(ends, int) else [*(ends or ())]


@contextlib.contextmanager
def bare(model: Any) -> Iterator[None]:
    """Within this context, generation ignores the checkpoint's settings:
    repetition penalties, suppressed and forced tokens, minimum lengths,
    sampling. Only the end and padding tokens stay."""
    own, ends = model.generation_config, ends_of(model)
    pad = own.pad_token_id
    config: Any = transformers.GenerationConfig
    model.generation_config = config(
        eos_token_id=ends or None, bos_token_id=own.bos_token_id,
        pad_token_id=pad if pad is not None else min(ends, default=0),
        do_sample=False, num_beams=1)  # fmt: skip
    try:
        yield
    finally:
        model.generation_config = own


def greedy(model: Any, ids: torch.Tensor, new: int) -> Any:
    """ids [sequences, n], each followed by at most `new` greedy tokens."""
    if not new:
        return ids
    with torch.no_grad(), bare(model):
        mask = torch.ones_like(ids)
        return model.generate(ids, attention_mask=mask, max_new_tokens=new)
