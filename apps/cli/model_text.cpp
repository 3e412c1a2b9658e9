// Formats plans and reports of models as text and as JSON.
#include "model_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "flags.h"
#include "table.h"
#include "tern/text.h"
#include "units.h"

namespace tern::cli {
namespace {

constexpr std::size_t kWorstShown = 5;
constexpr std::size_t kNameColumns = 36;  // of a table's line

std::string type_text(const ModelTensor& tensor) {
  if (!tensor.ternary) return std::string(name(tensor.type));
  return tensor.layout ? std::string(name(tensor.layout->layout)) : std::string(name(tensor.type));
}
std::string type_text(const TensorPlan& plan) {
  const bool ternary = plan.action == Action::quantize || plan.action == Action::repack;
  return ternary ? std::string(name(plan.layout.layout)) : std::string(name(plan.type));
}

// Indices of the quantized tensors, the worst SQNR first.
std::vector<std::size_t> worst_first(const Written& w) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < w.plan.tensors.size(); ++i)
    if (w.report.tensors[i].quality && w.report.tensors[i].quality->sqnr_db) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return *w.report.tensors[a].quality->sqnr_db < *w.report.tensors[b].quality->sqnr_db;
  });
  return order;
}

std::string decibels(double value) { return std::isinf(value) ? "lossless" : fmt::format("{:.2f} dB", value); }

// The resource that a stage uses, for those who want to make it faster.
std::string_view resource(Stage stage) {
  switch (stage) {
    case Stage::reading:
    case Stage::writing: return "file";
    case Stage::bus: return "bus";
    case Stage::gpu: return "gpu";
    case Stage::computing: break;
  }
  return "cpu";
}
std::string_view limit_text(Stage stage) {
  switch (stage) {
    case Stage::reading: return "the file, read at";
    case Stage::writing: return "the file, written and flushed at";
    case Stage::bus: return "the bus, copies to the GPU and back at";
    case Stage::gpu: return "the GPU, kernels at";
    case Stage::computing: break;
  }
  return "the CPU, input at";
}

// The mean over the threads of the seconds spent in each stage, so that they add up to the elapsed time.
std::string spent_text(const Written& w) {
  const auto seconds = [&](Stage stage) { return human_seconds(w.report.spent(stage).seconds); };
  const bool gpu = w.context.device().id.kind == DeviceKind::cuda;
  std::string text = fmt::format("{} reading, {} computing on {}, ", seconds(Stage::reading), seconds(Stage::computing),
                                 counted(w.context.threads(), "thread"));
  if (gpu)
    text += fmt::format("{} waiting for the bus, {} for {}, ", seconds(Stage::bus), seconds(Stage::gpu),
                        name(w.context.device().id));
  return text +
         fmt::format("{} writing and flushing, {} idle", seconds(Stage::writing), human_seconds(w.report.idle_seconds));
}

// Losses that the user must know about, one sentence each.
std::vector<std::string> losses(const Written& w) {
  std::vector<std::string> out;
  std::size_t rounded = 0, cast = 0;
  double largest_scale = 0, largest_cast = 0;
  std::int64_t overflowed = 0, underflowed = 0;
  for (const TensorReport& t : w.report.tensors) {
    rounded += t.scale_loss.changed > 0 ? 1 : 0;
    largest_scale = std::max(largest_scale, t.scale_loss.largest_relative);
    cast += t.largest_change > 0 ? 1 : 0;
    largest_cast = std::max(largest_cast, t.largest_change);
    overflowed += t.overflowed;
    underflowed += t.underflowed;
  }
  if (rounded > 0)
    out.push_back(fmt::format("scales of {} were rounded, by at most {:.2g} of their value",
                              counted(static_cast<long long>(rounded), "tensor"), largest_scale));
  if (cast > 0)
    out.push_back(fmt::format("values of {} were rounded to another type, by at most {:.2g} of their value",
                              counted(static_cast<long long>(cast), "tensor"), largest_cast));
  for (std::size_t i = 0; i < w.plan.tensors.size(); ++i)
    if (const TensorPlan& plan = w.plan.tensors[i]; plan.action == Action::cast && plan.codes)
      out.push_back(fmt::format("'{}' has codes of {} bits, SQNR {}", escaped(plan.name, 60),
                                *plan.codes == Format::s8 ? 8 : 4,
                                w.report.tensors[i].cast_sqnr_db ? decibels(*w.report.tensors[i].cast_sqnr_db) : "-"));
  if (overflowed > 0)
    out.push_back(fmt::format("{} became infinite in f16; --keep-embeddings bf16 keeps them finite",
                              counted(overflowed, "value")));
  if (underflowed > 0)
    out.push_back(fmt::format("{} too small for the type's normal range lost digits, or all of them",
                              counted(underflowed, "value")));
  return out;
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

std::string short_name(std::string_view name) {
  if (name.ends_with(".weight")) name.remove_suffix(7);
  if (name.starts_with("model.")) name.remove_prefix(6);
  std::string text = escaped(name, 100);
  return text.size() <= kNameColumns ? text : "..." + text.substr(text.size() - kNameColumns + 3);
}

std::string layers_together(std::string_view name) {
  std::string text = short_name(name), out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.' || i + 1 >= text.size() || text[i + 1] < '0' || text[i + 1] > '9') {
      out += text[i];
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    out += end < text.size() && text[end] == '.' ? ".*" : text.substr(i, end - i);
    i = end - 1;
  }
  return out;
}

std::string plan_text(const Model& model, const ModelPlan& plan) {
  struct Line {
    std::vector<std::string> cells;
    std::size_t count = 0, in_bytes = 0, out_bytes = 0;
  };
  std::vector<Line> lines;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const TensorPlan& t : plan.tensors) {
    const ModelTensor& input = model.tensors()[t.input];
    std::vector<std::string> cells = {layers_together(input.name), type_text(input), type_text(t),
                                      std::string(name(t.action)), with_flags(t.why)};
    const auto [at, fresh] = known.emplace(cells, lines.size());
    if (fresh) lines.push_back({std::move(cells)});
    Line& line = lines[at->second];
    ++line.count;
    line.in_bytes += t.in_bytes;
    line.out_bytes += t.out_bytes;
  }
  Table table({"tensors (.weight)", "", "from", "to", "bytes", "what"}, 2);
  table.align(1, Table::Align::right);
  table.align(4, Table::Align::right);
  for (const Line& line : lines)
    table.add({line.cells[0], fmt::format("x{}", line.count), line.cells[1],
               line.cells[3] == "drop" ? "-" : line.cells[2], human_bytes(line.out_bytes),
               fmt::format("{}: {}", line.cells[3], line.cells[4])});
  std::string text = table.str();
  text += fmt::format("  {}: {}\n", counted(static_cast<long long>(plan.tensors.size()), "tensor"),
                      size_change(plan.in_bytes(), plan.out_bytes()));
  for (const std::string& note : model.checkpoint().notes()) text += fmt::format("  note: {}\n", one_line(note));
  for (const std::string& note : plan.notes) text += fmt::format("  note: {}\n", with_flags(note));
  return text;
}

Json plan_json(const Model& model, const ModelPlan& plan) {
  Json tensors = Json::array(), notes = Json::array();
  for (const std::string& note : plan.notes) notes.push_back(with_flags(note));
  for (const TensorPlan& t : plan.tensors) {
    const ModelTensor& input = model.tensors()[t.input];
    tensors.push_back({{"input", input.name},
                       {"output", t.action == Action::drop ? Json(nullptr) : Json(t.name)},
                       {"shape", input.shape},
                       {"from", type_text(input)},
                       {"to", t.action == Action::drop ? Json(nullptr) : Json(type_text(t))},
                       {"action", name(t.action)},
                       {"why", with_flags(t.why)},
                       {"in_bytes", t.in_bytes},
                       {"out_bytes", t.out_bytes}});
  }
  return {{"container", name(plan.container)}, {"format", name(plan.layout)},   {"in_bytes", plan.in_bytes()},
          {"out_bytes", plan.out_bytes()},     {"tensors", std::move(tensors)}, {"notes", std::move(notes)}};
}

double Written::gb_per_s() const {
  double bytes = 0;
  for (const TensorPlan& t : plan.tensors)
    if (t.action != Action::drop)
      bytes += static_cast<double>(t.in_bytes) * (per_tensor_twice && t.action == Action::quantize ? 2 : 1);
  return bytes / (report.seconds - report.flush_seconds) / 1e9;
}

Overall overall(const Written& w) {
  Overall out;
  double elements = 0, measured = 0, sqnr = 0, cosine = 0, zeros = 0;
  for (std::size_t i = 0; i < w.plan.tensors.size(); ++i) {
    const TensorReport& t = w.report.tensors[i];
    if (!t.quality) continue;
    const auto count = static_cast<double>(t.trits[0] + t.trits[1] + t.trits[2]);
    zeros += static_cast<double>(t.trits[1]);
    elements += count;
    if (!t.quality->sqnr_db || !t.quality->cosine || std::isinf(*t.quality->sqnr_db)) continue;
    measured += count;
    sqnr += *t.quality->sqnr_db * count;
    cosine += *t.quality->cosine * count;
    out.worst_sqnr_db = std::min(out.worst_sqnr_db.value_or(*t.quality->sqnr_db), *t.quality->sqnr_db);
  }
  if (elements == 0) return out;
  out.zero_fraction = zeros / elements;
  if (out.worst_sqnr_db && measured > 0) {
    out.mean_sqnr_db = sqnr / measured;
    out.mean_cosine = cosine / measured;
  }
  return out;
}

std::string summary_text(const Written& w) {
  Table facts({}, 2);
  facts.add({"written", fmt::format("{}: {} in {}", one_line(w.output), human_bytes(w.report.file_bytes),
                                    name(w.plan.container))});
  facts.add({"size", size_change(w.plan.in_bytes(), w.plan.out_bytes())});
  const Overall all = overall(w);
  if (all.mean_sqnr_db) {
    facts.add(
        {"SQNR", fmt::format("{:.2f} dB in the mean, {:.2f} dB at worst", *all.mean_sqnr_db, *all.worst_sqnr_db)});
    facts.add({"cosine", fmt::format("{:.4f} in the mean", *all.mean_cosine)});
  }
  if (!w.report.kernel.empty()) {
    facts.add({"zeros", fmt::format("{:.1f} % of the ternary weights", all.zero_fraction * 100)});
    facts.add({"kernel", fmt::format("{} on {}, {}", w.report.kernel, name(w.context.device().id),
                                     counted(w.context.threads(), "thread"))});
  }
  facts.add({"time", fmt::format("{} ({} of input{}), of which {} waiting for writes; {} more to flush to the disk",
                                 human_seconds(w.report.seconds - w.report.flush_seconds),
                                 gigabytes_per_second(w.gb_per_s()), w.per_tensor_twice ? ", which is read twice" : "",
                                 human_seconds(w.report.waiting_seconds), human_seconds(w.report.flush_seconds))});
  facts.add({"spent", spent_text(w)});
  const Stage limit = w.report.limited_by();
  facts.add(
      {"limited by", fmt::format("{} {}", limit_text(limit), gigabytes_per_second(w.report.spent(limit).gb_per_s()))});
  std::string text = facts.str();
  const std::vector<std::size_t> worst = worst_first(w);
  if (!worst.empty()) {
    Table table({"worst first", "SQNR", "cosine", "zeros", "scale"}, 2);
    for (std::size_t i = 0; i < std::min(worst.size(), kWorstShown); ++i) {
      const TensorReport& t = w.report.tensors[worst[i]];
      table.add({escaped(w.plan.tensors[worst[i]].name, 60), decibels(*t.quality->sqnr_db),
                 t.quality->cosine ? fmt::format("{:.4f}", *t.quality->cosine) : "-",
                 fmt::format("{:.1f} %", t.quality->zero_fraction * 100), fmt::format("{:.6g}", t.largest_scale)});
    }
    text += "\n" + table.str();
  }
  for (const std::string& loss : losses(w)) text += fmt::format("  note: {}\n", loss);
  return text;
}

Json summary_json(const Written& w) {
  Json tensors = Json::array();
  for (std::size_t i = 0; i < w.plan.tensors.size(); ++i) {
    const TensorPlan& plan = w.plan.tensors[i];
    const TensorReport& t = w.report.tensors[i];
    if (plan.action == Action::drop) continue;
    Json entry = {{"name", plan.name}, {"action", name(plan.action)}, {"bytes", plan.out_bytes}};
    if (t.quality) entry["quality"] = to_json(*t.quality);
    if (t.checksum) entry["checksum"] = fmt::format("{:016x}", *t.checksum);
    if (plan.action == Action::quantize || plan.action == Action::repack) {
      entry["trits"] = t.trits;
      entry["scales"] = {t.smallest_scale, t.largest_scale};
      entry["scales_rounded"] = t.scale_loss.changed;
    }
    if (plan.action == Action::cast) {
      if (plan.codes) entry["sqnr_db"] = t.cast_sqnr_db ? Json(*t.cast_sqnr_db) : Json(nullptr);
      entry["largest_change"] = t.largest_change;
      entry["overflowed"] = t.overflowed;
      entry["underflowed"] = t.underflowed;
    }
    tensors.push_back(std::move(entry));
  }
  Json seconds = {{"all", w.report.seconds},
                  {"flushing", w.report.flush_seconds},
                  {"waiting", w.report.waiting_seconds},
                  {"idle", w.report.idle_seconds}};
  for (std::size_t i = 0; i < kStageCount; ++i)
    seconds[std::string(name(static_cast<Stage>(i)))] = w.report.stages[i].seconds;
  const Overall all = overall(w);
  const auto or_null = [](const std::optional<double>& v) { return v ? Json(*v) : Json(nullptr); };
  return {{"output", {{"path", w.output}, {"file_bytes", w.report.file_bytes}, {"container", name(w.plan.container)}}},
          {"format", name(w.plan.layout)},
          {"in_bytes", w.plan.in_bytes()},
          {"out_bytes", w.plan.out_bytes()},
          {"quality",
           {{"mean_sqnr_db", or_null(all.mean_sqnr_db)},
            {"worst_sqnr_db", or_null(all.worst_sqnr_db)},
            {"mean_cosine", or_null(all.mean_cosine)},
            {"zero_fraction", all.zero_fraction}}},
          {"kernel", w.report.kernel},
          {"device", name(w.context.device().id)},
          {"threads", w.context.threads()},
          {"seconds", std::move(seconds)},
          {"limited_by",
           {{"what", resource(w.report.limited_by())},
            {"stage", name(w.report.limited_by())},
            {"gb_per_s", w.report.spent(w.report.limited_by()).gb_per_s()}}},
          {"gb_per_s", w.gb_per_s()},
          {"tensors", std::move(tensors)},
          {"notes", losses(w)}};
}

}  // namespace tern::cli
