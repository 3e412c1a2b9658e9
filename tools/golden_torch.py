#!/usr/bin/env python3
"""Writes tests/golden/affine.torch_<device>.txt: what PyTorch makes of small tensors, many of them at and beside ties,
where x/s and x * (1/s) round apart; and x/s by NumPy, held against f64. Floats are the hexadecimal digits of their f32.

usage: golden_torch.py FOLDER [cpu|cuda]    (needs numpy and torch)
"""
import pathlib
import sys
import warnings

import numpy as np
import torch

ROWS, COLUMNS = 6, 37


def values(rng, scales, low, high):
    """x[rows, columns] from -2 codes below the range to 2 above: ties and their neighbours, and any."""
    s = np.broadcast_to(scales, (ROWS, COLUMNS)).astype(np.float64)
    x = ((rng.integers(2 * (low - 2), 2 * (high + 2), (ROWS, COLUMNS)) / 2) * s).astype(np.float32)
    beside = rng.integers(-1, 2, x.shape)
    x = np.where(beside == 0, x, np.nextafter(x, np.float32(np.inf) * beside.astype(np.float32)))
    anything = rng.normal(0, (high - low) / 3, x.shape) * s
    return np.where(rng.integers(0, 3, x.shape) == 0, anything, x).astype(np.float32)


def hexadecimal(a):
    return " ".join(f"{v:08x}" for v in np.ascontiguousarray(a, np.float32).view(np.uint32).ravel())


def decimal(a):
    return " ".join(str(int(v)) for v in np.asarray(a).ravel())


def divided(x, s, zeros, low, high):
    """Codes by one division in f32. Where f64 rounds it to another integer, the quotient must be beside a tie."""
    quotient, exact = x / s, x.astype(np.float64) / s.astype(np.float64)
    assert quotient.dtype == np.float32
    apart = np.rint(quotient) != np.rint(exact)
    assert np.all(np.abs(np.abs(exact - np.trunc(exact)) - 0.5)[apart] <= np.spacing(np.abs(quotient[apart])))
    return np.clip(np.rint(quotient).astype(np.int64) + zeros, low, high)


def quantized(rng, device, name, dtype, low, high, axis):
    """One case of quantize_per_tensor or quantize_per_channel, and of its dequantize."""
    count = 1 if axis is None else (ROWS, COLUMNS)[axis]
    scales = (rng.integers(1, 1000, count) / 1000).astype(np.float32)
    zero_points = rng.integers(low // 3, high // 3, count) | 1
    shape = {None: (1, 1), 0: (ROWS, 1), 1: (1, COLUMNS)}[axis]
    zeros = zero_points.reshape(shape)
    s = scales.reshape(shape)
    x = values(rng, s, low, high) - (zeros * s).astype(np.float32)
    on_device = torch.from_numpy(x).to(device)
    if axis is None:
        q = torch.quantize_per_tensor(on_device, float(scales[0]), int(zero_points[0]), dtype)
    else:
        q = torch.quantize_per_channel(on_device, torch.from_numpy(scales).to(device),
                                       torch.from_numpy(zero_points).to(device), axis, dtype)
    return [f"quantize {name} {-1 if axis is None else axis} {ROWS} {COLUMNS} {count}", hexadecimal(scales),
            decimal(zero_points), hexadecimal(x), decimal(q.int_repr().cpu().numpy()),
            hexadecimal(q.dequantize().cpu().numpy()), decimal(divided(x, s, zeros, low, high))]


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(8)
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    lines = [f"torch {torch.__version__} {device}"]
    for name, dtype, low, high in (("s8", torch.qint8, -128, 127), ("u8", torch.quint8, 0, 255)):
        for axis in (None, 0, 1):
            lines += quantized(rng, device, name, dtype, low, high, axis)
    (pathlib.Path(sys.argv[1]) / f"affine.torch_{device}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
