// Shared by the tests of PackedWeights and BitLinear: weights with their trits, whole-number tokens, guarded memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "format/format.h"
#include "lab/weights.h"
#include "ops/dot/packed_weights.h"
#include "tern/linear.h"

namespace tern::test {

inline Context open(ContextConfig config = {}) {
  auto context = Context::open(std::move(config));
  EXPECT_TRUE(context.ok());
  return *context;
}

// Canonical weights with the trits (or wider values) that they were made from. The default 3 x 10 needs padding in
// every row and in the tile.
struct Weights {
  std::int64_t n = 3, k = 10;
  Granularity granularity = Granularity::row();
  Format format = Format::i2;
  std::vector<std::int8_t> trits = {};
  std::vector<std::uint8_t> codes = {};
  std::vector<float> scales = {};

  [[nodiscard]] ConstTensorView code_view() const {
    return {codes.data(), code_dtype(format), {n, row_bytes(format, k)}};
  }
  [[nodiscard]] ConstTensorView scale_view() const {
    return {scales.data(), DType::f32, {static_cast<std::int64_t>(scales.size())}};
  }
  [[nodiscard]] Result<PackedWeights> pack(std::span<std::byte> memory = {}) const {
    return PackedWeights::pack(open(), code_view(), scale_view(), n, k, granularity, memory, format);
  }
};

inline Weights make_weights(std::int64_t n = 3, std::int64_t k = 10, Granularity granularity = Granularity::row(),
                            Format format = Format::i2) {
  Weights w{.n = n, .k = k, .granularity = granularity, .format = format};
  lab::Random random(static_cast<std::uint64_t>(n * k));
  const std::int64_t bytes = row_bytes(format, k);
  w.codes.resize(static_cast<std::size_t>(n * bytes));
  const CodeRange range = is_trits(format) ? CodeRange{-1, 1} : code_range(format);
  for (std::int64_t i = 0; i < n * k; ++i)
    w.trits.push_back(static_cast<std::int8_t>(range.min + random.below(range.max - range.min + 1)));
  for (std::int64_t i = 0; i < n; ++i) pack_row(format, w.trits.data() + i * k, k, w.codes.data() + i * bytes);
  const std::int64_t groups = granularity.kind == Granularity::Kind::group ? (k - 1) / granularity.group_size + 1 : 1;
  const std::int64_t scales = granularity.kind == Granularity::Kind::tensor ? 1 : n * groups;
  for (std::int64_t i = 0; i < scales; ++i) w.scales.push_back(0.25F + static_cast<float>(random.below(100)) / 64);
  return w;
}

inline std::string message(const Status& status) { return status.ok() ? "ok" : status.error().str(); }
template <class T>
std::string message(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().str();
}

// Memory with the alignment of a workspace, between guard bytes.
struct Memory {
  Tensor tensor;
  explicit Memory(std::size_t bytes)
      : tensor(*Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(bytes + 128)})) {
    std::memset(tensor.data(), 0xEE, tensor.bytes());
  }
  [[nodiscard]] std::span<std::byte> span() const { return tensor.as<std::byte>().subspan(64, tensor.bytes() - 128); }
  [[nodiscard]] bool edges_untouched() const {
    for (std::size_t i = 0; i < 64; ++i)
      if (tensor.as<std::uint8_t>()[i] != 0xEE || tensor.as<std::uint8_t>()[tensor.bytes() - 1 - i] != 0xEE)
        return false;
    return true;
  }
};

// Rows of whole numbers whose maximum is 127. token_i8 keeps them as they are (s is 1), so expected results are simple.
inline std::vector<float> whole_numbers(std::int64_t m, std::int64_t k) {
  lab::Random random(9);
  std::vector<float> x;
  for (std::int64_t i = 0; i < m * k; ++i)
    x.push_back(i % k == 0 ? 127.0F : static_cast<float>(random.below(255) - 127));
  return x;
}
inline std::vector<float> expected(const Weights& w, const std::vector<float>& x, const std::vector<float>& bias = {},
                                   bool squared_relu = false) {
  const auto n = static_cast<std::size_t>(w.n), k = static_cast<std::size_t>(w.k);
  std::vector<float> y;
  for (std::size_t i = 0; i < x.size() / k * n; ++i) {
    float t = 0;
    for (std::size_t j = 0; j < k; ++j) t += x[i / n * k + j] * w.trits[i % n * k + j];
    t *= w.scales[w.scales.size() == 1 ? 0 : i % n];
    if (!bias.empty()) t += bias[i % n];
    if (squared_relu) t = t > 0 ? t * t : 0;
    y.push_back(t);
  }
  return y;
}

inline TensorView rows(std::vector<float>& x, std::int64_t k) {
  return {x.data(), DType::f32, {static_cast<std::int64_t>(x.size()) / k, k}};
}

}  // namespace tern::test
