// conv2d for the bench: arithmetic is the limit.
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "lab/conv2d_baselines.h"
#include "lab/conv2d_truth.h"
#include "lab/models.h"
#include "lab/op_bench.h"

namespace tern::lab {
namespace {

struct Buffers {
  ConvCase data;
  PackedFilters filters;
  Rotation memory;
};

}  // namespace

nlohmann::ordered_json window_json(const Conv2d::Problem& p) {
  const FilterShape& f = p.filters;
  return {{"images", p.images},
          {"image", {f.in_channels * f.groups, p.height, p.width}},
          {"filters", {f.out_channels, f.in_channels, f.height, f.width}},
          {"groups", f.groups},
          {"stride", {p.stride_h, p.stride_w}},
          {"dilation", {p.dilation_h, p.dilation_w}},
          {"padding", {p.padding.top, p.padding.bottom, p.padding.left, p.padding.right}},
          {"dtype", name(p.x_dtype)},
          {"order", name(p.x_order)},
          {"math", name(p.math)},
          {"granularity", name(p.granularity)},
          {"format", name(p.format)},
          {"y", name(p.y_dtype)},
          {"y_order", name(p.y_order)}};
}

template <>
Result<OpCase> bench_problem<Conv2d>(const BenchRequest& request, const Context& context, const Conv2d::Problem& p) {
  TERN_RETURN_IF_ERROR(check_kernels<Conv2d>(request, context, p));
  const auto buffers = std::make_shared<Buffers>();
  Random random(1);
  buffers->data = conv_case(random, p, ConvData::random);
  const ConvCase& data = buffers->data;
  TERN_ASSIGN(filters, data.pack(context));
  buffers->filters = filters;
  const Shape y = data.y_shape();
  const std::size_t part_bytes[] = {data.x.size(), static_cast<std::size_t>(*element_count(y)) * size_of(p.y_dtype)};
  TERN_ASSIGN(memory, Rotation::make(request, context, part_bytes));
  buffers->memory = std::move(memory);
  std::vector<Conv2d::Args> args;
  for (std::int64_t copy = 0; copy < buffers->memory.copies(); ++copy) {
    std::memcpy(buffers->memory.part(0, copy), data.x.data(), data.x.size());
    std::memset(buffers->memory.part(1, copy), 0, part_bytes[1]);
    args.push_back({.x = {buffers->memory.part(0, copy), p.x_dtype, data.x_shape()},
                    .filters = filters,
                    .y = {buffers->memory.part(1, copy), p.y_dtype, y}});
    if (!data.x_scales.empty()) args.back().x_scales = {data.x_scales.data(), DType::f32, {p.images}};
  }
  OpCase op_case;
  op_case.problem = window_json(p);
  op_case.bytes = static_cast<std::int64_t>(part_bytes[0] + part_bytes[1] + data.codes.size());
  op_case.operations = 2.0 * static_cast<double>(*element_count(y)) * static_cast<double>(data.k());
  op_case.limit = p.math == LinearMath::w2_float ? Limit::f32_peak : Limit::int8_peak;
  if (!buffers->memory.note().empty()) op_case.notes.push_back(buffers->memory.note());
  op_case.ready = [buffers, p, args](const Context& on, const Preference& preference) {
    return plan_subject<Conv2d>(on, p, preference, args, buffers);
  };
  if (request.baselines) op_case.baselines = conv2d_baselines(request, context, p);
  return op_case;
}

template <>
Result<OpCase> own_bench<Conv2d>(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(words, words_of(request, OpTraits<Conv2d>::kWords, 0, 0));
  return bench_problem<Conv2d>(request, context, OpTraits<Conv2d>::problem(words));
}

}  // namespace tern::lab
