#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's flash attention on the shapes of theme attend of `device`.

One query token, fp16, d = 128, 32,768 tokens a lane, groups of 1, 4 and 8
query heads per KV head; bytes counted are K and V, read once. Prints the CSV
columns of `device --csv`; the ceiling is a copy on the device, read and
written bytes, measured here. Exit 77 where there is no PyTorch or no device.

A KV head's group goes in as its query rows, so that K and V are read once for
the group and no copy of them is made: one query token without a mask makes
the heads of a group and the rows of a query the same thing.
"""
import argparse
import statistics
import sys

D, TOKENS, REPEATS, WARM_UPS = 128, 32768, 21, 3


def seconds(torch, run):
    """Median of REPEATS calls, each behind one that keeps the device busy."""
    each = []
    for i in range(-WARM_UPS, REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        run()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if i >= 0:
            each.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(each)


def size(torch):
    """Bytes of K and V: at least 1 GiB and 8 times the L2."""
    of = torch.cuda.get_device_properties(0)
    return max(1 << 30, 8 * getattr(of, "L2_cache_size", 0))


def copy_bandwidth(torch, n):
    """GB/s of a copy of n bytes, read and written ones."""
    a = torch.randint(0, 255, (n,), dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * n / seconds(torch, lambda: b.copy_(a)) / 1e9


def attention(torch, lanes, group):
    """Seconds of a decode step of `lanes` KV heads under flash attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def noise(rows):
        return torch.randn(1, lanes, rows, D, dtype=torch.float16,
                           device="cuda")

    q, k, v = noise(group), noise(TOKENS), noise(TOKENS)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return seconds(torch, lambda: sdpa(q, k, v))


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    try:
        import torch
    except ImportError:
        print("torch_sdpa: PyTorch is not installed here", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch_sdpa: PyTorch sees no CUDA device", file=sys.stderr)
        return 77
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"{torch.cuda.get_device_name(0)}", file=sys.stderr)
    lane = TOKENS * D * 4
    lanes = -(-size(torch) // lane)
    copy = copy_bandwidth(torch, lanes * lane)
    print("what,measured,unit,ceiling,ratio,at_least,at_most,verdict")
    for group in (1, 4, 8):
        reached = lanes * lane / attention(torch, lanes, group) / 1e9
        print(f'"PyTorch flash attention fp16, {lanes} lanes, group {group}",'
              f"{reached:.6g},GB/s,{copy:.6g},{reached / copy:.4g},,,")
    return 0


if __name__ == "__main__":
    sys.exit(main())
