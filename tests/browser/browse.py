# SPDX-License-Identifier: Apache-2.0
"""browse.py CHROMIUM PAGE FOLDER [OLD NEW]...: a page of kvreport in a headless
browser. As it is, under its own policy, its script must run and nothing be said
on the console; a copy, whose policy lets probe.js in, must stand what that
does, wide and at 420 pixels, light and dark. What is wrong is printed, a line
each; exit 1. FOLDER is for copies. OLD NEW: seeds of faults, texts of the page
that are replaced first. Standard library only."""

import base64
import hashlib
import html
import json
import pathlib
import re
import subprocess
import sys

chromium, page, folder, *seeds = sys.argv[1:]
text = pathlib.Path(page).read_text(encoding="utf-8")


def digest(page, tag):
    """Of what its policy lets in: all between the tags."""
    inside = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S).group(1)
    return base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()


whole = text
for old, new in zip(seeds[::2], seeds[1::2]):
    assert old in text, f"the page has no {old!r} to be seeded"
    text = text.replace(old, new)
for tag in ("style", "script"):
    text = text.replace(f"'sha256-{digest(whole, tag)}'",
                        f"'sha256-{digest(text, tag)}'")  # fmt: skip
probe = pathlib.Path(__file__).with_name("probe.js").read_text()
wrong = []
DARK, LIGHT = 0, 1


def browse(name, body, size, scheme, *more):
    """The page as the browser has it after its scripts, and its console."""
    file = pathlib.Path(folder, name).absolute()
    file.write_text(body, encoding="utf-8")
    ran = subprocess.run(
        [chromium, "--headless=new", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={folder}/profile", f"--window-size={size}",
         f"--blink-settings=preferredColorScheme={scheme}",
         "--enable-logging=stderr", "--hide-scrollbars", "--dump-dom", *more,
         file.as_uri()],
        capture_output=True, timeout=120, check=False)  # fmt: skip
    told = ran.stderr.decode(errors="replace")
    said = re.findall(r"CONSOLE[^\]]*\] (.*)", told)
    wrong.extend(f"console: {x}" for x in said)
    return ran.stdout.decode(errors="replace")


def probed(size, scheme):
    copy = re.sub("(style|script)-src '[^']*'", r"\1-src 'unsafe-inline'", text)
    end = copy.rindex("</body>")
    copy = f"{copy[:end]}<script>{probe}</script>\n{copy[end:]}"
    # A window has a least width; a frame has not, and media queries follow it.
    width = int(size.split(",")[0])
    frame = (f'<!DOCTYPE html><body style="margin:0"><iframe width={width} '
             f'height=900 style="border:0" srcdoc="{html.escape(copy)}">'
             "</iframe><script>onload = () => document.body.append("
             "frames[0].document.getElementById('probe') || 'no probe')"
             "</script>")  # fmt: skip
    out = browse("probe.html", frame, "1600,900", scheme)
    found = re.search(r'<pre id="probe">(.*?)</pre>', out, re.S)
    if not found:
        wrong.append(f"probe: it did not end at {size}")
        return
    got = json.loads(html.unescape(found.group(1)))
    wrong.extend(f"{x} ({size})" for x in got["wrong"])
    if got["width"] != width or got["dark"] != (scheme == DARK):
        wrong.append(f"probe: asked for {size}, {scheme}, got {got}")


def alone():
    out = browse("alone.html", text, "1280,900", LIGHT)
    if '<input type="search"' not in out:
        wrong.append("policy: the page's own script did not run")


# Without a script a page has no control that does nothing, and all its texts.
main = text[text.index("<main") : text.index("</main>")]
if re.search(r"<(button|input)|\shidden", main):
    wrong.append("script: a control without it")
# Of a seeded page the first look that finds something is enough, and the probe
# finds most.
for look in (lambda: probed("1280,900", LIGHT),
             lambda: probed("420,900", DARK), alone):  # fmt: skip
    if not (seeds and wrong):
        look()
print("\n".join(dict.fromkeys(wrong)))
sys.exit(1 if wrong else 0)
