// PackedWeights and BitLinear: check, allocate, pack, plan, run.
#include "tern/linear.h"

#include "api/pack.h"
#include "base/errors.h"
#include "format/format.h"
#include "memory/workspace.h"
#include "ops/linear/packed_weights.h"
#include "ops/ranges.h"
#include "ops/views.h"
#include "plan/own_stream.h"
#include "plan/run_once.h"

namespace tern {
namespace {

constexpr std::string_view kPack = "pack";

// The input of pack() must be on the context's device; a GPU also takes it from the host.
Status check_place(const Context& context, std::string_view argument, const ConstTensorView& view) {
  const DeviceId on = context.device().id;
  if (view.device == on || (on.kind == DeviceKind::cuda && view.device.kind == DeviceKind::cpu)) return {};
  return error(Code::invalid_argument, kPack, "{} lie on {}, the context is on {}; Tensor::to copies them", argument,
               name(view.device), name(on));
}

}  // namespace

Result<std::size_t> PackedWeights::packed_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity,
                                                Format format) {
  return packed_weights_bytes(n, k, granularity, format);
}

Result<std::size_t> PackedWeights::packed_bytes(const Context& context, std::int64_t n, std::int64_t k,
                                                const Granularity& granularity, Format format) {
  return packed_weights_bytes(n, k, granularity, format, context.device().id.kind);
}

Result<PackedWeights> PackedWeights::pack(const Context& context, const ConstTensorView& codes,
                                          const ConstTensorView& scales, std::int64_t n, std::int64_t k,
                                          const Granularity& granularity, std::span<std::byte> memory, Format format) {
  TERN_ASSIGN(bytes, packed_bytes(context, n, k, granularity, format));
  TERN_ASSIGN(rows, as_rows({kPack, codes.device}, "codes", codes, code_dtype(format), n, row_bytes(format, k)));
  const std::int64_t count = make_ranges(n, k, granularity).total;
  TERN_RETURN_IF_ERROR(check_dense({kPack, scales.device}, "scales", scales, DType::f32, count));
  TERN_RETURN_IF_ERROR(check_place(context, "codes", codes));
  TERN_RETURN_IF_ERROR(check_place(context, "scales", scales));
  const CanonicalWeights weights{.codes = static_cast<const std::uint8_t*>(codes.data),
                                 .stride_bytes = rows.stride,
                                 .scales = static_cast<const float*>(scales.data),
                                 .n = n,
                                 .k = k,
                                 .granularity = granularity,
                                 .format = format};
  if (scales.device.kind == DeviceKind::cpu) TERN_RETURN_IF_ERROR(check_weight_scales(weights));
  TERN_ASSIGN(place, PackedPlace::make(context, bytes, memory));
  TERN_RETURN_IF_ERROR(check_apart(kPack, "codes", bytes_of(codes), "the memory", place.reach()));
  TERN_RETURN_IF_ERROR(check_apart(kPack, "scales", bytes_of(scales), "the memory", place.reach()));
  return tern::pack(context, {.weights = weights, .codes_on = codes.device, .scales_on = scales.device},
                    std::move(place));
}

Result<PackedWeights> PackedWeights::pack(const Context& context, const QuantizedTensor& q,
                                          std::span<std::byte> memory) {
  if (q.format != Format::i2 && q.format != Format::b3)
    return error(Code::unsupported, kPack, "{} codes of scheme {} are not packed trits; quantize to i2 or b3",
                 name(q.format), name(q.scheme));
  return pack(context, q.codes.view(), q.scales.view(), q.rows(), q.k(), q.granularity, memory, q.format);
}

std::int64_t PackedWeights::n() const { return state_ ? state_->n : 0; }
std::int64_t PackedWeights::k() const { return state_ ? state_->k : 0; }
const Granularity& PackedWeights::granularity() const {
  static constexpr Granularity kNone;
  return state_ ? state_->granularity : kNone;
}
Format PackedWeights::format() const { return state_ ? state_->format : Format::i2; }
std::size_t PackedWeights::bytes() const { return state_ ? state_->bytes : 0; }
std::uint64_t PackedWeights::checksum() const { return state_ ? state_->checksum : 0; }
std::string_view PackedWeights::tile() const {
  return state_ && state_->device.kind == DeviceKind::cuda ? "tile_mma" : "tile16";
}

Result<BitLinear> BitLinear::make(const Context& context, PackedWeights weights, const BitLinearOptions& options) {
  if (weights.empty())
    return error(Code::invalid_argument, "BitLinear", "the weights are empty; PackedWeights::pack makes them");
  if (!options.bias.empty() && static_cast<std::int64_t>(options.bias.size()) != weights.n())
    return error(Code::invalid_argument, "BitLinear", "{} bias values for {} outputs", options.bias.size(),
                 weights.n());
  if (options.x_dtype == DType::i8)
    return error(Code::invalid_argument, "BitLinear",
                 "x is i8, which comes with scales of its own; use a LinearPlan, or f32, f16 or bf16");
  DType x_dtype = options.x_dtype, y_dtype = options.y_dtype;
  std::optional<PrecisionChoice> precision;
  if (options.precision) {
    TERN_ASSIGN(choice, resolve_precision(context, *options.precision, options.preference.strict));
    for (const auto& [field, given] : {std::pair("x_dtype", x_dtype), std::pair("y_dtype", y_dtype)})
      if (given != BitLinearOptions().x_dtype && given != choice.used)
        return error(Code::invalid_argument, "BitLinear", "{} is {}, and precision {} gives {}; leave one of them out",
                     field, name(given), name(*options.precision), name(choice.used));
    x_dtype = y_dtype = choice.used;
    precision = std::move(choice);
  }
  Linear::Problem problem{
      .m_max = options.m_max, .k = weights.k(), .x_dtype = x_dtype, .math = options.math, .format = weights.format()};
  problem.matrices = {{.n = weights.n(),
                       .granularity = weights.granularity(),
                       .y_dtype = y_dtype,
                       .bias = !options.bias.empty(),
                       .activation = options.activation}};
  TERN_ASSIGN(plan, LinearPlan::select(context, problem, options.preference));
  std::shared_ptr<const Tensor> bias;
  if (!options.bias.empty()) {
    TERN_ASSIGN(own, Tensor::allocate(context.memory(), DType::f32, {weights.n()}, "bias"));
    TERN_ASSIGN(stream, detail::OwnStream::open(context));
    TERN_RETURN_IF_ERROR(context.copy(own.view(), {options.bias.data(), DType::f32, {weights.n()}}, *stream));
    TERN_RETURN_IF_ERROR(stream->synchronize());
    bias = std::make_shared<const Tensor>(std::move(own));
  }
  return BitLinear(context, std::move(weights), std::move(plan), std::move(bias), std::move(precision));
}

Status BitLinear::forward(const ConstTensorView& x, const TensorView& y, Workspace workspace) const {
  Linear::Output output{.weights = weights_, .y = y};
  if (bias_ != nullptr) output.bias = bias_->view();
  return plan_.run(context_.stream(), workspace, {.x = x, .outputs = {&output, 1}});
}

Status BitLinear::forward(const ConstTensorView& x, const TensorView& y) const {
  TERN_ASSIGN(workspace, allocate_workspace(context_, plan_));
  return forward(x, y, workspace.as<std::byte>());
}

Status w2a8_gemv(const Context& context, const PackedWeights& w, const ConstTensorView& a, const TensorView& out,
                 std::int64_t m, std::int64_t k, int stream_index) {
  constexpr std::string_view kWhere = "w2a8_gemv";
  if (w.n() != m || w.k() != k)
    return error(Code::invalid_argument, kWhere, "w is {} x {}, m and k are {} x {}", w.n(), w.k(), m, k);
  const Where where(kWhere, context.device().id);
  TERN_RETURN_IF_ERROR(check_dense(where, "a", a, DType::i8, k));
  TERN_RETURN_IF_ERROR(check_dense(where, "out", out, DType::i32, m));
  if (stream_index < 0) return error(Code::invalid_argument, kWhere, "there is no stream {}", stream_index);
  Linear::Problem problem{.m_max = 1, .k = k, .format = w.format()};
  problem.matrices = {{.n = m, .granularity = w.granularity(), .y_dtype = DType::i32}};
  TERN_ASSIGN(plan, LinearPlan::select(context, problem));
  TERN_ASSIGN(workspace, allocate_workspace(context, plan));
  const DeviceId on = context.device().id;
  const Linear::Output output{.weights = w, .y = {out.data, DType::i32, {1, m}, on}};
  return plan.run(context.stream(stream_index), workspace.as<std::byte>(),
                  {.x = {a.data, DType::i8, {1, k}, on}, .outputs = {&output, 1}});
}

}  // namespace tern
