// Model: recognises ternary weights and their layout from types, names and metadata.
#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/checked.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/layout.h"
#include "io/file_error.h"
#include "io/mapped_file.h"
#include "model/coded_weights.h"
#include "model/model_config.h"
#include "model/read_weights.h"
#include "model/tern_keys.h"
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

std::string_view without(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string_view();
}

class Interpreter {
 public:
  Interpreter(const Checkpoint& checkpoint, const std::string& config, const ReadOptions& options)
      : checkpoint_(checkpoint), config_(config), options_(options) {
    for (const MetaEntry& entry : checkpoint.metadata()) metadata_.emplace(entry.key, &entry.value);
  }

  Result<std::vector<ModelTensor>> run() {
    all_.reserve(checkpoint_.tensors().size());  // growing would hold a million of them twice
    for (std::size_t i = 0; i < checkpoint_.tensors().size(); ++i) {
      TERN_ASSIGN(tensor, interpret(i));
      all_.push_back(std::move(tensor));
    }
    std::vector<bool> is_scale(all_.size());
    for (const std::size_t i : scales_) is_scale[i] = true;
    std::erase_if(all_, [&](const ModelTensor& tensor) { return is_scale[tensor.index]; });
    return std::move(all_);
  }

 private:
  Result<ModelTensor> interpret(std::size_t index) {
    const StoredTensor& stored = checkpoint_.tensors()[index];
    ModelTensor tensor{.name = stored.name,
                       .hf_name = canonical_name(stored.name),
                       .shape = stored.shape,
                       .type = stored.type,
                       .stored_shape = stored.shape,
                       .index = index,
                       .bytes = stored.bytes,
                       .gguf_id = stored.gguf_id};
    if (checkpoint_.container() == Container::gguf) {
      TERN_RETURN_IF_ERROR(interpret_gguf(tensor));
    } else if (const std::string* codes = text_of(keys::codes_of(tensor.name))) {
      TERN_RETURN_IF_ERROR(interpret_codes(tensor, *codes));
    } else if (stored.type == StoredType::u8) {
      TERN_RETURN_IF_ERROR(interpret_u8(tensor));
    }
    if (tensor.scales_index) {
      tensor.bytes += checkpoint_.tensors()[*tensor.scales_index].bytes;
      tensor.scale_type = checkpoint_.tensors()[*tensor.scales_index].type;
      scales_.push_back(*tensor.scales_index);
    }
    if (const std::string* text = text_of(keys::checksum_of(tensor.name))) {
      std::uint64_t value = 0;
      if (text->size() != 16 || !parse_hex(*text, value))
        return error(Code::corrupt_file, kWhere, "{} is '{}', not 16 hexadecimal digits",
                     escaped(keys::checksum_of(tensor.name)), printable(*text));
      tensor.checksum = value;
    }
    return tensor;
  }

  // The text of a key, or null.
  [[nodiscard]] const std::string* text_of(std::string_view key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : found->second->text();
  }

  static bool parse_hex(std::string_view text, std::uint64_t& value) {
    for (const char c : text) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) return false;
      value = value * 16 + static_cast<std::uint64_t>(digit);
    }
    return true;
  }

  // Maps both of Hugging Face's spellings to one.
  static std::string canonical_name(const std::string& name) {
    const std::string gguf = gguf_name(name);
    const std::string hf = hf_name(gguf.empty() ? name : gguf);
    return hf.empty() ? name : hf;
  }

  // ---- GGUF: the type decides, except for the order of i2_s and the tiles of tl1 and tl2 ----

  Status interpret_gguf(ModelTensor& tensor) {
    const std::span<const LayoutRow> orders = layouts_of(tensor.type);
    if (orders.empty()) {
      if (tensor.shape.size() != 2) return {};
      tensor.codes = block_format(tensor.type);
      if (tensor.codes) tensor.granularity = Granularity::group(kCodedGroup);
      return {};
    }
    tensor.ternary = true;
    tensor.layout = orders.front().layout;
    if (tensor.shape.size() == 1) tensor.shape.insert(tensor.shape.begin(), 1);
    while (tensor.shape.size() > 2) {  // stacked experts become one tall matrix
      const auto rows = checked_mul(tensor.shape[0], tensor.shape[1]);
      if (!rows) return error(Code::corrupt_file, kWhere, "'{}' has too many rows", escaped(tensor.name));
      tensor.shape.erase(tensor.shape.begin());
      tensor.shape[0] = *rows;
    }
    tensor.granularity = scales_in(tensor.layout->layout).value_or(Granularity::tensor());
    if (orders.size() > 1) return find_i2_s(tensor);
    if (orders.front().tiles) return find_tiles(tensor);
    return {};
  }

  Status find_i2_s(ModelTensor& tensor) {
    // bitnet.cpp's converter may omit the trailer and write the scale as a separate tensor.
    const auto plain = checked_mul(tensor.n(), tensor.k());
    if (plain && tensor.bytes == static_cast<std::size_t>(*plain / 4))
      tensor.scales_index = checkpoint_.find(std::string(without(tensor.name, ".weight")) + ".scale");
    if (const std::string* said = text_of(keys::kFormat)) {
      const Result<Layout> layout = parse_layout(*said);
      if (layout.ok() && said->starts_with("i2_s.")) {
        tensor.layout = *layout;
        return {};
      }
    }
    if (options_.i2_s) {
      tensor.layout = *options_.i2_s;
      return {};
    }
    Result<Layout> detected =
        Error{Code::invalid_argument,
              "the scale is a separate tensor, so the order of i2_s cannot be detected; give ReadOptions::i2_s "
              "x86_128, arm_64 or 1x4",
              std::string(kWhere)};
    if (!tensor.scales_index) detected = detect_i2_s(checkpoint_.data(tensor.index), tensor.n(), tensor.k());
    if (detected.ok()) {
      tensor.layout = *detected;
    } else {
      tensor.layout.reset();
      tensor.unreadable = detected.error().message;
    }
    return {};
  }

  Status find_tiles(ModelTensor& tensor) {
    const std::string key = keys::tiles_of(tensor.n(), tensor.k());
    if (const std::string* text = text_of(key)) {
      std::int64_t numbers[3];
      if (!keys::parse_numbers(*text, ',', numbers, 3))
        return error(Code::corrupt_file, kWhere, "{} is '{}', not three numbers separated by commas", key,
                     printable(*text));
      tensor.layout->tiles = {numbers[0], numbers[1], numbers[2]};
      return {};
    }
    const Result<LutTiles> tiles = tiles_for(options_.tiles, tensor.n(), tensor.k());
    if (tiles.ok()) {
      tensor.layout->tiles = *tiles;
    } else {
      tensor.layout.reset();
      tensor.unreadable = options_.tiles.empty() ? "the tiles of its kernels are not known; give ReadOptions::tiles"
                                                 : tiles.error().message;
    }
    return {};
  }

  // ---- safetensors: Tern's metadata, or the names of Hugging Face's packed checkpoints ----

  Status interpret_u8(ModelTensor& tensor) {
    if (const std::string* shape = text_of(keys::shape_of(tensor.name))) return interpret_own(tensor, *shape);
    const std::string_view stem = without(tensor.name, ".weight");
    const auto scale = checkpoint_.find(tensor.name + "_scale");
    if (stem.empty() || !scale || tensor.shape.size() != 2) return {};
    const auto n = checked_mul(tensor.shape[0], 4);
    if (!n) return {};
    tensor.ternary = true;
    tensor.shape[0] = *n;
    tensor.layout = Layout::hf_packed;
    tensor.scales_index = scale;
    return find_direction(tensor);
  }

  Status parse_shape(const ModelTensor& tensor, const std::string& shape, std::int64_t (&size)[2]) const {
    if (keys::parse_numbers(shape, 'x', size, 2)) return {};
    return error(Code::corrupt_file, kWhere, "{} is '{}', not NxK", escaped(keys::shape_of(tensor.name)),
                 printable(shape));
  }

  // Rows of 8- or 4-bit codes, with a separate tensor of scales.
  Status interpret_codes(ModelTensor& tensor, const std::string& codes) {
    if (codes != name(Format::s8) && codes != name(Format::s4))
      return error(Code::corrupt_file, kWhere, "{} is '{}', not s8 or s4", escaped(keys::codes_of(tensor.name)),
                   printable(codes));
    const Format format = codes == name(Format::s8) ? Format::s8 : Format::s4;
    const std::string* shape = text_of(keys::shape_of(tensor.name));
    if (shape == nullptr) return error(Code::corrupt_file, kWhere, "'{}' has codes but no shape", escaped(tensor.name));
    std::int64_t size[2];
    TERN_RETURN_IF_ERROR(parse_shape(tensor, *shape, size));
    const auto bytes = checked_mul(size[0], row_bytes(format, size[1]));
    if (tensor.type != stored_type(code_dtype(format)) || !bytes || static_cast<std::size_t>(*bytes) != tensor.bytes)
      return error(Code::corrupt_file, kWhere, "'{}' is {} in {}, which does not fit its {} bytes of {}",
                   escaped(tensor.name), *shape, codes, tensor.bytes, name(tensor.type));
    tensor.codes = format;
    tensor.shape = {size[0], size[1]};
    return find_scales(tensor, ".scales");
  }

  Status interpret_own(ModelTensor& tensor, const std::string& shape) {
    std::int64_t size[2];
    TERN_RETURN_IF_ERROR(parse_shape(tensor, shape, size));
    const std::string* format = text_of(keys::kFormat);
    if (format == nullptr)
      return error(Code::corrupt_file, kWhere, "'{}' has a shape but no {}", escaped(tensor.name), keys::kFormat);
    const Result<Layout> said = parse_layout(*format);
    if (!said.ok()) return error(Code::corrupt_file, kWhere, "{}: {}", keys::kFormat, said.error().message);
    const Layout layout = *said;
    TERN_ASSIGN(bytes, layout_bytes(layout, size[0], size[1]));
    if (bytes != tensor.bytes)
      return error(Code::corrupt_file, kWhere, "'{}' is {} in {}, which takes {} bytes; it has {}",
                   escaped(tensor.name), shape, *format, bytes, tensor.bytes);
    tensor.ternary = true;
    tensor.shape = {size[0], size[1]};
    tensor.layout = layout;
    const LayoutRow& row = row_of(layout);
    TERN_RETURN_IF_ERROR(find_scales(tensor, row.scale_suffix()));
    return row.weight_scale ? find_direction(tensor) : Status();
  }

  Status find_scales(ModelTensor& tensor, std::string_view end) {
    const std::string scales = tensor.name + std::string(end);
    tensor.scales_index = checkpoint_.find(scales);
    if (!tensor.scales_index)
      return error(Code::corrupt_file, kWhere, "there is no tensor '{}', which should hold the scales of '{}'",
                   escaped(scales), escaped(tensor.name));
    const std::string* by = text_of(keys::granularity_of(tensor.name));
    if (by == nullptr) by = text_of(keys::kGranularity);
    if (by != nullptr) {
      const Result<Granularity> granularity = parse_granularity(*by);
      if (!granularity.ok())
        return error(Code::corrupt_file, kWhere, "the granularity of '{}': {}", escaped(tensor.name),
                     granularity.error().message);
      tensor.granularity = *granularity;
    }
    return {};
  }

  Status find_direction(ModelTensor& tensor) {
    const std::string* said = text_of(keys::kWeightScale);
    if (said != nullptr && (*said == name(WeightScale::multiplies) || *said == name(WeightScale::divides))) {
      tensor.weight_scale = *said == name(WeightScale::divides) ? WeightScale::divides : WeightScale::multiplies;
      return {};
    }
    if (options_.weight_scale) {
      tensor.weight_scale = *options_.weight_scale;
      return {};
    }
    if (config_.empty()) {
      tensor.layout.reset();
      tensor.unreadable =
          "there is no config.json beside the file to say whether weight_scale multiplies or divides; give "
          "ReadOptions::weight_scale multiplies or divides";
      return {};
    }
    if (!direction_) direction_ = weight_scale_of_config(config_);
    if (direction_->ok()) {
      tensor.weight_scale = **direction_;
    } else {
      tensor.layout.reset();
      tensor.unreadable = direction_->error().message;
    }
    return {};
  }

  const Checkpoint& checkpoint_;
  std::unordered_map<std::string_view, const MetaValue*> metadata_;  // a map: a header may have as many keys as tensors
  const std::string& config_;
  const ReadOptions& options_;
  std::optional<Result<WeightScale>> direction_;
  std::vector<ModelTensor> all_;
  std::vector<std::size_t> scales_;
};

}  // namespace

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
  auto tensors = Interpreter(checkpoint, config, options).run();
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
