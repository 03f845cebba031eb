#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds every causal model type of the installed transformers, small and with
random weights, and records it: layers and `kvtrace check`, or the sentence that
refuses it.

    types_hf.py KVTRACE [TYPE...]             one line per type
    types_hf.py KVTRACE --table TYPES.md      writes this version's column
    types_hf.py KVTRACE --part 18 TYPES.md    compares 18 types with it: one per
                                              kind of attention, and others that
                                              change with the recorder's files;
                                              a version without a column is
                                              compared with its neighbors

Uses each type's own configuration, with the sizes known to types_small.py
replaced. Exit 1: an exception that is no sentence, a failed check, or a result
that differs from the table; 77 without torch and transformers. Needs the
package on PYTHONPATH.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
try:
    import torch
    import transformers
except ImportError:
    print("types: needs torch and transformers")
    sys.exit(77)

from types_small import small  # noqa: E402

from kvreplay.record.layers import Layers  # noqa: E402
from kvreplay.record.request import Request  # noqa: E402
from kvreplay.record.write import record  # noqa: E402
from kvreplay.trace import read_trace  # noqa: E402
from transformers.models.auto.modeling_auto import (  # noqa: E402
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as TYPES,
)

TOKENS, PROMPT, SECONDS, MOST = 40, 32, 60, 30e6


class NotBuilt(Exception):
    """This configuration makes no model: a fault of the test."""


def late(*_):
    raise NotBuilt(f"not within {SECONDS} s")


def made(config):
    make = transformers.AutoModelForCausalLM.from_config
    with torch.device("meta"):
        n = sum(x.numel() for x in make(config).parameters())
    if n > MOST:
        raise NotBuilt(f"{n / 1e6:.0f} M numbers")
    return make(config).eval().float()


def build(kind):
    torch.manual_seed(5)
    try:
        config = small(transformers.CONFIG_MAPPING[kind])
        try:
            return made(config)
        except (AttributeError, TypeError):  # has encoders for images or sound:
            return made(config.get_text_config())  # its language model
    except NotBuilt:
        raise
    except Exception as e:
        said = " ".join(f"{type(e).__name__}: {e}".split())
        raise NotBuilt(said[:90]) from e


def features(t):
    """A trace's features of attention, in the table's words."""
    freq, rope = t.inv_freq, "no RoPE"
    if freq is not None:
        part = not freq.all() and freq.any()
        rope = "RoPE in part" if part else "RoPE"
    if t.windowed_inv_freq is not None:
        rope = "two RoPEs" if freq.any() else "RoPE in windows"
    seen = dict(
        windows=any(0 < t.windows[l] < t.n_tokens for l in t.layers),
        softcap=t.softcap, shared=t.shared,
        sinks=any(t.sinks(l) is not None for l in t.layers))  # fmt: skip
    return [rope, *(x for x in seen if seen[x])]


def result(kind, kvtrace, path):
    """A type's result, in the table's words."""
    model = build(kind)
    try:  # does it run at all, with its own attention?
        with torch.no_grad():
            ids = torch.randint(3, 90, (1, TOKENS))
            model(input_ids=ids)
    except Exception as e:
        said = " ".join(f"{type(e).__name__}: {e}".split())
        raise NotBuilt("runs not: " + said[:80]) from e
    request = Request(None, ids[0].tolist(), PROMPT, [], [], None)
    try:
        layers = Layers(model, ids, latent=True)
        got = record(model, layers, [request], [path], metadata=[{}])
    except ValueError as e:
        return "refused: " + " ".join(str(e).split())
    x = subprocess.run([kvtrace, "check", path], capture_output=True, text=True)
    if x.returncode:
        raise AssertionError(f"check {x.returncode}: {x.stdout[-200:]}")
    t = read_trace(path)
    said = f"{len(got)} of {layers.n} layers, " + ", ".join(features(t))
    left = t.metadata.get("left")
    return f"{said}; {left}" if left else said


def one(kind, kvtrace):
    """A type's result, and whether it is an error."""
    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.safetensors")
            return result(kind, kvtrace, path), False
    except NotBuilt as e:
        return f"not built: {e}", False
    except Exception as e:
        said = " ".join(f"{type(e).__name__}: {e}".split())
        return f"FAULT {said[:200]}", True
    finally:
        signal.alarm(0)


# Features of recorded types; --part has one of each.
WORDS = ("windows", "softcap", "sinks", "RoPE in part", "two RoPEs",
         "RoPE in windows", "shared", "states", "K and V of others",
         "refused")  # fmt: skip
# Reasons for refusals and omitted layers, in the table's words.
SHORT = {
    "computes attention itself": "computes attention itself",
    "no visible attention": "no attention",
    "sees later tokens": "sees later tokens",
    r"sees chunks of": "chunks",
    "does not attend": "states",
    "heads of another size": "heads of another size",
    "reads the K and V of": "K and V of others",
}
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# What of transformers can be recorded

What `kvreplay record` makes of each causal type of transformers. Each type was
built small with random weights and recorded; `kvtrace check` found no
difference. `python tests/python/types_hf.py build/traces/kvtrace --table
THIS_FILE` writes this page.

| result | meaning |
|---|---|
| 4 of 4 | layers recorded, of how many; after a colon, why not the others |
| RoPE | the rotation is proven and recorded, so methods that re-index can run |
| RoPE in part, in windows | of some channels; of windowed layers |
| two RoPEs | windowed layers have other frequencies |
| windows, softcap, sinks | what a trace of version 2 records |
| shared | V is a part of K: latent attention as engines store it |
| refused | one sentence says why, before anything is written |
| computes attention itself | the model bypasses the attention interface |
| no attention, states | the model or layer remembers by a state |
| heads of another size | a trace holds layers of one head size |
| K and V of others | the layer reads those of an earlier layer |
| - | this version has no such type, or the test could not build one |
"""


def short(said):
    """A result in the table's words."""
    if said.startswith("not built"):
        return "-"
    words, mark, why = said.partition("; ")
    if said.startswith("refused: "):
        words, mark, why = "refused", ": ", said[len("refused: ") :]
    known = [brief for text, brief in SHORT.items() if re.search(text, why)]
    why = ", ".join(known) or why
    return words.replace(" layers", "") + (mark and ": ") + why


def read_table(path):
    """{version: {type: result}}."""
    found = {}
    if not os.path.exists(path):
        return found
    with open(path) as f:
        rows = [[y.strip() for y in x.split("|")[1:-1]]
                for x in f if x.startswith("|")]  # fmt: skip
    while rows and rows[0][-1] != "types":
        del rows[0]
    for i, version in enumerate(rows[0][:-1] if rows else ()):
        found[version] = {
            kind: x[i] for x in rows[2:] for kind in x[-1].split(", ")
        }
    return found


def write_table(path, table):
    versions = sorted(table, key=lambda x: [*map(int, x.split("."))])
    kinds = sorted({y for x in table.values() for y in x})
    with open(path, "w") as f:
        f.write(HEAD)
        for v in versions:
            done = [x for x in table[v].values() if x != "-"]
            n = sum(x[0].isdigit() for x in done)
            f.write(f"\ntransformers {v}: {len(done)} types, {n} recorded, "
                    f"{len(done) - n} refused.\n")  # fmt: skip
        f.write(f"\n| {' | '.join(versions)} | types |\n")
        f.write("|---" * (len(versions) + 1) + "|\n")
        alike = {}
        for kind in kinds:
            row = tuple(table[v].get(kind, "-") for v in versions)
            alike.setdefault(row, []).append(kind)
        for row, same in sorted(alike.items()):
            f.write(f"| {' | '.join(row)} | {', '.join(same)} |\n")


def number(version):
    return [int(x) for x in re.findall("[0-9]+", version)[:3]]


def expected(table, version):
    """{type: results that the table allows for a version}: its own, or without
    a column those of the next older and the next newer version."""
    known = sorted(table, key=number)
    before = [x for x in known if number(x) <= number(version)][-1:]
    after = [x for x in known if number(x) >= number(version)][:1]
    columns = [version] if version in table else before + after
    return {
        kind: {table[v].get(kind, "-") for v in columns} - {"-"}
        for kind in TYPES
    }


def chosen(n, want):
    """n types, other ones whenever the recorder changes; the first of them
    cover all features of traces."""
    import kvreplay.record

    h, folder = hashlib.sha256(), os.path.dirname(kvreplay.record.__file__)
    for place in folder, os.path.join(folder, "..", "hf"):
        for name in sorted(os.listdir(place)):
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as f:
                    h.update(f.read())
    order = sorted(TYPES, key=lambda x: hashlib.sha256(
        h.digest() + x.encode()).digest())  # fmt: skip
    first = {
        next(x for x in order if any(word in y for y in want[x])): None
        for word in WORDS
    }
    return [*first, *(x for x in order if x not in first)][:n]


def main():
    kvtrace, *words = sys.argv[1:]
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    version, path, part, bad = transformers.__version__, None, None, 0
    if words[:1] == ["--table"]:
        path, words = words[1], []
    elif words[:1] == ["--part"]:
        part, path, words = int(words[1]), words[2], []
    table = read_table(path) if path else {}
    want, got, seen = expected(table, version) if part else {}, {}, 0
    for kind in words or (chosen(part, want) if part else sorted(TYPES)):
        said, fault = one(kind, kvtrace)
        got[kind] = short(said)
        allowed = want.get(kind, ()) if got[kind] != "-" else ()
        seen += len(allowed) > 0
        if allowed and got[kind] not in allowed:
            said, fault = f"{got[kind]}; the table has {allowed}", True
        bad += fault
        if fault or not path:
            print(f"{kind}\t{said}", flush=True)
    if part and 2 * seen < part:
        print(f"only {seen} of {part} types could be compared with {path}")
        bad += 1
    if path and not part:
        table[version] = got
        write_table(path, table)
    print(f"types: {len(got)} of transformers {version}, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
