// tern explain: which kernel would be chosen for a problem, and why each other one was not.
#include <fmt/format.h>

#include "arguments.h"
#include "json.h"
#include "table.h"
#include "tern/affine.h"
#include "tern/fake_quantize.h"
#include "tern/linear.h"
#include "tern/precision.h"
#include "tern/qparams.h"
#include "tern/quantize.h"
#include "units.h"

namespace tern::cli {
namespace {

struct ExplainArguments {
  std::string op;
  std::string shape;
  SchemeArguments scheme;
  std::string dtype;
  std::optional<std::int64_t> m;
  std::optional<std::string> math, precision, method;
  std::string kernel;
  std::optional<int> threads;
  std::string device, tuning;
  OutputArguments output;
};

struct Problem {
  RowsAndColumns shape;
  SchemeWords words;
  DType dtype;
  std::optional<std::int64_t> m;
  LinearMath math;
  QparamsMethod method;
  std::optional<PrecisionChoice> precision = {};
};

// A decision, and the plan that it leads to, if any.
struct Decision {
  Explanation explanation;
  std::optional<PlanId> id;
  std::size_t workspace_bytes = 0;
  std::optional<Tuning> tuning;
};

template <class Op>
Result<Decision> decide(const Context& context, const typename Op::Problem& problem, const Preference& preference) {
  Result<Explanation> explanation = Plan<Op>::explain(context, problem, preference);
  if (!explanation.ok()) return explanation.error();
  Decision decision{*std::move(explanation), std::nullopt, 0, std::nullopt};
  if (decision.explanation.chosen.empty()) return decision;
  const Result<Plan<Op>> plan = Plan<Op>::select(context, problem, preference);
  if (!plan.ok()) return plan.error();
  decision.id = plan->id();
  decision.workspace_bytes = plan->workspace_bytes();
  decision.tuning = plan->tuning();
  return decision;
}

// Affine ops have channels and tokens; a row of a matrix is either.
AffineGranularity affine(const Granularity& granularity) {
  switch (granularity.kind) {
    case Granularity::Kind::tensor: break;
    case Granularity::Kind::row: return AffineGranularity::token();
    case Granularity::Kind::group: return AffineGranularity::group(granularity.group_size);
  }
  return AffineGranularity::tensor();
}

template <class Op>
Result<Decision> decide_affine(const Context& context, const Problem& p, const Preference& preference) {
  typename Op::Problem problem;
  problem.shape = {p.shape.rows, p.shape.columns};
  problem.granularity = affine(p.words.granularity);
  problem.dtype = p.dtype;
  problem.format = p.words.format;
  if constexpr (requires { problem.method; }) {
    problem.method = p.method;
    problem.zero_points = p.method == QparamsMethod::minmax;
  }
  return decide<Op>(context, problem, preference);
}

template <class Op>
Result<Decision> decide_ternary(const Context& context, const Problem& p, const Preference& preference) {
  typename Op::Problem problem;
  problem.rows = p.shape.rows;
  problem.k = p.shape.columns;
  problem.dtype = p.dtype;
  problem.scheme = p.words.scheme;
  problem.granularity = p.words.granularity;
  problem.format = p.words.format;
  return decide<Op>(context, problem, preference);
}

Result<Decision> decide_activation_quantize(const Context& context, const Problem& p, const Preference& preference) {
  ActivationQuantize::Problem problem;
  problem.m = p.m.value_or(p.shape.rows);
  problem.k = p.shape.columns;
  problem.dtype = p.dtype;
  return decide<ActivationQuantize>(context, problem, preference);
}

Result<Decision> decide_linear(const Context& context, const Problem& p, const Preference& preference) {
  Linear::Problem problem;
  problem.m_max = p.m.value_or(1);
  problem.k = p.shape.columns;
  problem.x_dtype = p.dtype;
  problem.math = p.math;
  problem.format = p.words.format;
  problem.matrices = {Linear::Matrix{}};
  problem.matrices[0].n = p.shape.rows;
  problem.matrices[0].granularity = p.words.granularity;
  if (p.precision) problem.matrices[0].y_dtype = p.dtype;
  return decide<Linear>(context, problem, preference);
}

Result<Decision> decide(const Context& context, const std::string& op, const Problem& p, const Preference& preference) {
  if (op == "ternary_quantize") return decide_ternary<TernaryQuantize>(context, p, preference);
  if (op == "ternary_dequantize") return decide_ternary<TernaryDequantize>(context, p, preference);
  if (op == "activation_quantize") return decide_activation_quantize(context, p, preference);
  if (op == "linear") return decide_linear(context, p, preference);
  if (op == "affine_quantize") return decide_affine<AffineQuantize>(context, p, preference);
  if (op == "affine_dequantize") return decide_affine<AffineDequantize>(context, p, preference);
  if (op == "fake_quantize") return decide_affine<FakeQuantize>(context, p, preference);
  if (op == "fake_quantize_backward") return decide_affine<FakeQuantizeBackward>(context, p, preference);
  if (op == "choose_qparams") return decide_affine<ChooseQparams>(context, p, preference);
  if (op == "dynamic_quantize") return decide_affine<DynamicQuantize>(context, p, preference);
  return Error{Code::internal, fmt::format("'{}' cannot be explained", op), "explain"};
}

Json problem_json(const std::string& op, const Problem& p) {
  Json json = {{"rows", p.shape.rows}, {"cols", p.shape.columns}, {"dtype", name(p.dtype)}};
  if (op == "activation_quantize") {
    json["scheme"] = "token_i8";
  } else {
    if (op != "linear") json["scheme"] = is_affine(op) ? "affine" : name(p.words.scheme);
    json["granularity"] = name(p.words.granularity);
    json["format"] = name(p.words.format);
  }
  if (has_tokens(op)) json["m"] = p.m ? Json(*p.m) : Json(nullptr);
  if (op == "linear") json["math"] = name(p.math);
  if (op == "linear" && p.precision)
    json["precision"] = {{"asked", name(p.precision->asked)},
                         {"used", name(p.precision->used)},
                         {"because", p.precision->because},
                         {"fell_back", p.precision->fell_back}};
  if (has_method(op)) json["method"] = name(p.method);
  return json;
}

Json tuning_json(const std::optional<Tuning>& tuning) {
  if (!tuning) return nullptr;
  if (tuning->streams != 0) return {{"streams", tuning->streams}, {"ahead_bytes", tuning->ahead_bytes.value_or(0)}};
  return {{"threads", tuning->threads},
          {"grid", name(tuning->grid)},
          {"split", tuning->split},
          {"dependent_launch", tuning->dependent_launch.value_or(false)}};
}

std::string tuning_text(const Tuning& tuning) {
  if (tuning.streams != 0)
    return fmt::format("one token reads weights in {}, {} ahead in each", counted(tuning.streams, "stream"),
                       counted(tuning.ahead_bytes.value_or(0), "byte"));
  return fmt::format("{} a block, grid {}, k in {}, {}", counted(tuning.threads, "thread"), name(tuning.grid),
                     counted(tuning.split, "part"),
                     tuning.dependent_launch.value_or(false) ? "dependent launch" : "no dependent launch");
}

Json plan_json(const Decision& decision) {
  if (!decision.id) return nullptr;
  const PlanId& id = *decision.id;
  return {{"id", id.str()},
          {"element", id.element},
          {"aux_element", id.aux_element},
          {"layout", id.layout},
          {"epilogue", id.epilogue},
          {"arch", id.arch},
          {"backend", id.backend},
          {"math", id.guarantee.math},
          {"accumulator", id.guarantee.accumulator},
          {"deterministic", id.guarantee.deterministic},
          {"bit_stable", id.guarantee.bit_stable},
          {"workspace_bytes", decision.workspace_bytes},
          {"tuning", tuning_json(decision.tuning)}};
}

void print_as_json(const Context& context, const std::string& op, const Problem& problem, const Decision& decision) {
  const Explanation& e = decision.explanation;
  Json rejections = Json::array();
  for (const Rejection& r : e.rejections) rejections.push_back({{"kernel", r.kernel}, {"reason", r.reason}});
  print_json({{"op", op},
              {"device", name(context.device().id)},
              {"threads", context.threads()},
              {"problem", problem_json(op, problem)},
              {"chosen", e.chosen.empty() ? Json(nullptr) : Json(e.chosen)},
              {"chosen_because", e.chosen.empty() ? Json(nullptr) : Json(e.chosen_because)},
              {"plan", plan_json(decision)},
              {"rejections", std::move(rejections)},
              {"notes", e.notes}});
}

// "ternary_quantize of 64 x 64 f32, absmean by tensor, i2".
std::string problem_text(const std::string& op, const Problem& p) {
  const std::string shape = fmt::format("{} x {}", p.shape.rows, p.shape.columns);
  if (op == "activation_quantize")
    return fmt::format("{} of {} {}, every token by its largest, i8", op,
                       p.m ? fmt::format("{} x {}", *p.m, p.shape.columns) : shape, name(p.dtype));
  if (op == "linear")
    return fmt::format("linear of {} {} with {} weights in {}, scales by {}, {}", counted(p.m.value_or(1), "token"),
                       name(p.dtype), shape, name(p.words.format), name(p.words.granularity), name(p.math));
  return fmt::format("{} of {} {}, {} by {}, {}", op, shape, name(p.dtype),
                     is_affine(op) ? "affine" : name(p.words.scheme), name(p.words.granularity), name(p.words.format));
}

void print_as_text(const Context& context, const std::string& op, const Problem& p, const Decision& decision) {
  const Explanation& e = decision.explanation;
  fmt::print("{}, on {} with {}\n\n", problem_text(op, p), name(context.device().id),
             counted(context.threads(), "thread"));
  Table facts({}, 2);
  facts.add({"chosen", e.chosen.empty() ? "none: every kernel refused" : e.chosen});
  if (decision.id) {
    const Guarantee& g = decision.id->guarantee;
    facts.add({"because", e.chosen_because});
    const std::string sums = g.accumulator == "none" ? "no" : std::string(g.accumulator);
    facts.add(
        {"promises", fmt::format("{} operations, {} sums, {}, {}", g.math, sums,
                                 g.deterministic ? "deterministic" : "not deterministic",
                                 g.bit_stable ? "the reference's bits" : "bits may differ from the reference's")});
    facts.add({"workspace", human_bytes(decision.workspace_bytes)});
    if (decision.tuning) facts.add({"tuning", tuning_text(*decision.tuning)});
  }
  fmt::print("{}", facts.str());
  Table rejections({}, 2);
  for (const Rejection& r : e.rejections) rejections.add({r.kernel, r.reason});
  if (!rejections.empty()) fmt::print("\nNot chosen:\n{}", rejections.str());
  Table notes({}, 2);
  for (const std::string& note : e.notes) notes.add({"-", note});
  if (!notes.empty()) fmt::print("\nNotes:\n{}", notes.str());
}

Result<int> run(const ExplainArguments& arguments) {
  if (const Status known = check_op(arguments.op); !known.ok()) return known.error();
  const Result<RowsAndColumns> shape = parse_problem_shape(arguments.shape);
  if (!shape.ok()) return shape.error();
  const Result<SchemeWords> words = parse(arguments.scheme, arguments.op);
  if (!words.ok()) return words.error();
  const Result<DType> dtype = parse_dtype_of(arguments.op, arguments.dtype.empty() ? "f32" : arguments.dtype);
  if (!dtype.ok()) return dtype.error();
  const Result<Context> context = open_context(arguments.threads, arguments.device);
  if (!context.ok()) return context.error();

  if (arguments.math && arguments.op != "linear") return only_linear_has("--math", arguments.op);
  const Result<LinearMath> math = parse_linear_math(arguments.math.value_or("w2a8"));
  if (!math.ok()) return math.error();

  if (arguments.m && !has_tokens(arguments.op))
    return Error{
        Code::invalid_argument,
        fmt::format("{} has no --m (it was given {}); linear and activation_quantize have", arguments.op, *arguments.m),
        "--m"};

  const Result<QparamsMethod> method = parse_method(arguments.method, arguments.op);
  if (!method.ok()) return method.error();

  Problem problem{*shape, *words, *dtype, arguments.m, *math, *method};
  if (arguments.precision) {
    const Result<Precision> asked =
        parse_precision_of(arguments.op, *arguments.precision, arguments.dtype.empty() ? "" : "--dtype");
    if (!asked.ok()) return asked.error();
    const Result<PrecisionChoice> choice = resolve_precision(*context, *asked);
    if (!choice.ok()) return choice.error();
    problem.precision = *choice;
    problem.dtype = choice->used;
  }
  if (!arguments.tuning.empty() && arguments.op != "linear") return only_linear_has("--tuning", arguments.op);
  const Result<Tuning> tuning = parse_tuning(arguments.tuning);
  if (!tuning.ok()) return tuning.error();
  const Preference preference{arguments.kernel, !arguments.kernel.empty(), *tuning};
  Result<Decision> decision = decide(*context, arguments.op, problem, preference);
  if (!decision.ok()) return decision.error();
  if (const auto& choice = problem.precision)
    decision->explanation.notes.push_back(
        fmt::format("precision {}: {}, {}", name(choice->asked), name(choice->used), choice->because));
  if (arguments.output.json) {
    print_as_json(*context, arguments.op, problem, *decision);
  } else {
    print_as_text(*context, arguments.op, problem, *decision);
  }
  return decision->explanation.chosen.empty() ? 1 : 0;
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand("explain", "Say which kernel a problem would run on, and why no other");
  command->add_option("--shape", arguments->shape, "Of the tensor, or of linear's weights")
      ->required()
      ->type_name("ROWSxCOLS");
  add_op_arguments(*command, arguments->op, arguments->m, arguments->scheme);
  command->add_option("--dtype", arguments->dtype, "Of the floats: f32 (default), f16, bf16, f64; of linear also i8")
      ->type_name("NAME");
  command->add_option("--math", arguments->math, "Of linear: w2a8 (default) or w2_float")->type_name("NAME");
  add_precision_argument(*command, arguments->precision);
  add_method_argument(*command, arguments->method);
  command->add_option("--kernel", arguments->kernel, "Run this kernel or fail; otherwise the first that takes it")
      ->type_name("NAME");
  add_threads_argument(*command, arguments->threads);
  add_device_argument(*command, arguments->device);
  add_tuning_argument(*command, arguments->tuning);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern explain ternary_quantize --shape 4096x4096",
                          "tern explain ternary_quantize --shape 4096x11008 --scheme absmax --granularity group:128",
                          "tern explain ternary_dequantize --shape 4096x4096 --format i8 --json",
                          "tern explain ternary_quantize --shape 4096x4096 --dtype bf16",
                          "tern explain linear --shape 2560x6912 --m 32 --dtype i8",
                          "tern explain affine_quantize --shape 4096x4096 --granularity group:128 --format s4",
                          "tern explain dynamic_quantize --shape 4096x4096 --granularity row --method minmax"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
