# SPDX-License-Identifier: Apache-2.0
"""The package's imports: `import kvreplay` loads neither torch nor numpy,
results no numpy, traces no torch. The first screen of help(kvreplay) names all
modules; public functions have docstrings; imported modules exist. Called by
check_package.sh."""

import ast
import os
import pkgutil
import pydoc
import subprocess
import sys

import kvreplay

HEAVY = "numpy", "torch", "transformers", "kvpress"


def loaded(name):
    """Which heavy packages the import of a module loads."""
    said = subprocess.run(
        [sys.executable, "-c", f"import sys, {name}\n"
         f"print(*[x for x in {HEAVY} if x in sys.modules])"],
        capture_output=True, text=True, check=True)
    return said.stdout.split()


for name in ("", ".results", ".grade", ".programs", ".hf", ".hf.text",
             ".record", ".train.hf", ".train.traces", ".evaluate",
             ".claims.command", ".capacity.command", ".figures.command",
             ".kvpress", ".prefill"):
    assert not loaded(f"kvreplay{name}"), (name, loaded(f"kvreplay{name}"))
for name in ("trace", "decisions", "scores", "session", "binding",
             "container"):
    assert {*loaded(f"kvreplay.{name}")} <= {"numpy"}, name

screen = pydoc.render_doc(kvreplay, renderer=pydoc.plaintext).split("\n")[:30]
assert max(map(len, screen)) <= 80, screen
for x in pkgutil.iter_modules(kvreplay.__path__):
    assert x.name == "__main__" or any(
        f"kvreplay.{x.name} " in y for y in screen), (x.name, screen)

# Every module that another imports exists. This imports none, because some need
# torch.
for folder, _, names in os.walk(kvreplay.__path__[0]):
    for name in (x for x in names if x.endswith(".py")):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for x in ast.walk(tree):
            if not isinstance(x, ast.ImportFrom) or not x.level or not x.module:
                continue
            at = os.path.join(folder, *[".."] * (x.level - 1),
                              *x.module.split("."))
            assert os.path.exists(at + ".py") or os.path.isdir(at), (
                f"{folder}/{name} imports {x.module}, which is not there")

undocumented = []
for folder, inner, names in os.walk(kvreplay.__path__[0]):
    # Packages for import; record is a command.
    inner[:] = {*inner} & {"hf", "kvpress"}
    for name in (x for x in names if x.endswith(".py")):
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        assert ast.get_docstring(tree), path
        undocumented += [
            f"{name}: {x.name}" for x in tree.body
            if isinstance(x, (ast.ClassDef, ast.FunctionDef))
            and x.name[0] != "_" and not ast.get_docstring(x)]
assert not undocumented, undocumented
