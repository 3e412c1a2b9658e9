#!/usr/bin/env python3
"""Writes tests/golden/qparams.torch_cpu.txt: the scales and zero points that PyTorch's observers choose for small
tensors, and the results of its quantize_per_tensor_dynamic.

    tools/golden_qparams.py tests/golden

A case is a line of words, then lines of numbers. Floats are the bits of an f32 in hexadecimal.

    observer FORMAT Q_MIN Q_MAX AXIS SYMMETRIC ROWS COLUMNS COUNT    dynamic FORMAT ROWS COLUMNS
    scales, zero points, x                                           scale, zero point, x, codes

An AXIS of -1 means the whole tensor. The scale of `dynamic` is PyTorch's f64 rounded to f32.
"""
import pathlib
import sys
import warnings

import numpy as np
import torch
from torch.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver

ROWS, COLUMNS = 6, 11
FORMATS = {"s8": (torch.qint8, -128, 127), "u8": (torch.quint8, 0, 255)}


def hexadecimal(values):
    return " ".join(f"{bits:08x}" for bits in np.asarray(values, dtype=np.float32).ravel().view(np.uint32))


def decimal(values):
    return " ".join(str(int(v)) for v in np.asarray(values).ravel())


def tensors(rng):
    """Ordinary values, and rows that are all positive, all negative, constant, all zeros, tiny or huge."""
    ordinary = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    awkward = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    awkward[0] = np.abs(awkward[0]) + 3
    awkward[1] = -np.abs(awkward[1]) - 0.25
    awkward[2] = -0.75
    awkward[3] = [0.0, -0.0] * 5 + [0.0]
    awkward[4] *= np.float32(1e-9)
    awkward[5] *= np.float32(1e30)
    return [ordinary, np.float32(0.013) * ordinary + np.float32(0.4), awkward, awkward[[4, 3] * 3]]


def observed(name, low, high, axis, symmetric, x):
    dtype = FORMATS[name][0]
    scheme = {(True, True): torch.per_tensor_symmetric, (True, False): torch.per_tensor_affine,
              (False, True): torch.per_channel_symmetric, (False, False): torch.per_channel_affine}[axis < 0, symmetric]
    options = {"dtype": dtype, "qscheme": scheme, "quant_min": low, "quant_max": high}
    observer = MinMaxObserver(**options) if axis < 0 else PerChannelMinMaxObserver(ch_axis=axis, **options)
    observer(torch.from_numpy(x))
    scales, zero_points = observer.calculate_qparams()
    assert scales.dtype == torch.float32
    return [f"observer {name} {low} {high} {axis} {int(symmetric)} {ROWS} {COLUMNS} {scales.numel()}",
            hexadecimal(scales.numpy()), decimal(zero_points.numpy()), hexadecimal(x)]


def dynamic(name, x):
    q = torch.quantize_per_tensor_dynamic(torch.from_numpy(x), FORMATS[name][0], reduce_range=False)
    return [f"dynamic {name} {ROWS} {COLUMNS}", hexadecimal([q.q_scale()]), decimal([q.q_zero_point()]), hexadecimal(x),
            decimal(q.int_repr().numpy())]


def main():
    warnings.simplefilter("ignore")
    lines = [f"torch {torch.__version__} cpu"]
    for x in tensors(np.random.default_rng(9)):
        for axis in (-1, 0, 1):
            for name, low, high in (("s8", -128, 127), ("s8", -127, 127), ("s8", -8, 7), ("u8", 0, 255), ("u8", 0, 15)):
                lines += observed(name, low, high, axis, False, x)
            for low, high in ((-128, 127), (-127, 127), (-8, 7)):
                lines += observed("s8", low, high, axis, True, x)
        for name in FORMATS:
            lines += dynamic(name, x)
    path = pathlib.Path(sys.argv[1]) / "qparams.torch_cpu.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
