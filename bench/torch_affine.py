#!/usr/bin/env python3
"""Times PyTorch's affine quantization on a GPU: what tern's is compared with, on the same machine, one after the other.

usage: torch_affine.py [--rows 65536] [--cols 4096]      (needs torch with CUDA; prints JSON)
"""
import argparse
import json

import torch


def median_us(call, inputs, repetitions=21):
    """Of events around each call; inputs rotate past the cache."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--cols", type=int, default=4096)
    given = parser.parse_args()
    inputs = [torch.randn(given.rows, given.cols, device="cuda") * 0.02 for _ in range(2)]
    scales = torch.full((given.rows,), 0.08 / 127, device="cuda")
    zeros = torch.zeros(given.rows, dtype=torch.int32, device="cuda")
    calls = {
        "quantize_per_channel": lambda x: torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "quantize_per_tensor": lambda x: torch.quantize_per_tensor(x, 0.08 / 127, 0, torch.qint8),
        "fake_quantize_per_channel_affine": lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -128, 127),
        "fake_quantize_per_tensor_affine": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.08 / 127, 0, -128, 127),
    }
    results = [{"name": f"torch.{name}", "median_us": round(median_us(call, inputs), 2)} for name, call in calls.items()]
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": given.rows,
                      "cols": given.cols, "results": results}, indent=1))


if __name__ == "__main__":
    main()
