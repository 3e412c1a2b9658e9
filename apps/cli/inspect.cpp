// tern inspect: shows what is in a checkpoint: tensors, types, shapes, shares of trits, scales and metadata.
#include <fmt/format.h>

#include <map>

#include "arguments.h"
#include "flags.h"
#include "json.h"
#include "model_arguments.h"
#include "model_text.h"
#include "progress_bar.h"
#include "table.h"
#include "tern/text.h"
#include "units.h"

namespace tern::cli {
namespace {

constexpr std::size_t kMetaElements = 6;      // of an array
constexpr std::size_t kMetaCharacters = 120;  // of a value
constexpr std::size_t kMetaKeys = 40;         // in the text; --json has all
constexpr std::string_view kChecksums = "tern.checksum.", kShapes = "tern.shape.";

struct InspectArguments {
  std::string input;
  std::string tensor;
  bool quick = false, all = false;
  ReadArguments read;
  std::optional<int> threads;
  OutputArguments output;
};

std::string format_of(const ModelTensor& tensor) {
  if (tensor.codes && tensor.scales_index) return std::string(name(*tensor.codes));
  if (!tensor.ternary) return std::string(name(tensor.type));
  if (tensor.layout) return std::string(name(tensor.layout->layout));
  return fmt::format("{} (?)", name(tensor.type));
}

Json tensor_json(const ModelTensor& t, const TensorReport* report) {
  Json entry = {
      {"name", t.name}, {"hf_name", t.hf_name}, {"shape", t.shape}, {"type", name(t.type)}, {"bytes", t.bytes}};
  if (report != nullptr && report->checksum) entry["checksum"] = fmt::format("{:016x}", *report->checksum);
  if (!t.ternary && !t.codes) return entry;
  entry["format"] = t.codes ? Json(name(*t.codes)) : t.layout ? Json(name(t.layout->layout)) : Json(nullptr);
  entry["granularity"] = name(t.granularity);
  if (!t.unreadable.empty()) entry["unreadable"] = with_flags(t.unreadable);
  if (report == nullptr) return entry;
  if (t.ternary) entry["trits"] = {{"minus", report->trits[0]}, {"zero", report->trits[1]}, {"plus", report->trits[2]}};
  entry["scales"] = {{"smallest", report->smallest_scale}, {"largest", report->largest_scale}};
  return entry;
}

std::string shares(const TensorReport& report) {
  const auto all = static_cast<double>(report.trits[0] + report.trits[1] + report.trits[2]);
  if (all == 0) return "-";
  return fmt::format("{:.1f}/{:.1f}/{:.1f}", 100 * static_cast<double>(report.trits[0]) / all,
                     100 * static_cast<double>(report.trits[1]) / all,
                     100 * static_cast<double>(report.trits[2]) / all);
}

std::string scales_text(const TensorReport& report) {
  if (report.smallest_scale == report.largest_scale) return fmt::format("{:.6g}", report.largest_scale);
  return fmt::format("{:.4g}..{:.4g}", report.smallest_scale, report.largest_scale);
}

// Reports of the tensors that were read. A map, because a header may name a million tensors, few of which have a
// report.
using Reports = std::map<std::size_t, TensorReport>;

const TensorReport* report_of(const Reports& reports, std::size_t tensor) {
  const auto found = reports.find(tensor);
  return found == reports.end() ? nullptr : &found->second;
}

void print_metadata(const Metadata& metadata) {
  if (metadata.empty()) return;
  fmt::print("\nmetadata\n");
  Table table({}, 2);
  std::size_t shown = 0, hidden = 0, own = 0;
  for (const MetaEntry& entry : metadata) {
    if (entry.key.starts_with(kChecksums) || entry.key.starts_with(kShapes)) {
      ++own;
    } else if (shown++ < kMetaKeys) {
      std::string value = entry.value.to_json(kMetaElements);
      if (value.size() > kMetaCharacters) value = value.substr(0, kMetaCharacters) + "...";
      table.add({escaped(entry.key, 60), value});
    } else {
      ++hidden;
    }
  }
  fmt::print("{}", table.str());
  if (own > 0) fmt::print("  and {} that say shapes and checksums of tensors\n", own);
  if (hidden > 0) fmt::print("  and {} more; --json lists all\n", hidden);
}

void print_tensor(const ModelTensor& t, const TensorReport* report) {
  Table facts({}, 2);
  facts.add({"name", escaped(t.name, 300)});
  if (t.hf_name != t.name) facts.add({"at Hugging Face", escaped(t.hf_name, 300)});
  facts.add({"type", std::string(name(t.type))});
  facts.add({"shape", shape_text(t.shape)});
  facts.add({"bytes", human_bytes(t.bytes)});
  if (t.ternary || t.codes) {
    facts.add({"format", t.codes ? std::string(name(*t.codes)) : format_of(t)});
    facts.add({"scales by", name(t.granularity)});
    if (!t.unreadable.empty()) facts.add({"cannot be read", with_flags(t.unreadable)});
  }
  if (report != nullptr && t.ternary) facts.add({"-1 / 0 / +1", shares(*report) + " %"});
  if (report != nullptr && (t.ternary || t.codes)) facts.add({"scale", scales_text(*report)});
  if (report != nullptr && report->checksum) facts.add({"checksum", fmt::format("{:016x}", *report->checksum)});
  fmt::print("{}", facts.str());
}

void print_all(const InspectArguments& arguments, const Model& model, const Reports& reports) {
  const Checkpoint& file = model.checkpoint();
  fmt::print("{}: {}, {}, {} in {}\n", one_line(arguments.input), name(file.container()),
             counted(static_cast<long long>(file.tensors().size()), "tensor"), human_bytes(file.total_bytes()),
             counted(static_cast<long long>(file.files().size()), "file"));
  for (const std::string& note : file.notes()) fmt::print("note: {}\n", one_line(note));
  fmt::print("\n");
  struct Line {
    std::vector<std::string> cells;
    std::size_t count = 0;
  };
  std::vector<Line> lines;
  std::map<std::vector<std::string>, std::size_t> known;
  for (std::size_t i = 0; i < model.tensors().size(); ++i) {
    const ModelTensor& t = model.tensors()[i];
    const TensorReport* report = report_of(reports, i);
    const bool read = t.ternary && report != nullptr;
    const std::string label = arguments.all ? short_name(t.name) : layers_together(t.name);
    const std::vector<std::string> key = {label, format_of(t), shape_text(t.shape)};
    std::vector<std::string> cells = key;
    cells.push_back(read ? shares(*report) : "");
    cells.push_back(read || (t.codes && report != nullptr) ? scales_text(*report) : "");
    const auto at = arguments.all ? known.end() : known.find(key);
    if (at != known.end()) {
      ++lines[at->second].count;
      continue;
    }
    if (!arguments.all) known.emplace(key, lines.size());
    lines.push_back({std::move(cells), 1});
  }
  Table table({"tensors (.weight)", "", "format", "shape", "-1/0/+1 %", "scale"}, 2);
  table.align(1, Table::Align::right);
  for (Line& line : lines) {
    line.cells.insert(line.cells.begin() + 1, fmt::format("x{}", line.count));
    table.add(std::move(line.cells));
  }
  fmt::print("{}", table.str());
  if (!arguments.all) fmt::print("  (of several layers the first one's shares and scales; --all lists each)\n");
  for (const ModelTensor& t : model.tensors())
    if (!t.unreadable.empty()) {
      fmt::print("\n{}: {}\n", escaped(t.name, 60), with_flags(t.unreadable));
      break;
    }
  print_metadata(file.metadata());
}

// As one JSON tree a million tensors would take gigabytes, so the parts are printed one by one, in the form that the
// tree would have.
void print_as_json(const InspectArguments& arguments, const Model& model, const Reports& reports,
                   std::optional<std::size_t> one) {
  JsonPrinter printer;
  printer.add("path", arguments.input);
  printer.add("container", name(model.checkpoint().container()));
  printer.add("bytes", model.checkpoint().total_bytes());
  printer.begin("tensors", '[');
  for (std::size_t i = 0; i < model.tensors().size(); ++i)
    if (!one || *one == i) printer.add(tensor_json(model.tensors()[i], report_of(reports, i)));
  printer.end();
  printer.begin("metadata", '{');
  for (const MetaEntry& entry : model.checkpoint().metadata())
    printer.add(escaped(entry.key, 1000), Json::parse(entry.value.to_json(), nullptr, false));
  printer.end();
  printer.end();
}

Result<int> run(const InspectArguments& arguments) {
  const Result<ReadOptions> read = parse(arguments.read);
  if (!read.ok()) return read.error();
  const Result<Context> context = open_context(arguments.threads, "cpu");
  if (!context.ok()) return context.error();
  const Result<Model> model = Model::open(arguments.input, *read);
  if (!model.ok()) return model.error();
  std::optional<std::size_t> one;
  if (!arguments.tensor.empty()) {
    one = model->find(arguments.tensor);
    if (!one)
      return Error{Code::invalid_argument,
                   fmt::format("there is no tensor '{}' in '{}'; without --tensor all are listed",
                               escaped(arguments.tensor, 100), arguments.input),
                   "--tensor"};
  }
  ProgressBar bar(!arguments.output.json && !arguments.output.verbose);
  bar.phase("reading");
  Reports reports;
  const std::size_t count = model->tensors().size();
  for (std::size_t i = 0; i < count; ++i) {
    const ModelTensor& t = model->tensors()[i];
    const bool readable = t.ternary ? t.layout || t.type == StoredType::i2_s : t.codes || t.checksum;
    if (arguments.quick || !readable || (one && *one != i)) continue;
    Result<TensorReport> report = inspect_tensor(*context, *model, i);
    if (!report.ok()) return report.error();
    reports.emplace(i, *std::move(report));
    bar.update(i, count);
  }
  bar.clear();
  if (arguments.output.json) {
    print_as_json(arguments, *model, reports, one);
  } else if (one) {
    print_tensor(model->tensors()[*one], report_of(reports, *one));
  } else {
    print_all(arguments, *model, reports);
  }
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a checkpoint");
  command->add_option("input", arguments->input, "A checkpoint: .safetensors, .gguf, index or folder")
      ->required()
      ->type_name("IN");
  command->add_option("--tensor", arguments->tensor, "One tensor alone, by its name in either container")
      ->type_name("NAME");
  command->add_flag("--all", arguments->all, "A line for every tensor, not one for those of all layers");
  command->add_flag("--quick", arguments->quick, "Headers alone; no weights are read");
  add_read_arguments(*command, arguments->read);
  add_threads_argument(*command, arguments->threads);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern inspect model.gguf", "tern inspect model.gguf --tensor blk.0.attn_q.weight",
                          "tern inspect model --quick --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
