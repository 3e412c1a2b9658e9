// Makes the record of every op from the templates of the laboratory.
#include "lab/op_record.h"

#include <algorithm>
#include <array>

#include "lab/models.h"
#include "lab/op_bench.h"
#include "lab/op_selftest.h"
#include "ops/ops.h"

namespace tern::lab {
namespace {

template <class Op>
Result<Decision> decide(const Context& context, const ProblemWords& words, const Preference& preference) {
  const typename Op::Problem problem = OpTraits<Op>::problem(words);
  TERN_ASSIGN(explanation, Plan<Op>::explain(context, problem, preference));
  Decision decision{.explanation = std::move(explanation)};
  if (decision.explanation.chosen.empty()) return decision;
  TERN_ASSIGN(plan, Plan<Op>::select(context, problem, preference));
  decision.id = plan.id();
  decision.workspace_bytes = plan.workspace_bytes();
  decision.tuning = plan.tuning();
  return decision;
}

// The scheme of problems that have no word for it.
template <class Op>
constexpr std::string_view scheme_of(const ProblemWords& words) {
  if constexpr (requires { OpTraits<Op>::kScheme; }) return OpTraits<Op>::kScheme;
  return name(words.scheme);
}

template <class Op>
std::string_view without(Word word) {
  if constexpr (requires { OpTraits<Op>::without(word); }) return OpTraits<Op>::without(word);
  return {};
}

template <class Op>
std::string text_of(const ProblemWords& words) {
  if constexpr (requires { OpTraits<Op>::text(words); }) {
    return OpTraits<Op>::text(words);
  } else {
    const auto p = OpTraits<Op>::problem(words);
    return fmt::format("{} of {} x {} {}, {} by {}, {}", OpTraits<Op>::kName, words.rows, words.k, name(p.dtype),
                       scheme_of<Op>(words), name(words.granularity), name(p.format));
  }
}

template <class Op>
nlohmann::ordered_json json_of(const ProblemWords& words) {
  constexpr Words kHas = OpTraits<Op>::kWords;
  const auto p = OpTraits<Op>::problem(words);
  if constexpr (kHas.has(Word::window)) return window_json(p);
  nlohmann::ordered_json json = {
      {"rows", words.rows}, {"cols", words.k}, {"dtype", name(words.dtype.value_or(DType::f32))}};
  if constexpr (!kHas.has(Word::math)) json["scheme"] = scheme_of<Op>(words);
  if constexpr (kHas.has(Word::granularity)) json["granularity"] = name(words.granularity);
  if constexpr (kHas.has(Word::format)) json["format"] = name(p.format);
  if constexpr (kHas.has(Word::method)) json["method"] = name(words.method);
  return json;
}

using Models = Result<std::vector<ModelCase>>(const BenchRequest&);
template <class Op>
constexpr Models* models_or_null() {
  if constexpr (OpTraits<Op>::kWords.has(Word::model)) return models_of<Op>;
  return nullptr;
}

#define OP(name_, Op)                     \
  OpRecord{.name = #name_,                \
           .words = OpTraits<Op>::kWords, \
           .without = without<Op>,        \
           .text = text_of<Op>,           \
           .json = json_of<Op>,           \
           .decide = decide<Op>,          \
           .selftest = selftest_of<Op>,   \
           .bench = bench_of<Op>,         \
           .models = models_or_null<Op>()},
constexpr OpRecord kRecords[] = {TERN_OPS(OP)};
#undef OP

}  // namespace

std::span<const OpRecord> op_records() { return kRecords; }

const OpRecord* find_op(std::string_view name) {
  const auto* const found = std::ranges::find(kRecords, name, &OpRecord::name);
  return found == std::end(kRecords) ? nullptr : found;
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const OpRecord& op : kRecords) names.push_back(op.name);
  return names;
}

std::string ops_with(Word word) {
  std::string text;
  int count = 0;
  for (const OpRecord& op : kRecords)
    if (op.words.has(word)) text += fmt::format("{}{}", count++ == 0 ? "" : " and ", op.name);
  return text + (count == 1 ? " has" : " have");
}

std::vector<Format> formats_of(std::string_view op) {
  std::vector<Format> formats;
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.op == op && std::ranges::find(formats, kernel.info.format) == formats.end())
      formats.push_back(kernel.info.format);
  return formats;
}

std::vector<DType> dtypes_of(std::string_view op) {
  std::vector<DType> dtypes;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8})
    if (std::ranges::any_of(
            kernel_list(), [&](const Kernel& kernel) { return kernel.info.op == op && kernel.info.dtypes.has(dtype); }))
      dtypes.push_back(dtype);
  return dtypes;
}

}  // namespace tern::lab
