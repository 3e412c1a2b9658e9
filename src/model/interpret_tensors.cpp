// Types decide in GGUF; metadata and names in safetensors. What a tensor is becomes its TensorContent.
#include "model/interpret_tensors.h"

#include <unordered_map>

#include "base/checked.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/layout.h"
#include "model/coded_weights.h"
#include "model/model_config.h"
#include "model/tern_keys.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "Model::open";

std::string_view without(std::string_view name, std::string_view end) {
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string_view();
}

void unreadable(TernaryTensor& ternary, std::string why) {
  ternary.layout.reset();
  ternary.unreadable = std::move(why);
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
    for (const ModelTensor& tensor : all_)
      if (tensor.scales_index) is_scale[*tensor.scales_index] = true;
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
    TERN_ASSIGN(content, content_of(tensor));
    tensor.hold(content);
    if (tensor.scales_index) tensor.bytes += checkpoint_.tensors()[*tensor.scales_index].bytes;
    if (const std::string* text = text_of(keys::checksum_of(tensor.name))) {
      std::uint64_t value = 0;
      if (text->size() != 16 || !parse_hex(*text, value))
        return error(Code::corrupt_file, kWhere, "{} is '{}', not 16 hexadecimal digits",
                     escaped(keys::checksum_of(tensor.name)), printable(*text));
      tensor.checksum = value;
    }
    return tensor;
  }

  // What the tensor is; also sets its shape to that of the weights.
  Result<TensorContent> content_of(ModelTensor& tensor) {
    if (checkpoint_.container() == Container::gguf) return gguf_content(tensor);
    if (const std::string* codes = text_of(keys::codes_of(tensor.name))) return own_codes(tensor, *codes);
    if (tensor.type != StoredType::u8) return TensorContent();
    if (const std::string* shape = text_of(keys::shape_of(tensor.name))) return own_trits(tensor, *shape);
    return hf_trits(tensor);
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

  [[nodiscard]] std::optional<SeparateScales> scales_named(const std::string& name) const {
    const auto index = checkpoint_.find(name);
    if (!index) return std::nullopt;
    return SeparateScales{*index, checkpoint_.tensors()[*index].type};
  }

  // ---- GGUF: the type decides, except for the order of i2_s and the tiles of tl1 and tl2 ----

  Result<TensorContent> gguf_content(ModelTensor& tensor) const {
    const std::span<const LayoutRow> orders = layouts_of(tensor.type);
    if (orders.empty()) {
      const auto codes = tensor.shape.size() == 2 ? block_format(tensor.type) : std::nullopt;
      if (!codes) return TensorContent();
      return TensorContent(CodedTensor{*codes, Granularity::group(kCodedGroup)});
    }
    if (tensor.shape.size() == 1) tensor.shape.insert(tensor.shape.begin(), 1);
    while (tensor.shape.size() > 2) {  // stacked experts become one tall matrix
      const auto rows = checked_mul(tensor.shape[0], tensor.shape[1]);
      if (!rows) return error(Code::corrupt_file, kWhere, "'{}' has too many rows", escaped(tensor.name));
      tensor.shape.erase(tensor.shape.begin());
      tensor.shape[0] = *rows;
    }
    const Layout layout = orders.front().layout;
    TernaryTensor ternary{.layout = layout, .granularity = scales_in(layout).value_or(Granularity::tensor())};
    if (orders.size() > 1) find_i2_s(tensor, ternary);
    if (orders.front().tiles) TERN_RETURN_IF_ERROR(find_tiles(tensor, ternary));
    return TensorContent(ternary);
  }

  void find_i2_s(const ModelTensor& tensor, TernaryTensor& ternary) const {
    // bitnet.cpp's converter may omit the trailer and write the scale as a separate tensor.
    const auto plain = checked_mul(tensor.n(), tensor.k());
    if (plain && tensor.bytes == static_cast<std::size_t>(*plain / 4))
      ternary.scales = scales_named(std::string(without(tensor.name, ".weight")) + ".scale");
    if (const std::string* said = text_of(keys::kFormat); said != nullptr && said->starts_with("i2_s."))
      if (const Result<Layout> layout = parse_layout(*said); layout.ok()) {
        ternary.layout = *layout;
        return;
      }
    if (options_.i2_s) {
      ternary.layout = *options_.i2_s;
    } else if (ternary.scales) {
      unreadable(ternary,
                 "the scale is a separate tensor, so the order of i2_s cannot be detected; give ReadOptions::i2_s "
                 "x86_128, arm_64 or 1x4");
    } else if (const auto detected = detect_i2_s(checkpoint_.data(tensor.index), tensor.n(), tensor.k());
               detected.ok()) {
      ternary.layout = *detected;
    } else {
      unreadable(ternary, detected.error().message);
    }
  }

  Status find_tiles(const ModelTensor& tensor, TernaryTensor& ternary) const {
    const std::string key = keys::tiles_of(tensor.n(), tensor.k());
    if (const std::string* text = text_of(key)) {
      std::int64_t numbers[3];
      if (!keys::parse_numbers(*text, ',', numbers, 3))
        return error(Code::corrupt_file, kWhere, "{} is '{}', not three numbers separated by commas", key,
                     printable(*text));
      ternary.layout->tiles = {numbers[0], numbers[1], numbers[2]};
    } else if (const Result<LutTiles> tiles = tiles_for(options_.tiles, tensor.n(), tensor.k()); tiles.ok()) {
      ternary.layout->tiles = *tiles;
    } else {
      unreadable(ternary, options_.tiles.empty() ? "the tiles of its kernels are not known; give ReadOptions::tiles"
                                                 : tiles.error().message);
    }
    return {};
  }

  // ---- safetensors: Tern's metadata, or the names of Hugging Face's packed checkpoints ----

  Result<TensorContent> hf_trits(ModelTensor& tensor) {
    TernaryTensor ternary{.layout = Layout::hf_packed, .scales = scales_named(tensor.name + "_scale")};
    if (without(tensor.name, ".weight").empty() || !ternary.scales || tensor.shape.size() != 2) return TensorContent();
    const auto n = checked_mul(tensor.shape[0], 4);
    if (!n) return TensorContent();
    tensor.shape[0] = *n;
    find_direction(ternary);
    return TensorContent(ternary);
  }

  Status parse_shape(ModelTensor& tensor, const std::string& shape) const {
    tensor.shape.resize(2);
    if (keys::parse_numbers(shape, 'x', tensor.shape.data(), 2)) return {};
    return error(Code::corrupt_file, kWhere, "{} is '{}', not NxK", escaped(keys::shape_of(tensor.name)),
                 printable(shape));
  }

  // Rows of 8- or 4-bit codes, with a separate tensor of scales.
  Result<TensorContent> own_codes(ModelTensor& tensor, const std::string& codes) const {
    if (codes != name(Format::s8) && codes != name(Format::s4))
      return error(Code::corrupt_file, kWhere, "{} is '{}', not s8 or s4", escaped(keys::codes_of(tensor.name)),
                   printable(codes));
    CodedTensor coded{.format = codes == name(Format::s8) ? Format::s8 : Format::s4};
    const std::string* shape = text_of(keys::shape_of(tensor.name));
    if (shape == nullptr) return error(Code::corrupt_file, kWhere, "'{}' has codes but no shape", escaped(tensor.name));
    TERN_RETURN_IF_ERROR(parse_shape(tensor, *shape));
    const auto bytes = checked_mul(tensor.n(), row_bytes(coded.format, tensor.k()));
    if (tensor.type != stored_type(code_dtype(coded.format)) || !bytes ||
        static_cast<std::size_t>(*bytes) != tensor.bytes)
      return error(Code::corrupt_file, kWhere, "'{}' is {} in {}, which does not fit its {} bytes of {}",
                   escaped(tensor.name), *shape, codes, tensor.bytes, name(tensor.type));
    TERN_RETURN_IF_ERROR(find_scales(tensor, ".scales", coded));
    return TensorContent(coded);
  }

  Result<TensorContent> own_trits(ModelTensor& tensor, const std::string& shape) {
    TERN_RETURN_IF_ERROR(parse_shape(tensor, shape));
    const std::string* format = text_of(keys::kFormat);
    if (format == nullptr)
      return error(Code::corrupt_file, kWhere, "'{}' has a shape but no {}", escaped(tensor.name), keys::kFormat);
    const Result<Layout> layout = parse_layout(*format);
    if (!layout.ok()) return error(Code::corrupt_file, kWhere, "{}: {}", keys::kFormat, layout.error().message);
    TERN_ASSIGN(bytes, layout_bytes(*layout, tensor.n(), tensor.k()));
    if (bytes != tensor.bytes)
      return error(Code::corrupt_file, kWhere, "'{}' is {} in {}, which takes {} bytes; it has {}",
                   escaped(tensor.name), shape, *format, bytes, tensor.bytes);
    TernaryTensor ternary{.layout = *layout};
    const LayoutRow& row = row_of(*layout);
    TERN_RETURN_IF_ERROR(find_scales(tensor, row.scale_suffix(), ternary));
    if (row.weight_scale) find_direction(ternary);
    return TensorContent(ternary);
  }

  // For a TernaryTensor or a CodedTensor.
  template <class Content>
  Status find_scales(const ModelTensor& tensor, std::string_view end, Content& content) const {
    const std::string scales = tensor.name + std::string(end);
    content.scales = scales_named(scales);
    if (!content.scales)
      return error(Code::corrupt_file, kWhere, "there is no tensor '{}', which should hold the scales of '{}'",
                   escaped(scales), escaped(tensor.name));
    const std::string* by = text_of(keys::granularity_of(tensor.name));
    if (by == nullptr) by = text_of(keys::kGranularity);
    if (by == nullptr) return {};
    const Result<Granularity> granularity = parse_granularity(*by);
    if (!granularity.ok())
      return error(Code::corrupt_file, kWhere, "the granularity of '{}': {}", escaped(tensor.name),
                   granularity.error().message);
    content.granularity = *granularity;
    return {};
  }

  // Whether the scale of hf_packed multiplies or divides.
  void find_direction(TernaryTensor& ternary) {
    const std::string* said = text_of(keys::kWeightScale);
    if (said != nullptr && (*said == name(WeightScale::multiplies) || *said == name(WeightScale::divides))) {
      ternary.weight_scale = *said == name(WeightScale::divides) ? WeightScale::divides : WeightScale::multiplies;
    } else if (options_.weight_scale) {
      ternary.weight_scale = *options_.weight_scale;
    } else if (config_.empty()) {
      unreadable(ternary,
                 "there is no config.json beside the file to say whether weight_scale multiplies or divides; give "
                 "ReadOptions::weight_scale multiplies or divides");
    } else if (!direction_) {
      direction_ = weight_scale_of_config(config_);
      find_direction(ternary);
    } else if (direction_->ok()) {
      ternary.weight_scale = **direction_;
    } else {
      unreadable(ternary, direction_->error().message);
    }
  }

  const Checkpoint& checkpoint_;
  std::unordered_map<std::string_view, const MetaValue*> metadata_;  // a map: a header may have as many keys as tensors
  const std::string& config_;
  const ReadOptions& options_;
  std::optional<Result<WeightScale>> direction_;
  std::vector<ModelTensor> all_;
};

}  // namespace

Result<std::vector<ModelTensor>> interpret_tensors(const Checkpoint& checkpoint, const std::string& config,
                                                   const ReadOptions& options) {
  return Interpreter(checkpoint, config, options).run();
}

}  // namespace tern
