// THE LAYOUTS: the header of each, and a row. Sizes, conversions, readers and writers of files ask this table.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/words.h"
#include "format/hf_packed.h"
#include "format/i2_s.h"
#include "format/layout.h"
#include "format/ms_gpu.h"
#include "format/own_rows.h"
#include "format/tl1.h"
#include "format/tl2.h"
#include "format/tq1_0.h"
#include "format/tq2_0.h"

namespace tern {
namespace {

// A row of the words here and of what the layout's struct says.
template <class Traits>
constexpr LayoutRow row(const LayoutWords& words) {
  const auto check = [](const LayoutSpec& spec, std::int64_t n, std::int64_t k) -> Status {
    TERN_RETURN_IF_ERROR(check_multiples(spec, n, Traits::kRows, k, Traits::kColumns, Traits::kBecause));
    return Traits::check(spec, n, k);
  };
  return {words, Traits::kScales, Traits::kScaleColumns, Traits::kTiles,  Traits::kRuns,
          check, &Traits::shape,  &Traits::to_i2,        &Traits::from_i2};
}

// In the order of the enum; the rows of one type of GGUF are neighbours.
constexpr auto kLayouts = std::to_array<LayoutRow>({
    row<MsGpu>({.layout = Layout::ms_gpu, .name = "ms_gpu"}),
    row<own_rows::I2>({.layout = Layout::i2, .name = "i2"}),
    row<own_rows::B3>({.layout = Layout::b3, .name = "b3"}),
    row<HfPacked>({.layout = Layout::hf_packed, .name = "hf_packed", .weight_scale = true}),
    row<i2_s::X86>({.layout = Layout::i2_s_x86_128, .name = "i2_s.x86_128", .type = StoredType::i2_s, .file_type = 40}),
    row<i2_s::Arm>({.layout = Layout::i2_s_arm_64, .name = "i2_s.arm_64", .type = StoredType::i2_s, .file_type = 40}),
    row<i2_s::FourRows>({.layout = Layout::i2_s_1x4, .name = "i2_s.1x4", .type = StoredType::i2_s, .file_type = 40}),
    row<tl1::Traits>({.layout = Layout::tl1, .name = "tl1", .type = StoredType::tl1, .file_type = 38}),
    row<tl2::Traits>({.layout = Layout::tl2, .name = "tl2", .type = StoredType::tl2, .file_type = 39}),
    row<tq1_0::Traits>({.layout = Layout::tq1_0, .name = "tq1_0", .type = StoredType::tq1_0, .file_type = 36}),
    row<tq2_0::Traits>({.layout = Layout::tq2_0, .name = "tq2_0", .type = StoredType::tq2_0, .file_type = 37}),
});

constexpr auto kLayoutWords = [] {
  WordTable<Layout, kLayouts.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = {kLayouts[i].layout, kLayouts[i].name};
  return words;
}();

}  // namespace

std::string_view name(Layout layout) { return word_of(kLayoutWords, layout); }
Result<Layout> parse_layout(std::string_view word) { return parse_word(kLayoutWords, "layout", word); }

std::span<const LayoutRow> layouts() { return kLayouts; }

std::vector<const LayoutRow*> layouts_in(Container container) {
  const auto usual = static_cast<std::size_t>(container == Container::gguf ? Layout::i2_s_x86_128 : Layout::i2);
  std::vector<const LayoutRow*> rows;
  for (std::size_t i = 0; i < kLayouts.size(); ++i)
    if (const LayoutRow& row = kLayouts[(usual + i) % kLayouts.size()]; row.container() == container)
      rows.push_back(&row);
  return rows;
}

const LayoutRow& row_of(Layout layout) {
  static constexpr LayoutRow kNone;
  const auto i = static_cast<std::size_t>(layout);
  return i < kLayouts.size() ? kLayouts[i] : kNone;
}

std::span<const LayoutRow> layouts_of(StoredType type) {
  if (type == StoredType::u8) return {};
  const auto is_of_type = [type](const LayoutRow& row) { return row.type == type; };
  const auto first = std::find_if(kLayouts.begin(), kLayouts.end(), is_of_type);
  return {first, std::find_if_not(first, kLayouts.end(), is_of_type)};
}

}  // namespace tern
