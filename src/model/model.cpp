// Model: a checkpoint with the interpretation of its tensors, found by name and read.
#include <algorithm>
#include <filesystem>
#include <variant>

#include "base/errors.h"
#include "io/file_error.h"
#include "io/mapped_file.h"
#include "model/interpret_tensors.h"
#include "model/model_config.h"
#include "model/read_weights.h"
#include "tern/model.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "Model::open";
constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;  // real ones have a few KB

// The text of config.json in the folder of the checkpoint; empty where there is none.
Result<std::string> config_beside(const std::string& path) {
  const std::string config = beside(path, "config.json");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config, ignored)) return std::string();
  TERN_ASSIGN(file, MappedFile::open(config, kWhere));
  if (file->bytes().size() > kMaxConfigBytes)
    return file_error(Code::corrupt_file, kWhere, "'{}' has {} bytes; a configuration has a few thousand", config,
                      file->bytes().size());
  return std::string(file->bytes().begin(), file->bytes().end());
}

}  // namespace

TensorContent ModelTensor::content() const {
  std::optional<SeparateScales> scales;
  if (scales_index) scales = SeparateScales{*scales_index, scale_type};
  if (ternary) return TernaryTensor{layout, unreadable, weight_scale, granularity, scales};
  if (codes) return CodedTensor{*codes, granularity, scales};
  return PlainTensor{};
}

void ModelTensor::hold(const TensorContent& content) {
  const auto* trits = std::get_if<TernaryTensor>(&content);
  const auto* coded = std::get_if<CodedTensor>(&content);
  TernaryTensor fields = trits != nullptr ? *trits : TernaryTensor();
  if (coded != nullptr) fields = {.granularity = coded->granularity, .scales = coded->scales};
  ternary = trits != nullptr;
  codes = coded != nullptr ? std::optional(coded->format) : std::nullopt;
  layout = fields.layout;
  unreadable = std::move(fields.unreadable);
  weight_scale = fields.weight_scale;
  granularity = fields.granularity;
  scales_index = fields.scales ? std::optional(fields.scales->index) : std::nullopt;
  scale_type = fields.scales ? fields.scales->type : StoredType::f32;
}

struct Model::Impl {
  Checkpoint checkpoint;
  std::string config;
  std::vector<ModelTensor> tensors;         // in the order of Checkpoint::tensors(), without those that are scales
  std::vector<std::uint32_t> renamed = {};  // those whose hf_name is not their name, sorted by hf_name

  void sort_renamed() {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].hf_name != tensors[i].name) renamed.push_back(static_cast<std::uint32_t>(i));
    std::ranges::sort(renamed, {}, [&](std::uint32_t i) { return std::pair(std::string_view(tensors[i].hf_name), i); });
  }

  [[nodiscard]] std::optional<std::size_t> find_by_name(std::string_view name) const {
    const auto stored = checkpoint.find(name);
    if (!stored) return std::nullopt;
    const auto found = std::ranges::lower_bound(tensors, *stored, {}, &ModelTensor::index);
    if (found == tensors.end() || found->index != *stored) return std::nullopt;
    return static_cast<std::size_t>(found - tensors.begin());
  }

  [[nodiscard]] std::optional<std::size_t> find_by_hf_name(std::string_view hf) const {
    std::optional<std::size_t> first;
    if (const auto i = find_by_name(hf); i && tensors[*i].hf_name == hf) first = i;
    const auto found = std::ranges::lower_bound(renamed, hf, {},
                                                [&](std::uint32_t i) { return std::string_view(tensors[i].hf_name); });
    if (found != renamed.end() && tensors[*found].hf_name == hf && (!first || *found < *first)) first = *found;
    return first;
  }
};

Result<Model> Model::open(const std::string& path, const ReadOptions& options) {
  TERN_ASSIGN(checkpoint, Checkpoint::open(path, options.open));
  TERN_ASSIGN(config, config_beside(path));
  auto tensors = interpret_tensors(checkpoint, config, options);
  if (!tensors.ok()) return in_file(std::move(tensors).error(), kWhere, path);
  auto impl = std::make_shared<Impl>(Impl{std::move(checkpoint), std::move(config), *std::move(tensors)});
  impl->sort_renamed();
  return Model(std::move(impl));
}

const Checkpoint& Model::checkpoint() const { return impl_->checkpoint; }
std::span<const ModelTensor> Model::tensors() const { return impl_->tensors; }
const std::string& Model::config_json() const { return impl_->config; }

std::optional<std::size_t> Model::find(std::string_view name) const {
  if (const auto found = impl_->find_by_name(name)) return found;
  const auto by_hf = impl_->find_by_hf_name(name), by_gguf = impl_->find_by_hf_name(hf_name(name));
  return by_hf && by_gguf ? std::min(by_hf, by_gguf) : by_hf ? by_hf : by_gguf;
}

Result<QuantizedTensor> Model::read(const Context& context, std::size_t index) const {
  constexpr std::string_view kRead = "Model::read";
  if (index >= impl_->tensors.size())
    return error(Code::invalid_argument, kRead, "there is no tensor {} among {}", index, impl_->tensors.size());
  auto weights = read_weights(context, impl_->checkpoint, impl_->tensors[index]);
  if (weights.ok()) return weights;
  Error why = std::move(weights).error();
  why.message = fmt::format("'{}': {}", escaped(impl_->tensors[index].name), why.message);
  return why;
}

}  // namespace tern
