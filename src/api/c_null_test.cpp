// Tests of the C ABI's own tensors, and that every function refuses NULL by the parameter's name.
#include "api/c_test.h"

namespace tern::c_test {
namespace {

TEST(CTensor, IsAllocatedOrRefused) {
  const ContextHandle context = open_context();
  tern_tensor* tensor = nullptr;
  const std::int64_t shape[] = {4, -1}, huge[] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_FAILS(tern_tensor_allocate(context.get(), TERN_DTYPE_F32, 2, shape, &tensor), TERN_INVALID_ARGUMENT, "-1");
  EXPECT_FAILS(tern_tensor_allocate(context.get(), TERN_DTYPE_F32, 2, huge, &tensor), TERN_INVALID_ARGUMENT, "2^63");
  EXPECT_FAILS(tern_tensor_allocate(context.get(), TERN_DTYPE_F32, 9, huge, &tensor), TERN_INVALID_ARGUMENT, "rank");
  EXPECT_FAILS(tern_tensor_allocate(context.get(), TERN_DTYPE_F32, 2, nullptr, &tensor), TERN_INVALID_ARGUMENT,
               "shape is NULL");
  EXPECT_EQ(tensor, nullptr);
  ASSERT_EQ(tern_tensor_allocate(context.get(), TERN_DTYPE_F64, 1, shape, &tensor), TERN_OK);
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  EXPECT_EQ(tern_tensor_get_view(tensor, &view), TERN_OK);
  EXPECT_EQ(view.dtype, TERN_DTYPE_F64);
  EXPECT_EQ(view.shape[0], 4);
  EXPECT_NE(view.data, nullptr);
  tern_tensor_destroy(tensor);
}

TEST(CNull, DestroyersAcceptIt) {
  tern_context_close(nullptr);
  tern_inventory_destroy(nullptr);
  tern_kernel_list_destroy(nullptr);
  tern_tensor_destroy(nullptr);
  tern_quantized_destroy(nullptr);
  tern_ternary_quantize_plan_destroy(nullptr);
  tern_ternary_dequantize_plan_destroy(nullptr);
  tern_activation_quantize_plan_destroy(nullptr);
  tern_linear_plan_destroy(nullptr);
  tern_packed_weights_destroy(nullptr);
  tern_precision_reports_destroy(nullptr);
  tern_npy_close(nullptr);
}

TEST(CNull, HandlesAndOutPointersAreRefusedByName) {
  const ContextHandle context = open_context();
  const auto weights = make_weights(8);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {8});
  const QuantizedHandle quantized = quantize(context.get(), x);
  const tern_context* c = context.get();
  const tern_quantized* q = quantized.get();
  std::size_t size = 0;
  std::int32_t number = 0;
  std::uint64_t sum = 0;
  char text[8];
  tern_quality quality = TERN_QUALITY_INIT;
  tern_memory_statistics statistics = TERN_MEMORY_STATISTICS_INIT;
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  tern_quantized_parts parts = TERN_QUANTIZED_PARTS_INIT;
  tern_ternary_quantize_problem problem = TERN_TERNARY_QUANTIZE_PROBLEM_INIT;
  tern_ternary_quantize_args args = TERN_TERNARY_QUANTIZE_ARGS_INIT;
  tern_activation_quantize_problem activation_problem = TERN_ACTIVATION_QUANTIZE_PROBLEM_INIT;
  tern_activation_quantize_args activation_args = TERN_ACTIVATION_QUANTIZE_ARGS_INIT;
  tern_linear_problem linear_problem = TERN_LINEAR_PROBLEM_INIT;
  tern_linear_args linear_args = TERN_LINEAR_ARGS_INIT;
  tern_activation_quantize_plan* activation_plan = nullptr;
  tern_linear_plan* linear_plan = nullptr;
  tern_packed_weights* packed = nullptr;
  const tern_packed_weights_info* packed_info = nullptr;
  tern_precision_reports* reports = nullptr;
  const tern_precision_report* report = nullptr;
  tern_dtype dtype = TERN_DTYPE_F32;
  const tern_precision automatic = TERN_PRECISION_AUTO;
  tern_tensor* tensor = nullptr;
  tern_quantized* made = nullptr;
  tern_npy* npy = nullptr;
  tern_kernel_list* list = nullptr;
  tern_ternary_quantize_plan* plan = nullptr;
  const tern_device_info* device = nullptr;
  const tern_kernel_info* kernel = nullptr;
  const tern_quantized_info* info = nullptr;
  const tern_plan_info* plan_info = nullptr;
  const tern_stream *stream = nullptr, *no_stream = nullptr;
  const char* note = nullptr;
  ASSERT_EQ(tern_context_stream(c, &stream), TERN_OK);
  problem.rows = problem.k = 8;
  ASSERT_EQ(tern_ternary_quantize_select(c, &problem, nullptr, &plan), TERN_OK);
  const QuantizePlan owner(plan);

#define EXPECT_NULL(call, parameter) EXPECT_FAILS(call, TERN_INVALID_ARGUMENT, parameter " is NULL")
  EXPECT_NULL(tern_inventory_create(nullptr), "out");
  EXPECT_NULL(tern_inventory_device_count(nullptr, &size), "inventory");
  EXPECT_NULL(tern_inventory_device(nullptr, 0, &device), "inventory");
  EXPECT_NULL(tern_inventory_device(nullptr, 0, nullptr), "out");
  EXPECT_NULL(tern_inventory_note_count(nullptr, &size), "inventory");
  EXPECT_NULL(tern_inventory_note(nullptr, 0, &note), "inventory");
  EXPECT_NULL(tern_context_open(nullptr, nullptr), "out");
  EXPECT_NULL(tern_context_open_device({TERN_DEVICE_CPU, 0}, nullptr, nullptr), "out");
  EXPECT_NULL(tern_context_device(nullptr, &device), "context");
  EXPECT_NULL(tern_context_device(c, nullptr), "out");
  EXPECT_NULL(tern_context_threads(nullptr, &number), "context");
  EXPECT_NULL(tern_context_threads(c, nullptr), "out");
  EXPECT_NULL(tern_context_stream(nullptr, &no_stream), "context");
  EXPECT_NULL(tern_context_memory_statistics(nullptr, &statistics), "context");
  EXPECT_NULL(tern_context_memory_statistics(c, nullptr), "out");
  EXPECT_NULL(tern_context_reset_memory_peak(nullptr), "context");
  EXPECT_NULL(tern_context_memory_report(nullptr, text, sizeof(text), &size), "context");
  EXPECT_NULL(tern_tensor_allocate(nullptr, TERN_DTYPE_F32, 0, nullptr, &tensor), "context");
  EXPECT_NULL(tern_tensor_allocate(c, TERN_DTYPE_F32, 0, nullptr, nullptr), "out");
  EXPECT_NULL(tern_tensor_get_view(nullptr, &view), "tensor");
  EXPECT_NULL(tern_quantize(nullptr, &x, nullptr, &made), "context");
  EXPECT_NULL(tern_quantize(c, nullptr, nullptr, &made), "x");
  EXPECT_NULL(tern_quantize(c, &x, nullptr, nullptr), "out");
  EXPECT_NULL(tern_dequantize(nullptr, q, TERN_DTYPE_F32, &tensor), "context");
  EXPECT_NULL(tern_dequantize(c, nullptr, TERN_DTYPE_F32, &tensor), "quantized");
  EXPECT_NULL(tern_dequantize(c, q, TERN_DTYPE_F32, nullptr), "out");
  EXPECT_NULL(tern_quantized_from_parts(nullptr, &parts, &made), "context");
  EXPECT_NULL(tern_quantized_from_parts(c, nullptr, &made), "parts");
  EXPECT_NULL(tern_quantized_from_parts(c, &parts, nullptr), "out");
  EXPECT_NULL(tern_quantized_get_info(nullptr, &info), "quantized");
  EXPECT_NULL(tern_quantized_get_info(q, nullptr), "out");
  EXPECT_NULL(tern_quantized_checksum(nullptr, &sum), "quantized");
  EXPECT_NULL(tern_quantized_checksum(q, nullptr), "out");
  EXPECT_NULL(tern_validate(nullptr), "quantized");
  EXPECT_NULL(tern_measure_quality(nullptr, &x, q, TERN_NON_FINITE_REJECT, &quality), "context");
  EXPECT_NULL(tern_measure_quality(c, nullptr, q, TERN_NON_FINITE_REJECT, &quality), "x");
  EXPECT_NULL(tern_measure_quality(c, &x, nullptr, TERN_NON_FINITE_REJECT, &quality), "quantized");
  EXPECT_NULL(tern_measure_quality(c, &x, q, TERN_NON_FINITE_REJECT, nullptr), "out");
  EXPECT_NULL(tern_ternary_quantize_select(nullptr, &problem, nullptr, &plan), "context");
  EXPECT_NULL(tern_ternary_quantize_select(c, nullptr, nullptr, &plan), "problem");
  EXPECT_NULL(tern_ternary_quantize_select(c, &problem, nullptr, nullptr), "out");
  EXPECT_NULL(tern_ternary_quantize_explain(nullptr, &problem, nullptr, text, sizeof(text), &size), "context");
  EXPECT_NULL(tern_ternary_quantize_explain(c, nullptr, nullptr, text, sizeof(text), &size), "problem");
  EXPECT_NULL(tern_ternary_quantize_plan_explain(nullptr, text, sizeof(text), &size), "plan");
  EXPECT_NULL(tern_ternary_quantize_plan_can_implement(nullptr, &args), "plan");
  EXPECT_NULL(tern_ternary_quantize_plan_can_implement(owner.get(), nullptr), "args");
  EXPECT_NULL(tern_ternary_quantize_plan_workspace_bytes(nullptr, &size), "plan");
  EXPECT_NULL(tern_ternary_quantize_plan_workspace_bytes(owner.get(), nullptr), "out");
  EXPECT_NULL(tern_ternary_quantize_plan_run(nullptr, stream, nullptr, 0, &args), "plan");
  EXPECT_NULL(tern_ternary_quantize_plan_run(owner.get(), nullptr, nullptr, 0, &args), "stream");
  EXPECT_NULL(tern_ternary_quantize_plan_run(owner.get(), stream, nullptr, 0, nullptr), "args");
  EXPECT_NULL(tern_ternary_quantize_plan_get_info(nullptr, &plan_info), "plan");
  EXPECT_NULL(tern_ternary_quantize_plan_get_info(owner.get(), nullptr), "out");
  EXPECT_NULL(tern_packed_weights_bytes(8, 8, {TERN_GRANULARITY_TENSOR, 0}, TERN_FORMAT_I2, nullptr), "out");
  EXPECT_NULL(tern_packed_weights_create(nullptr, &x, &x, 1, 8, {}, TERN_FORMAT_I2, nullptr, 0, &packed), "context");
  EXPECT_NULL(tern_packed_weights_create(c, nullptr, &x, 1, 8, {}, TERN_FORMAT_I2, nullptr, 0, &packed), "codes");
  EXPECT_NULL(tern_packed_weights_create(c, &x, nullptr, 1, 8, {}, TERN_FORMAT_I2, nullptr, 0, &packed), "scales");
  EXPECT_NULL(tern_packed_weights_create(c, &x, &x, 1, 8, {}, TERN_FORMAT_I2, nullptr, 0, nullptr), "out");
  EXPECT_NULL(tern_packed_weights_create_from_quantized(nullptr, q, nullptr, 0, &packed), "context");
  EXPECT_NULL(tern_packed_weights_create_from_quantized(c, nullptr, nullptr, 0, &packed), "quantized");
  EXPECT_NULL(tern_packed_weights_create_from_quantized(c, q, nullptr, 0, nullptr), "out");
  EXPECT_NULL(tern_packed_weights_get_info(nullptr, &packed_info), "weights");
  EXPECT_NULL(tern_packed_weights_bytes_on(nullptr, 8, 8, {}, TERN_FORMAT_I2, &size), "context");
  EXPECT_NULL(tern_packed_weights_bytes_on(c, 8, 8, {}, TERN_FORMAT_I2, nullptr), "out");
  EXPECT_NULL(tern_w2a8_gemv(nullptr, packed, &x, &x, 1, 8, 0), "context");
  EXPECT_NULL(tern_w2a8_gemv(c, nullptr, &x, &x, 1, 8, 0), "weights");
  EXPECT_NULL(tern_layout_bytes(TERN_LAYOUT_MS_GPU, 16, 32, nullptr), "out");
  tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  tern_layout_size layout_size = TERN_LAYOUT_SIZE_INIT;
  tern_i2_s_evidence evidence = TERN_I2_S_EVIDENCE_INIT;
  tern_granularity by_tensor = {TERN_GRANULARITY_TENSOR, 0};
  EXPECT_NULL(tern_layout_scales_in(TERN_LAYOUT_TL1, nullptr, &by_tensor), "inside");
  EXPECT_NULL(tern_layout_scales_in(TERN_LAYOUT_TL1, &number, nullptr), "out");
  EXPECT_NULL(tern_layout_get_size(nullptr, 16, 32, &layout_size), "spec");
  EXPECT_NULL(tern_layout_get_size(&spec, 16, 32, nullptr), "out");
  EXPECT_NULL(tern_import_weights(nullptr, text, 8, 16, 32, &x, nullptr, 0), "spec");
  EXPECT_NULL(tern_import_weights(&spec, text, 8, 16, 32, nullptr, nullptr, 0), "codes");
  EXPECT_NULL(tern_import_rows(nullptr, text, 8, 16, 32, 0, 1, &x, nullptr, 0), "spec");
  EXPECT_NULL(tern_import_rows(&spec, text, 8, 16, 32, 0, 1, nullptr, nullptr, 0), "codes");
  EXPECT_NULL(tern_fit_scales(TERN_LAYOUT_TL1, nullptr, 1, 1, nullptr, 0, by_tensor, 0, nullptr, 0, nullptr), "codes");
  EXPECT_NULL(tern_export_weights(nullptr, &x, 1, 1, nullptr, 0, by_tensor, 0, text, 8, nullptr), "spec");
  EXPECT_NULL(tern_export_weights(&spec, nullptr, 1, 1, nullptr, 0, by_tensor, 0, text, 8, nullptr), "codes");
  EXPECT_NULL(tern_export_rows(nullptr, &x, 1, 1, 0, 1, nullptr, 0, text, 8), "spec");
  EXPECT_NULL(tern_export_rows(&spec, nullptr, 1, 1, 0, 1, nullptr, 0, text, 8), "codes");
  EXPECT_NULL(tern_kernel_config_tiles(nullptr, 0, 1, 1, &spec), "text");
  EXPECT_NULL(tern_kernel_config_tiles(text, 0, 1, 1, nullptr), "spec");
  EXPECT_NULL(tern_weigh_i2_s(text, 8, 1, 1, nullptr, text, 8, &size), "out");
  EXPECT_NULL(tern_weigh_i2_s(text, 8, 1, 1, &evidence, text, 8, nullptr), "length");
  EXPECT_NULL(tern_detect_i2_s(text, 8, 1, 1, nullptr), "out");
  EXPECT_NULL(tern_weight_scale_divides(nullptr, 0, &number), "config_json");
  EXPECT_NULL(tern_weight_scale_divides(text, 0, nullptr), "out");
  EXPECT_NULL(
      tern_packed_weights_create_from_layout(nullptr, &spec, text, 8, 1, 1, nullptr, 0, by_tensor, nullptr, 0, &packed),
      "context");
  EXPECT_NULL(
      tern_packed_weights_create_from_layout(c, nullptr, text, 8, 1, 1, nullptr, 0, by_tensor, nullptr, 0, &packed),
      "spec");
  EXPECT_NULL(
      tern_packed_weights_create_from_layout(c, &spec, text, 8, 1, 1, nullptr, 0, by_tensor, nullptr, 0, nullptr),
      "out");
  EXPECT_NULL(tern_import_codes(TERN_LAYOUT_MS_GPU, text, 8, 16, 32, nullptr), "codes");
  EXPECT_NULL(tern_export_codes(TERN_LAYOUT_MS_GPU, nullptr, 16, 32, text, 8), "codes");
  EXPECT_NULL(tern_resolve_precision(nullptr, automatic, 0, &dtype, &number, text, sizeof(text), &size), "context");
  EXPECT_NULL(tern_resolve_precision(c, automatic, 0, nullptr, &number, text, sizeof(text), &size), "used");
  EXPECT_NULL(tern_resolve_precision(c, automatic, 0, &dtype, nullptr, text, sizeof(text), &size), "fell_back");
  EXPECT_NULL(tern_resolve_precision(c, automatic, 0, &dtype, &number, text, sizeof(text), nullptr), "length");
  EXPECT_NULL(tern_validate_precision_accuracy(nullptr, q, &x, automatic, &reports), "context");
  EXPECT_NULL(tern_validate_precision_accuracy(c, nullptr, &x, automatic, &reports), "weights");
  EXPECT_NULL(tern_validate_precision_accuracy(c, q, nullptr, automatic, &reports), "x");
  EXPECT_NULL(tern_validate_precision_accuracy(c, q, &x, automatic, nullptr), "out");
  EXPECT_NULL(tern_benchmark_precision_modes(nullptr, q, &x, 40, &reports), "context");
  EXPECT_NULL(tern_benchmark_precision_modes(c, q, &x, 40, nullptr), "out");
  EXPECT_NULL(tern_precision_reports_count(nullptr, &size), "reports");
  EXPECT_NULL(tern_precision_reports_get(nullptr, 0, &report), "reports");
  EXPECT_NULL(tern_precision_reports_get(nullptr, 0, nullptr), "out");
  EXPECT_NULL(tern_precision_reports_optimal(nullptr, &size), "reports");
  EXPECT_NULL(tern_activation_quantize_select(c, nullptr, nullptr, &activation_plan), "problem");
  EXPECT_NULL(tern_activation_quantize_select(c, &activation_problem, nullptr, nullptr), "out");
  EXPECT_NULL(tern_activation_quantize_plan_can_implement(nullptr, &activation_args), "plan");
  EXPECT_NULL(tern_activation_quantize_plan_run(nullptr, stream, nullptr, 0, &activation_args), "plan");
  EXPECT_NULL(tern_linear_select(nullptr, &linear_problem, nullptr, &linear_plan), "context");
  EXPECT_NULL(tern_linear_select(c, nullptr, nullptr, &linear_plan), "problem");
  EXPECT_NULL(tern_linear_select(c, &linear_problem, nullptr, nullptr), "out");
  EXPECT_NULL(tern_linear_explain(c, nullptr, nullptr, text, sizeof(text), &size), "problem");
  EXPECT_NULL(tern_linear_plan_explain(nullptr, text, sizeof(text), &size), "plan");
  EXPECT_NULL(tern_linear_plan_can_implement(nullptr, &linear_args), "plan");
  EXPECT_NULL(tern_linear_plan_workspace_bytes(nullptr, &size), "plan");
  EXPECT_NULL(tern_linear_plan_run(nullptr, stream, nullptr, 0, &linear_args), "plan");
  EXPECT_NULL(tern_linear_plan_get_info(nullptr, &plan_info), "plan");
  EXPECT_NULL(tern_kernel_list_create(nullptr, &list), "context");
  EXPECT_NULL(tern_kernel_list_create(c, nullptr), "out");
  EXPECT_NULL(tern_kernel_list_count(nullptr, &size), "list");
  EXPECT_NULL(tern_kernel_list_get(nullptr, 0, &kernel), "list");
  EXPECT_NULL(tern_npy_open(nullptr, &npy), "path");
  EXPECT_NULL(tern_npy_open("x.npy", nullptr), "out");
  const int64_t one = 1;
  EXPECT_NULL(tern_npy_open_raw(nullptr, TERN_DTYPE_F32, &one, 1, &npy), "path");
  EXPECT_NULL(tern_npy_open_raw("x.bin", TERN_DTYPE_F32, nullptr, 1, &npy), "shape");
  EXPECT_NULL(tern_npy_open_raw("x.bin", TERN_DTYPE_F32, &one, 1, nullptr), "out");
  EXPECT_NULL(tern_save_raw(nullptr, &x, nullptr, nullptr), "path");
  EXPECT_NULL(tern_save_raw("x.bin", nullptr, nullptr, nullptr), "tensor");
  EXPECT_NULL(tern_npy_get_view(nullptr, &view), "npy");
  EXPECT_NULL(tern_save_npy(nullptr, &x, nullptr, nullptr), "path");
  EXPECT_NULL(tern_save_npy("x.npy", nullptr, nullptr, nullptr), "tensor");
  EXPECT_NULL(tern_save_quantized(nullptr, q, nullptr, nullptr), "path");
  EXPECT_NULL(tern_save_quantized("x.npz", nullptr, nullptr, nullptr), "quantized");
  const tern_write_fn writer = [](void*, const void*, size_t) -> int32_t { return 0; };
  EXPECT_NULL(tern_write_npy(nullptr, nullptr, &x, nullptr, nullptr), "writer");
  EXPECT_NULL(tern_write_npy(writer, nullptr, nullptr, nullptr, nullptr), "tensor");
  EXPECT_NULL(tern_write_raw(nullptr, nullptr, &x, nullptr, nullptr), "writer");
  EXPECT_NULL(tern_write_raw(writer, nullptr, nullptr, nullptr, nullptr), "tensor");
  EXPECT_NULL(tern_write_quantized(nullptr, nullptr, q, nullptr, nullptr), "writer");
  EXPECT_NULL(tern_write_quantized(writer, nullptr, nullptr, nullptr, nullptr), "quantized");
  EXPECT_NULL(tern_load_quantized(nullptr, "x.npz", &made), "context");
  EXPECT_NULL(tern_load_quantized(c, nullptr, &made), "path");
  EXPECT_NULL(tern_load_quantized(c, "x.npz", nullptr), "out");
#undef EXPECT_NULL
}

}  // namespace
}  // namespace tern::c_test
