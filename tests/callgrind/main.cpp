// Runs one kernel on the data of its bench, for callgrind to count the instructions of measured(): KERNEL WHAT
// GRANULARITY [zero_points]. WHAT is a scheme, a type, or a type and a number of tokens or images, as in i8x13.
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/errors.h"
#include "lab/op_record.h"

namespace tern::callgrind {
namespace {

constexpr std::int64_t kRows = 48;
constexpr std::int64_t kColumns = 1030;  // no multiple of a vector, so that tails are counted too
constexpr int kRepetitions = 4;

// callgrind finds this function by its name and counts only the instructions in it.
[[gnu::noinline]] Status measured(const lab::Subject& subject) {
  for (int i = 0; i < kRepetitions; ++i) TERN_RETURN_IF_ERROR(subject.run(0));
  return {};
}

Result<lab::BenchRequest> request_of(const std::string& kernel, const std::string& what, const std::string& granularity,
                                     bool zero_points) {
  lab::BenchRequest request;
  const auto op_end = kernel.find('.');
  request.op = kernel.substr(0, op_end);
  const lab::OpRecord* const op = lab::find_op(request.op);
  if (op == nullptr) return error(Code::invalid_argument, "callgrind_cases", "'{}' is not an op", request.op);
  request.kernel = kernel;
  request.rows = kRows;
  request.k = kColumns;
  request.weights = lab::Weights::warm;
  TERN_ASSIGN(format, parse_format(kernel.substr(op_end + 1, kernel.find('.', op_end + 1) - op_end - 1)));
  request.format = format;
  TERN_ASSIGN(shared, parse_granularity(granularity));
  request.granularity = shared;
  if (zero_points) {
    request.zero_points = true;
    request.method = QparamsMethod::minmax;
  }
  if (op->words.has(Word::scheme)) {
    TERN_ASSIGN(scheme, parse_scheme(what));
    request.scheme = scheme;
    return request;
  }
  const auto times = what.find('x');
  TERN_ASSIGN(dtype, parse_dtype(what.substr(0, times)));
  request.dtype = dtype;
  // A small image, with tails along every axis.
  if (op->words.has(Word::window)) request.window = {.filters = {40, 33, 3, 3}, .height = 7, .width = 9};
  if (op->words.has(Word::m)) request.m = std::stoll(what.substr(times + 1));
  if (op->words.has(Word::math) && dtype == DType::f32) request.math = LinearMath::w2_float;
  return request;
}

Status run(const lab::BenchRequest& request) {
  TERN_ASSIGN(context, Context::open({.threads = 1}));
  TERN_ASSIGN(op_case, lab::find_op(request.op)->bench(request, context));
  TERN_ASSIGN(subject, op_case.ready(context, {.kernel = request.kernel, .strict = true}));
  return measured(subject);
}

Status run(int argc, char** argv) {
  TERN_ASSIGN(request, request_of(argv[1], argv[2], argv[3], argc == 5));
  return run(request);
}

}  // namespace
}  // namespace tern::callgrind

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5 || (argc == 5 && std::string(argv[4]) != "zero_points")) {
    std::fprintf(stderr, "usage: callgrind_cases KERNEL WHAT GRANULARITY [zero_points]\n");
    return 2;
  }
  const tern::Status status = tern::callgrind::run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "callgrind_cases: %s\n", status.error().str().c_str());
  return status.code() == tern::Code::unsupported ? 77 : 1;  // 77: this machine cannot run the kernel
}
