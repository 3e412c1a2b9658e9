// Reads 8- and 4-bit weights from a checkpoint's bytes, and converts floats to ggml's blocks.
#include "model/coded_weights.h"

#include <algorithm>
#include <cmath>

#include "base/elements.h"
#include "base/errors.h"
#include "base/fp_env.h"
#include "format/format.h"
#include "format/invalid_value.h"
#include "format/q4_0.h"
#include "format/q8_0.h"
#include "format/ranges.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "Model::read";
static_assert(q8_0::kBlock == kCodedGroup && q4_0::kBlock == kCodedGroup);

constexpr std::int64_t block_bytes(Format format) {
  return format == Format::s8 ? q8_0::kBlockBytes : q4_0::kBlockBytes;
}
float block_scale(const std::uint8_t* block) { return half::from_f16(load_element<std::uint16_t>(block, 0)); }

// As in ggml, the codes are computed with 1/d before d is rounded to f16. Ties are rounded away from 0.
void code_q8_0(const float* x, float largest, std::int8_t* codes, float& d) {
  d = std::fabs(largest) / 127.0F;
  const float id = d != 0 ? 1.0F / d : 0.0F;
  for (std::int64_t i = 0; i < kCodedGroup; ++i) codes[i] = static_cast<std::int8_t>(std::round(x[i] * id));
}
// The value of largest magnitude becomes -8, so d has the opposite sign. x/d + 8.5 is rounded once, as by an FMA.
void code_q4_0(const float* x, float largest, std::int8_t* codes, float& d) {
  d = largest / -8.0F;
  const float id = d != 0 ? 1.0F / d : 0.0F;
  for (std::int64_t i = 0; i < kCodedGroup; ++i) {
    const auto up = static_cast<float>(static_cast<double>(x[i]) * static_cast<double>(id) + 8.5);
    codes[i] = static_cast<std::int8_t>(std::clamp(static_cast<int>(up), 0, 15) - 8);
  }
}

}  // namespace

std::optional<Format> block_format(StoredType type) {
  if (type == StoredType::q8_0) return Format::s8;
  if (type == StoredType::q4_0) return Format::s4;
  return std::nullopt;
}

StoredType block_type(Format format) { return format == Format::s8 ? StoredType::q8_0 : StoredType::q4_0; }

Result<CodedWeights> CodedWeights::of(const Checkpoint& checkpoint, const ModelTensor& tensor) {
  CodedWeights w{.format = *tensor.codes, .n = tensor.n(), .k = tensor.k(), .granularity = tensor.granularity};
  if (!tensor.scales_index) {
    w.blocks = checkpoint.data(tensor.index);
    return w;
  }
  w.codes = checkpoint.data(tensor.index);
  w.scales = checkpoint.data(*tensor.scales_index);
  TERN_RETURN_IF_ERROR(check_extent(kWhere, w.n, w.k, DType::u8, w.granularity));
  const StoredTensor& stored = checkpoint.tensors()[*tensor.scales_index];
  const auto scales = static_cast<std::size_t>(make_ranges(w.n, w.k, w.granularity).total);
  if (stored.type != StoredType::f32 || w.scales.size() != scales * sizeof(float))
    return error(Code::corrupt_file, kWhere, "weights of {} x {} by {} have {} scales of F32; there are {} bytes of {}",
                 w.n, w.k, name(w.granularity), scales, w.scales.size(), name(stored.type));
  return w;
}

std::int64_t CodedWeights::scales_per_row() const { return make_ranges(n, k, granularity).per_row; }

float CodedWeights::scale_at(std::int64_t row, std::int64_t column) const {
  if (!blocks.empty()) return block_scale(blocks.data() + (row * k + column) / kCodedGroup * block_bytes(format));
  const Ranges ranges = make_ranges(n, k, granularity);
  return load_element<float>(scales.data(), ranges.per_row == 0 ? 0 : row * ranges.per_row + column / ranges.len);
}

Status CodedWeights::read_rows(std::int64_t first, std::int64_t count, std::uint8_t* codes_out,
                               float* scales_out) const {
  const std::int64_t line = row_bytes(format, k), per_row = scales_per_row();
  if (!blocks.empty()) {
    const std::uint8_t* from = blocks.data() + first * per_row * block_bytes(format);
    for (std::int64_t b = 0; b < count * per_row; ++b, from += block_bytes(format)) {
      if (format == Format::s8)
        q8_0::to_s8(from, codes_out + b * kCodedGroup);
      else
        q4_0::to_s4(from, codes_out + b * kCodedGroup / 2);
      scales_out[b] = block_scale(from);
    }
  } else {
    std::copy_n(codes.data() + first * line, count * line, codes_out);
    for (std::int64_t i = 0; i < count * per_row; ++i)
      scales_out[i] = load_element<float>(scales.data(), first * per_row + i);
  }
  for (std::int64_t i = 0; i < count * per_row; ++i)
    if (!std::isfinite(scales_out[i]))
      return with(infinite_scale(scales_out[i]),
                  error_at(first * per_row + i, Code::invalid_scale, kWhere, "scales[{}] is {}; it must be finite",
                           first * per_row + i, scales_out[i]));
  return {};
}

Status CodedWeights::write_blocks(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  for (std::int64_t row = first; row < first + count; ++row)
    for (std::int64_t column = 0; column < k; column += kCodedGroup, out += block_bytes(format)) {
      const float d = scale_at(row, column);
      const std::uint16_t bits = half::to_f16(d);
      if (!std::isfinite(d) || half::from_f16(bits) != d)
        return error_at(row * k + column, Code::invalid_scale, kWhere,
                        "the scale of row {} at column {} is {}, which the f16 scales of {} cannot represent; start "
                        "from the floats",
                        row, column, d, name(block_type(format)));
      std::int8_t of[kCodedGroup];
      for (std::int64_t i = 0; i < kCodedGroup; ++i)
        of[i] = static_cast<std::int8_t>(read_code(format, codes.data() + row * row_bytes(format, k), column + i));
      (format == Format::s8 ? q8_0::from_codes : q4_0::from_codes)(bits, of, out);
    }
  return {};
}

void CodedWeights::values(std::int64_t first, std::int64_t elems, double* out) const {
  for (std::int64_t i = first; i < first + elems; ++i) {
    const std::int64_t row = i / k, column = i % k;
    int code = 0;
    if (blocks.empty()) {
      code = read_code(format, codes.data() + row * row_bytes(format, k), column);
    } else {
      const std::uint8_t* block = blocks.data() + i / kCodedGroup * block_bytes(format);
      code = format == Format::s8 ? static_cast<std::int8_t>(block[2 + i % kCodedGroup])
                                  : static_cast<int>(q4_0::bits(block, i % kCodedGroup)) - 8;
    }
    out[i - first] = static_cast<double>(static_cast<float>(code) * scale_at(row, column));
  }
}

std::size_t coded_bytes(Format format, bool blocks, std::size_t elems) {
  const auto n = static_cast<std::int64_t>(elems);
  return static_cast<std::size_t>(blocks ? n / kCodedGroup * block_bytes(format) : row_bytes(format, n));
}

CodedLoss cast_to_blocks(std::span<const std::uint8_t> from, DType from_type, Format format,
                         std::span<std::uint8_t> blocks) {
  const bool eight = format == Format::s8;
  const auto count = static_cast<std::int64_t>(from.size() / size_of(from_type)) / kCodedGroup;
  const FpEnvGuard guard;
  CodedLoss loss;
  for (std::int64_t b = 0; b < count; ++b) {
    float x[kCodedGroup], largest = 0, d = 0;
    std::int8_t codes[kCodedGroup];
    bool finite = true;
    for (std::int64_t i = 0; i < kCodedGroup; ++i) {
      x[i] = static_cast<float>(read_element(from.data(), from_type, b * kCodedGroup + i));
      finite = finite && std::isfinite(x[i]);
      if (std::fabs(x[i]) > std::fabs(largest)) largest = x[i];
    }
    if (finite) (eight ? code_q8_0 : code_q4_0)(x, largest, codes, d);
    const std::uint16_t bits = half::to_f16(d);
    const float stored = half::from_f16(bits);
    if (!finite || !std::isfinite(stored)) {
      loss.bad_element = b * kCodedGroup;
      return loss;
    }
    (eight ? q8_0::from_codes : q4_0::from_codes)(bits, codes, blocks.data() + b * block_bytes(format));
    for (std::int64_t i = 0; i < kCodedGroup; ++i) {
      const auto v = static_cast<double>(x[i]);
      const double miss = v - static_cast<double>(static_cast<float>(codes[i]) * stored);
      loss.signal += v * v;
      loss.noise += miss * miss;
    }
  }
  return loss;
}

}  // namespace tern
