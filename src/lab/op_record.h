// The ops as the laboratory and the command see them: one record each, made from TERN_OPS.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/bench.h"
#include "ops/op.h"

namespace tern::lab {

struct ModelCase;  // lab/models.h

struct Comparison {
  std::int64_t problems = 0;
  std::string difference;             // problem and element of the first difference; empty when all were equal
  std::optional<Error> refused = {};  // why the kernel did not take the last problem that it did not take
};

// Which kernel a problem runs on, and the plan that it leads to, if any.
struct Decision {
  Explanation explanation;
  std::optional<PlanId> id = {};
  std::size_t workspace_bytes = 0;
  std::optional<Tuning> tuning = {};
};

struct OpRecord {
  std::string_view name;
  Words words;  // which words its problems have
  // Why its problems do not have a word that those of other ops have; empty where they simply do not.
  std::string_view (*without)(Word);
  // "ternary_quantize of 64 x 64 f32, absmean by tensor, i2"
  std::string (*text)(const ProblemWords&);
  // rows, cols, dtype, scheme, granularity, format, method: as far as the op has them; the window of a convolution.
  nlohmann::ordered_json (*json)(const ProblemWords&);
  Result<Decision> (*decide)(const Context&, const ProblemWords&, const Preference&);
  // Compares one kernel with the op's reference, on problems that its KernelDescription says it accepts.
  Result<Comparison> (*selftest)(const Context&, const KernelDescription&);
  Result<OpCase> (*bench)(const BenchRequest&, const Context&);
  Result<std::vector<ModelCase>> (*models)(const BenchRequest&);  // null where it has none
};

std::span<const OpRecord> op_records();
const OpRecord* find_op(std::string_view name);  // null for an unknown one
std::vector<std::string_view> op_names();
// "linear has", or "choose_qparams and dynamic_quantize have": the ops whose problems have a word.
std::string ops_with(Word word);

// What an op's kernels take.
std::vector<Format> formats_of(std::string_view op);
std::vector<DType> dtypes_of(std::string_view op);

}  // namespace tern::lab
