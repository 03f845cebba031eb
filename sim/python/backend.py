# SPDX-License-Identifier: Apache-2.0
"""What pip calls to build the package (PEP 517), from a checkout or from the
tarball of `make dist`: configure and make build the programs and the library,
`make install` puts them into a folder, and the wheel is the Python package with
that folder as kvreplay/native. Metadata are those of pyproject.toml; the tag of
the platform is auditwheel's where that is installed, which also puts the
libraries in that ours need, else linux_MACHINE: for this machine and its like.

    pip wheel .
    pip wheel . --config-settings=build=DIR    of the build in DIR, made before
    pip wheel . --config-settings=configure=--without-blis   more options

Needs a C compiler, make and what CONTRIBUTING.md lists; of a checkout autoconf,
automake and libtool, too. What they print goes to standard error.
"""

import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
MACHINE = os.uname().machine
DATE = 1980, 1, 1, 0, 0, 0  # of every file: the same tree, the same wheel


def run(*words, **more):
    print("+", shlex.join(words), file=sys.stderr, flush=True)
    subprocess.run(words, check=True, stdout=sys.stderr.fileno(), **more)


def setting(settings, name):
    """The texts of --config-settings=NAME=TEXT: pip gives one, or a list."""
    x = (settings or {}).get(name, [])
    return [x] if isinstance(x, str) else list(x)


# --- metadata ---

def project():
    """[project] of pyproject.toml, with the version that configure.ac has."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(os.path.join(TOP, "pyproject.toml"), "rb") as f:
        p = tomllib.load(f)["project"]
    with open(os.path.join(TOP, "configure.ac"), encoding="utf-8") as f:
        p["version"] = re.search(r"AC_INIT\(\[\w+\],\[([^]]+)\]", f.read())[1]
    return p


def metadata(p):
    """The text of METADATA and of PKG-INFO."""
    lines = ["Metadata-Version: 2.4", f"Name: {p['name']}",
             f"Version: {p['version']}", f"Summary: {p['description']}",
             f"License-Expression: {p['license']}", "License-File: LICENSE",
             f"Requires-Python: {p['requires-python']}",
             "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {x}" for x in p["dependencies"]]
    for extra, needs in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {x}; extra == "{extra}"' for x in needs]
    with open(os.path.join(TOP, p["readme"]), encoding="utf-8") as f:
        return "\n".join([*lines, "", f.read()])


def info(p, tag):
    """{path in the wheel: text} of its dist-info."""
    at = f"{p['name']}-{p['version']}.dist-info/"
    scripts = "".join(f"{x} = {y}\n" for x, y in p["scripts"].items())
    with open(os.path.join(TOP, "LICENSE"), encoding="utf-8") as f:
        licence = f.read()
    return {
        at + "METADATA": metadata(p),
        at + "WHEEL": "Wheel-Version: 1.0\nGenerator: kvreplay\n"
                      f"Root-Is-Purelib: false\nTag: {tag}\n",
        at + "licenses/LICENSE": licence,
        at + "entry_points.txt": "[console_scripts]\n" + scripts,
    }


# --- what is built ---

def configured(folder, settings):
    """A build in the folder, as `make` wants it."""
    script = os.path.join(TOP, "configure")
    if not os.path.exists(script):
        os.makedirs(os.path.join(TOP, "m4"), exist_ok=True)
        run("autoreconf", "-i", cwd=TOP)
    options = [y for x in setting(settings, "configure")
               for y in shlex.split(x)]
    run(script, "-q", "--disable-static", *options, cwd=folder)


def installed(build, to):
    """What `make install` of a build puts into the folder `to`: its prefix."""
    run("make", "-s", f"-j{os.cpu_count()}", cwd=build)
    run("make", "-s", "install-strip", f"DESTDIR={to}", cwd=build)
    with open(os.path.join(build, "Makefile"), encoding="utf-8") as f:
        prefix = re.search(r"^prefix = (.*)$", f.read(), re.M)[1]
    return to + prefix


def relocated(text):
    """kvreplay.pc, of which a wheel is a copy in any folder."""
    for name, of in dict(
            prefix="${pcfiledir}/../..", exec_prefix="${prefix}",
            libdir="${prefix}/lib", includedir="${prefix}/include").items():
        text = re.sub(rf"^{name}=.*", f"{name}={of}", text, flags=re.M)
    return text.replace("-lkvreplay", "-l:libkvreplay.so.0")


def collected(prefix):
    """{path in the wheel: file} of an installed tree."""
    found, native = {}, "kvreplay/native/"
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(folder, name)
            at = os.path.relpath(path, prefix)
            own = re.sub(r"^share/kvreplay/python/", "", at)
            if own != at and not own.endswith(".pyc"):
                found[own] = path
            elif re.match(r"(bin/|include/)", at):
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


def write(path, files, texts):
    """The zip file: files by path, texts, and RECORD, which lists them."""
    records = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for at, x in [*sorted(files.items()), *texts.items()]:
            if at in texts:
                data, mode = x.encode(), 0o644
            else:
                with open(x, "rb") as f:
                    data, mode = f.read(), os.stat(x).st_mode & 0o755 | 0o644
            if at.endswith(".pc"):
                data = relocated(data.decode()).encode()
            entry = zipfile.ZipInfo(at, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            records.append(f"{at},sha256={hashed.decode().rstrip('=')},"
                           f"{len(data)}\n")
        at = next(x for x in texts if x.endswith("/METADATA"))
        at = at.replace("METADATA", "RECORD")
        entry = zipfile.ZipInfo(at, DATE)
        entry.external_attr = 0o100644 << 16
        z.writestr(entry, "".join(records) + f"{at},,\n")


def audited(wheel, folder):
    """The wheel as auditwheel repairs it, in the folder; as it is without
    auditwheel: its name."""
    tool = shutil.which("auditwheel")
    if tool:
        # pip hides from its own Python what others have installed.
        hidden = "PYTHONPATH", "PYTHONNOUSERSITE"
        own = {x: y for x, y in os.environ.items() if x not in hidden}
        with tempfile.TemporaryDirectory() as repaired:
            run(tool, "repair", wheel, "-w", repaired, env=own)
            name, = os.listdir(repaired)
            shutil.move(os.path.join(repaired, name),
                        os.path.join(folder, name))
    else:
        name = os.path.basename(wheel)
        shutil.move(wheel, os.path.join(folder, name))
    return name


# --- what pip calls ---

def build_wheel(wheel_directory, config_settings=None,
                metadata_directory=None):
    p, tag = project(), f"py3-none-linux_{MACHINE}"
    with tempfile.TemporaryDirectory() as scratch:
        build, *_ = [*setting(config_settings, "build"), ""]
        build = os.path.abspath(build) if build else ""
        if not build:
            build = os.path.join(scratch, "build")
            os.mkdir(build)
            configured(build, config_settings)
        prefix = installed(build, os.path.join(scratch, "installed"))
        wheel = os.path.join(
            scratch, f"{p['name']}-{p['version']}-{tag}.whl")
        write(wheel, collected(prefix), info(p, tag))
        return audited(wheel, wheel_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    texts = info(project(), f"py3-none-linux_{MACHINE}")
    for at, text in texts.items():
        path = os.path.join(metadata_directory, at)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return at.split("/")[0]


def build_sdist(sdist_directory, config_settings=None):
    """The tarball of `make dist`, with the PKG-INFO that registries want."""
    p = project()
    stem = f"{p['name']}-{p['version']}"
    with tempfile.TemporaryDirectory() as scratch:
        configured(scratch, config_settings)
        run("make", "-s", "dist", cwd=scratch)
        tree = os.path.join(scratch, "tree")
        shutil.unpack_archive(os.path.join(scratch, stem + ".tar.gz"), tree)
        path = os.path.join(tree, stem, "PKG-INFO")
        with open(path, "w", encoding="utf-8") as f:
            f.write(metadata(p))
        name = stem + ".tar.gz"
        with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as t:
            t.add(os.path.join(tree, stem), stem)
    return name
