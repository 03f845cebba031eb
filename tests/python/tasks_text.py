# SPDX-License-Identifier: Apache-2.0
"""The tasks of `kvreplay evaluate` and a user's items, with a tokenizer of
bytes like the bundled model's, with and without a chat template; if PYTHON has
transformers, also with the tokenizers in MODEL... Uses made-up prose, because
the book must be downloaded; tests book.py with a text of its own.
tasks_text.py FOLDER [MODEL...], with the package on PYTHONPATH."""

import hashlib
import importlib.util
import io
import json
import os
import random
import sys

from kvreplay.evaluate.compose import ENDS, Ask, Composer, Text
from kvreplay.evaluate.item import Question, context_of, item_of
from kvreplay.evaluate.tasks import DEPTHS, NAMES, book, make, words
from kvreplay.record.prompts import read_prompts
from refusals import refused

folder, models = sys.argv[1], sys.argv[2:]
PATH = os.path.join(folder, "items.jsonl")
# The digest of all() below. If it changes, so do the items under the same
# names; databases find their rows by these tokens.
DIGEST = "1c48f0be09d9b1ee"


def prose():
    """Paragraphs of six sentences of 5 to 15 words."""
    r = random.Random(1)
    return "".join(" ".join(
        " ".join(r.choices(words.NOUNS, k=r.randrange(5, 16))) + "."
        for _ in range(6)) + "\n" for _ in range(300))  # fmt: skip


RAW = """Title
CHAPTER I: BED

It was _late_
at  night.

  A verse

(I) So it seems.  And yet--

We slept {1} well.

* * *

(I) So it was said.

FOOTNOTES:"""


def check_book():
    """The prepared text; one download; refuses any other text."""
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "books")
    fetched, urlopen = [], book.urllib.request.urlopen

    def found(url, timeout):
        fetched.append(url)
        return io.BytesIO(RAW.encode())

    def lost(url, timeout):
        raise OSError("no network")

    book.urllib.request.urlopen, was = lost, book.SHA256
    try:
        book.read()
        raise AssertionError("nothing says that there is no book")
    except ImportError as e:
        assert "(no network); save https" in str(e), e
    book.urllib.request.urlopen = found
    refused("not the text of https", book.read)
    want = "It was late at night.\n(I) So it was said.\n"
    book.SHA256 = hashlib.sha256(want.encode()).hexdigest()
    assert book.read() == want == book.read() and len(fetched) == 2
    book.SHA256, book.urllib.request.urlopen = was, urlopen
    refused("3261.txt: not the text of", book.read)
    refused("remove it", book.read)


class Bytes:
    """Like traces/tiny/model: a byte is a token, 256 begins a text."""

    chat_template = None

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [256] * add_special_tokens + [*text.encode()]}

    def __len__(self):
        return 260

    def decode(self, ids, **kwargs):
        return bytes(x for x in ids if x < 256).decode(errors="replace")


class Chat(Bytes):
    chat_template = "in Python"

    def apply_chat_template(self, messages, **kwargs):
        said = "".join(f"<{x['role']}>{x['content']}\n" for x in messages)
        return "\0" + said + "<assistant>"


class Loses(Bytes):
    """Turns all digits into one token."""

    def decode(self, ids, **kwargs):
        text = super().decode(ids)
        return "".join("0" if x.isdigit() else x for x in text)


class Marks(Bytes):
    """Adds a blank before every text, like SentencePiece."""

    def __call__(self, text, add_special_tokens=True):
        return super().__call__(" " + text, add_special_tokens)


class Ends(Bytes):
    """Ends every text with 257, which is wrong if a question follows."""

    def __call__(self, text, add_special_tokens=True):
        ids = super().__call__(text, add_special_tokens)["input_ids"]
        return {"input_ids": ids + [257] * add_special_tokens}


def every(tokenizer, length, n=2, seed=1):
    return [y for x in NAMES for y in make(x, tokenizer, seed, n, length)]


def check_item(tokenizer, x, length):
    """Checks lengths, and the contents of spans and answers."""

    def text(ids):
        return tokenizer.decode([*ids])

    name, new = x.task.split(":")[0], x.new
    assert new == length if name == "generate" else 8 <= new < 80, x
    assert name == "generate" or length * 0.9 <= len(x.prompt) <= length, (
        x.id, len(x.prompt))  # fmt: skip
    for q in x.questions:
        assert q.accept == () or q.right(text(q.answer)), (x.id, q)
        assert not q.accept or not q.right("nothing of it")
        if name == "cwe" or not q.accept:
            continue
        for a, b in q.spans:
            assert 0 <= a < b <= len(x.prompt)
        held = " ".join(text(x.prompt[a:b]) for a, b in q.spans)
        assert q.right(held) or name == "fewshot", (x.id, held, q)
    if x.depth is not None:
        at = x.questions[0].spans[0][0] / len(x.prompt)
        assert abs(at - x.depth) < 0.16, (x.id, at, x.depth)


def check_tasks(tokenizer, length):
    found = every(tokenizer, length)
    for x in found:
        check_item(tokenizer, x, length)
    assert found == every(tokenizer, length)
    assert len({(x.task, x.id) for x in found}) == len(found)
    assert len({x.prompt for x in found}) == len(found)
    other = every(tokenizer, length, seed=2)
    assert not {x.prompt for x in found} & {x.prompt for x in other}
    more = make("vt", tokenizer, 1, 3, length)
    assert more[:2] == [x for x in found if x.task == "vt"]
    return found


def check_options():
    """Where the question is, and its answer."""
    t = Chat()
    by = {x: make(f"niah_single_2:question={x}", t, 1, 5, 1500)[4]
          for x in ("after", "before", "inside")}  # fmt: skip
    for name, x in by.items():
        (q,), prompt = x.questions, t.decode(x.prompt)
        whole, begin = prompt + t.decode(q.tokens), "<assistant>The special"
        assert begin in whole and whole.endswith("provided text is"), whole
        asked = prompt.find("What is the special")
        assert (asked < 0) == (name == "after"), prompt
        hidden = prompt.find("is hidden within")
        assert name == "after" or (asked < hidden) == (name == "before")
        assert (q.tokens == ()) == (name == "inside")
        assert q.answer == by["after"].questions[0].answer
        check_item(t, x, 1500)
        assert q.asked in whole and q.asked.startswith("What is the special")
        assert q.reference == q.accept[0], q
    same = Text("a is 7", (Ask("What is a?", "", "7", ("7",)),))
    assert {Composer("m", t, 260).item("i", "t", same, x, None).context
            for x in ENDS} == {context_of("a is 7")}  # fmt: skip
    deep = make("kv:depth=0.25:length=900", t, 1, 3, 1500)
    assert [x.depth for x in deep] == [0.25] * 3
    assert max(len(x.prompt) for x in deep) <= 900
    for x in deep:
        check_item(t, x, 900)
    assert [x.depth for x in make("kv", t, 1, 5, 900)] == [*DEPTHS]
    turns = make("multiturn", t, 1, 1, 1500)[0].questions
    assert len(turns) == 3
    for before, then in zip(turns, turns[1:]):
        said = before.tokens + before.answer
        assert then.tokens[: len(said)] == said  # with its right answer
        last = t.decode(then.tokens[len(said) :])
        assert then.asked in last and before.asked not in last, then
    (x,) = make("prose", t, 1, 1, 1500)
    (q,) = x.questions
    assert len(q.answer) == 256 and not q.tokens and x.prompt[0] == 256
    assert x.depth is None and q.accept == () and q.asked is None
    assert q.reference == t.decode(q.answer).strip(), q
    said, whole = t.decode(x.prompt + q.answer), "".join(words.text() * 2)
    assert "".join(said.split()) in "".join(whole.split()), said
    (x,) = make("niah_single_2", Marks(), 1, 1, 1500)
    (q,) = x.questions
    assert bytes(q.tokens).startswith(b"\n\nWhat is"), q  # no extra blank
    assert bytes(q.answer) == b" " + q.accept[0].encode(), q


    for task in "kv", "multiturn", "prose":
        assert make(task, Ends(), 1, 2, 900) == make(task, Bytes(), 1, 2, 900)


def check_bad():
    t = Bytes()
    refused("no task is called needle; choose from", make, "needle", t, 1, 1, 9)
    refused("no option deep; kv has ", make, "kv:deep=1", t, 1, 1, 900)
    refused("multiturn has length", make, "multiturn:depth=.5", t, 1, 1, 900)
    for x in "question=on", "depth=2", "depth=", "length=0", "length=-1":
        refused(f"{x}: give ", make, f"kv:{x}", t, 1, 1, 900)
    refused("kv of 10 tokens: it needs at least 17", make, "kv", t, 1, 1, 10)
    refused("tokens of this model; give a smaller", make, "prose", t,
            1, 1, 900000)  # fmt: skip
    refused("the tokenizer changes the text", make, "kv", Loses(), 1, 1, 900)
    refused("the model has 50 tokens", make, "kv", t, 1, 1, 900, "m", 50)
    twice = Composer("m", t, 260).span, [*b"a is 7, b is 7"], "7"
    refused("'7', appears 2 times in the prompt", *twice)
    (x,) = make("kv", t, 1, 1, 900)
    x.check(1000)
    refused(f"kv, item {x.id}: {len(x.prompt)} tokens and ", x.check, 900)
    refused("exceed the model's limit of 900", x.check, 900)


def write(**line):
    with open(PATH, "w", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")


def items(tokenizer=None, **line):
    write(**line)
    return [item_of("mine", "m", tokenizer or Chat(), x, 260)
            for x in read_prompts(PATH)]  # fmt: skip


def check_user():
    turn = [dict(role="user", content="b is 8, c is 9. What is c?")]
    (x,) = items(id="c", messages=turn, answer="9", source="c is 9", new=5)
    (q,) = x.questions
    assert (x.id, x.task, x.new, q.tokens) == ("c", "mine", 5, ()), x
    assert bytes(q.answer) == b"9" and q.right("it's 9.") and not q.right("19")
    assert [bytes(x.prompt[a:b]) for a, b in q.spans] == [b"c is 9"], q
    assert x.depth == q.spans[0][0] / len(x.prompt)
    parts = [dict(role="context", text="b is 8, c is 9."),
             dict(role="question", text="What is c?")]  # fmt: skip
    (y,) = items(messages=turn, answer="9", source="c is 9", segments=parts)
    assert y.prompt + y.questions[0].tokens == x.prompt
    assert bytes(y.prompt).endswith(b"c is 9.") and y.new == 32
    line = dict(context=" b is 8, c is 9.", question="What is c?", answer="9")
    (z,) = items(**line, source="c is 9")
    assert (z.prompt, z.new) == (y.prompt, 32), z
    assert z.context == y.context == hashlib.sha256(
        b"b is 8, c is 9.").hexdigest()[:16]
    (q,), (r,) = y.questions, z.questions
    assert (q.asked, q.reference) == (r.asked, r.reference) == (
        "What is c?", "9") and q.spans == r.spans, r  # fmt: skip
    assert bytes(r.tokens).startswith(b"\n\nWhat is c?"), r
    for place in "before", "inside":
        (y,) = items(**line, place=place)
        assert y.context == z.context and y.prompt != z.prompt, y
        assert (y.questions[0].tokens == ()) == (place == "inside"), y
    (x,) = items(prompt="one and", new=3)
    assert x.context == "" and x.questions[0].asked is None, x
    assert x.questions == (Question((), (), ()),) and x.prompt[0] == 256
    refused(":1: m has no chat template for messages; give prompt", items,
            Bytes(), messages=turn)  # fmt: skip
    refused(":1: the source 'd is 9' is not in the", items, messages=turn,
            answer="9", source="d is 9")  # fmt: skip
    refused(":1: new must be a number of tokens", items, prompt="a", new=0)
    refused(":1: has news; the keys are", items, prompt="a", news=1)
    refused(":1: nothing precedes the question", items, prompt="c?",
            segments=[dict(role="question", text="c?")])  # fmt: skip
    refused("is in the question, not", items, prompt="a b is 8",
            answer="8", segments=[
                dict(role="context", text="a"),
                dict(role="question", text="b is 8")])  # fmt: skip
    refused("no chat template", items, Bytes(), messages=turn)


def check_right():
    q = Question((), (), ("12", "Red"))
    assert q.right("red: 12, 13") and not q.right("red: 123")
    q = Question((), (), ("12", "Red"), any=True)
    assert q.right("RED") and not q.right("123 redder")
    for accept, well, bad in (
        ("12", ("12.", "12, say", "12 %", "$12", "(12)", "\uff11\uff12"),
         ("3.12", "12.5", "-12", "\u221212", "0,12", ".12", "2012")),
        ("-5", ("is -5.", "\u22125"), ("10-5", "5", "10\u22125")),
        ("5", ("10-5",), ("-5", "\u22125", "5\u00b2", "1.5")),
        ("52", (), ("5\u00b2", "5 2")),
        ("51", (), ("5\u00bd",)),
        ("1234567", ("1,234,567",), ("1,234,567,890", "1.1234567")),
        ("1,234", ("1234", "1'234", "1_234"), ("234", "12345")),
        ("1234", ("1,234", "1\u2019234", "'1234'"), ("1'234'567",)),
        ("234", ("1:234", "1/234", "'1','234'", "12_34, 234"),
         ("1,234,567", "1'234", "1\u2019234", "1_234", "1_234.5")),
        ("71", (), ("7 1",)),
        ("1234567", ("1234567,7654321", "7654321,1234567,123"), ()),
        ("13", ("12,13,14", "12,13,140", "1.5,13"), ("12,13", "1.234,13")),
        ("14", ("12,13,14", "12,13,14,"), ("0,14,", "14,5", "1.14")),
        ("new york", ("New\nYork",), ("NewYork",)),
    ):  # fmt: skip
        q = Question((), (), (accept,))
        for text in well + bad:
            assert q.right(text) == (text in well), (accept, text)


def digest(found):
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


check_book()
book.read = prose
check_right()
check_options()
check_bad()
check_user()
both = check_tasks(Bytes(), 1200) + check_tasks(Chat(), 1400)
assert digest(both) == DIGEST, digest(both)
if importlib.util.find_spec("transformers"):
    from kvreplay.hf.load import load_tokenizer

    for model in models:
        real = load_tokenizer(model)
        found = check_tasks(real, 1200)
        if len(real) == 260:
            assert found == check_tasks(Bytes(), 1200)  # as with Bytes
print(f"tasks: {len(NAMES)}, {len(both)} items, {len(models)} models")
