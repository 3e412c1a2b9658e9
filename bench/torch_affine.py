#!/usr/bin/env python3
"""Times PyTorch's affine quantization on a GPU, to compare tern with on the same machine, one after the other.

usage: torch_affine.py [--rows 65536] [--cols 4096]      (needs torch with CUDA; prints JSON)
"""
import argparse
import json

import torch


def median_us(call, inputs, repetitions=21):
    """Median time between events around each call; the inputs rotate, so that none stays in the cache."""
    for x in inputs:
        call(x)
    times = []
    for i in range(repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call(inputs[i % len(inputs)])
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return sorted(times)[repetitions // 2]


def calls(rows, dtype):
    """PyTorch quantizes only f32. Its fake_quantize takes every float type; training runs it with the mask."""
    scales = torch.full((rows,), 0.08 / 127, device="cuda")
    zeros = torch.zeros(rows, dtype=torch.int32, device="cuda")
    by_channel, by_tensor = (scales, zeros, 0, -128, 127), (0.08 / 127, 0, -128, 127)
    fake = {
        "fake_quantize_per_channel_affine_cachemask":
            lambda x: torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, *by_channel),
        "fake_quantize_per_tensor_affine_cachemask":
            lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, *by_tensor),
    }
    if dtype != torch.float32:
        return fake
    return {
        "quantize_per_channel": lambda x: torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "quantize_per_tensor": lambda x: torch.quantize_per_tensor(x, 0.08 / 127, 0, torch.qint8),
        "aminmax, quantize_per_channel": lambda x: torch.quantize_per_channel(
            x, torch.maximum(x.amax(1), -x.amin(1)).clamp(min=2**-23) / 127.5, zeros, 0, torch.qint8),
        **fake,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--cols", type=int, default=4096)
    given = parser.parse_args()
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [(torch.randn(given.rows, given.cols, device="cuda") * 0.02).to(dtype) for _ in range(2)]
        for name, call in calls(given.rows, dtype).items():
            results.append({"name": f"torch.{name}", "dtype": str(dtype).removeprefix("torch."),
                            "median_us": round(median_us(call, inputs), 2)})
        del inputs
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": given.rows,
                      "cols": given.cols, "results": results}, indent=1))


if __name__ == "__main__":
    main()
