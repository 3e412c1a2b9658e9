// ModelTensor: content() and the flat fields say the same.
#include <gtest/gtest.h>

#include "tern/model.h"

namespace tern {
namespace {

TEST(ModelTensor, HoldsWhatItIs) {
  ModelTensor tensor;
  EXPECT_TRUE(std::holds_alternative<PlainTensor>(tensor.content()));

  tensor.hold(TernaryTensor{.layout = Layout::hf_packed,
                            .unreadable = "why",
                            .weight_scale = WeightScale::divides,
                            .granularity = Granularity::row(),
                            .scales = SeparateScales{7, StoredType::bf16}});
  EXPECT_TRUE(tensor.ternary);
  EXPECT_EQ(tensor.layout->layout, Layout::hf_packed);
  EXPECT_EQ(tensor.unreadable, "why");
  EXPECT_EQ(tensor.weight_scale, WeightScale::divides);
  EXPECT_EQ(tensor.granularity, Granularity::row());
  EXPECT_EQ(tensor.scales_index, 7U);
  EXPECT_EQ(tensor.scale_type, StoredType::bf16);
  EXPECT_FALSE(tensor.codes);
  const auto ternary = std::get<TernaryTensor>(tensor.content());
  EXPECT_EQ(ternary.layout->layout, Layout::hf_packed);
  EXPECT_EQ(ternary.unreadable, "why");
  EXPECT_EQ(ternary.weight_scale, WeightScale::divides);
  EXPECT_EQ(ternary.scales->index, 7U);
  EXPECT_EQ(ternary.scales->type, StoredType::bf16);

  tensor.hold(CodedTensor{.format = Format::s4, .granularity = Granularity::group(32)});
  EXPECT_EQ(tensor.codes, Format::s4);
  EXPECT_EQ(tensor.granularity, Granularity::group(32));
  EXPECT_FALSE(tensor.ternary || tensor.layout || tensor.scales_index) << "nothing is left of what it was";
  EXPECT_EQ(tensor.unreadable, "");
  EXPECT_EQ(tensor.weight_scale, WeightScale::multiplies);
  EXPECT_EQ(tensor.scale_type, StoredType::f32);
  EXPECT_EQ(std::get<CodedTensor>(tensor.content()).format, Format::s4);
  EXPECT_FALSE(std::get<CodedTensor>(tensor.content()).scales);

  tensor.hold(PlainTensor{});
  EXPECT_FALSE(tensor.ternary || tensor.codes);
  EXPECT_EQ(tensor.granularity, Granularity());
}

}  // namespace
}  // namespace tern
