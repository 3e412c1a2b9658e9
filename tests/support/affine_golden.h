// Reads the affine results that tools/golden_torch.py wrote for a device.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/elements.h"
#include "tern/affine.h"

namespace tern::test {

struct AffineGolden {
  Shape shape;
  AffineGranularity granularity;
  Format format = Format::s8;
  std::vector<std::byte> scales, x, values;  // f32; values are PyTorch's codes dequantized
  std::vector<std::int32_t> zero_points;
  std::vector<std::uint8_t> codes, divided;  // from PyTorch, and from NumPy by one division
};

// Empty if there is no source tree or no file for this device.
inline std::vector<AffineGolden> read_affine_golden(const std::string& tests, const std::string& device) {
  std::ifstream file(tests + "/golden/affine.torch_" + device + ".txt");
  std::string torch, version, of, op, format;
  file >> torch >> version >> of;
  if (!file || of != device) return {};
  const auto hex = [&](std::int64_t count) {
    std::vector<std::byte> to(static_cast<std::size_t>(4 * count));
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t bits = 0;
      file >> std::hex >> bits >> std::dec;
      store_element(to.data(), i, bits);
    }
    return to;
  };
  const auto bytes = [&](std::int64_t count) {
    std::vector<std::uint8_t> to;
    for (int code = 0; count > 0 && file >> code; --count) to.push_back(static_cast<std::uint8_t>(code));
    return to;
  };
  std::vector<AffineGolden> cases;
  int axis = 0;
  std::int64_t rows = 0, columns = 0, scales = 0;
  while (file >> op >> format >> axis >> rows >> columns >> scales) {
    AffineGolden c{.shape = {rows, columns},
                   .granularity = axis < 0 ? AffineGranularity::tensor() : AffineGranularity::channel(axis),
                   .format = *parse_format(format)};
    c.scales = hex(scales);
    c.zero_points.resize(static_cast<std::size_t>(scales));
    for (std::int32_t& zp : c.zero_points) file >> zp;
    c.x = hex(rows * columns);
    c.codes = bytes(rows * columns);
    c.values = hex(rows * columns);
    c.divided = bytes(rows * columns);
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace tern::test
