// Decides which tensors become ternary and which stay, under which names and types, and the output's metadata.
#include "model/model_plan.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/words.h"
#include "format/format.h"
#include "format/layout.h"
#include "format/ranges.h"
#include "io/file_error.h"
#include "model/coded_weights.h"
#include "model/model_config.h"
#include "model/name_filter.h"
#include "model/tern_keys.h"
#include "tern/version.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "plan_model";

constexpr WordTable<Action, 5> kActions = {{{Action::quantize, "quantize"},
                                            {Action::repack, "repack"},
                                            {Action::cast, "cast"},
                                            {Action::copy, "copy"},
                                            {Action::drop, "drop"}}};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_float(StoredType type) {
  const auto dtype = info(type).dtype;
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

bool is_embedding(const ModelTensor& tensor) {
  return contains(tensor.hf_name, "embed") || contains(tensor.hf_name, "lm_head") || contains(tensor.name, "wte.") ||
         tensor.name == "output.weight";
}

// Whether models multiply activations with this matrix, judged by the names that the usual families use.
bool is_projection(const ModelTensor& tensor) {
  if (tensor.shape.size() != 2 || is_embedding(tensor)) return false;
  const std::string_view name = tensor.hf_name;
  if (!name.ends_with(".weight")) return false;
  constexpr std::array kEnds = {"_proj.weight", ".wq.weight",  ".wk.weight", ".wv.weight",   ".wo.weight",
                                ".w1.weight",   ".w2.weight",  ".w3.weight", ".wqkv.weight", ".w13.weight",
                                ".qkv.weight",  ".fc1.weight", ".fc2.weight"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](const char* end) { return name.ends_with(end); });
}

std::string listed_layouts(Container container) {
  std::vector<std::string_view> words;
  for (const LayoutRow* row : layouts_in(container)) words.push_back(row->name);
  return listed(words, " and ");
}

class Planner {
 public:
  Planner(const PlanInput& input, const WriteOptions& options) : in_(input), options_(options) {}

  Result<ModelPlan> run(const std::string& output) {
    TERN_RETURN_IF_ERROR(settle_container(output));
    TERN_RETURN_IF_ERROR(settle_layout());
    plan_.scheme = options_.scheme;
    plan_.granularity = granularity_;
    plan_.match_bitnet = options_.match_bitnet;
    plan_.non_finite = options_.non_finite;
    plan_.lossy = options_.lossy;
    plan_.histograms = options_.histograms;
    plan_.preference = options_.preference;
    if (const auto& type = options_.embeddings;
        type && type != StoredType::f16 && type != StoredType::bf16 && !block_format(*type))
      return error(Code::invalid_argument, kWhere, "embeddings become F16, BF16, Q8_0 or Q4_0, not {}", name(*type));
    TERN_ASSIGN(include, NameFilter::compile(options_.include, "WriteOptions::include"));
    TERN_ASSIGN(exclude, NameFilter::compile(options_.exclude, "WriteOptions::exclude"));
    TERN_ASSIGN(drop, NameFilter::compile(options_.drop, "WriteOptions::drop"));
    include_ = include;
    exclude_ = exclude;
    drop_ = drop;
    for (std::size_t i = 0; i < in_.tensors.size(); ++i) {
      TERN_ASSIGN(tensor, plan(i));
      plan_.tensors.push_back(std::move(tensor));
    }
    TERN_RETURN_IF_ERROR(check_matches());
    TERN_RETURN_IF_ERROR(write_metadata());
    note_what_stays();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const LayoutRow& layout() const { return row_of(plan_.layout); }
  [[nodiscard]] bool to_gguf() const { return plan_.container == Container::gguf; }

  // The container is what the caller asked for, or follows from the output's extension; the two must not contradict
  // each other.
  Status settle_container(const std::string& output) {
    std::optional<Container> named;
    if (output.ends_with(".gguf")) named = Container::gguf;
    if (output.ends_with(".safetensors")) named = Container::safetensors;
    if (!named && !options_.container)
      return file_error(Code::invalid_argument, kWhere,
                        "'{}': a model is written as GGUF or safetensors; let the name end with .gguf or .safetensors",
                        output);
    if (named && options_.container && *named != *options_.container)
      return file_error(Code::invalid_argument, kWhere,
                        "'{}' is a name for {}, but {} was asked for; change one of them", output, name(*named),
                        name(*options_.container));
    plan_.container = options_.container.value_or(named.value_or(Container::safetensors));
    return {};
  }

  Status settle_layout() {
    plan_.layout = options_.layout.value_or(layouts_in(plan_.container).front()->layout);
    if (layout().container() != plan_.container)
      return error(Code::unsupported, kWhere, "{} holds no {}; it holds {}", name(plan_.container), name(plan_.layout),
                   listed_layouts(plan_.container));
    if (!options_.quantize) return {};
    if (options_.scheme == Scheme::int2)
      return error(Code::unsupported, kWhere,
                   "int2 makes codes from -2 to 1, and {} holds trits; take absmean, absmax "
                   "or mse",
                   name(plan_.layout));
    if (options_.match_bitnet && options_.scheme != Scheme::absmean)
      return error(Code::invalid_argument, kWhere,
                   "BitNet's converter computes absmean, not {}; take it, or leave out the match",
                   name(options_.scheme));
    const auto inside = scales_in(plan_.layout);
    granularity_ = options_.granularity.value_or(inside.value_or(Granularity::tensor()));
    if (options_.match_bitnet && granularity_ != Granularity::tensor() && !options_.granularity)
      granularity_ = Granularity::tensor();
    if (options_.match_bitnet && granularity_ != Granularity::tensor())
      return error(Code::invalid_argument, kWhere,
                   "BitNet's converter gives a tensor one scale; by {} it cannot be matched, so quantize by tensor",
                   name(granularity_));
    if (layout().one_scale() && granularity_ != Granularity::tensor())
      return error(Code::unsupported, kWhere,
                   "{} holds one scale for a tensor, not one by {}; quantize by tensor, or "
                   "to i2",
                   name(plan_.layout), name(granularity_));
    return {};
  }

  static Result<bool> found(const NameFilter& filter, const ModelTensor& tensor, std::size_t& count) {
    TERN_ASSIGN(in_name, filter.matches(tensor.name));
    TERN_ASSIGN(in_hf_name, filter.matches(tensor.hf_name));
    count += in_name || in_hf_name ? 1 : 0;
    return in_name || in_hf_name;
  }

  Result<TensorPlan> plan(std::size_t i) {
    const ModelTensor& tensor = in_.tensors[i];
    TensorPlan out{.input = i,
                   .input_name = tensor.name,
                   .input_type = tensor.type,
                   .name = output_name(tensor),
                   .type = tensor.type,
                   .in_bytes = tensor.bytes};
    out.out_bytes = tensor.bytes;
    TERN_ASSIGN(dropped, found(drop_, tensor, dropped_));
    if (dropped) {
      out.action = Action::drop;
      out.why = "WriteOptions::drop";
      out.out_bytes = 0;
      return out;
    }
    TERN_ASSIGN(included, found(include_, tensor, included_));
    TERN_ASSIGN(excluded, found(exclude_, tensor, excluded_));
    if (tensor.ternary) return plan_ternary(out, tensor, Action::repack);
    const bool empty = tensor.bytes == 0;
    if (options_.quantize && is_float(tensor.type) && !excluded && !empty && tensor.shape.size() == 2 &&
        (include_.given() ? included : is_projection(tensor))) {
      out.why = include_.given() ? "WriteOptions::include" : "a projection";
      return plan_ternary(out, tensor, Action::quantize);
    }
    out.why = why_kept(tensor, excluded);
    return plan_plain(out, tensor);
  }

  std::string why_kept(const ModelTensor& tensor, bool excluded) const {
    if (tensor.bytes == 0) return "it is empty";
    if (!is_float(tensor.type)) return std::string(name(tensor.type)) + " is carried as bytes";
    if (excluded && is_projection(tensor)) return "WriteOptions::exclude";
    if (is_embedding(tensor))
      return options_.embeddings && block_format(*options_.embeddings) ? "WriteOptions::embeddings"
                                                                       : "embeddings stay float";
    if (contains(tensor.hf_name, "norm") || contains(tensor.hf_name, "_ln.")) return "norms stay float";
    if (tensor.name.ends_with(".bias")) return "biases stay float";
    if (tensor.shape.size() != 2) return "no matrix";
    if (!options_.quantize) return "floats stay as they are";
    return include_.given() ? "not in WriteOptions::include" : "no projection by its name";
  }

  std::string output_name(const ModelTensor& tensor) const {
    if (in_.container == plan_.container) return tensor.name;
    if (!to_gguf()) return tensor.hf_name;
    const std::string gguf = gguf_name(tensor.hf_name);
    return gguf.empty() ? tensor.name : gguf;
  }

  Result<TensorPlan> plan_ternary(TensorPlan out, const ModelTensor& tensor, Action action) {
    const auto refuse = [&](const Error& why) {
      return error(why.code, kWhere, "'{}': {}", escaped(tensor.name), why.message);
    };
    if (!tensor.unreadable.empty()) return refuse({Code::invalid_argument, tensor.unreadable, ""});
    // Experts are one tall matrix here, and safetensors cannot record how tall each one is.
    if (!to_gguf() && in_.container == Container::gguf && tensor.stored_shape.size() > 2)
      return refuse({Code::unsupported,
                     fmt::format("it has {} axes, of which safetensors would keep two; write GGUF, or leave it out "
                                 "with WriteOptions::drop",
                                 tensor.stored_shape.size()),
                     ""});
    out.action = action;
    out.layout = plan_.layout;
    if (layout().tiles) {
      if (options_.tiles.empty())
        return error(Code::invalid_argument, kWhere,
                     "{} needs the tiles of its kernels for each shape; give them "
                     "in WriteOptions::tiles, which a kernel_config.ini has",
                     name(plan_.layout));
      const auto tiles = tiles_for(options_.tiles, tensor.n(), tensor.k());
      if (!tiles.ok()) return refuse(tiles.error());
      out.layout.tiles = *tiles;
    }
    const Result<std::size_t> bytes = layout_bytes(out.layout, tensor.n(), tensor.k());
    if (!bytes.ok()) {
      Error why = bytes.error();
      why.message += action == Action::quantize
                         ? "; WriteOptions::exclude keeps it float, or take another WriteOptions::layout"
                         : "; take another WriteOptions::layout";
      return refuse(why);
    }
    out.out_bytes = *bytes;
    const auto inside = scales_in(plan_.layout);
    out.granularity = inside ? *inside : action == Action::quantize ? granularity_ : tensor.granularity;
    if (layout().weight_scale) out.granularity = Granularity::tensor();
    if (action == Action::repack) out.why = "the same trits";
    out.type = layout().type;
    if (out.type == StoredType::tl2) out.gguf_id = options_.tl2_id;
    if (to_gguf()) return out;
    out.scale_name = out.name + std::string(layout().scale_suffix());
    if (layout().weight_scale && ((action == Action::quantize && options_.match_bitnet) || scale_is_bf16(tensor)))
      out.scale_type = StoredType::bf16;
    const std::int64_t scales = make_ranges(tensor.n(), tensor.k(), out.granularity).total;
    out.out_bytes += static_cast<std::size_t>(scales) * (out.scale_type == StoredType::bf16 ? 2 : 4);
    return out;
  }

  // A packed checkpoint of Hugging Face keeps its scale in bf16, unless the scale must be inverted.
  static bool scale_is_bf16(const ModelTensor& tensor) {
    return tensor.ternary && tensor.layout && row_of(tensor.layout->layout).weight_scale && tensor.scales_index &&
           tensor.weight_scale == WeightScale::multiplies && tensor.scale_type == StoredType::bf16;
  }

  Result<TensorPlan> plan_plain(TensorPlan out, const ModelTensor& tensor) {
    StoredType type = tensor.type;
    if (tensor.codes && in_.container != plan_.container) return plan_codes(out, tensor, *tensor.codes);
    if (tensor.codes && tensor.scales_index) {
      out.codes = tensor.codes;
      out.granularity = tensor.granularity;
      out.scale_name = out.name + ".scales";
      return out;
    }
    if (options_.embeddings && is_float(type) && is_embedding(tensor)) {
      const std::optional<Format> codes = block_format(*options_.embeddings);
      if (codes && tensor.shape.size() == 2 && tensor.bytes > 0) return plan_codes(out, tensor, *codes);
      if (!codes) type = *options_.embeddings;
    }
    // Engines want small vectors (norms, biases) in F32, and GGUF has no bf16 vectors in practice.
    if (to_gguf() && in_.container != Container::gguf && tensor.shape.size() <= 1 &&
        (type == StoredType::bf16 || type == StoredType::f16))
      type = StoredType::f32;
    const StoredTypeInfo& about = info(type);
    const bool held = to_gguf() ? about.gguf_id >= 0 || in_.container == Container::gguf : about.in_safetensors;
    if (!held)
      return error(Code::unsupported, kWhere, "'{}' is {}, which {} does not have; WriteOptions::drop leaves it out",
                   escaped(tensor.name), about.name, name(plan_.container));
    out.type = type;
    out.action = type == tensor.type ? Action::copy : Action::cast;
    if (out.action == Action::cast)
      out.out_bytes = tensor.bytes / static_cast<std::size_t>(info(tensor.type).block_bytes) *
                      static_cast<std::size_t>(about.block_bytes);
    return out;
  }

  // Floats, or codes as the other container has them, to codes of 8 or 4 bits with a scale for every 32 columns.
  Result<TensorPlan> plan_codes(TensorPlan out, const ModelTensor& tensor, Format codes) {
    const StoredTypeInfo& blocks = info(block_type(codes));
    const bool whole = tensor.k() % kCodedGroup == 0;
    if (tensor.codes && !(whole && make_ranges(tensor.n(), tensor.k(), tensor.granularity).len % kCodedGroup == 0))
      return error(Code::unsupported, kWhere,
                   "'{}' has {} columns and scales by {}; {} is blocks of {} columns with a scale each: start from its "
                   "floats, or leave it out with WriteOptions::drop",
                   escaped(tensor.name), tensor.k(), name(tensor.granularity), blocks.name, kCodedGroup);
    if (!whole)
      return error(Code::unsupported, kWhere, "'{}' has {} columns; {} is blocks of {}, so keep it f16 or bf16",
                   escaped(tensor.name), tensor.k(), blocks.name, kCodedGroup);
    out.action = Action::cast;
    out.codes = codes;
    out.granularity = Granularity::group(kCodedGroup);
    if (tensor.codes) out.why = "the same codes";
    const auto count = static_cast<std::size_t>(tensor.n() * (tensor.k() / kCodedGroup));
    if (to_gguf()) {
      out.type = block_type(codes);
      out.out_bytes = count * static_cast<std::size_t>(blocks.block_bytes);
      return out;
    }
    out.type = stored_type(code_dtype(codes));
    out.scale_name = out.name + ".scales";
    out.out_bytes = static_cast<std::size_t>(tensor.n() * row_bytes(codes, tensor.k())) + count * sizeof(float);
    return out;
  }

  // An expression that matches nothing is a mistake.
  Status check_matches() const {
    const auto check = [&](const NameFilter& filter, std::size_t count, std::string_view option,
                           const std::string& text) -> Status {
      if (!filter.given() || count > 0) return {};
      return error(Code::invalid_argument, option,
                   "'{}' occurs in no name of the model's {} tensors; `tern inspect` lists them", escaped(text, 100),
                   in_.tensors.size());
    };
    TERN_RETURN_IF_ERROR(check(include_, included_, "WriteOptions::include", options_.include));
    TERN_RETURN_IF_ERROR(check(exclude_, excluded_, "WriteOptions::exclude", options_.exclude));
    TERN_RETURN_IF_ERROR(check(drop_, dropped_, "WriteOptions::drop", options_.drop));
    if (dropped_ == 0 || dropped_ < in_.tensors.size()) return {};
    return error(Code::invalid_argument, "WriteOptions::drop",
                 "'{}' occurs in the names of all {} tensors; nothing would be left", escaped(options_.drop, 100),
                 dropped_);
  }

  // Notes what the caller may not expect: no matrix becomes ternary, or some were ternary already and stay as they are.
  void note_what_stays() {
    const std::size_t ternary = plan_.count(Action::repack);
    if (!options_.quantize && options_.layout && ternary == 0)
      plan_.notes.push_back(fmt::format("no matrix is ternary, so none becomes {}", name(plan_.layout)));
    if (!options_.quantize) return;
    if (ternary > 0)
      plan_.notes.push_back(fmt::format("{} already ternary and keep{} trits and scales",
                                        ternary == 1 ? "1 matrix is" : fmt::format("{} matrices are", ternary),
                                        ternary == 1 ? "s its" : " their"));
    else if (plan_.count(Action::quantize) == 0)
      plan_.notes.emplace_back(
          "nothing is quantized: no matrix is a projection by its name (WriteOptions::include names others)");
  }

  // ---- the output's metadata ----

  Status write_metadata() {
    Metadata& out = plan_.metadata;
    for (const MetaEntry& entry : in_.metadata)
      if (!entry.key.starts_with(keys::kPrefix) && in_.container == plan_.container) out.push_back(entry);
    if (to_gguf() && in_.container != Container::gguf) {
      TERN_ASSIGN(config, gguf_config(in_.config_json, options_.architecture, in_.config_path));
      out = std::move(config.metadata);
      for (std::string& note : config.notes) plan_.notes.push_back(std::move(note));
    }
    if (!to_gguf() && in_.container == Container::gguf && !in_.metadata.empty())
      plan_.notes.push_back(fmt::format(
          "the {} metadata keys of GGUF, tokenizer included, have no place in safetensors", in_.metadata.size()));
    if (const std::string* arch = keys::text(in_.metadata, "general.architecture");
        !to_gguf() && in_.container == Container::gguf && arch != nullptr && *arch == "llama")
      plan_.notes.emplace_back(
          "rows of q and k stay in the order of llama.cpp, which Hugging Face's Llama does not have");
    if (!to_gguf() && find_key(out, "format") == nullptr) set_key(out, "format", MetaValue("pt"));
    if (to_gguf() && !options_.architecture.empty())
      set_key(out, "general.architecture", MetaValue(options_.architecture));
    const bool any = plan_.count(Action::quantize) + plan_.count(Action::repack) > 0;
    if (to_gguf() && any) set_key(out, "general.file_type", MetaValue(layout().file_type));
    set_key(out, keys::kVersion, MetaValue(TERN_VERSION));
    if (any) write_format();
    write_tensor_keys();
    return {};
  }

  void write_format() {
    Metadata& out = plan_.metadata;
    set_key(out, keys::kFormat, MetaValue(name(plan_.layout)));
    carry_or_set(keys::kScheme, std::string(name(options_.scheme)));
    if (options_.quantize && options_.match_bitnet) {
      set_key(out, keys::kMatch, MetaValue("bitnet"));
    } else if (const std::string* match = keys::text(in_.metadata, keys::kMatch); match && !options_.quantize) {
      set_key(out, keys::kMatch, MetaValue(*match));
    }
    if (layout().weight_scale) set_key(out, keys::kWeightScale, MetaValue(name(WeightScale::multiplies)));
  }

  // Sets the value if something is quantized; otherwise keeps the input file's, if it has one.
  void carry_or_set(std::string_view key, const std::string& value) {
    const std::string* said = keys::text(in_.metadata, key);
    if (plan_.count(Action::quantize) > 0) {
      set_key(plan_.metadata, key, MetaValue(value));
    } else if (said != nullptr) {
      set_key(plan_.metadata, key, MetaValue(*said));
    }
  }

  void write_tensor_keys() {
    Metadata& out = plan_.metadata;
    std::optional<Granularity> common;
    for (const TensorPlan& tensor : plan_.tensors) {
      if (tensor.action == Action::drop) continue;
      // push_back, not set_key: these are thousands of new keys. The values are filled in when the tensors are written.
      out.push_back({keys::checksum_of(tensor.name), MetaValue(keys::checksum_text(0))});
      if (tensor.codes && !to_gguf()) write_codes(tensor);
      if (tensor.action != Action::quantize && tensor.action != Action::repack) continue;
      const ModelTensor& input = in_.tensors[tensor.input];
      if (!common) {
        common = tensor.granularity;
        set_key(out, keys::kGranularity, MetaValue(name(*common)));
      }
      if (tensor.granularity != *common)
        out.push_back({keys::granularity_of(tensor.name), MetaValue(name(tensor.granularity))});
      if (!to_gguf())
        out.push_back({keys::shape_of(tensor.name), MetaValue(fmt::format("{}x{}", input.n(), input.k()))});
      if (!layout().tiles) continue;
      const LutTiles& tiles = tensor.layout.tiles;
      set_key(out, keys::tiles_of(input.n(), input.k()),
              MetaValue(fmt::format("{},{},{}", tiles.tile_rows, tiles.tile_columns, tiles.block_rows)));
    }
  }

  void write_codes(const TensorPlan& tensor) {
    const ModelTensor& input = in_.tensors[tensor.input];
    Metadata& out = plan_.metadata;
    out.push_back({keys::codes_of(tensor.name), MetaValue(name(*tensor.codes))});
    out.push_back({keys::granularity_of(tensor.name), MetaValue(name(tensor.granularity))});
    out.push_back({keys::shape_of(tensor.name), MetaValue(fmt::format("{}x{}", input.n(), input.k()))});
  }

  const PlanInput& in_;
  const WriteOptions& options_;
  ModelPlan plan_;
  Granularity granularity_;
  NameFilter include_, exclude_, drop_;
  std::size_t included_ = 0, excluded_ = 0, dropped_ = 0;
};

}  // namespace

std::string_view name(Action action) { return word_of(kActions, action); }

std::size_t ModelPlan::in_bytes() const {
  std::size_t sum = 0;
  for (const TensorPlan& tensor : tensors) sum += tensor.in_bytes;
  return sum;
}
std::size_t ModelPlan::out_bytes() const {
  std::size_t sum = 0;
  for (const TensorPlan& tensor : tensors) sum += tensor.out_bytes;
  return sum;
}
std::size_t ModelPlan::count(Action action) const {
  return static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(), [&](const TensorPlan& t) { return t.action == action; }));
}

Result<ModelPlan> plan_tensors(const PlanInput& input, const std::string& output, const WriteOptions& options) {
  return Planner(input, options).run(output);
}

Result<ModelPlan> plan_model(const Model& model, const std::string& output, const WriteOptions& options) {
  return plan_tensors({.tensors = model.tensors(),
                       .container = model.checkpoint().container(),
                       .metadata = model.checkpoint().metadata(),
                       .config_json = model.config_json(),
                       .config_path = beside(model.checkpoint().path(), "config.json")},
                      output, options);
}

}  // namespace tern
