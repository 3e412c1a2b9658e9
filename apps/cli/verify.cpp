// tern verify: compares the values of two models, whatever their formats. Returns 0 (equal), 1 (different) or 2
// (failed).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "json.h"
#include "model_arguments.h"
#include "progress_bar.h"
#include "stopwatch.h"
#include "table.h"
#include "tern/text.h"
#include "units.h"

namespace tern::cli {
namespace {

constexpr std::size_t kShown = 20;  // differences in the table; --json has all

struct VerifyArguments {
  std::string a, b;
  ReadArguments read;
  std::string variant_b;
  std::optional<int> threads;
  OutputArguments output;
};

void print_as_json(const VerifyArguments& arguments, const ModelDifference& found, double seconds) {
  Json tensors = Json::array();
  for (const TensorDifference& t : found.tensors)
    tensors.push_back(
        {{"name", t.name},
         {"result", name(t.kind)},
         {"what", t.what},
         {"elements", t.elements},
         {"differing_trits", t.differing_trits},
         {"largest_difference", std::isfinite(t.largest_difference) ? Json(t.largest_difference) : Json("infinite")},
         {"first_index", t.first_index >= 0 ? Json(t.first_index) : Json(nullptr)}});
  print_json({{"a", arguments.a},
              {"b", arguments.b},
              {"equal", found.equal()},
              {"seconds", seconds},
              {"tensors", std::move(tensors)}});
}

void print_as_text(const VerifyArguments& arguments, const ModelDifference& found, double seconds) {
  std::vector<const TensorDifference*> differing;
  for (const TensorDifference& t : found.tensors)
    if (t.kind != TensorDifference::Kind::equal) differing.push_back(&t);
  std::stable_sort(differing.begin(), differing.end(),
                   [](const auto* x, const auto* y) { return x->largest_difference > y->largest_difference; });
  if (differing.empty()) {
    fmt::print("equal: {} and {} hold the same {} ({})\n", one_line(arguments.a), one_line(arguments.b),
               counted(static_cast<long long>(found.tensors.size()), "tensor"), human_seconds(seconds));
    return;
  }
  fmt::print("different: {} of {}\n\n", differing.size(),
             counted(static_cast<long long>(found.tensors.size()), "tensor"));
  Table table({"largest difference first", "what"}, 2);
  for (std::size_t i = 0; i < std::min(kShown, differing.size()); ++i)
    table.add({escaped(differing[i]->name, 60), differing[i]->what});
  fmt::print("{}", table.str());
  if (differing.size() > kShown) fmt::print("  and {} more; --json lists all\n", differing.size() - kShown);
}

Result<int> run(const VerifyArguments& arguments) {
  const Result<ReadOptions> read_a = parse(arguments.read);
  if (!read_a.ok()) return read_a.error();
  ReadArguments words_b = arguments.read;
  if (!arguments.variant_b.empty()) words_b.variant = arguments.variant_b;
  const Result<ReadOptions> read_b = parse(words_b);
  if (!read_b.ok())  // the other words were parsed for A without error
    return Error{read_b.error().code, read_b.error().message, "--variant-b"};
  const Result<Context> context = open_context(arguments.threads, "cpu");
  if (!context.ok()) return context.error();
  const Result<Model> a = Model::open(arguments.a, *read_a);
  if (!a.ok()) return a.error();
  const Result<Model> b = Model::open(arguments.b, *read_b);
  if (!b.ok()) return b.error();
  ProgressBar bar(!arguments.output.json && !arguments.output.verbose);
  bar.phase("comparing");
  const Stopwatch watch;
  const Result<ModelDifference> found =
      compare_models(*context, *a, *b, [&bar](std::string_view, std::size_t done, std::size_t total) {
        bar.update(done, total);
        return true;
      });
  bar.clear();
  if (!found.ok()) return found.error();
  if (arguments.output.json) {
    print_as_json(arguments, *found, watch.seconds());
  } else {
    print_as_text(arguments, *found, watch.seconds());
  }
  return found->equal() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand("verify", "Compare two models, whatever their formats and containers");
  command->add_option("a", arguments->a, "A checkpoint: .safetensors, .gguf, index or folder")
      ->required()
      ->type_name("A");
  command->add_option("b", arguments->b, "The other")->required()->type_name("B");
  add_read_arguments(*command, arguments->read);
  command->add_option("--variant-b", arguments->variant_b, "The same as --variant, for B alone")->type_name("NAME");
  add_threads_argument(*command, arguments->threads);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern verify model.gguf packed.safetensors", "tern verify model.gguf back.gguf --json"});
  command->callback([&session, arguments] {
    const Status overrides = lab::check_environment();
    const Result<int> exit_code = overrides.ok() ? run(*arguments) : Result<int>(overrides.error());
    if (exit_code.ok()) {
      session.exit_code = *exit_code;
      return;
    }
    fail(session, exit_code.error(), arguments->output.json);
    session.exit_code = kAskedWrongly;  // 1 means that they differ
  });
}

}  // namespace tern::cli
