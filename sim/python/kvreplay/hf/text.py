# SPDX-License-Identifier: Apache-2.0
"""The command lines of the modules that run a Hugging Face model: a text as
its tokens, and failures as one sentence and an exit code of kvreplay (2 a
wrong command line, 3 a bad model, text or trace, 4 a missing package). Needs
neither torch nor transformers until a model is loaded."""

import argparse
import importlib.util
import os
import sys
import unicodedata


# Options of programs that record: {name: help}.
NAME = {"name": "what the model is called in the trace (default: MODEL)"}


def arguments(doc, *names, options=(), flags=(), **last):
    """The command line: texts by name, then texts and numbers that have a
    default; options are texts, None where not given; flags are given or not."""
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in names:
        p.add_argument(name)
    for name, default in last.items():
        kind = type(default)
        p.add_argument(name, nargs="?", type=kind, default=default)
    for name in options:
        p.add_argument("--" + name, help=options[name])
    for name in flags:
        p.add_argument("--" + name, action="store_true", help=flags[name])
    a = p.parse_args()
    for name, x in vars(a).items():
        if isinstance(x, int) and x < 0:
            p.error(f"{name} is {x}: give 0 or more")
    return a


def program():
    """What the program is called: of a package its name, not __main__.py."""
    folder, name = os.path.split(sys.argv[0])
    return os.path.basename(folder) if name == "__main__.py" else name


def require(*packages):
    """Leaves the program where one is missing: 4 and a sentence."""
    missing = [x for x in packages if importlib.util.find_spec(x) is None]
    if missing:
        name, which = program(), " ".join(missing)
        print(f"{name}: needs {which}: pip install {which}", file=sys.stderr)
        sys.exit(4)


def run(main):
    """main(), and the exit code of the program."""
    name = program()
    try:
        main()
        return 0
    except ImportError as e:
        code, said = 4, str(e)
    except IndexError as e:
        code, said = 3, f"{e}: more tokens than the model has places for?"
    except (OSError, ValueError, NotImplementedError) as e:
        code, said = 3, str(e)
    except Exception as e:  # of the session: it has its code
        code, said = getattr(e, "code", None), str(e)
        if not isinstance(code, int):
            raise
    print(f"{name}: {' '.join(said.split())}", file=sys.stderr)
    return 3 if code == 6 else code


def check_folder(*paths):
    """Before anything is computed: is there a folder to write each into?"""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            raise ValueError(f"{path}: there is no folder {folder}: make it")
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name a file in it")


def plain(text):
    """A text without what tokenizers may change and document: blanks, case,
    accents and compatible forms of characters."""
    text = unicodedata.normalize("NFKD", text.casefold())
    return "".join(
        x for x in text if not (x.isspace() or unicodedata.combining(x))
    )


def encode(name, tokenizer, text, size, special=True):
    """The tokens [1, n] of the text, which must come back from them: a folder
    without its tokenizer may load as one that loses what it is given."""
    bare = tokenizer(text, add_special_tokens=False)["input_ids"]
    want, back = plain(text), plain(tokenizer.decode(bare))
    if want != back:
        n = len(os.path.commonprefix([want, back]))
        raise ValueError(
            f"{name}: the tokenizer loses the text: {want[n : n + 20]!r} comes "
            f"back as {back[n : n + 20]!r}; give the folder of a model with "
            "the tokenizer that it was trained with"
        )
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=special)
    ids = ids["input_ids"]
    if not ids.shape[1]:
        raise ValueError("the text has no token: give a longer one")
    if int(ids.max()) >= size:
        raise ValueError(
            f"{name}: the tokenizer gives token {int(ids.max())}, the model "
            f"has {size}: give a model with its own tokenizer"
        )
    return ids


def load(name, text, **more):
    """The model in a folder, its tokenizer, and a text as its tokens; without
    a text None for both."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(name, **more).eval()
        if text is None:
            return model, None, None
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as e:
        raise ValueError(f"{name}: no model that loads: {e}") from e
    size = model.get_input_embeddings().weight.shape[0]
    return model, tokenizer, encode(name, tokenizer, text, size)


def go_on(model, ids, new):
    """The ids [1, n] and `new` tokens that the model adds, greedily."""
    if not new:
        return ids
    mask = ids.new_ones(ids.shape)
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=new, do_sample=False
    )


def read_text(path):
    """A file in UTF-8."""
    with open(path, encoding="utf-8") as f:
        return f.read()
