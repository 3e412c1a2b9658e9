// Reads the results that tools/golden_qparams.py wrote.
#pragma once

#include <bit>
#include <fstream>
#include <string>
#include <vector>

#include "base/elements.h"
#include "tern/affine.h"

namespace tern::test {

struct QparamsGolden {
  std::string op;  // observer, dynamic
  Shape shape;
  AffineGranularity granularity;
  Format format = Format::s8;
  int q_min = 0, q_max = 0;
  bool symmetric = false;
  std::vector<double> scales;
  std::vector<std::int32_t> zero_points;
  std::vector<std::byte> x;         // f32
  std::vector<std::uint8_t> codes;  // only for dynamic
};

// Empty if there is no source tree.
inline std::vector<QparamsGolden> read_qparams_golden(const std::string& tests) {
  std::ifstream file(tests + "/golden/qparams.torch_cpu.txt");
  std::string torch, version, device, format;
  file >> torch >> version >> device;
  const auto bits = [&] {
    std::uint32_t value = 0;
    file >> std::hex >> value >> std::dec;
    return value;
  };
  std::vector<QparamsGolden> cases;
  for (QparamsGolden c; file >> c.op >> format; c = {}) {
    std::int64_t rows = 0, columns = 0, count = 1;
    int axis = -1;
    if (c.op == "observer") file >> c.q_min >> c.q_max >> axis >> c.symmetric;
    file >> rows >> columns;
    if (c.op == "observer") file >> count;
    c.format = *parse_format(format);
    c.shape = {rows, columns};
    c.granularity = axis < 0 ? AffineGranularity::tensor() : AffineGranularity::channel(axis);
    for (std::int64_t i = 0; i < count; ++i) c.scales.push_back(static_cast<double>(std::bit_cast<float>(bits())));
    c.zero_points.resize(static_cast<std::size_t>(count));
    for (std::int32_t& zp : c.zero_points) file >> zp;
    c.x.resize(static_cast<std::size_t>(4 * rows * columns));
    for (std::int64_t i = 0; i < rows * columns; ++i) store_element(c.x.data(), i, bits());
    int code = 0;
    for (std::int64_t i = 0; c.op == "dynamic" && i < rows * columns && file >> code; ++i)
      c.codes.push_back(static_cast<std::uint8_t>(code));
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace tern::test
