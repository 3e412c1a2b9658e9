#!/usr/bin/env python3
"""Writes PyTorch's results for small tensors. Many values are at or next to ties, where x/s and x * (1/s) round
differently. Floats are the hexadecimal digits of their bits.

affine.torch_<device>.txt: codes, dequantized values, and codes by x/s in NumPy, checked against f64.
fake_quantize.torch_<device>.txt: fake_quantize with its mask and gradients, and the gradients of learned step sizes.

usage: golden_torch.py FOLDER [cpu|cuda]    (needs numpy and torch)
"""
import pathlib
import sys
import warnings

import numpy as np
import torch

ROWS, COLUMNS = 6, 37
FEW = (3, 37)  # rows and columns of cases with many lines
FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}


def values(rng, scales, low, high, shape=(ROWS, COLUMNS)):
    """x of a shape, from 2 codes below the range to 2 above: ties, their neighbours and arbitrary values."""
    s = np.broadcast_to(scales, shape).astype(np.float64)
    x = ((rng.integers(2 * (low - 2), 2 * (high + 2), shape) / 2) * s).astype(np.float32)
    beside = rng.integers(-1, 2, x.shape)
    x = np.where(beside == 0, x, np.nextafter(x, np.float32(np.inf) * beside.astype(np.float32)))
    anything = rng.normal(0, (high - low) / 3, x.shape) * s
    return np.where(rng.integers(0, 3, x.shape) == 0, anything, x).astype(np.float32)


def hexadecimal(a):
    return " ".join(f"{v:08x}" for v in np.ascontiguousarray(a, np.float32).view(np.uint32).ravel())


def bits(tensor):
    """The bits of a torch tensor of any float type, in hexadecimal."""
    a = tensor.detach().cpu().contiguous()
    size = a.element_size()
    words = a.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).numpy().ravel()
    return " ".join(f"{int(v) & (256 ** size - 1):0{2 * size}x}" for v in words)


def decimal(a):
    return " ".join(str(int(v)) for v in np.asarray(a).ravel())


def divided(x, s, zeros, low, high):
    """Codes by one division in f32. Where f64 rounds to another integer, the quotient must be next to a tie."""
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


def away_from_ties(x, s):
    """Moves x away from ties of x/s, where PyTorch's f64 and its learnable gradients round differently."""
    v = x.astype(np.float64) / s
    near = np.abs(np.abs(v - np.rint(v)) - 0.5) < 0.01
    return np.where(near, x + 0.02 * s, x).astype(np.float32)


def setting(rng, low, high, axis, even):
    """Scales, zero points and x, all for f32; `even` moves x away from ties."""
    count = 1 if axis is None else FEW[axis]
    scales = (rng.integers(1, 1000, count) / 1000).astype(np.float32)
    zero_points = rng.integers(low // 2, high // 2, count) | 1
    shape = {None: (1, 1), 0: (FEW[0], 1), 1: (1, FEW[1])}[axis]
    s = scales.reshape(shape)
    x = values(rng, s, low, high, FEW) - (zero_points.reshape(shape) * s).astype(np.float32)
    return scales, zero_points.astype(np.int32), away_from_ties(x, s) if even else x


def faked(rng, device, dtype_name, name, low, high, axis):
    """One case of fake_quantize_per_tensor_affine or _per_channel_affine, and of its backward."""
    dtype = FLOATS[dtype_name]
    scales, zero_points, x = setting(rng, low, high, axis, dtype == torch.float64)
    x = torch.from_numpy(x).to(device, dtype).requires_grad_(True)
    grad_y = torch.from_numpy(rng.normal(0, 1, FEW)).to(device, dtype)
    if axis is None:
        arguments = (float(scales[0]), int(zero_points[0]), low, high)
        y = torch.fake_quantize_per_tensor_affine(x, *arguments)
        _, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x.detach(), *arguments)
    else:
        arguments = (torch.from_numpy(scales).to(device), torch.from_numpy(zero_points).to(device), axis, low, high)
        y = torch.fake_quantize_per_channel_affine(x, *arguments)
        _, mask = torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x.detach(), *arguments)
    y.backward(grad_y)
    return [f"fake {dtype_name} {name} {-1 if axis is None else axis} {FEW[0]} {FEW[1]} {len(scales)} 1",
            hexadecimal(scales), decimal(zero_points), bits(x), bits(grad_y), bits(y), decimal(mask.cpu()),
            bits(x.grad)]


def learned(rng, device, name, low, high, axis, factor):
    """One case of the gradients of _fake_quantize_learnable_per_tensor_affine or _per_channel_affine."""
    scales, zero_points, x = setting(rng, low, high, axis, True)
    x = torch.from_numpy(x).to(device).requires_grad_(True)
    grad_y = torch.from_numpy(rng.normal(0, 1, FEW)).to(device, torch.float32)
    s = torch.from_numpy(scales).to(device).requires_grad_(True)
    zp = torch.from_numpy(zero_points).to(device, torch.float32).requires_grad_(True)
    if axis is None:
        y = torch._fake_quantize_learnable_per_tensor_affine(x, s, zp, low, high, factor)
    else:
        y = torch._fake_quantize_learnable_per_channel_affine(x, s, zp, axis, low, high, factor)
    y.backward(grad_y)
    return [f"learned f32 {name} {-1 if axis is None else axis} {FEW[0]} {FEW[1]} {len(scales)} {factor}",
            hexadecimal(scales), decimal(zero_points), bits(x), bits(grad_y), bits(x.grad), bits(s.grad), bits(zp.grad)]


def write(device, name, lines):
    text = "\n".join([f"torch {torch.__version__} {device}", *lines]) + "\n"
    (pathlib.Path(sys.argv[1]) / f"{name}.torch_{device}.txt").write_text(text, encoding="utf-8")


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(8)
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    lines = []
    for name, dtype, low, high in (("s8", torch.qint8, -128, 127), ("u8", torch.quint8, 0, 255)):
        for axis in (None, 0, 1):
            lines += quantized(rng, device, name, dtype, low, high, axis)
    write(device, "affine", lines)
    lines = []
    for dtype_name in FLOATS:
        for name, low, high, axis in (("s8", -128, 127, None), ("u8", 0, 255, 0), ("s4", -8, 7, 1)):
            lines += faked(rng, device, dtype_name, name, low, high, axis)
    for name, low, high, axis, factor in (("s8", -128, 127, None, 0.25), ("u8", 0, 255, 0, 1.0),
                                          ("s4", -8, 7, 1, 0.125)):
        lines += learned(rng, device, name, low, high, axis, factor)
    write(device, "fake_quantize", lines)


if __name__ == "__main__":
    main()
