// BitLinear and w2a8_gemv(): check, plan, run.
#include "tern/linear.h"

#include "base/errors.h"
#include "base/views.h"
#include "plan/own_stream.h"
#include "plan/run_once.h"
#include "tern/model.h"

namespace tern {

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

Result<BitLinear> BitLinear::load(const Context& context, const std::string& path, std::string_view tensor,
                                  const BitLinearOptions& options) {
  TERN_ASSIGN(model, Model::open(path));
  TERN_ASSIGN(weights, load_weights(context, model, tensor));
  return make(context, std::move(weights), options);
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
