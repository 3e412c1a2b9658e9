// Tests of the C ABI's conv2d: the bits of C++, filters as handles, and refusals by name.
#include <array>

#include "api/c_test.h"
#include "lab/conv2d_truth.h"

namespace tern::c_test {
namespace {

using FiltersHandle = std::unique_ptr<tern_packed_filters, Destroy<tern_packed_filters_destroy>>;
using Conv2dPlanHandle = std::unique_ptr<tern_conv2d_plan, Destroy<tern_conv2d_plan_destroy>>;

tern_tensor_view view_of_shape(void* data, tern_dtype dtype, const Shape& shape) {
  return view_of(data, dtype, {shape.sizes().begin(), shape.sizes().end()});
}

// Every field of a problem has a value that is not its default and not its neighbour's.
class CConv2d : public testing::Test {
 protected:
  CConv2d() {
    EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK);
    const Conv2d::Problem& p = case_.problem;
    problem_.images = p.images;
    problem_.height = p.height;
    problem_.width = p.width;
    problem_.out_channels = shape_.out_channels = p.filters.out_channels;
    problem_.in_channels = shape_.in_channels = p.filters.in_channels;
    problem_.filter_height = shape_.height = p.filters.height;
    problem_.filter_width = shape_.width = p.filters.width;
    problem_.groups = shape_.groups = p.filters.groups;
    problem_.stride_h = p.stride_h;
    problem_.stride_w = p.stride_w;
    problem_.dilation_h = p.dilation_h;
    problem_.dilation_w = p.dilation_w;
    problem_.padding_top = p.padding.top;
    problem_.padding_bottom = p.padding.bottom;
    problem_.padding_left = p.padding.left;
    problem_.padding_right = p.padding.right;
    problem_.x_dtype = TERN_DTYPE_BF16;
    problem_.x_order = TERN_IMAGE_ORDER_NHWC;
    problem_.y_dtype = TERN_DTYPE_F16;
    problem_.y_order = TERN_IMAGE_ORDER_NCHW;
    problem_.format = TERN_FORMAT_B3;
    problem_.granularity = kByRow;
    problem_.scale_given = problem_.bias = problem_.residual = 1;
    problem_.activation = TERN_ACTIVATION_RELU;
    filters_ = create();
    y_.assign(case_.residual.size(), std::byte{0xEE});
    args_.x = view_of_shape(case_.x.data(), TERN_DTYPE_BF16, case_.x_shape());
    args_.x_scales = view_of(case_.x_scales.data(), TERN_DTYPE_F32, {2});
    args_.filters = filters_.get();
    args_.bias = view_of(case_.bias.data(), TERN_DTYPE_F32, {6});
    args_.residual = view_of_shape(case_.residual.data(), TERN_DTYPE_F16, case_.y_shape());
    args_.y = view_of_shape(y_.data(), TERN_DTYPE_F16, case_.y_shape());
  }

  static lab::ConvCase make_case() {
    lab::Random random(41);
    return lab::conv_case(random,
                          {.images = 2,
                           .height = 9,
                           .width = 8,
                           .filters = {6, 5, 3, 2, 2},
                           .stride_h = 2,
                           .stride_w = 3,
                           .dilation_h = 1,
                           .dilation_w = 4,
                           .padding = {0, 1, 2, 3},
                           .x_dtype = DType::bf16,
                           .x_order = ImageOrder::nhwc,
                           .y_dtype = DType::f16,
                           .y_order = ImageOrder::nchw,
                           .format = Format::b3,
                           .granularity = Granularity::row(),
                           .scale_given = true,
                           .bias = true,
                           .activation = Activation::relu,
                           .residual = true},
                          lab::ConvData::random);
  }
  tern_status create(tern_packed_filters** made) {
    const tern_tensor_view codes = view_of(case_.codes.data(), TERN_DTYPE_U8, {6, row_bytes(Format::b3, case_.k())}),
                           scales = view_of(case_.w_scales.data(), TERN_DTYPE_F32, {6});
    return tern_packed_filters_create(context_.get(), &codes, &scales, &shape_, kByRow, TERN_FORMAT_B3, made);
  }
  FiltersHandle create() {
    tern_packed_filters* made = nullptr;
    EXPECT_EQ(create(&made), TERN_OK) << tern_last_error()->text;
    return FiltersHandle(made);
  }
  Conv2dPlanHandle select() {
    tern_conv2d_plan* plan = nullptr;
    EXPECT_EQ(tern_conv2d_select(context_.get(), &problem_, nullptr, &plan), TERN_OK) << tern_last_error()->text;
    return Conv2dPlanHandle(plan);
  }
  tern_status run(const Conv2dPlanHandle& plan) {
    return tern_conv2d_plan_run(plan.get(), stream_, workspace_.data, sizeof(workspace_.data), &args_);
  }
  void expect_refused(const char* text) {
    tern_conv2d_plan* plan = nullptr;
    EXPECT_FAILS(tern_conv2d_select(context_.get(), &problem_, nullptr, &plan), TERN_INVALID_ARGUMENT, text);
    EXPECT_EQ(plan, nullptr);
  }

  struct alignas(64) Workspace {
    std::byte data[1 << 20];
  };

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  lab::ConvCase case_ = make_case();
  FiltersHandle filters_;
  std::vector<std::byte> y_;
  tern_filter_shape shape_ = TERN_FILTER_SHAPE_INIT;
  tern_conv2d_problem problem_ = TERN_CONV2D_PROBLEM_INIT;
  tern_conv2d_args args_ = TERN_CONV2D_ARGS_INIT;
  static inline Workspace workspace_;
};

TEST_F(CConv2d, ConvolvesAsItsDefinitionSays) {
  const Conv2dPlanHandle plan = select();
  std::size_t bytes = 0;
  ASSERT_EQ(tern_conv2d_plan_workspace_bytes(plan.get(), &bytes), TERN_OK);
  ASSERT_LE(bytes, sizeof(workspace_.data));
  EXPECT_EQ(tern_conv2d_plan_can_implement(plan.get(), &args_), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(run(plan), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(y_, lab::ConvTruth(case_).bits());
  std::int64_t height = 0, width = 0;
  ASSERT_EQ(tern_conv2d_output_size(&problem_, &height, &width), TERN_OK);
  EXPECT_EQ(height, case_.y.height);
  EXPECT_EQ(width, case_.y.width);
}

TEST_F(CConv2d, PassesFloatMathAndThePolicyForNonFiniteOn) {
  case_.x[2 * 3] = std::byte{0x80};  // element 3 is infinite
  case_.x[2 * 3 + 1] = std::byte{0x7F};
  EXPECT_FAILS(run(select()), TERN_NON_FINITE, "is inf");
  EXPECT_EQ(tern_last_error()->index, 3);
  problem_.non_finite = TERN_NON_FINITE_SATURATE;
  case_.problem.non_finite = NonFinite::saturate;
  EXPECT_EQ(run(select()), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(y_, lab::ConvTruth(case_).bits());
  problem_.math = TERN_LINEAR_MATH_W2_FLOAT;
  expect_refused("scale_given is for images of floats in w2a8");
  problem_.scale_given = 0;
  const tern_plan_info* info = nullptr;
  const Conv2dPlanHandle plan = select();
  ASSERT_EQ(tern_conv2d_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_STREQ(info->op, "conv2d");
  EXPECT_STREQ(info->epilogue, "bias+relu+residual");
  EXPECT_STREQ(info->math, "f32");
}

TEST_F(CConv2d, FiltersSayWhatTheyAre) {
  const tern_packed_filters_info* info = nullptr;
  ASSERT_EQ(tern_packed_filters_get_info(filters_.get(), &info), TERN_OK);
  EXPECT_EQ(info->struct_size, sizeof(tern_packed_filters_info));
  const std::array<std::int64_t, 5> got = {info->out_channels, info->in_channels, info->height, info->width,
                                           info->groups};
  EXPECT_EQ(got, (std::array<std::int64_t, 5>{6, 5, 3, 2, 2}));
  EXPECT_EQ(info->granularity.kind, TERN_GRANULARITY_ROW);
  EXPECT_EQ(info->format, TERN_FORMAT_B3);
  std::size_t bytes = 0;
  ASSERT_EQ(tern_packed_filters_bytes(&shape_, kByRow, TERN_FORMAT_B3, &bytes), TERN_OK);
  EXPECT_EQ(info->bytes, bytes);
}

TEST_F(CConv2d, FiltersAreTheSameFromAQuantizedTensorAndFromALayout) {
  const std::vector<float> w = make_weights(std::int64_t{6} * 30);
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.granularity = kByRow;
  const QuantizedHandle quantized = quantize(context_.get(), view_of(w.data(), TERN_DTYPE_F32, {6, 30}), &options);
  tern_packed_filters *of_quantized = nullptr, *of_layout = nullptr;
  ASSERT_EQ(tern_packed_filters_create_from_quantized(context_.get(), quantized.get(), &shape_, &of_quantized), TERN_OK)
      << tern_last_error()->text;
  const FiltersHandle first(of_quantized);
  const tern_quantized_info& q = info_of(quantized);
  const tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  const auto* scales = static_cast<const float*>(q.scales.data);
  const auto from_layout = [&](std::size_t bytes) {
    return tern_packed_filters_create_from_layout(context_.get(), &spec, q.codes.data, bytes, &shape_, scales, 6,
                                                  kByRow, &of_layout);
  };
  ASSERT_EQ(from_layout(q.codes_bytes), TERN_OK) << tern_last_error()->text;
  const FiltersHandle second(of_layout);
  std::uint64_t checksum = 0;
  ASSERT_EQ(tern_quantized_checksum(quantized.get(), &checksum), TERN_OK);
  for (const FiltersHandle& filters : {std::cref(first), std::cref(second)}) {
    const tern_packed_filters_info* info = nullptr;
    ASSERT_EQ(tern_packed_filters_get_info(filters.get(), &info), TERN_OK);
    EXPECT_EQ(info->checksum, checksum);
    EXPECT_EQ(info->format, TERN_FORMAT_I2);
  }
  EXPECT_FAILS(from_layout(q.codes_bytes - 1), TERN_INVALID_ARGUMENT, std::to_string(q.codes_bytes - 1).c_str());
  EXPECT_EQ(of_layout, nullptr);
}

TEST_F(CConv2d, RefusesBadFilters) {
  tern_packed_filters* made = nullptr;
  const tern_filter_shape good = shape_;
  shape_.groups = 4;
  EXPECT_FAILS(create(&made), TERN_INVALID_ARGUMENT, "the groups do not divide the output channels");
  shape_ = good;
  shape_.in_channels = 0;
  EXPECT_FAILS(create(&made), TERN_INVALID_ARGUMENT, "every size must be 1 or more");
  shape_ = good;
  shape_.struct_size = 8;
  EXPECT_FAILS(create(&made), TERN_INVALID_ARGUMENT, "shape->struct_size is 8");
  shape_ = good;
  std::size_t bytes = 0;
  EXPECT_FAILS(tern_packed_filters_bytes(&shape_, {TERN_GRANULARITY_GROUP, 4}, TERN_FORMAT_I2, &bytes),
               TERN_UNSUPPORTED, "not scales by group:4");
  EXPECT_FAILS(tern_packed_filters_bytes(&shape_, kByRow, TERN_FORMAT_S2, &bytes), TERN_UNSUPPORTED, "not s2");
  case_.codes[6] = std::byte{1};  // no five trits encode to it
  EXPECT_FAILS(create(&made), TERN_INVALID_QUANTIZED_VALUE, "codes[1, 0]");
  EXPECT_EQ(tern_last_error()->index, 30);
  EXPECT_EQ(made, nullptr);
}

TEST_F(CConv2d, RefusesBadProblems) {
  const tern_conv2d_problem good = problem_;
  const auto refused = [&](auto tern_conv2d_problem::*field, int value, const char* text) {
    problem_ = good;
    problem_.*field = static_cast<std::remove_reference_t<decltype(problem_.*field)>>(value);
    expect_refused(text);
  };
  refused(&tern_conv2d_problem::x_order, 2, "problem->x_order is 2");
  refused(&tern_conv2d_problem::y_order, -1, "problem->y_order is -1");
  refused(&tern_conv2d_problem::x_dtype, 99, "problem->x_dtype is 99");
  refused(&tern_conv2d_problem::y_dtype, 98, "problem->y_dtype is 98");
  refused(&tern_conv2d_problem::math, 2, "problem->math is 2");
  refused(&tern_conv2d_problem::non_finite, 7, "problem->non_finite is 7");
  refused(&tern_conv2d_problem::activation, 3, "problem->activation is 3");
  refused(&tern_conv2d_problem::format, TERN_FORMAT_DEFAULT, "problem->format is -1");
  refused(&tern_conv2d_problem::struct_size, 8, "problem->struct_size is 8");
  refused(&tern_conv2d_problem::stride_h, 0, "stride_h is 0");
  refused(&tern_conv2d_problem::stride_w, -2, "stride_w is -2");
  refused(&tern_conv2d_problem::dilation_h, 0, "dilation_h is 0");
  refused(&tern_conv2d_problem::padding_left, -1, "the padding along the width is -1 and 3");
  refused(&tern_conv2d_problem::padding_bottom, -3, "the padding along the height is 0 and -3");
  refused(&tern_conv2d_problem::images, -1, "images is -1");
  std::int64_t height = -9, width = -9;
  problem_ = good;
  problem_.filter_width = 60;
  EXPECT_FAILS(tern_conv2d_output_size(&problem_, &height, &width), TERN_INVALID_ARGUMENT, "pixels of the width");
  EXPECT_EQ(height, -9);
  EXPECT_EQ(width, -9);
}

TEST_F(CConv2d, RefusesBadArguments) {
  const Conv2dPlanHandle plan = select();
  const tern_conv2d_args good = args_;
  const auto refused = [&](auto change, const char* text) {
    args_ = good;
    change(args_);
    EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, text);
    EXPECT_FAILS(tern_conv2d_plan_can_implement(plan.get(), &args_), TERN_INVALID_ARGUMENT, text);
  };
  refused([](tern_conv2d_args& a) { a.filters = nullptr; }, "the filters are empty");
  refused([](tern_conv2d_args& a) { a.x.data = nullptr; }, "x is null");
  refused([](tern_conv2d_args& a) { a.x.dtype = static_cast<tern_dtype>(42); }, "x.dtype is 42");
  refused([](tern_conv2d_args& a) { a.x_scales.data = nullptr; }, "x_scales is null");
  refused([](tern_conv2d_args& a) { a.bias.data = nullptr; }, "bias is null");
  refused([](tern_conv2d_args& a) { a.residual.rank = 12; }, "rank of residual is 12");
  refused([](tern_conv2d_args& a) { a.y.data = nullptr; }, "y is null");
  refused([](tern_conv2d_args& a) { a.struct_size = 0; }, "args->struct_size is 0");
  EXPECT_EQ(y_[0], std::byte{0xEE});  // nothing was written
}

TEST_F(CConv2d, RefusesNullByName) {
  tern_packed_filters* made = nullptr;
  const tern_packed_filters_info* info = nullptr;
  const tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  const tern_tensor_view x = args_.x;
  tern_conv2d_plan* plan = nullptr;
  std::int64_t size = 0;
  std::size_t bytes = 0;
  const tern_context* c = context_.get();
#define EXPECT_NULL(call, parameter) EXPECT_FAILS(call, TERN_INVALID_ARGUMENT, parameter " is NULL")
  EXPECT_NULL(tern_packed_filters_bytes(nullptr, kByRow, TERN_FORMAT_I2, &bytes), "shape");
  EXPECT_NULL(tern_packed_filters_bytes(&shape_, kByRow, TERN_FORMAT_I2, nullptr), "out");
  EXPECT_NULL(tern_packed_filters_create(nullptr, &x, &x, &shape_, kByRow, TERN_FORMAT_I2, &made), "context");
  EXPECT_NULL(tern_packed_filters_create(c, nullptr, &x, &shape_, kByRow, TERN_FORMAT_I2, &made), "codes");
  EXPECT_NULL(tern_packed_filters_create(c, &x, nullptr, &shape_, kByRow, TERN_FORMAT_I2, &made), "scales");
  EXPECT_NULL(tern_packed_filters_create(c, &x, &x, nullptr, kByRow, TERN_FORMAT_I2, &made), "shape");
  EXPECT_NULL(tern_packed_filters_create(c, &x, &x, &shape_, kByRow, TERN_FORMAT_I2, nullptr), "out");
  EXPECT_NULL(tern_packed_filters_create_from_quantized(c, nullptr, &shape_, &made), "quantized");
  EXPECT_NULL(tern_packed_filters_create_from_layout(c, nullptr, "", 1, &shape_, nullptr, 0, kByRow, &made), "spec");
  EXPECT_NULL(tern_packed_filters_create_from_layout(c, &spec, "", 1, nullptr, nullptr, 0, kByRow, &made), "shape");
  EXPECT_NULL(tern_packed_filters_get_info(nullptr, &info), "filters");
  EXPECT_NULL(tern_conv2d_select(c, nullptr, nullptr, &plan), "problem");
  EXPECT_NULL(tern_conv2d_plan_run(nullptr, stream_, nullptr, 0, &args_), "plan");
  EXPECT_NULL(tern_conv2d_output_size(nullptr, &size, &size), "problem");
  EXPECT_NULL(tern_conv2d_output_size(&problem_, nullptr, &size), "height");
  EXPECT_NULL(tern_conv2d_output_size(&problem_, &size, nullptr), "width");
#undef EXPECT_NULL
  tern_packed_filters_destroy(nullptr);
  tern_conv2d_plan_destroy(nullptr);
  tern_image_order order{};
  EXPECT_EQ(tern_image_order_parse("nhwc", &order), TERN_OK);
  EXPECT_EQ(order, TERN_IMAGE_ORDER_NHWC);
  EXPECT_STREQ(tern_image_order_name(order), "nhwc");
  EXPECT_STREQ(tern_image_order_name(static_cast<tern_image_order>(2)), "unknown");
  EXPECT_FAILS(tern_image_order_parse("chwn", &order), TERN_INVALID_ARGUMENT, "nchw");
}

}  // namespace
}  // namespace tern::c_test
