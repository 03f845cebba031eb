#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The formats of ref/formats/block.h again, from their sources, in binary64.

blocks.py --folder DIR K V compares the codes, scales, minima and rows of
`kvreplay vectors -m K-V:k_scale=0.003:v_scale=0.003 -f raw`, written to DIR,
with those of all rows that are coded there, and prints how many.

blocks.py --kernel DIR OUT K V FAULT writes to OUT what attention over these
formats gives, as a kernel without fault (none) or with another layout (nibbles,
scales) would.

blocks.py NAME prints tests/blocks/NAME.tsv, one block of elements a line:
what the case shows, the elements, the stored bytes (scale, minimum, codes) and
the elements read back, as hexadecimal binary32; the bytes of coding these
again, or `same`. A block that cannot be coded is `refused`.

Sources: ggml-quants.c of llama.cpp 0c1e5709; OCP's Microscaling Formats 1.0;
SGLang's kvfp4_tensor.py; vLLM's nvfp4_kv_cache_kernels.cu. A binary64
operation on binary32 numbers, rounded to binary32, is the binary32 operation.
"""

import math
import struct
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction

Coded = tuple[bytes, list[float]]
Coder = Callable[[list[float]], Coded]


class Refused(Exception):
    """A number is not finite, or not as it is stored."""


def f32(x: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def half(x: float) -> bytes:
    try:
        return struct.pack("<e", x)
    except OverflowError:
        raise Refused from None


def widened(h: bytes) -> float:
    return struct.unpack("<e", h)[0]


def inverse(d: float) -> float:
    i = f32(1 / d) if d else 0.0
    return i if math.isfinite(i) else 0.0


def nibbles(codes: list[int]) -> bytes:
    n = (len(codes) + 1) // 2
    high = codes[n:] + [0]
    return bytes(codes[j] & 15 | (high[j] & 15) << 4 for j in range(n))


def packed(codes: list[int], bits: int) -> bytes:
    if bits == 4:
        return nibbles(codes)
    fifth = sum((c >> 4) << j for j, c in enumerate(codes))
    return fifth.to_bytes((len(codes) + 7) // 8, "little") + nibbles(codes)


# --- ggml -------------------------------------------------------------------


def q8_0(x: list[float]) -> Coded:
    d = f32(max(map(abs, x)) / 127)
    i, h = inverse(d), half(d)
    codes = []
    for v in x:
        y = f32(v * i)
        codes.append(int(math.copysign(math.floor(abs(y) + 0.5), y)))
    read = [f32(c * widened(h)) for c in codes]
    return h + bytes(c & 255 for c in codes), read


def largest(x: list[float]) -> float:
    return max([0.0, *x], key=abs)  # the first of several; never -0


def signed(bits: int) -> Coder:
    zero = 1 << (bits - 1)

    def code(x: list[float]) -> Coded:
        d = f32(largest(x) / -zero)
        i, h = inverse(d), half(d)
        y = [int(f32(f32(v * i) + zero + 0.5)) for v in x]
        codes = [min(c, 2 * zero - 1) for c in y]
        read = [f32(float(c - zero) * widened(h)) for c in codes]
        return h + packed(codes, bits), read

    return code


def ranged(bits: int) -> Coder:
    top = (1 << bits) - 1

    def code(x: list[float]) -> Coded:
        low = min(x)  # the first of equal ones, as 0 and -0 are
        d = f32(f32(max(x) - low) / top)
        i, h, m = inverse(d), half(d), half(low)
        y = [int(f32(f32(f32(v - low) * i) + 0.5)) for v in x]
        codes = [min(c, top) for c in y]
        read = [f32(c * widened(h) + widened(m)) for c in codes]
        return h + m + packed(codes, bits), read

    return code


IQ4NL = [-127, -104, -83, -65, -49, -35, -22, -10]
IQ4NL += [1, 13, 25, 38, 53, 69, 89, 113]


def near(y: float) -> int:
    """The nearest, of two the larger."""
    return min(range(16), key=lambda c: (abs(IQ4NL[c] - y), -c))


def iq4_nl(x: list[float]) -> Coded:
    d, codes, most = 0.0, [8] * len(x), largest(x)
    if abs(most) >= f32(1e-15):
        i = f32(1 / f32(most / IQ4NL[0]))
        y = [f32(v * i) for v in x]
        codes = [near(v) for v in y]
        xq = qq = 0.0
        for v, c in zip(x, codes):
            wq = f32(f32(v * v) * IQ4NL[c])
            xq = f32(xq + f32(wq * v))
            qq = f32(qq + f32(wq * IQ4NL[c]))
        d = f32(xq / qq) if qq > 0 else 0.0
        if not math.isfinite(d):
            raise Refused
    h = half(d)
    return h + nibbles(codes), [f32(IQ4NL[c] * widened(h)) for c in codes]


# --- floats of few bits -----------------------------------------------------


def floats(bits: int, mantissa: int, bias: int, most: float) -> list[float]:
    """The numbers that are not negative, by code; bits: without the sign."""
    out = []
    for code in range(1 << bits):
        e, m = code >> mantissa, code & ((1 << mantissa) - 1)
        unit = 2.0 ** (max(e, 1) - bias - mantissa)
        v = (m + (1 << mantissa if e else 0)) * unit
        if v <= most:
            out.append(v)
    return out


E2M1 = floats(3, 1, 1, 6)
E4M3 = floats(7, 3, 7, 448)
E5M2 = floats(7, 2, 15, 57344)


def nearest(of: list[float], y: float) -> int:
    """Code of the nearest to y >= 0, ties to the even code."""
    y = min(y, of[-1])
    return min(range(len(of)), key=lambda c: (abs(of[c] - y), c & 1))


def code_of(y: float) -> int:
    """Of e2m1, as value."""
    return nearest(E2M1, abs(y)) | 8 * (math.copysign(1, y) < 0)


def value(code: int) -> float:
    return math.copysign(E2M1[code & 7], 4 - (code & 8))


def two_to(byte: int) -> float:
    return 2.0 ** (byte - 127)


def mxfp4(x: list[float]) -> Coded:
    most = max(map(abs, x))
    shared = math.frexp(most)[1] - 1 - 2 if most else -127
    byte = max(shared + 127, 0)
    codes = [code_of(v / two_to(byte)) for v in x]
    read = [f32(value(c) * two_to(byte)) for c in codes]
    return bytes([byte]) + nibbles(codes), read


def fp4_e2m1(x: list[float]) -> Coded:
    r = max(f32(max(map(abs, x)) / 6), f32(1e-10))
    m, e = math.frexp(r)
    byte = (e - 1 if m == 0.5 else e) + 127
    codes = []
    for v in x:
        y = v / two_to(byte)
        bounds = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
        codes.append(sum(abs(y) >= b for b in bounds) + 8 * (y < 0))
    read = [f32(value(c) * two_to(byte)) for c in codes]
    return bytes([byte]) + nibbles(codes), read


WHOLE = f32(0.003)  # the tensor's scale; 1 / (1 / it) is not it


def part(most: float, reciprocal: float) -> tuple[int, float]:
    g = f32(1 / WHOLE)
    f = nearest(E4M3, f32(g * f32(most * reciprocal)))
    return f, f32(1 / f32(E4M3[f] * f32(1 / g))) if E4M3[f] else 0.0


def error(x: list[float], o: float) -> float:
    back, total = (f32(1 / o) if o else 0.0), 0.0
    e = [f32(f32(value(code_of(f32(v * o))) * back) - v) for v in x]
    e += [0.0] * (len(e) % 2)
    for a, b in zip(e[::2], e[1::2]):
        total = f32(total + f32(f32(a * a) + f32(b * b)))
    return total


def nv(x: list[float], f: int, o: float) -> Coded:
    codes = [code_of(f32(v * o)) for v in x]
    read = [f32(value(c) * E4M3[f] * WHOLE) for c in codes]
    return bytes([f]) + nibbles(codes), read


def nvfp4(x: list[float]) -> Coded:
    return nv(x, *part(max(map(abs, x)), f32(1 / 6)))


def nvfp4_4over6(x: list[float]) -> Coded:
    most = max(map(abs, x))
    six, four = part(most, f32(1 / 6)), part(most, 0.25)
    return nv(x, *(four if error(x, four[1]) < error(x, six[1]) else six))


def fp8(of: list[float]) -> Coder:
    def code(x: list[float]) -> Coded:
        y = [f32(v / WHOLE) for v in x]
        near = [nearest(of, abs(v)) for v in y]
        signs = [math.copysign(1, v) for v in y]
        codes = [c | 128 * (s < 0) for c, s in zip(near, signs)]
        read = [f32(s * of[c] * WHOLE) for c, s in zip(near, signs)]
        return bytes(codes), read

    return code


# Elements of a block, bits of a code.
FORMATS: dict[str, tuple[int, int, Coder]] = {
    "q8_0": (32, 8, q8_0),
    "q5_1": (32, 5, ranged(5)),
    "q5_0": (32, 5, signed(5)),
    "q4_1": (32, 4, ranged(4)),
    "q4_0": (32, 4, signed(4)),
    "iq4_nl": (32, 4, iq4_nl),
    "mxfp4": (32, 4, mxfp4),
    "fp4_e2m1": (16, 4, fp4_e2m1),
    "nvfp4": (16, 4, nvfp4),
    "nvfp4_4over6": (16, 4, nvfp4_4over6),
    "fp8_e4m3": (16, 8, fp8(E4M3)),
    "fp8_e5m2": (16, 8, fp8(E5M2)),
}


# --- cases ------------------------------------------------------------------


def some(n: int, seed: int) -> list[float]:
    """Numbers in (-1, 1) of 24 bits."""
    out = []
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) % 2**32
        out.append(((seed >> 8) - 0x800000) * 2.0**-23)
    return out


def cases(n: int) -> list[tuple[str, list[float]]]:
    x, y = some(n, 1), some(n, 2)
    ties = [(i * 5 % 17 - 8) / 2 for i in range(n)]
    return [
        ("full mantissas", x),
        ("far from 0", [f32(7 + v / 8) for v in y]),
        ("bf16", [round(v * 128) / 32 for v in x]),
        ("heavy tail", [f32(v**5 * 50) for v in y]),
        ("ties", ties),
        ("ties of the largest", [-v for v in ties[:8]] + [4.0] + ties[9:]),
        ("zeros", [0.0, -0.0] * (n // 2)),
        ("-0 first", [-0.0, 0.0] + [1.0] * (n - 2)),
        ("one number", [-3.25] * n),
        ("a shorter block", x[:5]),
        ("scale below fp16", [f32(v * 2.0**-26) for v in x]),
        ("scale a subnormal fp16", [f32(v * 2.0**-16) for v in y]),
        ("subnormal", [f32(v * 2.0**-127) for v in x]),
        ("least numbers", [2.0**-149, -(2.0**-149)] + [0.0] * (n - 2)),
        ("large", [f32(v * 60000) for v in y]),
        ("past fp16", [f32(v * 2.0**24) for v in x]),
        ("NaN", [math.nan] + x[1:]),
        ("infinite", x[1:] + [-math.inf]),
    ]


def first(
    make: Callable[[int], list[float]], shows: Callable[[list[float]], bool]
) -> list[float]:
    """The first of many blocks that shows something."""
    return next(x for x in map(make, range(3, 10**6)) if shows(x))


def bf16(seed: int) -> list[float]:
    return [round(v * 127) / 32 for v in some(32, seed)]


def fused(x: list[float]) -> bool:
    """q4_0 as built with fused additions would choose another code."""
    i = inverse(f32(largest(x) / -8))
    exact = [float(Fraction(v) * Fraction(i) + Fraction(17, 2)) for v in x]
    return any(
        int(f32(f32(v * i) + 8.5)) != int(f32(e)) for v, e in zip(x, exact)
    )


def amid(k: int) -> list[float]:
    """A largest number whose sixth is near the middle of two of e4m3."""
    m = 20 + k // 32 % 80
    y = (E4M3[m] + E4M3[m + 1]) / 2 * 6
    most = f32(y * WHOLE * (1 + (k % 32 - 16) * 2.0**-24))
    return [most, -most / 2] + [0.25 * WHOLE] * 14


def low(x: list[float]) -> bool:
    """A reciprocal of 6 one unit lower gives another scale."""
    return part(x[0], f32(1 / 6))[0] != part(x[0], f32(1 / 6) - 2.0**-26)[0]


def divided(x: list[float]) -> bool:
    """So does a division by 6."""
    y = f32(f32(1 / WHOLE) * f32(x[0] / 6))
    return part(x[0], f32(1 / 6))[0] != nearest(E4M3, y)


def brink(k: int) -> list[float]:
    """Numbers near the middle of two of e2m1, by their own scale."""
    most = f32((k % 97 + 3) * WHOLE)
    o = part(most, f32(1 / 6))[1]
    near = [f32(v / o * (1 + (k % 5 - 2) * 2.0**-24)) for v in HALVES[:7]]
    return [most] + near + [-v for v in near] + [0.0]


def once(x: list[float]) -> bool:
    """1 / (f * s) instead of 1 / (f * (1 / g)) gives another code."""
    f, o = part(x[0], f32(1 / 6))
    other = f32(1 / f32(E4M3[f] * WHOLE))
    return any(code_of(f32(v * o)) != code_of(f32(v * other)) for v in x)


def both(k: int) -> list[float]:
    """On the grids of 6 and of 4."""
    return [f32(v * k * WHOLE) for v in (6, 3, 1.5, 0) * 4]


def tied(x: list[float]) -> bool:
    """Errors of 4 and of 6 are equal, and their scales are not."""
    six, four = part(x[0], f32(1 / 6)), part(x[0], 0.25)
    return six[0] != four[0] and error(x, six[1]) == error(x, four[1])


def odd(x: list[float]) -> bool:
    """Half of the elements would choose another scale of 4over6."""
    most = max(map(abs, x))
    six, four = part(most, f32(1 / 6))[1], part(most, 0.25)[1]
    return (error(x, four) < error(x, six)) != (
        error(x[1::2], four) < error(x[1::2], six)
    )


def inverted(of: list[float]) -> Callable[[list[float]], bool]:
    """A product with 1 / s gives another 8-bit float."""
    i = f32(1 / WHOLE)
    return lambda x: nearest(of, f32(x[0] / WHOLE)) != nearest(
        of, f32(x[0] * i)
    )


def middle(of: list[float]) -> Callable[[int], list[float]]:
    """Numbers near the middle of two 8-bit floats."""

    def make(k: int) -> list[float]:
        y = (of[k % 40 + 40] + of[k % 40 + 41]) / 2 * WHOLE
        return [f32(y * (1 + (k % 7 - 3) * 2.0**-24))]

    return make


HALVES = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0]
LIST = [-127.0, -4.5, 7.0, 19.0, -16.0, 31.5, -115.5, 79.0]


def own(name: str) -> list[tuple[str, list[float]]]:
    """Cases of one format."""
    if name == "q4_0":
        return [("fused additions differ", first(bf16, fused))]
    if name == "iq4_nl":
        return [("amid two", LIST), ("least scale", [3e-15, -1e-15])]
    if name == "mxfp4":
        return [("amid two", HALVES + [-v for v in HALVES])]
    if name == "fp4_e2m1":
        return [
            ("amid two", HALVES + [-v for v in HALVES]),
            ("3 is read, and coded again as 6", [3.125] + [0.5] * 15),
        ]
    if name.startswith("nvfp4"):
        return [
            ("amid two", [f32(v * WHOLE) for v in HALVES + HALVES]),
            ("f is coded again as 0", [f32(0.006 * WHOLE)] + [0.0] * 15),
            ("an approximate reciprocal differs", first(amid, low)),
            ("a division differs", first(amid, divided)),
            ("a scale inverted once differs", first(brink, once)),
            ("errors are equal", first(both, tied)),
            ("half of them differ", first(lambda k: some(16, k), odd)),
        ]
    if name.startswith("fp8"):
        of = E4M3 if name == "fp8_e4m3" else E5M2
        return [("a product differs", first(middle(of), inverted(of)))]
    return []


def words(x: list[float]) -> str:
    return " ".join(struct.pack(">f", v).hex() for v in x)


def line(what: str, x: list[float], code: Coder) -> str:
    try:
        if not all(map(math.isfinite, x)):
            raise Refused
        stored, read = code(x)
        if not all(map(math.isfinite, read)):
            raise Refused
    except Refused:
        return f"{what}\t{words(x)}\trefused"
    try:
        again = code(read)[0]
    except Refused:
        again = b""
    same = "same" if again == stored else again.hex()
    return f"{what}\t{words(x)}\t{stored.hex()}\t{words(read)}\t{same}"


# --- vectors of kvreplay ----------------------------------------------------

TYPES = {"F32": "f", "F16": "e", "U8": "B", "I32": "i"}
Matrix = tuple[str, int, list[list[float]]]  # bytes of a row: type and width


def matrices(where: str) -> dict[tuple[str, ...], Matrix]:
    """By stage, layer and head; the last step's."""
    out: dict[tuple[str, ...], Matrix] = {}
    with open(f"{where}/manifest.tsv", encoding="ascii") as lines:
        table = [row[:-1].split("\t") for row in lines if row[0] != "#"]
    for stage, layer, _, head, _, kind, rows, width, _, _, name in table:
        if kind not in TYPES:
            continue
        one = struct.Struct(f"<{width}{TYPES[kind]}")
        with open(f"{where}/{name}", "rb") as f:
            raw = [f.read(one.size) for _ in range(int(rows))]
            data = [list(one.unpack(row)) for row in raw]
        out[stage, layer, head] = (f"<{TYPES[kind]}", int(width), data)
    return out


def stored_at(m: Matrix | None, row: int, block: int, blocks: int) -> bytes:
    """What a matrix of scales or minima, if there is one, has for a block."""
    if m is None:
        return b""
    each = m[1] // blocks
    part = m[2][row][block * each : (block + 1) * each]
    return b"".join(struct.pack(m[0], v) for v in part)


# The largest numbers that formats which clip can hold, of a scale 1.
LARGEST = {"fp8_e4m3": E4M3[-1], "fp8_e5m2": E5M2[-1]}
LARGEST |= dict.fromkeys(["nvfp4", "nvfp4_4over6"], E2M1[-1] * E4M3[-1])


def folder(where: str, names: list[str]) -> int:
    all_of, same = matrices(where), 0
    for (stage, layer, head), (_, _, codes) in all_of.items():
        if stage not in ("k_codes", "v_codes"):
            continue
        side, at = stage[0], (layer, head)
        n, bits, code = FORMATS[names[side == "v"]]
        scales = all_of.get((side + "_scales", *at))
        minima = all_of.get((side + "_minima", *at))
        table = all_of[side + "_page_table", *at][2]
        for token, place in enumerate(table):
            row, group = map(int, place)
            x = all_of[side, *at][2][token]
            read = all_of[side + "_read", *at][2][token]
            blocks = (len(x) + n - 1) // n
            clipped = all_of.get((side + "_clipped", *at))
            if clipped and row >= 0:
                most = LARGEST[names[side == "v"]] * WHOLE
                if clipped[2][row][0] != sum(abs(v) > f32(most) for v in x):
                    sys.exit(f"{side}_clipped {layer} {head}: token {token}")
            for b in range(blocks if row >= 0 else 0):
                part = slice(b * n, (b + 1) * n)
                own = [int(c) for c in codes[row][part]]
                have = stored_at(scales, group, b, blocks)
                have += stored_at(minima, group, b, blocks)
                have += bytes(own) if bits == 8 else packed(own, bits)
                want, numbers = code(x[part])
                if have != want or words(read[part]) != words(numbers):
                    sys.exit(f"{stage} {layer} {head}: token {token}, {b}")
                same += 1
    return same


# --- a kernel ---------------------------------------------------------------


def dot(a: Iterable[float], b: Iterable[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b))


def read_rows(name: str, x: list[list[float]], fault: str) -> list[list[float]]:
    """Rows as a kernel reads them, perhaps with a layout of its own."""
    n, _, code = FORMATS[name]
    out = []
    for row in x:
        blocks = [code(row[at : at + n]) for at in range(0, len(row), n)]
        read = [list(numbers) for _, numbers in blocks]
        if fault == "nibbles":  # high and low ones change places
            half = [(len(b) + 1) // 2 for b in read]
            read = [b[m:] + b[:m] for b, m in zip(read, half)]
        if fault == "scales":  # nvfp4's, neighbours change places
            f = [E4M3[stored[0]] for stored, _ in blocks]
            for g in range(len(f) // 2 * 2):
                read[g] = [v / f[g] * f[g ^ 1] for v in read[g]]
        out.append([v for b in read for v in b])
    return out


def kernel(where: str, out: str, names: list[str], fault: str) -> None:
    """Attention over coded rows in binary64, at each decode step; the newest
    row is read uncoded. Writes what `kvreplay grade --outputs` reads."""
    with open(f"{where}/manifest.tsv", encoding="ascii") as f:
        head = dict(word.split("=") for word in f.readline().split()[3:])
    prompt, heads = int(head["prompt_len"]), int(head["n_heads"])
    all_of = matrices(where)
    k, v = (all_of[side, "0", "0"][2] for side in "kv")
    rows = [read_rows(n, x, fault) for n, x in zip(names, (k, v))]
    o: list[float] = []
    for h in range(heads):
        for t in range(prompt, len(k)):
            q, keys, values = (
                all_of["q", "0", str(h)][2][t],
                [*rows[0][:t], k[t]],
                [*rows[1][:t], v[t]],
            )
            s = [dot(q, key) for key in keys]
            scale = float.fromhex(head["scale"])
            p = [math.exp((y - max(s)) * scale) for y in s]
            o += [dot(p, c) / sum(p) for c in zip(*values)]
    shape = f"[{heads},{len(k) - prompt},{len(v[0])}]"
    text = f'{{"layers.0.o":{{"dtype":"F32","shape":{shape},'
    text += f'"data_offsets":[0,{4 * len(o)}]}}}}'
    with open(out, "wb") as to:
        to.write(struct.pack("<Q", len(text)) + text.encode())
        to.write(struct.pack(f"<{len(o)}f", *o))


def main() -> None:
    if sys.argv[1] == "--kernel":
        kernel(sys.argv[2], sys.argv[3], sys.argv[4:6], sys.argv[6])
        return
    if sys.argv[1] == "--folder":
        print(folder(sys.argv[2], sys.argv[3:]), "blocks")
        return
    name = sys.argv[1]
    n, _, code = FORMATS[name]
    print(f"# blocks.py {name} prints this: what, x, bytes, read, again")
    for what, x in cases(n) + own(name):
        print(line(what, x, code))


if __name__ == "__main__":
    main()
