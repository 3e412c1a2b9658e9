// How an op takes part in the selftest: one function per op, in its selftest.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "lab/weights.h"
#include "plan/context_state.h"
#include "tern/context.h"
#include "tern/plan.h"
#include "tern/status.h"

namespace tern::lab {

struct Comparison {
  std::int64_t problems = 0;
  std::string difference;  // problem and element of the first difference; empty when all were equal
};

// The kernel that a kernel is compared with.
inline std::string reference_of(const KernelDescription& kernel) {
  return kernel.op + "." + kernel.format + ".reference";
}

// Where the reference runs: a CPU, whatever TERN_DEVICE says.
inline Context reference_context() { return detail::ContextState::cpu_beside(1); }

// Copies data of the host to a context's memory, and back.
inline Result<Tensor> upload(const Context& context, const void* data, DType dtype, const Shape& shape) {
  auto tensor = context.allocate(dtype, shape, "selftest");
  if (!tensor.ok()) return tensor;
  Status copied = context.copy(tensor->view(), {data, dtype, shape}, context.stream());
  if (!copied.ok()) return std::move(copied).error();
  return tensor;
}
inline Status download(const Context& context, const Tensor& tensor, void* data) {
  Status copied = context.copy({data, tensor.dtype(), tensor.shape()}, tensor.view(), context.stream());
  return copied.ok() ? context.stream().synchronize() : std::move(copied);
}

// A random one of the types that the kernel accepts.
inline Result<DType> random_dtype(Random& random, const KernelDescription& kernel) {
  return parse_dtype(
      kernel.dtypes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(kernel.dtypes.size())))]);
}

// Compare one kernel of the op with the op's reference, on problems that its KernelDescription says it accepts.
Result<Comparison> selftest_ternary_quantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_ternary_dequantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_activation_quantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_affine_quantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_affine_dequantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_fake_quantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_fake_quantize_backward(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_choose_qparams(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_dynamic_quantize(const Context& context, const KernelDescription& kernel);
Result<Comparison> selftest_linear(const Context& context, const KernelDescription& kernel);

}  // namespace tern::lab
