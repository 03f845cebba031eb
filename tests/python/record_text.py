# SPDX-License-Identifier: Apache-2.0
"""The parts of `kvreplay record` that need no torch: prompts, options, spans,
keys of traces, writing a file in parts (with numpy), exit codes.
record_text.py FOLDER, with the package on PYTHONPATH."""

import contextlib
import io
import json
import os
import subprocess
import sys

from kvreplay.hf.text import tokenized
from kvreplay.record.progress import clock, groups, spans
from kvreplay.record.prompts import read_prompts
from kvreplay.record.request import key_of, request_of
from kvreplay.record.rows import read_layers, read_rows, rows_kept
from kvreplay.record.tokens import find, tokens_of
from refusals import refused

folder = sys.argv[1]
PATH = os.path.join(folder, "p.jsonl")


def write(*lines):
    with open(PATH, "w", encoding="utf-8") as f:
        for x in lines:
            f.write((x if isinstance(x, str) else json.dumps(x)) + "\n")


def check_prompts():
    turn = [{"role": "user", "content": "hi"}]
    parts = [{"role": "context", "text": "a"}]
    write({"prompt": "a b", "new": 9}, "",
          {"id": 7, "messages": turn, "answer": "c"},
          {"id": "x.1", "prompt": "a", "segments": parts},
          {"context": "a", "question": "b", "place": "before"})  # fmt: skip
    got = read_prompts(PATH)
    assert [x.id for x in got] == ["p00001", "7", "x.1", "p00005"]
    assert got[3].asked() == dict(context="a", question="b", place="before")
    assert got[1].where == PATH + ":3" and got[1].messages == turn
    assert got[0].asked() == {"prompt": "a b"} and got[0].new == 9, got
    for says, *lines in (
        (":2: not JSON", {"prompt": "a"}, '{"prompt": "a'),
        (":1: is not an object", "[1]"),
        (":1: give a context with a question, or", {"answer": "a"}),
        (":1: give a context with", {"prompt": "a", "messages": turn}),
        (":1: give a context with", {"prompt": "a", "context": "b"}),
        (":1: give context and question together", {"context": "a"}),
        (":1: question must be a text", {"context": "a", "question": ""}),
        (":1: place must be after, before, inside", {
            "context": "a", "question": "b", "place": "on"}),
        (":1: place must be", {"prompt": "a", "place": "after"}),
        (":1: segments are of a prompt", {
            "context": "a", "question": "b", "segments": parts}),
        (":1: prompt must be a text", {"prompt": " \n"}),
        (":1: prompt must be a text", {"prompt": 3}),
        (":1: prompt must be a text", '{"prompt": "half of one: \\ud83d"}'),
        (":1: messages must be a list", {"messages": []}),
        (":1: messages must be a list", {"messages": [{"role": "user"}]}),
        (":1: answer must be a text", {"prompt": "a", "answer": 3}),
        (":1: has a source but no answer", {"prompt": "a", "source": "a"}),
        (":1: has promt; the keys are", {"promt": "a"}),
        (":1: segments must be a list", {"prompt": "a", "segments": [{}]}),
        (":1: segments must be a list", {"prompt": "a", "segments": [
            {"role": "user", "text": "a"}]}),
        (":1: id '../a' cannot name", {"prompt": "a", "id": "../a"}),
        (":1: id '.a' cannot name", {"prompt": "a", "id": ".a"}),
        (":1: id True cannot name", {"prompt": "a", "id": True}),
        (":3: id a is also the id of line 1", {"prompt": "a", "id": "a"}, "",
         {"prompt": "b", "id": "a"}),
        ("has no prompt", " "),
    ):  # fmt: skip
        write(*lines)
        refused(says, read_prompts, PATH)
    with open(PATH, "wb") as f:
        f.write(b'{"prompt": "\xff"}')
    refused("not UTF-8 at byte 12", read_prompts, PATH)
    text = os.path.join(folder, "a b.txt")
    with open(text, "w") as f:
        f.write("one prompt\nof two lines\n")
    refused("cannot name a file", read_prompts, text)
    os.rename(text, os.path.join(folder, "ab.txt"))
    (x,) = read_prompts(os.path.join(folder, "ab.txt"))
    assert (x.id, x.prompt) == ("ab", "one prompt\nof two lines\n")


def check_options():
    assert read_layers("all") is None
    assert read_layers("8-11,3,9") == [3, 8, 9, 10, 11]
    for text in "", "a", "3-1", "-1", "1,", "100000", "0-":
        refused(f"--layers must be all", read_layers, text)
    assert read_rows("all") is None
    assert read_rows("last=256,decode") == 256 and read_rows("decode") == 0
    for text in "last=256", "last=,decode", "every=4,decode", "", "last=-1":
        refused(f"--rows must be all", read_rows, text)
    assert rows_kept(10, 14, None) is None is rows_kept(10, 14, 10)
    assert [*rows_kept(10, 14, 2)] == [8, 9, 10, 11, 12, 13]
    assert [*rows_kept(10, 14, 0)] == [10, 11, 12, 13]


class Words:
    """A tokenizer of words with the blank before; ends: appends 1 to texts."""

    def __init__(self, ends=False):
        self.words, self.ends = ["<s>", "</s>"], ends

    def __call__(self, text, add_special_tokens=True):
        ids, at = [0] * add_special_tokens, 0
        if text.startswith("<s>"):
            ids, text = [*ids, 0], text[3:]
        while at < len(text):
            end = text.find(" ", at + 1) % (len(text) + 1)
            end = len(text) if end <= at else end
            if text[at:end] not in self.words:
                self.words.append(text[at:end])
            ids.append(self.words.index(text[at:end]))
            at = end
        return {"input_ids": ids + [1] * (add_special_tokens and self.ends)}

    def decode(self, ids, **kwargs):
        return "".join(self.words[x] for x in ids)

    def apply_chat_template(self, messages, **kwargs):
        return "user: " + " ".join(x["content"] for x in messages) + " bot:"


def asked(tokenizer=None, **line):
    write(line)
    return tokens_of("m", tokenizer or Words(), read_prompts(PATH)[0], 999)


def check_special():
    """One start token, and no end token, as the text continues; said once."""
    line = dict(prompt="b is 8 so b is", answer=" 8", source="b is 8")
    want, said = asked(**line), io.StringIO()
    assert want.ids[:2] == [0, 2] and len(want.ids) == 7, want
    begun = dict(line, prompt="<s>" + line["prompt"])
    with contextlib.redirect_stderr(said):
        for x in line, begun, begun, line:
            got = asked(Words(ends=True), **x)
            assert got[1:] == want[1:], (x, got)
    lines = said.getvalue().splitlines()
    assert len(lines) == 2 and "ends each text with </s>, which" in lines[0]
    assert lines[1].endswith("begins with <s>, and the tokenizer adds it, too; "
                             "one of the two is left out"), lines
    ends = Words(ends=True)
    assert tokenized(ends, "", True) == [0] and tokenized(ends, "", False) == []
    assert tokenized(ends, "<s>b</s>", False)[0] == 0  # a chat template's


def check_spans():
    t = Words()
    ids = t("a red door is 7 and a red cat is 8")["input_ids"]
    assert find(t, ids, "red door is 7") == (1, (2, 6))
    assert find(t, ids, "red") == (2, (2, 3))
    assert find(t, ids, "red", 4) == (1, (8, 9))
    assert find(t, ids, "8") == (1, (11, 12))
    assert find(t, ids, "RED  cat") == (1, (8, 10))  # ignores case, blanks
    assert find(t, ids, "blue") == (0, None) == find(t, ids, "")
    check_words(t)
    x = asked(prompt="the red is 7 and the blue is 8 so the red is",
              answer=" 7", source="red is 7")  # fmt: skip
    assert (x.ids[0], len(x.ids), x.source) == (0, 14, (2, 5)), x
    assert asked(prompt="b is 8 so b is", answer=" 8").source == (3, 4)
    assert asked(prompt="8 is 8 so b is", answer=" 8").source is None
    assert asked(prompt="so b is", answer=" 8").source is None
    refused("is not in the prompt", lambda: asked(
        prompt="b is 8", answer="8", source="c is 8"))  # fmt: skip
    refused("appears 2 times in the prompt; give more", lambda: asked(
        prompt="b is 8 b is 8", answer="8", source="b is 8"))  # fmt: skip
    x = asked(messages=[{"role": "user", "content": "b is 8 what is b"}],
              answer=" 8", segments=[
                  {"role": "context", "text": "b is 8"},
                  {"role": "question", "text": "what is b"}])  # fmt: skip
    assert x.ids[0] != 0 and x.source == (3, 4), x  # without special tokens
    assert x.segments == [dict(start=0, end=4, role="context"),
                          dict(start=4, end=7, role="question")]  # fmt: skip
    refused("is not in the prompt after", lambda: asked(
        prompt="b is 8 what", segments=[
            {"role": "question", "text": "what"},
            {"role": "context", "text": "b is"}]))  # fmt: skip


def check_composed():
    """A context and a question, with and without a chat template: what is
    compressed, what follows it, and the answer's tokens."""
    chat = type("Chat", (Words,), dict(chat_template=""))
    line = dict(context=" b is 8\n", question="what is b", answer="8 ")
    for place, bare, chatty, cut in (
        ("after", "b is 8|\n\nwhat is b", "b is 8|\n\nwhat is b", 3),
        ("before", "what is b\n\nb is 8|\n\nAnswer:",
         "what is b\n\nb is 8|", 5),
        ("inside", "b is 8\n\nwhat is b|", "b is 8\n\nwhat is b bot:|", 3),
    ):  # fmt: skip
        for t, want, blank in (Words(), "<s>" + bare, " "), (
            chat(), "user: " + chatty, ""):  # fmt: skip
            x = asked(t, **line, place=place)
            end = x.segments[0]["end"] if x.segments else len(x.ids)
            got = t.decode(x.ids[:end]) + "|" + t.decode(x.ids[end:])
            more = " bot:" * (not blank and place != "inside")
            assert got == want + more, (place, got)
            assert t.decode(x.answer) == blank + "8" and x.source == (
                cut, cut + 1), (place, x)  # fmt: skip
            assert [y["role"] for y in x.segments] == [
                "context", "question"][: 2 * (place != "inside")], x
            assert x.segments[1:] in ([], [dict(
                start=end, end=len(x.ids), role="question")]), x  # fmt: skip
            assert bool(x.prompt.messages) == (not blank), x
    x = asked(context="b is 8", question="8 or 9", answer="8")
    assert x.source == (3, 4), x  # in the context, wherever else
    refused(":1: the source 'c is 8' is not in", lambda: asked(
        **line, source="c is 8"))  # fmt: skip
    chat.apply_chat_template = lambda *_, **__: "user: b bot:"
    refused(":1: m: its chat template changes", lambda: asked(chat(), **line))


def check_words(t):
    """An answer is whole words: 7 is not found in 2017, 7up or -7."""
    ids = t("in 2017 no. 7, then 7up, -7 and x7 or 1,207")["input_ids"]
    assert find(t, ids, "7") == (1, (4, 5)), find(t, ids, "7")
    assert find(t, ids, "2017") == (1, (2, 3)) and find(t, ids, "17")[0] == 0
    assert find(t, ids, "7", words=False) == (6, (2, 3))
    assert find(t, ids, "1207 ") == (1, (11, 12)) and not find(t, ids, "207")[0]
    assert find(t, ids, "No. 7,") == (1, (3, 5))
    assert find(t, ids, "no. 7, the")[0] == 0
    ids = t("\u5728\u4e1c\u4eac\u90fd 7\u6708 \u00c9t\u00e9s")["input_ids"]
    assert find(t, ids, "\u4e1c\u4eac") == (1, (1, 2))  # without blanks
    assert find(t, ids, "7") == (1, (2, 3)) and find(t, ids, "etes")[0] == 1
    assert find(t, ids, "ete") == (0, None)
    cut = Words()  # a word of two tokens ends with the second
    cut.words[1:] = ["7", "2", " is", " 7"]
    assert find(cut, [1, 2, 3, 4], "72") == (1, (0, 2))
    assert find(cut, [1, 2, 3, 4], "7") == (1, (3, 4))


def check_requests():
    t = Words()
    write({"prompt": "b is 8 so b is", "answer": " 8"})
    x = tokens_of("m", t, read_prompts(PATH)[0], 999)
    own = t(" I say 8 so", add_special_tokens=False)["input_ids"]
    for new, by, start, end in (
        (own, "model", 9, 10),
        (own[:2], "user", 7, 8),
        ([], "user", 7, 8),
    ):
        got = request_of(t, x, new)
        assert got.by == by and got.prompt_len == 7, got
        assert got.said == t.decode(new)
        assert got.answers == [dict(start=start, end=end, source_start=3,
                                    source_end=4)], got  # fmt: skip
        assert got.tokens == x.ids + (new if by == "model" else x.answer)
    prompt = x.prompt
    key = key_of(prompt, "d", [64])
    assert key == key_of(prompt._replace(where="y", id="z"), "d", [64])
    assert len({key, key_of(prompt._replace(answer="9"), "d", [64]),
                key_of(prompt, "e", [64]), key_of(prompt, "d", [65])}) == 4


def check_order():
    class Of:
        def __init__(self, n):
            self.ids = [0] * n

    got = [[len(y.ids) for y in x] for x in groups(
        map(Of, [3, 5, 3, 3, 5, 4]), 2)]  # fmt: skip
    assert got == [[3, 3], [5, 5], [3], [4]], got
    assert spans([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8" and spans([]) == ""
    assert [clock(x) for x in (5.4, 65, 7260)] == ["5 s", "1 min 5 s",
                                                   "2 h 1 min"]  # fmt: skip


def check_command():
    """Errors appear before anything is loaded: -S hides packages."""
    good = os.path.join(folder, "ab.txt")
    write({"prompt": ""})
    for code, says, *words in (
        (0, "usage: kvreplay record", "--help"),
        (2, "required: --prompts", "m"),
        (2, "number of 1 or more", "m", "--prompts", good, "-o", folder,
         "--together", "0"),
        (2, "--rows must be all", "m", "--prompts", good, "-o", folder,
         "--rows", "last=3"),
        (3, ":1: prompt must be a text", "m", "--prompts", PATH, "-o", folder),
        (3, "No such file", "m", "--prompts", "/none", "-o", folder),
        (3, "is not a folder", "m", "--prompts", good, "-o", good),
        (3, "give only one of them", "m", "--prompts", good, "-o", folder,
         "--check", "--no-o"),
        (4, "pip install numpy torch transformers", "m", "--prompts", good,
         "-o", folder),
    ):  # fmt: skip
        x = subprocess.run(
            [sys.executable, "-S", "-m", "kvreplay.record", *words],
            capture_output=True, text=True)  # fmt: skip
        said = x.stdout + x.stderr
        assert x.returncode == code and says in said, (words, x)
        assert "Traceback" not in said, said
        assert code in (0, 2) or said.count("\n") == 1, said


def check_file():
    import numpy as np

    from kvreplay.container import load
    from kvreplay.container import Writer
    from kvreplay.record.file import sweep

    path = os.path.join(folder, "t.safetensors")
    sizes = {"b": ("I64", (2,)), "a": ("F16", (2, 3)), "c": ("BF16", (1,))}
    a, b = np.arange(6, dtype="f2").reshape(3, 2).T, np.array([5, -6])
    file = Writer(path, {"format": "x"}, sizes)
    file.put("a", a)
    file.put("c", np.array([7], "u2"))
    assert not os.path.exists(path)
    file.put("b", b)
    file.finish()
    file.leave()
    meta, got = load(path)
    assert meta == {"format": "x"}
    assert (got["a"][2].view("f2").reshape(2, 3) == a).all()
    assert got["b"][2].view("i8").tolist() == [5, -6]
    before = sorted(os.listdir(folder))
    file = Writer(path, {}, sizes)
    file.put("a", a)
    sweep(folder)  # spares this process's file
    assert sorted(os.listdir(folder)) != before
    file.leave()
    assert sorted(os.listdir(folder)) == before and load(path)[0] == meta
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in f"x.safetensors.{gone.pid}.part", "x.part", "1.part":
        open(os.path.join(folder, name), "w").close()
    sweep(folder)
    assert sorted(os.listdir(folder)) == sorted([*before, "x.part", "1.part"])
    with open(os.path.join(folder, "r.db"), "wb") as f:
        f.write(b"SQLite format 3\0")
    for name in os.path.join(folder, "r.db"), folder:
        refused("not written over", Writer, name, {}, sizes)


check_prompts()
check_options()
check_spans()
check_composed()
check_special()
check_requests()
check_order()
check_command()
try:
    import numpy  # noqa: F401
except ImportError:
    print("record: prompts, options, spans, codes")
else:
    check_file()
    print("record: prompts, options, spans, codes, files")
