// How an op takes part in the selftest: kernel and reference run on the same samples, and every byte that they write is
// compared. An op says in its selftest.cpp which samples there are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/errors.h"
#include "lab/op_record.h"
#include "lab/weights.h"
#include "ops/ops.h"
#include "plan/context_state.h"
#include "plan/run_once.h"
#include "tern/context.h"
#include "tern/plan.h"
#include "tern/status.h"

namespace tern::lab {

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
inline DType random_dtype(Random& random, const KernelDescription& kernel) {
  return *parse_dtype(
      kernel.dtypes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(kernel.dtypes.size())))]);
}

// The bytes of any elements.
template <class T>
std::vector<std::byte> bytes_in(const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// An element that a sample was given and that no kernel may accept. The kernel must name the element.
struct Spoiled {
  Code code = Code::non_finite;
  std::int64_t index = 0;
  bool saturates = false;  // whether kernels must agree again when the problem saturates
};

// A problem with what a run of it reads, by the names of OpTraits<Op>::operands.
template <class Op>
struct Sample {
  typename Op::Problem problem;
  std::map<std::string_view, std::vector<std::byte>> inputs;
  std::string text;  // describes it
  // Spoils an element; null, or nothing returned, if all are fine.
  std::optional<Spoiled> (*spoil)(Random& random, Sample& sample) = nullptr;
};

// What an op's selftest.cpp defines: the sample with a number; none after the last.
template <class Op>
std::optional<Sample<Op>> next_sample(Random& random, const KernelDescription& kernel, Format format, int number);
// Or, where calls have more than plain tensors, the whole comparison.
template <class Op>
Result<Comparison> own_selftest(const Context& context, const KernelDescription& kernel);
#define OP(name, Op)                                                                         \
  template <>                                                                                \
  std::optional<Sample<Op>> next_sample<Op>(Random&, const KernelDescription&, Format, int); \
  template <>                                                                                \
  Result<Comparison> own_selftest<Op>(const Context&, const KernelDescription&);
TERN_OPS(OP)
#undef OP

// Makes one element of x NaN or an infinity.
template <class Op>
std::optional<Spoiled> spoil_x(Random& random, Sample<Op>& sample) {
  if (sample.problem.non_finite == NonFinite::saturate) return {};
  std::vector<std::byte>& x = sample.inputs.at("x");
  const DType dtype = sample.problem.dtype;
  const std::int64_t at = random.below(static_cast<std::int64_t>(x.size() / size_of(dtype)));
  write_element(x.data(), dtype, at, random.below(2) == 0 ? std::numeric_limits<double>::quiet_NaN() : -HUGE_VAL);
  return Spoiled{.index = at, .saturates = true};
}
// The same where scales are chosen: f32 does not hold the scale of the largest f64.
template <class Op>
std::optional<Spoiled> spoil_chosen(Random& random, Sample<Op>& sample) {
  if (sample.problem.dtype == DType::f64) sample.problem.scale_dtype = DType::f64;
  return spoil_x(random, sample);
}

// Whether a kernel takes a problem at all: some of a GPU's take groups of certain sizes only.
template <class Op>
Result<bool> takes(const Context& context, const std::string& kernel, const typename Op::Problem& problem,
                   Comparison& comparison) {
  auto plan = Plan<Op>::select(context, problem, {.kernel = kernel, .strict = true});
  if (plan.ok()) return true;
  if (plan.code() != Code::unsupported) return std::move(plan).error();
  comparison.refused = std::move(plan).error();
  return false;
}

// What a run wrote.
struct Written {
  const char* name;
  DType dtype;
  std::vector<std::byte> bytes;
};

// Runs a kernel, and returns all that it writes.
template <class Op>
Result<std::vector<Written>> run_sample(const Context& context, const std::string& kernel, const Sample<Op>& sample) {
  TERN_ASSIGN(plan, Plan<Op>::select(context, sample.problem, {.kernel = kernel, .strict = true}));
  typename Op::Args args;
  std::vector<Tensor> tensors;
  std::vector<std::size_t> outputs;
  std::vector<Written> written;
  Status status;
  OpTraits<Op>::operands(sample.problem, args, [&](const char* name, auto& view, DType dtype, const Shape& shape) {
    if (!status.ok()) return;
    constexpr bool is_output = std::is_same_v<std::remove_cvref_t<decltype(view)>, TensorView>;
    const void* from = nullptr;
    if constexpr (is_output) {
      const auto bytes = static_cast<std::size_t>(*element_count(shape)) * size_of(dtype);
      written.push_back({name, dtype, std::vector(bytes, std::byte{0xEE})});
      outputs.push_back(tensors.size());
      from = written.back().bytes.data();
    } else {
      const auto input = sample.inputs.find(name);
      if (input == sample.inputs.end()) {
        status = error(Code::internal, "selftest", "the sample '{}' has no {}", sample.text, name);
        return;
      }
      from = input->second.data();
    }
    auto there = upload(context, from, dtype, shape);
    if (!there.ok()) {
      status = std::move(there).error();
      return;
    }
    tensors.push_back(*std::move(there));
    view = tensors.back().view();
  });
  TERN_RETURN_IF_ERROR(std::move(status));
  TERN_RETURN_IF_ERROR(run_once(context, plan, args));
  for (std::size_t i = 0; i < written.size(); ++i)
    TERN_RETURN_IF_ERROR(download(context, tensors[outputs[i]], written[i].bytes.data()));
  return written;
}

// The first element in which two results differ; empty if they are equal.
std::string difference(const std::vector<Written>& got, const std::vector<Written>& want);

template <class Op>
Result<Comparison> compare_samples(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240308);
  for (int number = 0;; ++number) {
    std::optional<Sample<Op>> sample = next_sample<Op>(random, kernel, format, number);
    if (!sample) return comparison;
    TERN_ASSIGN(taken, takes<Op>(context, kernel.name, sample->problem, comparison));
    if (!taken) continue;
    const auto compare = [&]() -> Result<std::string> {
      TERN_ASSIGN(want, run_sample<Op>(cpu, reference_of(kernel), *sample));
      TERN_ASSIGN(got, run_sample<Op>(context, kernel.name, *sample));
      return difference(got, want);
    };
    TERN_ASSIGN(what, compare());
    std::optional<Spoiled> spoiled;
    if (what.empty() && sample->spoil != nullptr) spoiled = sample->spoil(random, *sample);
    if (spoiled) {
      const auto answer = run_sample<Op>(context, kernel.name, *sample);
      if (answer.ok())
        what = fmt::format("the wrong element {} was accepted", spoiled->index);
      else if (answer.code() != spoiled->code || answer.error().index != spoiled->index)
        what = fmt::format("the wrong element {} gave: {}", spoiled->index, answer.error().str());
    }
    if constexpr (requires { sample->problem.non_finite; }) {
      if (what.empty() && spoiled && spoiled->saturates) {
        sample->problem.non_finite = NonFinite::saturate;
        TERN_ASSIGN(saturated, compare());
        if (!saturated.empty()) what = "saturated: " + saturated;
      }
    }
    ++comparison.problems;
    if (what.empty()) continue;
    comparison.difference = fmt::format("{}: {}", sample->text, what);
    return comparison;
  }
}

template <class Op>
Result<Comparison> selftest_of(const Context& context, const KernelDescription& kernel) {
  if constexpr (requires(typename Op::Problem p, typename Op::Args args) {
                  OpTraits<Op>::operands(p, args, [](const char*, auto&, DType, const Shape&) {});
                })
    return compare_samples<Op>(context, kernel);
  else
    return own_selftest<Op>(context, kernel);
}

}  // namespace tern::lab
