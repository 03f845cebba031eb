# SPDX-License-Identifier: Apache-2.0
"""A kvreplay session from Python: one file, numpy and the installed library.

    from kvsession import Session
    shape = dict(n_layers=2, n_heads=8, n_kv_heads=2, d=64, dtype="f16")
    with Session("h2o", 512, **shape, n_tokens=4096, prompt_len=4000) as s:
        s.block(0, q, k, v)              # prompt of layer 0, in any pieces
        out = s.block(0, q, k, v, out=True)       # then one token at a time
        s.view(0, 3), s.lane(0, 1), s.ledger(), s.digest()

Arrays are [heads, tokens, dimension], any strides: float16, float32, or
uint16 for the bits of bfloat16. What does not fit is a SessionError with one
sentence. sim/session.h says what each call promises. The library is looked
for as KVREPLAY_LIBRARY, then where the system finds libkvreplay.so.0.
"""

import ctypes as c
import operator
import os

import numpy as np

ABI = 1
DTYPES = {"f16": 0, "bf16": 1, "f32": 2}
_NUMPY = {
    np.dtype(np.float16): 0,
    np.dtype(np.uint16): 1,
    np.dtype(np.float32): 2,
}


class SessionError(Exception):
    """One sentence. code: an exit code of kvreplay; 2: the call is wrong,
    6: refused."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Err(c.Structure):
    _fields_ = [("rc", c.c_int), ("text", c.c_char * 512)]


class _Shape(c.Structure):
    _fields_ = [
        (n, c.c_int32)
        for n in (
            "abi",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "d",
            "d_v",
            "n_tokens",
            "dtype",
        )
    ]
    _fields_ += [
        ("scale", c.c_float),
        ("n_fed", c.c_int32),
        ("fed", c.c_void_p),
        ("inv_freq", c.c_void_p),
        ("interleaved", c.c_int32),
        ("positions", c.c_void_p),
    ]


class _Rows(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_int32),
        ("token", c.c_int64),
        ("head", c.c_int64),
    ]


class _Bytes(c.Structure):
    _fields_ = [("step", c.c_int32)]
    _fields_ += [
        (n, c.c_int64)
        for n in ("payload", "metadata", "columns", "side", "slack", "peak")
    ]
    _fields_ += [("mean", c.c_double)]


def _load(path):
    path = path or os.environ.get("KVREPLAY_LIBRARY") or "libkvreplay.so.0"
    lib = c.CDLL(path, mode=c.RTLD_GLOBAL)  # a plugin calls into it
    if lib.kv_session_abi() != ABI:
        raise SessionError(
            2,
            f"the library's session has ABI {lib.kv_session_abi()}, "
            f"this file {ABI}: take the two from one version",
        )
    lib.kv_session_spec.restype = c.c_char_p
    lib.kv_session_spec.argtypes = [c.c_void_p]
    lib.kv_session_lanes.argtypes = [c.c_void_p]
    lib.kv_session_close.argtypes = [c.c_void_p]
    return lib


def _int(name, x):
    """A number that C holds as it is: ctypes would wrap another silently."""
    try:
        n = operator.index(x)
    except TypeError:
        n = None
    if n is None or not -(2**31) <= n < 2**31:
        raise SessionError(2, f"{name} is {x!r}, not a whole number of 32 bits")
    return n


def _text(name, x):
    if not isinstance(x, str) or "\0" in x:
        raise SessionError(2, f"{name} is {x!r}; give text as behind -m or -b")
    return x.encode()


def _choice(name, x, choices):
    if not isinstance(x, str) or x not in choices:
        raise SessionError(2, f"{name} is {x!r}; give {' or '.join(choices)}")
    return choices[x]


def _array(name, values, dtype, kinds, n=None):
    """The array that keeps the memory, and its address or None."""
    if values is None:
        return None, None
    a = np.asarray(values)
    if n is not None and a.size != n:
        raise SessionError(2, f"{name} holds {a.size} numbers and not {n}")
    if a.ndim != 1 or not a.size or a.dtype.kind not in kinds:
        raise SessionError(
            2,
            f"{name} is {a.dtype}{list(a.shape)}; give a row of one or more "
            f"{'whole ' if kinds == 'iu' else ''}numbers, or None",
        )
    if kinds == "iu":
        for x in (a.min(), a.max()):
            _int(f"a number in {name}", int(x))
    a = np.ascontiguousarray(a, dtype)
    return a, a.ctypes.data


def _rows(a, heads, name):
    """An array that keeps the memory, and how the library sees it."""
    a = np.asarray(a)
    if a.ndim != 3 or a.shape[0] != heads or a.dtype not in _NUMPY:
        raise SessionError(
            2,
            f"{name} is {a.dtype}{list(a.shape)}; give float16, "
            f"float32 or uint16 (bfloat16) of [{heads}, tokens, d]",
        )
    if a.strides[2] != a.itemsize or any(x % a.itemsize for x in a.strides):
        a = np.ascontiguousarray(a)
    head, token = (x // a.itemsize for x in a.strides[:2])
    return a, _Rows(a.ctypes.data, _NUMPY[a.dtype], token, head)


class Session:
    def __init__(
        self,
        method,
        budget=None,
        *,
        n_layers,
        n_heads,
        n_kv_heads,
        d,
        n_tokens,
        prompt_len,
        d_v=None,
        dtype="f16",
        scale=0.0,
        fed=None,
        inv_freq=None,
        interleaved=False,
        positions=None,
        library=None,
    ):
        self._lib, self._s = _load(library), c.c_void_p()
        n_layers = _int("n_layers", n_layers)
        n_heads = _int("n_heads", n_heads)
        n_kv_heads = _int("n_kv_heads", n_kv_heads)
        n_tokens = _int("n_tokens", n_tokens)
        d, d_v = _int("d", d), _int("d_v", d if d_v is None else d_v)
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.d, self.d_v, self._room = d, d_v, n_tokens
        layers, fed_at = _array("fed", fed, np.int32, "iu")
        freq, freq_at = _array("inv_freq", inv_freq, np.float32, "fiu", d // 2)
        places, places_at = _array(
            "positions", positions, np.int32, "iu", n_tokens
        )
        if not isinstance(scale, (int, float, np.number)):
            raise SessionError(
                2, f"scale is {scale!r}; give a number, or 0 for 1/sqrt(d)"
            )
        shape = _Shape(
            ABI,
            n_layers,
            n_heads,
            n_kv_heads,
            d,
            d_v,
            n_tokens,
            _choice("dtype", dtype, DTYPES),
            float(scale),
            0 if fed is None else layers.size,
            fed_at,
            freq_at,
            int(bool(interleaved)),
            places_at,
        )
        self._call(
            "open",
            c.byref(shape),
            _text("method", method),
            None if budget is None else _text("budget", str(budget)),
            _int("prompt_len", prompt_len),
            c.byref(self._s),
            session=False,
        )
        # Only now: the library has checked the numbers of the layers.
        self.seen = {
            int(i): 0 for i in (range(n_layers) if fed is None else layers)
        }
        self.spec = self._lib.kv_session_spec(self._s).decode()
        self.lanes = self._lib.kv_session_lanes(self._s)

    def _call(self, name, *args, session=True):
        e = _Err()
        call = getattr(self._lib, "kv_session_" + name)
        rc = call(*((self._s,) if session else ()), *args, c.byref(e))
        if rc:
            raise SessionError(rc, e.text.decode(errors="replace"))

    def block(self, layer, q, k, v, out=False, step=None):
        """The next tokens of a layer; with out=True their outputs, float32
        [n_heads, tokens, d_v]."""
        layer = _int("layer", layer)
        q, q_in = _rows(q, self.n_heads, "q")
        k, k_in = _rows(k, self.n_kv_heads, "k")
        v, v_in = _rows(v, self.n_kv_heads, "v")
        n = _int("the number of tokens", q.shape[1])
        if not (
            k.shape[1] == v.shape[1] == n
            and q.shape[2] == k.shape[2] == self.d
            and v.shape[2] == self.d_v
        ):
            raise SessionError(
                2,
                f"q{list(q.shape)}, k{list(k.shape)} and "
                f"v{list(v.shape)} do not belong together",
            )
        o = np.empty((self.n_heads, n, self.d_v), np.float32) if out else None
        to = _Rows(o.ctypes.data, 2, self.d_v, n * self.d_v) if out else None
        step = self.seen.get(layer, 0) + n if step is None else step
        step = _int("step", step)
        self._call(
            "block",
            layer,
            step,
            n,
            c.byref(q_in),
            c.byref(k_in),
            c.byref(v_in),
            c.byref(to) if out else None,
        )
        self.seen[layer] = step
        return o

    def end_step(self, step):
        self._call("end_step", _int("step", step))

    def lane(self, layer, lane):
        """Token ids and weights of what the lane holds now."""
        ids, weights = (np.empty(self._room, np.uint32) for _ in range(2))
        n = c.c_int()
        self._call(
            "lane",
            _int("layer", layer),
            _int("lane", lane),
            self._room,
            c.c_void_p(ids.ctypes.data),
            c.c_void_p(weights.ctypes.data),
            c.byref(n),
        )
        return ids[: n.value].copy(), weights[: n.value].copy()

    def view(self, layer, head):
        """Token ids that the query head attended at the last decode step."""
        ids, n = np.empty(self._room, np.uint32), c.c_int()
        self._call(
            "view",
            _int("layer", layer),
            _int("head", head),
            self._room,
            c.c_void_p(ids.ctypes.data),
            c.byref(n),
        )
        return ids[: n.value].copy()

    def lse(self, layer):
        x = np.empty(self.n_heads, np.float32)
        self._call("lse", _int("layer", layer), c.c_void_p(x.ctypes.data))
        return x

    def ledger(self):
        b = _Bytes()
        self._call("ledger", c.byref(b))
        return {name: getattr(b, name) for name, *_ in _Bytes._fields_}

    def digest(self):
        """Ends the session: journal, state and output digests in hex."""
        d = (c.c_ubyte * 96)()
        self._call("digest", d)
        return {
            name: bytes(d[32 * i : 32 * i + 32]).hex()
            for i, name in enumerate(("journal", "state", "output"))
        }

    def close(self):
        if self._s:
            self._lib.kv_session_close(self._s)
        self._s = c.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
