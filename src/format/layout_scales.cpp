// Converts scales of any granularity to those of a layout, and measures the loss.
#include "format/layout_scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/fp_env.h"
#include "base/views.h"
#include "format/format.h"
#include "format/i2.h"
#include "format/layout.h"
#include "format/ranges.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "fit_scales";

// Rows of codes with their scales.
struct Source {
  const LayoutRow& layout;
  CodesIn codes;
  std::int64_t k = 0;
  Ranges ranges;
  const float* scales = nullptr;
  std::int64_t first_scale = 0;  // the index of the first scale, for errors

  [[nodiscard]] std::int64_t index_of(std::int64_t row, std::int64_t column) const {
    return ranges.per_row == 0 ? 0 : row * ranges.per_row + column / ranges.len;
  }
  [[nodiscard]] std::int64_t range_end(std::int64_t column, std::int64_t end) const {
    return ranges.per_row == 0 ? end : std::min(end, (column / ranges.len + 1) * ranges.len);
  }
  [[nodiscard]] float scale(std::int64_t index) const {
    float value = 0;
    std::memcpy(&value, scales + index, sizeof value);  // of any alignment
    return value;
  }
};

// The scales that must be merged into one, collected range by range.
class Shared {
 public:
  explicit Shared(const Source& source) : source_(source) {}

  // Adds the scales of columns begin .. end - 1 of a row. Scales of ranges that are all zeros are skipped.
  void add(std::int64_t row, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end;) {
      const std::int64_t range_end = source_.range_end(c, end), index = source_.index_of(row, c);
      if (!all_zero(source_.codes.row(row), c, range_end) && (live_.empty() || live_.back() != index))
        live_.push_back(index);
      c = range_end;
    }
  }
  // The index of the first scale that differs from the first one collected, or -1.
  [[nodiscard]] std::int64_t differing() const {
    for (std::size_t i = 1; i < live_.size(); ++i)
      if (source_.scale(live_[i]) != source_.scale(live_[0])) return live_[i];
    return -1;
  }
  [[nodiscard]] float mean() const {
    if (differing() < 0) return source_.scale(live_[0]);
    double sum = 0;
    for (const std::int64_t index : live_) sum += static_cast<double>(source_.scale(index));
    return static_cast<float>(sum / static_cast<double>(live_.size()));
  }
  [[nodiscard]] const std::vector<std::int64_t>& live() const { return live_; }

 private:
  const Source& source_;
  std::vector<std::int64_t> live_;
};

class Fitter {
 public:
  Fitter(const Source& source, Lossy lossy)
      : source_(source), lossy_(lossy), change_(static_cast<std::size_t>(source.ranges.total)) {}

  // Merges scales into one scale of the layout.
  Result<float> fit(const Shared& shared, bool f16) {
    if (const std::int64_t other = shared.differing(); other >= 0 && lossy_ == Lossy::refuse)
      return error_at(source_.first_scale + other, Code::unsupported, kWhere,
                      "{} has one scale for {}; scale {} is {}, scale {} is {}: quantize by {}, or allow the loss",
                      source_.layout.name, f16 ? fmt::format("{} columns", source_.layout.scale_columns) : "the tensor",
                      source_.first_scale + shared.live()[0], source_.scale(shared.live()[0]),
                      source_.first_scale + other, source_.scale(other), f16 ? "row or tensor" : "tensor");
    float scale = shared.mean();
    if (f16 && !is_f16(scale)) {
      const float rounded = half::from_f16(half::to_f16(scale));
      const std::int64_t index = shared.live()[0];
      if (lossy_ == Lossy::refuse || !valid_scale(rounded))
        return error_at(
            source_.first_scale + index, Code::unsupported, kWhere,
            "{} stores scales as f16, which cannot hold scale {}, {}, exactly: {}", source_.layout.name,
            source_.first_scale + index, scale,
            valid_scale(rounded) ? "use another layout, or allow the loss" : "it is out of the range of f16");
      scale = rounded;
    }
    for (const std::int64_t index : shared.live()) note(index, scale);
    return scale;
  }

  [[nodiscard]] ScaleLoss loss() const {
    ScaleLoss loss;
    for (std::size_t i = 0; i < change_.size(); ++i) {
      if (change_[i] == 0) continue;
      ++loss.changed;
      if (change_[i] <= loss.largest_relative) continue;
      loss.largest_relative = change_[i];
      loss.index = source_.first_scale + static_cast<std::int64_t>(i);
    }
    return loss;
  }

 private:
  void note(std::int64_t index, float becomes) {
    const auto was = static_cast<double>(source_.scale(index));
    double& change = change_[static_cast<std::size_t>(index)];
    change = std::max(change, std::abs(static_cast<double>(becomes) - was) / was);
  }

  const Source& source_;
  Lossy lossy_;
  std::vector<double> change_;
};

Result<FittedScales> fit_tensor(const Source& source, std::int64_t n, Lossy lossy) {
  bool equal = true;
  for (std::int64_t i = 1; i < source.ranges.total; ++i) equal = equal && source.scale(i) == source.scale(0);
  if (equal) return FittedScales{{source.scale(0)}, {}};
  Shared shared(source);
  for (std::int64_t row = 0; row < n; ++row) shared.add(row, 0, source.k);
  if (shared.live().empty()) return FittedScales{{source.scale(0)}, {}};
  Fitter fitter(source, lossy);
  TERN_ASSIGN(scale, fitter.fit(shared, false));
  return FittedScales{{scale}, fitter.loss()};
}

Result<FittedScales> fit_blocks(const Source& source, std::int64_t n, Lossy lossy) {
  const std::int64_t columns = source.layout.scale_columns, blocks = source.k / columns;
  FittedScales fitted{std::vector<float>(static_cast<std::size_t>(n * blocks)), {}};
  Fitter fitter(source, lossy);
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t begin = b * columns, end = begin + columns;
      float& scale = fitted.scales[static_cast<std::size_t>(row * blocks + b)];
      scale = source.scale(source.index_of(row, begin));
      if (source.range_end(begin, end) == end && is_f16(scale) && !all_zero(source.codes.row(row), begin, end))
        continue;  // the usual case
      Shared shared(source);
      shared.add(row, begin, end);
      scale = 1.0F;
      if (shared.live().empty()) continue;
      TERN_ASSIGN(one, fitter.fit(shared, true));
      scale = one;
    }
  fitted.loss = fitter.loss();
  return fitted;
}

}  // namespace

bool all_zero(const std::uint8_t* row, std::int64_t begin, std::int64_t end) {
  const auto is_zero = [row](std::int64_t i) { return i2::read(row[i / 4], static_cast<int>(i % 4)) == 0; };
  for (; begin < end && begin % 4 != 0; ++begin)
    if (!is_zero(begin)) return false;
  for (; end > begin && end % 4 != 0; --end)
    if (!is_zero(end - 1)) return false;
  constexpr std::int64_t kAtOnce = 64;
  for (std::int64_t i = begin / 4; i < end / 4; i += kAtOnce) {
    unsigned other = 0;
    for (std::int64_t j = i; j < std::min(i + kAtOnce, end / 4); ++j) other |= row[j] ^ i2::kPadding;
    if (other != 0) return false;
  }
  return true;
}

Result<FittedScales> fit_scales(Layout layout, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                                std::span<const float> scales, const Granularity& granularity, Lossy lossy,
                                std::int64_t first_scale) {
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::f32, granularity));
  const LayoutRow& row = row_of(layout);
  if (row.scales == ScalesIn::none) {
    if (scales.empty()) return FittedScales{};
    return error(Code::invalid_argument, kWhere, "{} has no scales in its bytes; the {} given are kept apart from them",
                 name(layout), scales.size());
  }
  if (row.scales == ScalesIn::blocks && k % row.scale_columns != 0)
    return error(Code::unsupported, kWhere, "{} holds k a multiple of {}, not {}", row.name, row.scale_columns, k);
  const Ranges ranges = make_ranges(n, k, granularity);
  if (static_cast<std::int64_t>(scales.size()) != ranges.total)
    return error(Code::invalid_argument, kWhere, "{} x {} by {} have {} scales, {} were given", n, k, name(granularity),
                 ranges.total, scales.size());
  TERN_ASSIGN(rows, as_rows(kWhere, "codes", codes, DType::u8, n, row_bytes(Format::i2, k)));
  const FpEnvGuard guard;
  TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", scales.data(), ranges.total));
  if (ranges.total == 0) return FittedScales{};
  const Source source{row,        {static_cast<const std::uint8_t*>(codes.data), rows.stride}, k, ranges, scales.data(),
                      first_scale};
  return row.scales == ScalesIn::trailer ? fit_tensor(source, n, lossy) : fit_blocks(source, n, lossy);
}

}  // namespace tern
