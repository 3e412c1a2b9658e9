// The C ABI: other projects' layouts of weights.
#include "api/c_handles.h"

namespace tern::c {
namespace {

// Fills the caller's loss struct, if there is one.
Status write_loss(const char* where, const ScaleLoss& loss, tern_scale_loss* out) {
  if (out == nullptr) return {};
  TERN_RETURN_IF_ERROR(check_struct_size(where, "loss", out));
  write_struct(face_of(loss), out);
  return {};
}

}  // namespace

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_layout_get_size(const tern_layout_spec* spec, int64_t n, int64_t k, tern_layout_size* out) {
  return guarded("tern_layout_get_size", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"spec", spec}, {"out", out}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_ASSIGN(cpp_spec, to_cpp(where, spec));
    TERN_ASSIGN(bytes, layout_bytes(cpp_spec, n, k));
    TERN_ASSIGN(row_block, layout_row_block(cpp_spec, n, k));
    TERN_ASSIGN(scales, layout_scales(cpp_spec, n, k));
    write_struct(
        {.struct_size = sizeof(tern_layout_size), .bytes = bytes, .row_block = row_block, .scale_count = scales}, out);
    return {};
  });
}

tern_status tern_import_weights(const tern_layout_spec* spec, const void* bytes, size_t byte_count, int64_t n,
                                int64_t k, const tern_tensor_view* codes, float* scales, size_t scale_count) {
  return tern_import_rows(spec, bytes, byte_count, n, k, 0, n, codes, scales, scale_count);
}

tern_status tern_fit_scales(tern_layout layout, const tern_tensor_view* codes, int64_t n, int64_t k,
                            const float* scales, size_t scale_count, tern_granularity granularity, int32_t lossy,
                            float* out, size_t out_count, tern_scale_loss* loss) {
  return guarded("tern_fit_scales", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"codes", codes}}));
    TERN_ASSIGN(cpp_layout, to_enum(where, "layout", layout, kLastLayout));
    TERN_ASSIGN(cpp_codes, to_view(where, "codes", *codes));
    TERN_ASSIGN(cpp_scales, to_array<const float>(where, "scales", scales, "scale_count", scale_count));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_out, to_array<float>(where, "out", out, "out_count", out_count));
    TERN_ASSIGN(fitted, fit_scales(cpp_layout, cpp_codes, n, k, cpp_scales, cpp_granularity, to_lossy(lossy)));
    if (cpp_out.size() != fitted.scales.size())
      return error(Code::invalid_argument, where, "out_count is {}, {} has {} scales", out_count, name(cpp_layout),
                   fitted.scales.size());
    std::copy(fitted.scales.begin(), fitted.scales.end(), cpp_out.begin());
    return write_loss(where, fitted.loss, loss);
  });
}

tern_status tern_export_weights(const tern_layout_spec* spec, const tern_tensor_view* codes, int64_t n, int64_t k,
                                const float* scales, size_t scale_count, tern_granularity granularity, int32_t lossy,
                                void* bytes, size_t byte_count, tern_scale_loss* loss) {
  return guarded("tern_export_weights", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"spec", spec}, {"codes", codes}}));
    if (loss != nullptr) TERN_RETURN_IF_ERROR(check_struct_size(where, "loss", loss));
    TERN_ASSIGN(cpp_spec, to_cpp(where, spec));
    TERN_ASSIGN(cpp_codes, to_view(where, "codes", *codes));
    TERN_ASSIGN(cpp_scales, to_array<const float>(where, "scales", scales, "scale_count", scale_count));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_bytes, to_array<std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count));
    TERN_ASSIGN(lost,
                export_weights(cpp_spec, cpp_codes, n, k, cpp_scales, cpp_granularity, cpp_bytes, to_lossy(lossy)));
    return write_loss(where, lost, loss);
  });
}

tern_status tern_kernel_config_tiles(const char* text, size_t text_bytes, int64_t n, int64_t k,
                                     tern_layout_spec* spec) {
  return guarded("tern_kernel_config_tiles", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"text", text}, {"spec", spec}}));
    TERN_ASSIGN(filled, read_struct(where, "spec", spec));
    TERN_ASSIGN(config, parse_kernel_config({text, text_bytes}));
    TERN_ASSIGN(tiles, tiles_for(config, n, k));
    filled.tile_rows = tiles.tile_rows;
    filled.tile_columns = tiles.tile_columns;
    filled.block_rows = tiles.block_rows;
    write_struct(filled, spec);
    return {};
  });
}

tern_status tern_weigh_i2_s(const void* bytes, size_t byte_count, int64_t n, int64_t k, tern_i2_s_evidence* out,
                            char* buffer, size_t buffer_bytes, size_t* length) {
  return guarded("tern_weigh_i2_s", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}, {"length", length}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_ASSIGN(cpp_bytes, to_array<const std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count));
    TERN_ASSIGN(evidence, weigh_i2_s(cpp_bytes, n, k));
    tern_i2_s_evidence face = TERN_I2_S_EVIDENCE_INIT;
    face.scale = evidence.scale;
    std::string reasons;
    for (const I2sReading& reading : evidence.readings) {
      const std::int32_t possible = reading.possible ? 1 : 0;
      if (reading.layout == Layout::i2_s_x86_128) face.x86_128_possible = possible;
      if (reading.layout == Layout::i2_s_arm_64) face.arm_64_possible = possible;
      if (reading.layout == Layout::i2_s_1x4) face.one_by_four_possible = possible;
      reasons += fmt::format("{}: {}\n", name(reading.layout), reading.why);
    }
    TERN_RETURN_IF_ERROR(write_text(where, reasons, buffer, buffer_bytes, length));
    write_struct(face, out);
    return {};
  });
}
