# SPDX-License-Identifier: Apache-2.0
"""kvreplay.evaluate.store: put() rows are found by their key; conflicts and
incomplete rows give the library's sentence; threads can share a store; a killed
process loses nothing that put() returned from."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from kvreplay.evaluate.assets import code_of
from kvreplay.evaluate.store import Store, StoreError, names

ASKED = dict(
    model="made-up", model_digest=None, task="needle", item="n0", question=0,
    request_digest="ab" * 32, prompt_len=10, tokens=20, method="h2o",
    basis="mean", target="25%",
    platform=dict(torch="2.15", transformers="5.2", processor="x", threads=1,
                  dtype="bfloat16"),
)
FULL = dict(
    ASKED, spec="h2o:budget=3", budget=3, status="ok", reason="",
    answer_digest="cd" * 32,
    values={"exact": 1, "kl": 0.1 + 0.2, "open.kl.mean": 3.0},
)
TEXT = dict(context="ab" * 8, asked="", reference="caf\u00e9", said="\ufffd\n",
            said_tokens=[0, 2**31 - 1])  # fmt: skip
NONE = dict.fromkeys(TEXT) | dict(context="")


def expect(code, says, row, store):
    try:
        store.put(row)
    except StoreError as why:
        assert why.code == code and says in str(why), why
    else:
        raise AssertionError(says)


def laws(path):
    with Store(path) as store:
        assert store.find(ASKED) is None
        store.put(FULL)
        store.put(FULL)
        found = store.find(ASKED)
        assert found == dict(FULL, **NONE, budget="3"), found
        told = dict(TEXT, item="told")
        store.put(FULL | told | dict(said="\0\n"))  # a C text cannot contain 0
        found = store.find(dict(ASKED, item="told"))
        assert found == FULL | told | dict(budget="3"), found
        expect(1, "kl is 0.3", dict(FULL, values={"kl": 0.3}), store)
        expect(1, "budget is 3 before and 4 now", dict(FULL, budget=4), store)
        expect(2, "no number called acc", dict(FULL, values=dict(acc=1)),
               store)
        expect(2, "question of the evaluation", dict(FULL, question="x"), store)
        expect(2, "kl of the evaluation", dict(FULL, values=dict(kl="x")),
               store)
        expect(2, "did you mean h2o", dict(FULL, method="h2"), store)
        press = dict(ASKED, method="SnapKVPress", code="kvpress 0.5.5")
        store.put(dict(press, status="refused", reason="caf\u00e9"))
        assert store.find(press)["reason"] == "caf\u00e9"
        assert store.find(dict(press, code="kvpress 0.6")) is None
        learned = dict(ASKED, method="less", code="file " + "ab" * 32)
        store.put(dict(learned, status="refused", reason="x"))
        assert store.find(learned)
        assert store.find(dict(learned, code="file " + "cd" * 32)) is None
        assert store.find(dict(learned, code=None)) is None
        expect(2, "did you mean h2o", dict(FULL, method="h2", code="file x"),
               store)
        other = dict(ASKED, platform=dict(ASKED["platform"], threads=2))
        assert store.find(other) is None
    assert names()["bytes.mean"] == ("bytes", "of dense")


def learned(folder):
    """A row depends on the content of a file that was found, not its path."""
    digests = []
    for name, text in ("a:b,c", "x"), ("d+e", "x"), ("f", "y"):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
        path = re.sub(r"([\\:,+])", r"\\\1", f.name)
        digests.append(code_of("less:rank=2+int4", f"less:rank=2:weights={path}"
                               "+int4"))  # fmt: skip
    assert digests[0] == digests[1] != digests[2], digests
    assert digests[0].startswith("file ") and code_of("h2o", "h2o") is None


def threads(path):
    failed = []

    def fill(first):
        try:
            for i in range(first, first + 20):
                store.put(dict(FULL, item=f"t{i}"))
                assert store.find(dict(ASKED, item=f"t{i}"))["values"]["exact"]
        except BaseException as why:  # reported by the main thread
            failed.append(why)

    with Store(path) as store:
        every = [threading.Thread(target=fill, args=[10 * i]) for i in range(3)]
        for x in every:
            x.start()
        for x in every:
            x.join()
    assert not failed, failed


def write(path):
    with Store(path) as store:
        for i in range(10000):
            store.put(dict(FULL, item=f"k{i}"))
            print(i, flush=True)


def killed(path):
    child = subprocess.Popen([sys.executable, __file__, path],
                             stdout=subprocess.PIPE)
    told = [child.stdout.readline() for _ in range(5)]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    child.wait()
    with Store(path) as store:
        for line in told[:-1] + told[-1:] * told[-1].endswith(b"\n"):
            assert store.find(dict(ASKED, item=f"k{int(line)}")) is not None


if len(sys.argv) > 1:
    write(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "r.db")
        laws(path)
        learned(folder)
        threads(path)
        killed(path)
    print("session_store: ok")
