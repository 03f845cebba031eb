# SPDX-License-Identifier: Apache-2.0
"""check_docs.py TREE KVREPLAY KVTRACE [--all | --update] [PAGE...]

Checks the .md pages of the tree, or the PAGEs: each link leads to a file and a
heading that exist; each block that starts with one of our commands shows what
the command prints; each table with a recipe shows its result. Prints one line
per difference; exit code 1. Standard library only.

A code block shows a command if its first line, and no other, starts with
"$ kvreplay" or "$ kvtrace". A line "..." leaves lines out. A table has its
recipe in a comment above it:

    <!-- table
    csv NAME.csv ...   numbers in files beside the page: the table t, and tables
                       named after the files; and, or instead:
    $ kvreplay ...     commands that print them, run at the top of the tree: t
                       has the rows of run, capacity or kvtrace prefill, and
                       what kvtrace info prints (for a list, its length); other
                       commands fill the database
    keep SELECT ...    the part to keep in the file
    show SELECT ...    the table's rows; more columns of a table are prose
    -->

Several tables can use one file: one of them has its recipe. Tables with a file
are only made with --all, which is slow. --update writes files and tables.
"""
import csv
import io
import json
import math
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile

MARK = re.compile(r"<!-- table\n(.*?)-->\n+((?:\|[^\n]*\n)+)", re.S)
# Commands whose last digits can differ between machines.
NUMPY = "attention", "residuals", "selection"
CODE = re.compile(r"(?<=\n\n)    \$ (kvreplay|kvtrace) .*\n"
                  r"(?:    .*\n|\n(?=    ))+")


def pages(top):
    """Paths of all pages below top, except in builds. build-ci has copies of
    sources, too, if a run of it was ended."""
    for folder, inner, names in os.walk(top):
        if folder != top and "config.status" in names:
            inner[:] = []
            continue
        inner[:] = sorted(x for x in inner
                          if not x.startswith((".", "build-")))
        yield from (os.path.join(folder, x) for x in sorted(names)
                    if x.endswith(".md"))


# --- links ---

def prose(text):
    """The page without comments, code blocks and inline code."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    return re.sub(r"`[^`]*`", "", text)


def anchors(path):
    """Anchors of a page's headings."""
    with open(path, encoding="utf-8") as f:
        heads = re.findall(r"^#+ (.*)$", f.read(), flags=re.M)
    heads = [re.sub(r"\]\([^)]*\)", "", x).lower() for x in heads]
    return {re.sub(r"[^\w\- ]", "", x).strip().replace(" ", "-")
            for x in heads}


def links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = os.path.join(os.path.dirname(path), name) if name else path
        if not os.path.exists(to):
            yield f"no file {target}"
        elif anchor and (not to.endswith(".md") or anchor not in anchors(to)):
            yield f"no heading {target}"


# --- commands ---

def run(tree, command, *more):
    """The output of one of our commands, run at the top of the tree."""
    words = shlex.split(command)
    done = subprocess.run([tree.program[words[0]], *words[1:], *more],
                          cwd=tree.top, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        raise ValueError(f"{command}: {done.stderr.strip()}")
    return done.stdout


def shows(tree, block):
    """How the block differs from its command's output, or None."""
    lines = [x[4:].rstrip() for x in block.rstrip().split("\n")]
    n = 1
    while lines[n - 1].endswith("\\"):
        n += 1
    command = " ".join(x.rstrip("\\").strip() for x in lines[:n])[2:]
    said = [x for x in lines[n:] if x]
    if not said or any(x.startswith("$ ") for x in lines[n:]):
        return None
    got = [x.rstrip() for x in run(tree, command).split("\n") if x.strip()]
    at, skips = 0, False
    for line in said:
        if line == "...":
            skips = True
            continue
        while skips and at < len(got) and got[at] != line:
            at += 1
        if at == len(got) or got[at] != line:
            return f"{command} does not print '{line}'"
        at, skips = at + 1, False
    left = len(got) - at if not skips else 0
    return f"{command} prints {left} lines more" if left else None


# --- tables ---

def fill(db, lines, name="t"):
    """Adds rows of CSV to a table, as text, to keep the digits of numbers."""
    rows = csv.DictReader(lines)
    columns = list(rows.fieldnames)
    names = ", ".join('"%s"' % x.replace(".", "_") for x in columns)
    db.execute(f"CREATE TABLE IF NOT EXISTS {name} ({names})")
    db.executemany(
        f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})",
        [[r[c] or None for c in columns] for r in rows])


def computed(tree, commands, scratch):
    """A database with all results of the commands."""
    path = os.path.join(scratch, "computed.db")
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(":memory:")
    for command in commands:
        words = shlex.split(command)[:2]
        if words[1] in ("run", "capacity", "prefill"):
            quiet = ["-q"] if words[1] == "run" else []
            said = run(tree, command, *quiet, "--format", "csv")
            fill(db, said.splitlines())
        elif words[0] == "kvtrace":
            said = json.loads(run(tree, command, "--format", "json"))
            said = {k: len(v) if isinstance(v, list) else v
                    for k, v in said.items()}
            text = io.StringIO()
            csv.writer(text).writerows([said.keys(), said.values()])
            fill(db, text.getvalue().splitlines())
        else:
            run(tree, command, "-q", "--db", path)
    return sqlite3.connect(path) if os.path.exists(path) else db


def of_files(paths):
    db = sqlite3.connect(":memory:")
    for i, path in enumerate(paths):
        stem = os.path.splitext(os.path.basename(path))[0]
        with open(path, newline="", encoding="utf-8") as f:
            fill(db, f, stem if i else "t")
    return db


def wilson(k, n):
    """Wilson's 95 % interval of the share k / n."""
    z = 1.959963984540054 ** 2
    k, n = round(float(k)), int(n)
    half = math.sqrt(z * (k * (n - k) / n + z / 4))
    ends = ["%.2f" % ((k + z / 2 + x) / (n + z)) for x in (-half, half)]
    return "[%s, %s]" % tuple({"0.00": "0", "1.00": "1"}.get(
        x, x.removeprefix("0")) for x in ends)


def select(db, query):
    """Column names and rows. fix(x, n): n digits; dot: no zero before it."""
    db.create_function("wilson", 2, wilson)
    db.create_function("fix", 2, lambda x, n: "-" if x is None
                       else "%.*f" % (int(n), float(x)))
    db.create_function("dot", 2, lambda x, n: "-" if x is None
                       else ("%.*f" % (int(n), float(x))).removeprefix("0"))
    db.create_function("pct", 2, lambda x, n: "-" if x is None
                       else "%.*f%%" % (int(n), 100 * float(x)))
    found = db.execute(query)
    return [x[0] for x in found.description], found.fetchall()


def kept(db, query):
    """The contents that a file of numbers should have."""
    names, rows = select(db, query)
    lines = [names, *[["" if x is None else x for x in r] for r in rows]]
    out = []
    for line in lines:
        texts = [repr(x) if isinstance(x, float) else str(x) for x in line]
        out.append(",".join('"%s"' % x if "," in x else x for x in texts))
    return "\n".join(out) + "\n"


def recipe(text):
    """A table's recipe by keyword. A line continues until the next keyword."""
    made = {"csv": "", "$": [], "keep": "", "show": ""}
    for line in text.split("\n"):
        word, _, rest = line.strip().partition(" ")
        if word in made:
            of = word
            if of == "$":
                made["$"].append(rest)
            else:
                made[of] = rest
        elif line.strip() and of == "$":
            made["$"][-1] += " " + line.strip()
        else:
            made[of] += "\n" + line
    return made


def close(a, b):
    """Do two files of numbers agree to 1e-6?"""
    a, b = (list(csv.reader(io.StringIO(x))) for x in (a, b))

    def alike(x, y):
        try:
            return math.isclose(float(x), float(y), rel_tol=1e-6, abs_tol=1e-6)
        except ValueError:
            return x == y

    return [*map(len, a)] == [*map(len, b)] and all(
        alike(x, y) for r, s in zip(a, b) for x, y in zip(r, s))


def rows_of(tree, path, made, scratch):
    """The rows that a table should have. An outdated file is an error."""
    files = [os.path.join(os.path.dirname(path), x)
             for x in made["csv"].split()]
    if made["$"] and (tree.update or tree.all or not made["csv"]):
        db = computed(tree, made["$"], scratch)
        if not made["csv"]:
            return select(db, made["show"])[1]
        text = kept(db, made["keep"])
        if tree.update:
            with open(files[0], "w", encoding="utf-8") as f:
                f.write(text)
        with open(files[0], encoding="utf-8") as f:
            was = f.read()
        by_numpy = any(x.split()[1] in NUMPY for x in made["$"])
        if was != text and not (by_numpy and close(was, text)):
            raise ValueError("is not what is computed")
    return select(of_files(files), made["show"])[1]


def cells(line):
    return [x.strip() for x in line.strip().strip("|").split("|")]


def table(tree, path, match, scratch):
    """The table as it should be, and a sentence if it differs."""
    lines = match[2].rstrip("\n").split("\n")
    want = [[str(x) for x in r]
            for r in rows_of(tree, path, recipe(match[1]), scratch)]
    for old, new in zip(lines[2:], want):
        new += cells(old)[len(new):]
    wrong = [f"'{a}' should be '| {' | '.join(b)} |'"
             for a, b in zip(lines[2:], want) if cells(a) != b]
    if len(want) != len(lines) - 2:
        wrong.append(f"the table below '{lines[0]}' should have "
                     f"{len(want)} rows, not {len(lines) - 2}")
    body = ["| " + " | ".join(r) + " |" for r in want]
    return "\n".join(lines[:2] + body) + "\n", wrong


# --- pages ---

def check(tree, path, scratch):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    yield from links(path, text)
    for match in CODE.finditer(text):
        try:
            wrong = shows(tree, match[0])
        except ValueError as e:
            wrong = str(e)
        if wrong:
            yield wrong
    for match in MARK.finditer(text):
        try:
            new, wrong = table(tree, path, match, scratch)
        except (OSError, ValueError, sqlite3.Error, KeyError) as e:
            yield f"{match[1].split(chr(10))[0]}: {e}"
            continue
        if not tree.update:
            yield from wrong
        elif wrong:
            text = text.replace(match[0],
                                match[0][:match.start(2) - match.start()] + new)
    if tree.update:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


class Tree:
    def __init__(self, top, kvreplay, kvtrace, how):
        self.top = top
        self.program = {"kvreplay": os.path.abspath(kvreplay),
                        "kvtrace": os.path.abspath(kvtrace)}
        self.all, self.update = "--all" in how, "--update" in how


def main(top, kvreplay, kvtrace, *rest):
    tree = Tree(os.path.abspath(top), kvreplay, kvtrace, rest)
    asked = [x for x in rest if not x.startswith("--")]
    found = 0
    with tempfile.TemporaryDirectory() as scratch:
        for path in asked or pages(top):
            for wrong in check(tree, path, scratch):
                print(f"{os.path.relpath(path, top)}: {wrong}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
