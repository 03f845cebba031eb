# SPDX-License-Identifier: Apache-2.0
"""tokenizer.py MODEL_DIR: writes the tokenizer of kvtiny-6l for AutoTokenizer,
tokenizer.json and tokenizer_config.json, with Python alone.

Its tokens are the bytes of UTF-8, so every text comes back as it was; 256 is
put before a text. 257 and 258 are the end and the padding of config.json, 259
is unused: the model has met none of the three. A byte is written as the
character that GPT-2's byte-level BPE gives it; there are no merges.
"""

import json
import os
import sys

NAMES = {256: "<bos>", 257: "<eos>", 258: "<pad>", 259: "<unused>"}


def byte_names():
    """{character: byte}: visible Latin-1 as itself, the rest from U+0100 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [x for x in range(256) if x not in seen]
    names = {chr(x): x for x in seen}
    names.update({chr(256 + i): x for i, x in enumerate(rest)})
    return dict(sorted(names.items(), key=lambda x: x[1]))


def tokenizer():
    token = dict(single_word=False, lstrip=False, rstrip=False)
    token.update(normalized=False, special=True)
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True)
    level["use_regex"] = False
    bos, text, pair = (
        {"SpecialToken": dict(id="<bos>", type_id=0)},
        *({"Sequence": dict(id=x, type_id=0)} for x in "AB"),
    )
    return dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=[dict(id=x, content=NAMES[x], **token) for x in NAMES],
        normalizer=None,
        pre_tokenizer=level,
        post_processor=dict(
            type="TemplateProcessing",
            single=[bos, text],
            pair=[bos, text, pair],
            special_tokens={
                "<bos>": dict(id="<bos>", ids=[256], tokens=["<bos>"])
            },
        ),
        decoder=level,
        model=dict(
            type="BPE",
            dropout=None,
            unk_token=None,
            continuing_subword_prefix=None,
            end_of_word_suffix=None,
            fuse_unk=False,
            byte_fallback=False,
            ignore_merges=False,
            vocab={**byte_names(), **{y: x for x, y in NAMES.items()}},
            merges=[],
        ),
    )


def config():
    return dict(
        tokenizer_class="PreTrainedTokenizerFast",
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        model_max_length=1024,
        clean_up_tokenization_spaces=False,
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, x in (
        ("tokenizer", tokenizer()),
        ("tokenizer_config", config()),
    ):
        path = os.path.join(sys.argv[1], name + ".json")
        with open(path, "w", encoding="ascii") as f:
            f.write(json.dumps(x, indent=1) + "\n")
