// Tests of the C ABI's quantized tensors made from a caller's codes and scales, and of their validation.
#include "api/c_test.h"

namespace tern::c_test {
namespace {

// Two rows of 5 trits that a caller brings.
class CParts : public testing::Test {
 protected:
  ContextHandle context_ = open_context();
  std::vector<std::uint8_t> codes_ = {0b10010001, 0b01010110, 0b01000110, 0b01010100};
  std::vector<float> scales_ = {0.5F, 2.0F};
  tern_quantized_parts parts_ = make();

  tern_quantized_parts make() {
    tern_quantized_parts parts = TERN_QUANTIZED_PARTS_INIT;
    parts.codes = view_of(codes_.data(), TERN_DTYPE_U8, {2, 2});
    parts.scales = view_of(scales_.data(), TERN_DTYPE_F32, {2, 1});
    parts.rank = 2;
    parts.shape[0] = 2;
    parts.shape[1] = 5;
    parts.granularity.kind = TERN_GRANULARITY_ROW;
    return parts;
  }
  tern_status from_parts(QuantizedHandle& out) {
    tern_quantized* made = nullptr;
    const tern_status status = tern_quantized_from_parts(context_.get(), &parts_, &made);
    out.reset(made);
    return status;
  }
};

TEST_F(CParts, BecomeAQuantizedTensor) {
  QuantizedHandle quantized;
  ASSERT_EQ(from_parts(quantized), TERN_OK) << tern_last_error()->text;
  codes_.assign(codes_.size(), 0xFF);  // they were copied
  EXPECT_EQ(tern_validate(quantized.get()), TERN_OK) << tern_last_error()->text;
  EXPECT_STREQ(info_of(quantized).kernel, "");
  tern_tensor* restored = nullptr;
  ASSERT_EQ(tern_dequantize(context_.get(), quantized.get(), TERN_DTYPE_F32, &restored), TERN_OK);
  const TensorHandle owner(restored);
  tern_tensor_view y = TERN_TENSOR_VIEW_INIT;
  ASSERT_EQ(tern_tensor_get_view(restored, &y), TERN_OK);
  const float expected[] = {0, -0.5F, 0, 0.5F, 0.5F, 2, 0, -2, 0, -2};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(static_cast<const float*>(y.data)[i], expected[i]) << i;
}

TEST_F(CParts, AreValidated) {
  QuantizedHandle quantized;
  codes_[2] |= 0b11;  // 3 is no code of i2
  ASSERT_EQ(from_parts(quantized), TERN_OK);
  EXPECT_FAILS(tern_validate(quantized.get()), TERN_INVALID_QUANTIZED_VALUE, "codes[1, 0]");
  EXPECT_EQ(tern_last_error()->index, 5);
  tern_tensor* tensor = nullptr;
  EXPECT_FAILS(tern_dequantize(context_.get(), quantized.get(), TERN_DTYPE_F32, &tensor), TERN_INVALID_QUANTIZED_VALUE,
               "codes[1, 0]");
  codes_[2] = 0b01000110;
  scales_[1] = 0;
  ASSERT_EQ(from_parts(quantized), TERN_OK);
  EXPECT_FAILS(tern_validate(quantized.get()), TERN_INVALID_SCALE, "scales[1]");
  EXPECT_EQ(tern_last_error()->index, 1);
  parts_.shape[1] = 9;
  ASSERT_EQ(from_parts(quantized), TERN_OK);
  EXPECT_FAILS(tern_validate(quantized.get()), TERN_INVALID_ARGUMENT, "codes");
}

TEST_F(CParts, ThatCannotBeReadAreRefused) {
  QuantizedHandle quantized;
  parts_.codes.data = nullptr;
  EXPECT_FAILS(from_parts(quantized), TERN_INVALID_ARGUMENT, "codes.data is NULL");
  parts_ = make();
  parts_.codes.strides[0] = 1;
  parts_.codes.strides[1] = 2;
  EXPECT_FAILS(from_parts(quantized), TERN_INVALID_ARGUMENT, "must be dense");
  parts_ = make();
  parts_.rank = 9;
  EXPECT_FAILS(from_parts(quantized), TERN_INVALID_ARGUMENT, "rank of the original is 9");
  parts_ = make();
  parts_.shape[0] = 0;
  EXPECT_FAILS(from_parts(quantized), TERN_EMPTY_INPUT, "[0, 5]");
  parts_ = make();
  parts_.granularity = {TERN_GRANULARITY_GROUP, 0};
  EXPECT_FAILS(from_parts(quantized), TERN_INVALID_ARGUMENT, "group size is 0");
  parts_ = make();
  parts_.format = TERN_FORMAT_DEFAULT;
  EXPECT_FAILS(from_parts(quantized), TERN_INVALID_ARGUMENT, "format is -1");
  EXPECT_EQ(quantized, nullptr);
}

}  // namespace
}  // namespace tern::c_test
