// Reads the results of fake_quantize and its gradients that tools/golden_torch.py wrote for a device.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/elements.h"
#include "tern/affine.h"

namespace tern::test {

struct FakeGolden {
  bool learned = false;  // by the learnable op: has grad_scales and grad_zero_points, but no y and no mask
  Shape shape;
  AffineGranularity granularity;
  DType dtype = DType::f32;
  Format format = Format::s8;
  double grad_factor = 1;
  std::vector<std::byte> scales;  // f32
  std::vector<std::int32_t> zero_points;
  std::vector<std::byte> x, grad_y, y, mask, grad_x;
  std::vector<std::byte> grad_scales, grad_zero_points;  // f32
};

// Empty if there is no source tree or no file for this device.
inline std::vector<FakeGolden> read_fake_golden(const std::string& tests, const std::string& device) {
  std::ifstream file(tests + "/golden/fake_quantize.torch_" + device + ".txt");
  std::string torch, version, of, op, dtype, format;
  file >> torch >> version >> of;
  if (!file || of != device) return {};
  const auto hex = [&](std::int64_t count, DType type) {
    std::vector<std::byte> to(static_cast<std::size_t>(count) * size_of(type));
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint64_t bits = 0;
      file >> std::hex >> bits >> std::dec;
      std::memcpy(to.data() + i * static_cast<std::int64_t>(size_of(type)), &bits, size_of(type));  // little endian
    }
    return to;
  };
  std::vector<FakeGolden> cases;
  int axis = 0;
  std::int64_t rows = 0, columns = 0, scales = 0;
  double factor = 1;
  while (file >> op >> dtype >> format >> axis >> rows >> columns >> scales >> factor) {
    FakeGolden c;
    c.learned = op == "learned";
    c.shape = {rows, columns};
    c.granularity = axis < 0 ? AffineGranularity::tensor() : AffineGranularity::channel(axis);
    c.dtype = *parse_dtype(dtype);
    c.format = *parse_format(format);
    c.grad_factor = factor;
    c.scales = hex(scales, DType::f32);
    c.zero_points.resize(static_cast<std::size_t>(scales));
    for (std::int32_t& zp : c.zero_points) file >> zp;
    const std::int64_t n = rows * columns;
    c.x = hex(n, c.dtype);
    c.grad_y = hex(n, c.dtype);
    if (!c.learned) {
      c.y = hex(n, c.dtype);
      for (int inside = 0; static_cast<std::int64_t>(c.mask.size()) < n && file >> inside;)
        c.mask.push_back(static_cast<std::byte>(inside));
    }
    c.grad_x = hex(n, c.dtype);
    if (c.learned) {
      c.grad_scales = hex(scales, DType::f32);
      c.grad_zero_points = hex(scales, DType::f32);
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace tern::test
