#!/usr/bin/env python3
"""Writes tests/golden: small ternary matrices in other projects' formats, packed one element at a time from the
description of each format (docs/formats.md), without the library. PyPI's gguf makes tq1_0 and tq2_0.

usage: golden_formats.py FOLDER    (needs numpy and gguf)
"""
import pathlib
import sys

import numpy as np

SCALE = np.float32(0.7431640625)  # an f16, so that every format can store it


def trits_of(n, k):
    """Reproducible trits. Columns 0 to 255 of rows 1 and n - 2 are zeros, which gives blocks without a scale."""
    w = np.random.default_rng(1000 * n + k).integers(-1, 2, (n, k)).astype(np.int8)
    w[1, :256] = 0
    w[n - 2, :256] = 0
    return w


def trailer(scale):
    """32 bytes, the scale in the first four."""
    return np.concatenate([np.frombuffer(scale.astype("<f4").tobytes(), np.uint8), np.zeros(28, np.uint8)])


def i2(w):
    n, k = w.shape
    out = np.full((n, -(-k // 4)), 0b01010101, np.uint8)  # padding is code 1
    for r in range(n):
        for c in range(k):
            shift = 2 * (c % 4)
            out[r, c // 4] = (int(out[r, c // 4]) & ~(3 << shift)) | (int(w[r, c]) + 1) << shift
    return out.reshape(-1)


def b3(w):
    n, k = w.shape
    out = np.zeros((n, -(-k // 5)), np.uint8)
    for r in range(n):
        for i in range(out.shape[1]):
            v = 0
            for c in range(5 * i, 5 * i + 5):
                v = 3 * v + (int(w[r, c]) if c < k else 0) + 1
            out[r, i] = -(-v * 256 // 243)
    return out.reshape(-1)


def i2_s_runs(w, run):
    """Runs of 128 (x86) or 64 (ARM) elements; a run has four groups, the first in the top two bits."""
    flat = w.reshape(-1)
    out = np.zeros(flat.size // 4, np.uint8)
    group = run // 4
    for e in range(flat.size):
        j = e % run
        out[e // run * group + j % group] |= np.uint8((int(flat[e]) + 1) << (6 - 2 * (j // group)))
    return np.concatenate([out, trailer(SCALE)])


def i2_s_1x4(w):
    n, k = w.shape
    out = np.zeros(n * k // 4, np.uint8)
    for r in range(n):
        for c in range(k):
            out[r // 4 * k + c] |= np.uint8((int(w[r, c]) + 1) << (6 - 2 * (r % 4)))
    return np.concatenate([out, trailer(SCALE)])


def hf_packed(w):
    n, k = w.shape
    out = np.zeros((n // 4, k), np.uint8)
    for r in range(n):
        for c in range(k):
            out[r % (n // 4), c] |= np.uint8((int(w[r, c]) + 1) << (2 * (r // (n // 4))))
    return out.reshape(-1)


def ms_gpu(w):
    n, k = w.shape
    out = np.zeros(n * k // 4, np.uint8)
    for r in range(n):
        for c in range(k):
            tile = r // 16 * (k // 32) + c // 32
            run = r % 16 // 8 * 16 + c % 32 // 16 * 8 + r % 8
            e = c % 16
            out[tile * 128 + run * 4 + e % 4] |= np.uint8((int(w[r, c]) + 2) << (2 * (e // 4)))
    return out.reshape(-1)


def tl1(w, BM, BK, bm):
    """Pairs of columns as 3a + b + 4; two pairs a byte, the first in the high nibble."""
    n, k = w.shape
    by = 256 // bm
    out = []
    for r_tile in range(0, n, BM):
        for c_tile in range(0, k, BK):
            for r_block in range(r_tile, r_tile + BM, bm):
                for c_block in range(c_tile, c_tile + BK, by):
                    for r16 in range(r_block, r_block + bm, 16):
                        for c in range(c_block, c_block + by, 4):
                            for r in range(r16, r16 + 16):
                                a, b, d, e = (int(x) for x in w[r, c:c + 4])
                                out.append((3 * a + b + 4) << 4 | (3 * d + e + 4))
    return np.concatenate([np.array(out, np.uint8), trailer(SCALE)])


def row_order(first):
    """Rows of a block of 32 as tl2 stores them: groups of eight in the order 0, 2, 1, 3."""
    return [first + 8 * group + i for group in (0, 2, 1, 3) for i in range(8)]


def tl2(w, BM, BK):
    n, k = w.shape
    three_k = k // BK * BK
    index, signs, pairs = [], [], []
    for r_tile in range(0, n, BM):
        for c_tile in range(0, three_k, BK):
            for r_block in range(r_tile, r_tile + BM, 32):
                for c in range(c_tile, c_tile + BK, 6):
                    for r in row_order(r_block):
                        v = [9 * int(w[r, c + i]) + 3 * int(w[r, c + i + 1]) + int(w[r, c + i + 2]) for i in (0, 3)]
                        index.append(abs(v[0]) << 4 | abs(v[1]))
                for c in range(c_tile, c_tile + BK, 24):
                    for word in range(16):
                        bits = 0
                        for triple in range(8):
                            for half in range(2):
                                r, e = r_block + word + 16 * half, c + 3 * triple
                                v = 9 * int(w[r, e]) + 3 * int(w[r, e + 1]) + int(w[r, e + 2])
                                bits |= (1 if v < 0 else 0) << (15 - (2 * triple + half))
                        signs += [bits & 255, bits >> 8]
    for r_tile in range(0, n, BM):
        for c_tile in range(three_k, k, 32):
            for r_block in range(r_tile, r_tile + BM, 32):
                for c in range(c_tile, c_tile + 32, 4):
                    for r in row_order(r_block):
                        a, b, d, e = (int(x) for x in w[r, c:c + 4])
                        pairs.append((3 * a + b + 4) << 4 | (3 * d + e + 4))
    size = (k - 256) * n // 3 * 5 // 8 + 256 * n // 2 * 4 // 8
    size = (size + 31) // 32 * 32
    out = np.zeros(size, np.uint8)
    out[:len(index) + len(signs) + len(pairs)] = index + signs + pairs
    return np.concatenate([out, trailer(SCALE)])


def tq(w, kind):
    import gguf
    values = w.astype(np.float32) * SCALE
    return gguf.quants.quantize(values, getattr(gguf.GGMLQuantizationType, kind)).reshape(-1)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    square, low, odd = trits_of(64, 256), trits_of(32, 320), trits_of(8, 10)
    files = {
        "64x256.i2": i2(square),
        "64x256.b3": b3(square),
        "64x256.i2_s.x86_128": i2_s_runs(square, 128),
        "64x256.i2_s.arm_64": i2_s_runs(square, 64),
        "64x256.i2_s.1x4": i2_s_1x4(square),
        "64x256.hf_packed": hf_packed(square),
        "64x256.ms_gpu": ms_gpu(square),
        "64x256.tl1.32_64_32": tl1(square, 32, 64, 32),
        "64x256.tl1.64_128_32": tl1(square, 64, 128, 32),
        "64x256.tl1.64_64_64": tl1(square, 64, 64, 64),
        "64x256.tl2.32_96_32": tl2(square, 32, 96),
        "64x256.tl2.64_192_32": tl2(square, 64, 192),
        "64x256.tq1_0": tq(square, "TQ1_0"),
        "64x256.tq2_0": tq(square, "TQ2_0"),
        "32x320.i2": i2(low),
        "32x320.tl2.32_96_32": tl2(low, 32, 96),
        "8x10.i2": i2(odd),
        "8x10.b3": b3(odd),
        "8x10.i2_s.1x4": i2_s_1x4(odd),
        "8x10.hf_packed": hf_packed(odd),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
