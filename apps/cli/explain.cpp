// tern explain: which kernel would be chosen for a problem, and why each other one was not.
#include <fmt/format.h>

#include "arguments.h"
#include "json.h"
#include "lab/op_record.h"
#include "shape_arguments.h"
#include "table.h"
#include "tern/precision.h"
#include "units.h"

namespace tern::cli {
namespace {

struct ExplainArguments {
  std::string op;
  ShapeArguments shape;
  SchemeArguments scheme;
  std::string dtype;
  std::optional<std::int64_t> m;
  std::optional<std::string> math, precision, method;
  std::string kernel;
  std::optional<int> threads;
  std::string device, tuning;
  OutputArguments output;
};

// A problem, and what --precision made of it.
struct Problem {
  ProblemWords words;
  std::optional<PrecisionChoice> precision = {};
};

Json problem_json(const lab::OpRecord& op, const Problem& p) {
  Json json = op.json(p.words);
  if (op.words.has(Word::m) && !op.words.has(Word::window)) json["m"] = p.words.m ? Json(*p.words.m) : Json(nullptr);
  if (op.words.has(Word::math)) json["math"] = name(p.words.math);
  if (p.precision)
    json["precision"] = {{"asked", name(p.precision->asked)},
                         {"used", name(p.precision->used)},
                         {"because", p.precision->because},
                         {"fell_back", p.precision->fell_back}};
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

Json plan_json(const lab::Decision& decision) {
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

void print_as_json(const Context& context, const lab::OpRecord& op, const Problem& problem,
                   const lab::Decision& decision) {
  const Explanation& e = decision.explanation;
  Json rejections = Json::array();
  for (const Rejection& r : e.rejections) rejections.push_back({{"kernel", r.kernel}, {"reason", r.reason}});
  print_json({{"op", op.name},
              {"device", name(context.device().id)},
              {"threads", context.threads()},
              {"problem", problem_json(op, problem)},
              {"chosen", e.chosen.empty() ? Json(nullptr) : Json(e.chosen)},
              {"chosen_because", e.chosen.empty() ? Json(nullptr) : Json(e.chosen_because)},
              {"plan", plan_json(decision)},
              {"rejections", std::move(rejections)},
              {"notes", e.notes}});
}

void print_as_text(const Context& context, const lab::OpRecord& op, const Problem& p, const lab::Decision& decision) {
  const Explanation& e = decision.explanation;
  fmt::print("{}, on {} with {}\n\n", op.text(p.words), name(context.device().id),
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
  if (const Status op = check_op(arguments.op); !op.ok()) return op.error();
  const Result<ProblemShape> shape = parse(arguments.shape, arguments.op);
  if (!shape.ok()) return shape.error();
  const lab::OpRecord& op = *lab::find_op(arguments.op);
  if (shape->rows == 0 && !op.words.has(Word::window))
    return Error{Code::invalid_argument, "--shape is required", "command line"};
  const Result<SchemeWords> words = parse(arguments.scheme, arguments.op);
  if (!words.ok()) return words.error();
  const std::string type = arguments.dtype.empty() ? "f32" : arguments.dtype;
  Result<DType> dtype = parse_dtype(type);  // of any op: every kernel says why it does not take it
  if (!dtype.ok()) dtype = parse_dtype_of(arguments.op, type);
  if (!dtype.ok()) return dtype.error();
  const Result<Context> context = open_context(arguments.threads, arguments.device);
  if (!context.ok()) return context.error();

  const Status known =
      check_words(arguments.op, {{arguments.math.has_value(), Word::math, "--math"},
                                 {arguments.m.has_value(), Word::m, "--m", fmt::format("{}", arguments.m.value_or(0))},
                                 {!arguments.tuning.empty(), Word::tuning, "--tuning"}});
  if (!known.ok()) return known.error();
  const Result<LinearMath> math = parse_linear_math(arguments.math.value_or("w2a8"));
  if (!math.ok()) return math.error();
  const Result<QparamsMethod> method = parse_method(arguments.method, arguments.op);
  if (!method.ok()) return method.error();

  Problem problem{{.rows = shape->rows,
                   .k = shape->k,
                   .m = arguments.m,
                   .dtype = *dtype,
                   .scheme = words->scheme,
                   .granularity = words->granularity,
                   .format = words->format,
                   .math = *math,
                   .method = *method,
                   .window = shape->window.value_or(WindowWords{})}};
  if (arguments.precision) {
    const Result<Precision> asked =
        parse_precision_of(arguments.op, *arguments.precision, arguments.dtype.empty() ? "" : "--dtype");
    if (!asked.ok()) return asked.error();
    const Result<PrecisionChoice> choice = resolve_precision(*context, *asked);
    if (!choice.ok()) return choice.error();
    problem.precision = *choice;
    problem.words.dtype = problem.words.y_dtype = choice->used;
  }
  const Result<Tuning> tuning = parse_tuning(arguments.tuning);
  if (!tuning.ok()) return tuning.error();
  const Preference preference{arguments.kernel, !arguments.kernel.empty(), *tuning};
  Result<lab::Decision> decision = op.decide(*context, problem.words, preference);
  if (!decision.ok()) return decision.error();
  if (const auto& choice = problem.precision)
    decision->explanation.notes.push_back(
        fmt::format("precision {}: {}, {}", name(choice->asked), name(choice->used), choice->because));
  if (arguments.output.json) {
    print_as_json(*context, op, problem, *decision);
  } else {
    print_as_text(*context, op, problem, *decision);
  }
  return decision->explanation.chosen.empty() ? 1 : 0;
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand("explain", "Say which kernel a problem would run on, and why no other");
  add_shape_arguments(*command, arguments->shape, "Of the tensor, or of linear's weights");
  add_op_arguments(*command, arguments->op, arguments->m, arguments->scheme);
  command
      ->add_option("--dtype", arguments->dtype,
                   "Of the floats: f32 (default), f16, bf16, f64; of linear\nand conv2d also i8")
      ->type_name("NAME");
  command->add_option("--math", arguments->math, "Of linear and conv2d: w2a8 (default) or w2_float")->type_name("NAME");
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
                          "tern explain conv2d --shape 64x3x7x7 --image 224x224 --stride 2 --dtype i8",
                          "tern explain conv2d --shape 96x1x3x3 --groups 96 --image 112x112 --order nchw",
                          "tern explain affine_quantize --shape 4096x4096 --granularity group:128 --format s4",
                          "tern explain dynamic_quantize --shape 4096x4096 --granularity row --method minmax"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
