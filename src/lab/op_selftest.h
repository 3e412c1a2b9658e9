// How an op takes part in the selftest: one function per op, in its selftest.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "tern/context.h"
#include "tern/status.h"

namespace tern::lab {

struct Comparison {
  std::int64_t problems = 0;
  std::string difference;  // problem and element of the first difference; empty when all were equal
};

// Compares one kernel of the op with the op's reference.
Result<Comparison> selftest_ternary_quantize(const Context& context, const std::string& kernel);
Result<Comparison> selftest_ternary_dequantize(const Context& context, const std::string& kernel);

}  // namespace tern::lab
