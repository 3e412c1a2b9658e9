// The C ABI: models as they are read.
#include "api/c_model.h"

namespace tern::c {
namespace {

tern_model_tensor face_of(const ModelTensor& tensor, const tern_layout_spec* layout) {
  return {.struct_size = sizeof(tern_model_tensor),
          .name = tensor.name.c_str(),
          .hf_name = tensor.hf_name.c_str(),
          .type = name(tensor.type).data(),
          .shape = tensor.shape.data(),
          .rank = static_cast<std::int32_t>(tensor.shape.size()),
          .stored_rank = static_cast<std::int32_t>(tensor.stored_shape.size()),
          .stored_shape = tensor.stored_shape.data(),
          .index = tensor.index,
          .bytes = tensor.bytes,
          .gguf_id = tensor.gguf_id,
          .has_checksum = tensor.checksum ? 1 : 0,
          .checksum = tensor.checksum.value_or(0),
          .ternary = tensor.ternary ? 1 : 0,
          .layout = layout,
          .unreadable = tensor.unreadable.c_str(),
          .scales_index = place_or_none(tensor.scales_index),
          .scale_type = name(tensor.scale_type).data(),
          .weight_scale = static_cast<tern_weight_scale>(tensor.weight_scale),
          .granularity = from_granularity(tensor.granularity),
          .codes = tensor.codes ? name(*tensor.codes).data() : ""};
}

Result<ReadOptions> to_options(const char* where, const tern_read_options* options) {
  TERN_ASSIGN(given, read_struct(where, "options", options));
  ReadOptions cpp;
  TERN_ASSIGN(open, to_open_options(where, given.gguf_types, given.gguf_type_count));
  cpp.open = std::move(open);
  if (given.i2_s != TERN_LAYOUT_DEFAULT) {
    TERN_ASSIGN(layout, to_enum(where, "options->i2_s", given.i2_s, kLastLayout));
    cpp.i2_s = layout;
  }
  if (given.weight_scale != TERN_WEIGHT_SCALE_DEFAULT) {
    TERN_ASSIGN(weight_scale, to_enum(where, "options->weight_scale", given.weight_scale, kLastWeightScale));
    cpp.weight_scale = weight_scale;
  }
  TERN_ASSIGN(tiles, to_tiles(given.kernel_config));
  cpp.tiles = std::move(tiles);
  return cpp;
}

// Writes the name that a tensor has in the other container.
tern_status other_name(const char* entry, const char* parameter, const char* name,
                       std::string (*other)(std::string_view), char* buffer, std::size_t buffer_bytes,
                       std::size_t* length) {
  return guarded(entry, [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{parameter, name}, {"length", length}}));
    return write_text(where, other(name), buffer, buffer_bytes, length);
  });
}

}  // namespace

Result<std::vector<KernelTiles>> to_tiles(const char* kernel_config) {
  if (kernel_config == nullptr) return std::vector<KernelTiles>();
  return parse_kernel_config(kernel_config);
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_model::tern_model(Model from) : model(std::move(from)), checkpoint(model.checkpoint()) {
  for (const ModelTensor& tensor : model.tensors()) layouts.push_back(from_spec(tensor.layout.value_or(LayoutSpec())));
  for (std::size_t i = 0; i < layouts.size(); ++i)
    tensors.push_back(face_of(model.tensors()[i], model.tensors()[i].layout ? &layouts[i] : nullptr));
}

tern_status tern_model_open(const char* path, const tern_read_options* options, tern_model** out) {
  return guarded("tern_model_open", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"path", path}}));
    TERN_ASSIGN(cpp_options, to_options(where, options));
    TERN_ASSIGN(model, Model::open(path, cpp_options));
    *out = new tern_model(std::move(model));
    return {};
  });
}

void tern_model_close(tern_model* model) { delete model; }

tern_status tern_model_checkpoint(const tern_model* model, const tern_checkpoint** out) {
  return hand_out("tern_model_checkpoint", "model", model, &tern_model::checkpoint, out);
}

tern_status tern_model_config_json(const tern_model* model, const char** out) {
  return guarded("tern_model_config_json", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"model", model}}));
    *out = model->model.config_json().c_str();
    return {};
  });
}

tern_status tern_model_tensor_count(const tern_model* model, size_t* out) {
  return count_of("tern_model_tensor_count", "model", model, &tern_model::tensors, out);
}

tern_status tern_model_tensor_get(const tern_model* model, size_t index, const tern_model_tensor** out) {
  return hand_out("tern_model_tensor_get", "model", model, &tern_model::tensors, index, out);
}

tern_status tern_model_find(const tern_model* model, const char* name, int64_t* index) {
  return guarded("tern_model_find", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"model", model}, {"name", name}, {"index", index}}));
    *index = place_or_none(model->model.find(name));
    return {};
  });
}

tern_status tern_model_read(const tern_context* context, const tern_model* model, size_t index, tern_quantized** out) {
  return guarded("tern_model_read", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"model", model}}));
    const ParallelForWatch watch;
    TERN_ASSIGN(quantized, model->model.read(context->context, index));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_quantized(std::move(quantized), out);
  });
}

tern_status tern_packed_weights_load(const tern_context* context, const tern_model* model, const char* tensor,
                                     tern_packed_weights** out) {
  return guarded("tern_packed_weights_load", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"model", model}, {"tensor", tensor}}));
    const ParallelForWatch watch;
    TERN_ASSIGN(weights, load_weights(context->context, model->model, tensor));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_packed_weights(std::move(weights), out);
  });
}

tern_status tern_gguf_name(const char* hf_name, char* buffer, size_t buffer_bytes, size_t* length) {
  return other_name("tern_gguf_name", "hf_name", hf_name, gguf_name, buffer, buffer_bytes, length);
}

tern_status tern_hf_name(const char* gguf_name, char* buffer, size_t buffer_bytes, size_t* length) {
  return other_name("tern_hf_name", "gguf_name", gguf_name, hf_name, buffer, buffer_bytes, length);
}
