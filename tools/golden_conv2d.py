#!/usr/bin/env python3
"""Writes tests/golden/conv2d.torch_cpu.txt: results of PyTorch's conv2d for small images.

    tools/golden_conv2d.py tests/golden

A case is a line of words, then lines of numbers. Floats are the bits of an f32 in hexadecimal. Images, filters and
results have the order of PyTorch: NCHW and OIHW.

    exact FORMAT and PROBLEM: int8 images, integer filters, their exact sums (float64 holds them)
    float FORMAT and PROBLEM: images of f32, filters of trits, a scale for each, bias for each, results of f32

    PROBLEM is IMAGES HEIGHT WIDTH OUT IN TAPS_DOWN TAPS_ACROSS GROUPS STRIDE_DOWN STRIDE_ACROSS DILATION_DOWN
    DILATION_ACROSS TOP BOTTOM LEFT RIGHT, where IN counts the channels of one group.
"""
import pathlib
import sys

import numpy as np
import torch
from torch.nn import functional

RANGES = {"i2": (-1, 1), "b3": (-1, 1), "s8": (-128, 127), "s4": (-8, 7)}
# images, height, width, (out, in, taps down, across), groups, strides, dilations, padding
PROBLEMS = [
    (2, 4, 5, (5, 3, 3, 3), 1, (1, 1), (1, 1), (1, 1, 1, 1)),
    (1, 3, 5, (4, 33, 1, 1), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    (1, 9, 8, (7, 3, 3, 2), 1, (2, 3), (1, 1), (0, 1, 2, 0)),
    (2, 6, 5, (6, 2, 2, 3), 2, (1, 2), (2, 1), (2, 0, 1, 3)),
    (1, 6, 5, (10, 1, 3, 3), 5, (1, 1), (2, 2), (2, 2, 2, 2)),
    (1, 5, 4, (3, 6, 7, 5), 1, (1, 1), (1, 1), (3, 3, 2, 2)),
    (3, 2, 1, (2, 20, 1, 3), 1, (3, 1), (1, 2), (0, 1, 3, 3)),
]


def hexadecimal(values):
    return " ".join(f"{bits:08x}" for bits in np.asarray(values, dtype=np.float32).ravel().view(np.uint32))


def decimal(values):
    return " ".join(str(int(v)) for v in np.asarray(values).ravel())


def convolved(problem, x, w, bias=None):
    _, _, _, _, groups, stride, dilation, (top, bottom, left, right) = problem
    padded = functional.pad(torch.from_numpy(x), (left, right, top, bottom))
    bias = None if bias is None else torch.from_numpy(bias)
    return functional.conv2d(padded, torch.from_numpy(w), bias, stride, 0, dilation, groups).numpy()


def words(kind, name, problem):
    images, height, width, filters, groups, stride, dilation, padding = problem
    return " ".join(map(str, (kind, name, images, height, width, *filters, groups, *stride, *dilation, *padding)))


def exact(rng, name, problem):
    images, height, width, filters, groups = problem[:5]
    low, high = RANGES[name]
    x = rng.integers(-128, 128, (images, filters[1] * groups, height, width)).astype(np.float64)
    w = rng.integers(low, high + 1, filters).astype(np.float64)
    sums = convolved(problem, x, w)
    assert np.array_equal(sums, np.rint(sums))
    return [words("exact", name, problem), decimal(x), decimal(w), decimal(sums)]


def floats(rng, name, problem):
    images, height, width, filters, groups = problem[:5]
    x = rng.standard_normal((images, filters[1] * groups, height, width)).astype(np.float32)
    trits = rng.integers(-1, 2, filters).astype(np.float32)
    scales = (0.01 + np.abs(rng.standard_normal(filters[0]))).astype(np.float32)
    bias = rng.standard_normal(filters[0]).astype(np.float32)
    y = convolved(problem, x, trits * scales[:, None, None, None], bias)
    assert y.dtype == np.float32
    return [words("float", name, problem), hexadecimal(x), decimal(trits), hexadecimal(scales), hexadecimal(bias),
            hexadecimal(y)]


def main():
    rng = np.random.default_rng(17)
    lines = [f"torch {torch.__version__} cpu"]
    for i, problem in enumerate(PROBLEMS):
        for name in (list(RANGES) * 2)[i:i + 2]:
            lines += exact(rng, name, problem)
        lines += floats(rng, ("i2", "b3")[i % 2], problem)
    path = pathlib.Path(sys.argv[1]) / "conv2d.torch_cpu.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
