// Runs one kernel on fixed weights, for callgrind to count the instructions of measured(): KERNEL SCHEME GRANULARITY.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tern/tern.h"

namespace {

constexpr std::int64_t kRows = 48;
constexpr std::int64_t kColumns = 1030;  // no multiple of a vector, so that tails are counted too
constexpr int kRepetitions = 4;

// Weights in [-1, 1), the same on every machine.
std::vector<float> weights() {
  std::vector<float> values(static_cast<std::size_t>(kRows * kColumns));
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  return values;
}

int fail(const tern::Error& error) {
  std::fprintf(stderr, "callgrind_cases: %s\n", error.str().c_str());
  return error.code == tern::Code::unsupported ? 77 : 1;  // 77: this machine cannot run the kernel
}

}  // namespace

// Its name is what callgrind looks for; what happens outside is not counted.
template <class Op>
[[gnu::noinline]] tern::Status measured(const tern::Plan<Op>& plan, tern::Stream stream, tern::Workspace workspace,
                                        const typename Op::Args& args) {
  for (int i = 0; i < kRepetitions; ++i)
    if (auto status = plan.run(stream, workspace, args); !status.ok()) return status;
  return {};
}

template <class Op>
tern::Status run(const tern::Context& context, const typename Op::Problem& problem, const std::string& kernel,
                 const typename Op::Args& args) {
  const auto plan = tern::Plan<Op>::select(context, problem, {.kernel = kernel, .strict = true});
  if (!plan.ok()) return plan.error();
  auto scratch = tern::Tensor::allocate(context.memory(), tern::DType::u8,
                                        {static_cast<std::int64_t>(plan->workspace_bytes() + 1)});
  if (!scratch.ok()) return scratch.error();
  return measured<Op>(*plan, context.stream(), scratch->as<std::byte>(), args);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: callgrind_cases KERNEL SCHEME GRANULARITY\n");
    return 2;
  }
  const std::string kernel = argv[1];
  const auto op_end = kernel.find('.');
  const auto format = tern::parse_format(kernel.substr(op_end + 1, kernel.find('.', op_end + 1) - op_end - 1));
  const auto scheme = tern::parse_scheme(argv[2]);
  const auto granularity = tern::parse_granularity(argv[3]);
  const auto context = tern::Context::open({.threads = 1});
  if (!format.ok()) return fail(format.error());
  if (!scheme.ok()) return fail(scheme.error());
  if (!granularity.ok()) return fail(granularity.error());
  if (!context.ok()) return fail(context.error());

  std::vector<float> x = weights();
  auto q = tern::quantize(*context, {x.data(), tern::DType::f32, {kRows, kColumns}},
                          {.scheme = *scheme, .granularity = *granularity, .format = *format});
  if (!q.ok()) return fail(q.error());
  tern::Status status;
  if (kernel.starts_with("ternary_quantize.")) {
    status = run<tern::TernaryQuantize>(
        *context, {.rows = kRows, .k = kColumns, .scheme = *scheme, .granularity = *granularity, .format = *format},
        kernel,
        {.x = {x.data(), tern::DType::f32, {kRows, kColumns}},
         .codes = q->codes.view(),
         .scales = q->scales.view(),
         .given_scale = {}});
  } else {
    status = run<tern::TernaryDequantize>(
        *context, {.rows = kRows, .k = kColumns, .scheme = *scheme, .granularity = *granularity, .format = *format},
        kernel,
        {.codes = q->codes.view(), .scales = q->scales.view(), .y = {x.data(), tern::DType::f32, {kRows, kColumns}}});
  }
  return status.ok() ? 0 : fail(status.error());
}
