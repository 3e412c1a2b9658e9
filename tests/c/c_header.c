// Uses every part of the C ABI from C11, which proves that the header is C and the shared library exports its names.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern_c.h>

_Static_assert(sizeof(tern_status) == 4, "enums are 32 bits wide on both sides of the ABI");
_Static_assert(sizeof(tern_format) == 4, "also those with a negative value");
_Static_assert(sizeof(tern_device_id) == 8, "two 32-bit words");

static int failures = 0;

static void check(int holds, int line, const char* what) {
  if (holds) return;
  printf("line %d: %s; %s\n", line, what, tern_last_error()->text);
  ++failures;
}
#define CHECK(condition) check((condition) ? 1 : 0, __LINE__, #condition)

enum { kRows = 5, kColumns = 37, kCodeBytes = 10 };
static float weights[kRows * kColumns];

static tern_tensor_view view_of(void* data, tern_dtype dtype, int64_t rows, int64_t columns) {
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  view.data = data;
  view.dtype = dtype;
  view.rank = 2;
  view.shape[0] = rows;
  view.shape[1] = columns;
  return view;
}

static void words(void) {
  tern_scheme scheme = TERN_SCHEME_ABSMEAN;
  tern_grid_strategy grid = TERN_GRID_AUTO;
  CHECK(strcmp(tern_version(), TERN_VERSION) == 0);
  CHECK(strcmp(tern_status_name(TERN_QUALITY_BELOW_LIMIT), "quality_below_limit") == 0);
  CHECK(tern_scheme_parse("mse", &scheme) == TERN_OK && scheme == TERN_SCHEME_MSE);
  CHECK(tern_scheme_parse("best", &scheme) == TERN_INVALID_ARGUMENT);
  CHECK(strstr(tern_last_error()->message, "best") != NULL);
  CHECK(tern_grid_strategy_parse("occupancy", &grid) == TERN_OK && grid == TERN_GRID_OCCUPANCY);
  CHECK(strcmp(tern_grid_strategy_name(TERN_GRID_FIXED), "fixed") == 0);
}

static void machine(const tern_context* context) {
  tern_inventory* inventory = NULL;
  const tern_device_info* cpu = NULL;
  tern_kernel_list* kernels = NULL;
  const tern_kernel_info* kernel = NULL;
  size_t count = 0;
  CHECK(tern_inventory_create(&inventory) == TERN_OK);
  CHECK(tern_inventory_device_count(inventory, &count) == TERN_OK && count >= 1);
  CHECK(tern_inventory_device(inventory, 0, &cpu) == TERN_OK && cpu->id.kind == TERN_DEVICE_CPU);
  CHECK(cpu->gpu == NULL && strcmp(cpu->unusable, "") == 0);
  tern_inventory_destroy(inventory);
  CHECK(tern_kernel_list_create(context, &kernels) == TERN_OK);
  CHECK(tern_kernel_list_count(kernels, &count) == TERN_OK && count >= 2);
  CHECK(tern_kernel_list_get(kernels, count - 1, &kernel) == TERN_OK && kernel->in_build == 1);
  CHECK(tern_kernel_list_get(kernels, count, &kernel) == TERN_INVALID_ARGUMENT && kernel == NULL);
  tern_kernel_list_destroy(kernels);
}

// A plan that writes to the caller's buffers gives the same codes as tern_quantize().
static void plan_agrees(const tern_context* context, const tern_quantized_info* info) {
  static uint8_t codes[kRows * kCodeBytes];
  static float scales[kRows];
  tern_ternary_quantize_problem problem = TERN_TERNARY_QUANTIZE_PROBLEM_INIT;
  tern_ternary_quantize_args args = TERN_TERNARY_QUANTIZE_ARGS_INIT;
  tern_ternary_quantize_plan* plan = NULL;
  const tern_plan_info* chosen = NULL;
  const tern_stream* stream = NULL;
  size_t bytes = 0;
  problem.rows = kRows;
  problem.k = kColumns;
  problem.granularity.kind = TERN_GRANULARITY_ROW;
  args.x = view_of(weights, TERN_DTYPE_F32, kRows, kColumns);
  args.codes = view_of(codes, TERN_DTYPE_U8, kRows, kCodeBytes);
  args.scales = view_of(scales, TERN_DTYPE_F32, kRows, 1);
  CHECK(tern_ternary_quantize_select(context, &problem, NULL, &plan) == TERN_OK);
  CHECK(tern_ternary_quantize_plan_can_implement(plan, &args) == TERN_OK);
  CHECK(tern_ternary_quantize_plan_workspace_bytes(plan, &bytes) == TERN_OK);
  CHECK(tern_ternary_quantize_plan_get_info(plan, &chosen) == TERN_OK && strcmp(chosen->kernel, info->kernel) == 0);
  CHECK(tern_context_stream(context, &stream) == TERN_OK);
  void* workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  CHECK(tern_ternary_quantize_plan_run(plan, stream, workspace, bytes, &args) == TERN_OK);
  CHECK(info->codes_bytes == sizeof(codes) && memcmp(codes, info->codes.data, sizeof(codes)) == 0);
  CHECK(info->scale_count == kRows && memcmp(scales, info->scales.data, sizeof(scales)) == 0);
  free(workspace);
  tern_ternary_quantize_plan_destroy(plan);
}

// Quantizes and restores; each restored value is +-scale or 0.
static void there_and_back(const tern_context* context, tern_quantized** quantized) {
  tern_tensor_view x = view_of(weights, TERN_DTYPE_F32, kRows, kColumns);
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  const tern_quantized_info* info = NULL;
  tern_tensor* restored = NULL;
  tern_tensor_view y = TERN_TENSOR_VIEW_INIT;
  options.granularity.kind = TERN_GRANULARITY_ROW;
  CHECK(tern_quantize(context, &x, &options, quantized) == TERN_OK);
  CHECK(tern_validate(*quantized) == TERN_OK);
  CHECK(tern_quantized_get_info(*quantized, &info) == TERN_OK);
  CHECK(tern_dequantize(context, *quantized, TERN_DTYPE_F32, &restored) == TERN_OK);
  CHECK(tern_tensor_get_view(restored, &y) == TERN_OK);
  if (failures != 0) return;
  plan_agrees(context, info);
  for (int i = 0; i < kRows * kColumns; ++i) {
    const float value = ((const float*)y.data)[i], scale = ((const float*)info->scales.data)[i / kColumns];
    CHECK(value == 0 || fabsf(value) == scale);
  }
  tern_tensor_destroy(restored);
}

// Converts codes to another project's layout and back.
static void layouts(void) {
  static uint8_t codes[16 * 8], bytes[16 * 8], back[16 * 8];
  const tern_tensor_view from = view_of(codes, TERN_DTYPE_U8, 16, 8), to = view_of(back, TERN_DTYPE_U8, 16, 8);
  tern_layout layout = TERN_LAYOUT_MS_GPU;
  size_t size = 0;
  for (size_t i = 0; i < sizeof(codes); ++i) codes[i] = (uint8_t)(i % 3 + 4 * (i / 3 % 3) + 16 * (i / 9 % 3) + 64);
  CHECK(tern_layout_parse(tern_layout_name(layout), &layout) == TERN_OK);
  CHECK(tern_layout_bytes(layout, 16, 32, &size) == TERN_OK && size == sizeof(bytes));
  CHECK(tern_export_codes(layout, &from, 16, 32, bytes, size) == TERN_OK);
  CHECK(memcmp(bytes, codes, size) != 0);
  CHECK(tern_import_codes(layout, bytes, size, 16, 32, &to) == TERN_OK && memcmp(back, codes, size) == 0);
}

// The same for a layout that stores the scale after the codes.
static void layouts_with_scales(void) {
  static uint8_t codes[4 * 32], bytes[4 * 32 + 32], back[4 * 32];
  const tern_tensor_view from = view_of(codes, TERN_DTYPE_U8, 4, 32), to = view_of(back, TERN_DTYPE_U8, 4, 32);
  const tern_granularity by_tensor = {TERN_GRANULARITY_TENSOR, 0};
  const float scale = 0.25F;
  float read = 0;
  tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  tern_layout_size size = TERN_LAYOUT_SIZE_INIT;
  tern_scale_loss loss = TERN_SCALE_LOSS_INIT;
  tern_i2_s_evidence evidence = TERN_I2_S_EVIDENCE_INIT;
  size_t length = 0;
  spec.layout = TERN_LAYOUT_I2_S_X86_128;
  for (size_t i = 0; i < sizeof(codes); ++i) codes[i] = (uint8_t)(i % 3 + 4 * (i / 3 % 3) + 16 * (i / 9 % 3) + 64);
  CHECK(tern_layout_get_size(&spec, 4, 128, &size) == TERN_OK && size.bytes == sizeof(bytes) && size.scale_count == 1);
  CHECK(tern_export_weights(&spec, &from, 4, 128, &scale, 1, by_tensor, 0, bytes, sizeof(bytes), &loss) == TERN_OK);
  CHECK(loss.changed == 0 && loss.index == -1);
  CHECK(tern_import_weights(&spec, bytes, sizeof(bytes), 4, 128, &to, &read, 1) == TERN_OK && read == scale);
  CHECK(memcmp(back, codes, sizeof(codes)) == 0);
  CHECK(tern_weigh_i2_s(bytes, sizeof(bytes), 4, 128, &evidence, NULL, 0, &length) == TERN_OK && length > 0);
  CHECK(evidence.x86_128_possible == 1 && evidence.one_by_four_possible == 1);
}

// Resolves, validates and times the float types of a layer.
static void precisions(const tern_context* context, const tern_quantized* quantized) {
  const tern_tensor_view x = view_of(weights, TERN_DTYPE_F32, kRows, kColumns);
  tern_precision_reports* reports = NULL;
  const tern_precision_report *wide = NULL, *narrow = NULL;
  tern_precision precision = TERN_PRECISION_AUTO;
  tern_dtype used = TERN_DTYPE_I8;
  int32_t fell_back = -1;
  size_t count = 0;
  CHECK(tern_precision_parse("f16", &precision) == TERN_OK && strcmp(tern_precision_name(precision), "f16") == 0);
  CHECK(tern_resolve_precision(context, precision, 1, &used, &fell_back, NULL, 0, &count) == TERN_OK);
  CHECK(used == TERN_DTYPE_F16 && fell_back == 0 && count > 0);
  CHECK(tern_benchmark_precision_modes(context, quantized, &x, 40, &reports) == TERN_OK);
  CHECK(tern_precision_reports_count(reports, &count) == TERN_OK && count == 3);
  CHECK(tern_precision_reports_optimal(reports, &count) == TERN_OK && count < 3);
  CHECK(tern_precision_reports_get(reports, 0, &wide) == TERN_OK);
  CHECK(tern_precision_reports_get(reports, 2, &narrow) == TERN_OK);
  if (failures == 0) CHECK(wide->sqnr_db > narrow->sqnr_db && narrow->used == TERN_DTYPE_BF16);
  tern_precision_reports_destroy(reports);
  CHECK(tern_validate_precision_accuracy(context, quantized, &x, precision, &reports) == TERN_OK);
  tern_precision_reports_destroy(reports);
}

static float unit[kColumns * kColumns], unit_scales[kColumns];
static int8_t unit_q[kColumns * kColumns];

// Quantizes unit vectors as tokens: each becomes 127 and zeros, without loss.
static void tokens(const tern_context* context, const tern_stream* stream, tern_linear_args* to) {
  static int32_t sums[kColumns];
  tern_activation_quantize_problem problem = TERN_ACTIVATION_QUANTIZE_PROBLEM_INIT;
  tern_activation_quantize_args args = TERN_ACTIVATION_QUANTIZE_ARGS_INIT;
  tern_activation_quantize_plan* plan = NULL;
  size_t bytes = 0;
  for (int i = 0; i < kColumns; ++i) unit[i * kColumns + i] = 1;
  problem.m = problem.k = kColumns;
  args.x = view_of(unit, TERN_DTYPE_F32, kColumns, kColumns);
  args.q = to->x = view_of(unit_q, TERN_DTYPE_I8, kColumns, kColumns);
  args.scales = to->x_scales = view_of(unit_scales, TERN_DTYPE_F32, kColumns, 1);
  args.sums = view_of(sums, TERN_DTYPE_I32, kColumns, 1);
  CHECK(tern_activation_quantize_select(context, &problem, NULL, &plan) == TERN_OK);
  CHECK(tern_activation_quantize_plan_workspace_bytes(plan, &bytes) == TERN_OK);
  void* workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  CHECK(tern_activation_quantize_plan_run(plan, stream, workspace, bytes, &args) == TERN_OK);
  CHECK(unit_q[0] == 127 && unit_scales[0] == 127 && sums[0] == 127);
  free(workspace);
  tern_activation_quantize_plan_destroy(plan);
}

// Multiplying the unit vectors by the weights gives the weights.
static void product(const tern_context* context, const tern_quantized* quantized) {
  static float y[kColumns * kRows];
  static int32_t sums[kRows];
  const tern_tensor_view token = view_of(unit_q, TERN_DTYPE_I8, 1, kColumns);
  const tern_tensor_view column = view_of(sums, TERN_DTYPE_I32, 1, kRows);
  tern_linear_problem problem = TERN_LINEAR_PROBLEM_INIT;
  tern_linear_matrix matrix = TERN_LINEAR_MATRIX_INIT;
  tern_linear_args args = TERN_LINEAR_ARGS_INIT;
  tern_linear_output output = TERN_LINEAR_OUTPUT_INIT;
  tern_linear_plan* plan = NULL;
  tern_packed_weights* packed = NULL;
  const tern_packed_weights_info* info = NULL;
  const tern_plan_info* chosen = NULL;
  tern_tuning tuning = TERN_TUNING_INIT;
  tern_preference preference = TERN_PREFERENCE_INIT;
  const tern_stream* stream = NULL;
  tern_tensor* restored = NULL;
  tern_tensor_view w = TERN_TENSOR_VIEW_INIT;
  size_t bytes = 0;
  CHECK(tern_packed_weights_create_from_quantized(context, quantized, NULL, 0, &packed) == TERN_OK);
  CHECK(tern_packed_weights_get_info(packed, &info) == TERN_OK && info->n == kRows && info->k == kColumns);
  CHECK(tern_packed_weights_bytes(kRows, kColumns, info->granularity, info->format, &bytes) == TERN_OK &&
        bytes == info->bytes);
  CHECK(tern_packed_weights_bytes_on(context, kRows, kColumns, info->granularity, info->format, &bytes) == TERN_OK &&
        bytes == info->bytes);
  CHECK(tern_context_stream(context, &stream) == TERN_OK);
  tokens(context, stream, &args);
  matrix.n = kRows;
  matrix.granularity = info->granularity;
  problem.m_max = problem.k = kColumns;
  problem.matrices = &matrix;
  problem.matrix_count = 1;
  output.weights = packed;
  output.y = view_of(y, TERN_DTYPE_F32, kColumns, kRows);
  args.outputs = &output;
  args.output_count = 1;
  preference.tuning = &tuning;  // all fields at their defaults
  CHECK(tern_linear_select(context, &problem, &preference, &plan) == TERN_OK);
  CHECK(tern_linear_plan_get_info(plan, &chosen) == TERN_OK && chosen->tuning != NULL && chosen->tuning->streams >= 1 &&
        chosen->tuning->ahead_bytes >= 0);
  CHECK(tern_linear_plan_workspace_bytes(plan, &bytes) == TERN_OK);
  void* workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  CHECK(tern_linear_plan_run(plan, stream, workspace, bytes, &args) == TERN_OK);
  CHECK(tern_dequantize(context, quantized, TERN_DTYPE_F32, &restored) == TERN_OK);
  CHECK(tern_tensor_get_view(restored, &w) == TERN_OK);
  for (int i = 0; i < kRows * kColumns; ++i) CHECK(y[i % kColumns * kRows + i / kColumns] == ((const float*)w.data)[i]);
  // One token alone gives 127 times a column of trits.
  CHECK(tern_w2a8_gemv(context, packed, &token, &column, kRows, kColumns, 0) == TERN_OK);
  for (int i = 0; i < kRows; ++i) CHECK((sums[i] > 0) - (sums[i] < 0) == (y[i] > 0) - (y[i] < 0) && sums[i] % 127 == 0);
  tern_tensor_destroy(restored);
  free(workspace);
  tern_linear_plan_destroy(plan);
  tern_packed_weights_destroy(packed);
}

// Copies the weights to a tensor of the context and back on a stream, ordered and timed by events.
static void streams(const tern_context* context) {
  static float back[kRows * kColumns];
  const tern_tensor_view from = view_of(weights, TERN_DTYPE_F32, kRows, kColumns);
  const tern_tensor_view to = view_of(back, TERN_DTYPE_F32, kRows, kColumns);
  tern_tensor_view middle = TERN_TENSOR_VIEW_INIT;
  tern_tensor *tensor = NULL, *copy = NULL;
  tern_event *begin = NULL, *end = NULL;
  tern_stream* wrapped = NULL;
  const tern_stream* stream = NULL;
  tern_memory_info memory = TERN_MEMORY_INFO_INIT;
  void* cuda_stream = NULL;
  double milliseconds = -1;
  char text[64];
  size_t count = 0;
  CHECK(tern_context_stream_count(context, &count) == TERN_OK && count >= 1);
  CHECK(tern_context_stream_at(context, count - 1, &stream) == TERN_OK);
  CHECK(tern_stream_cuda_stream(stream, &cuda_stream) == TERN_OK);
  CHECK(tern_event_create(context, &begin) == TERN_OK && tern_event_create(context, &end) == TERN_OK);
  CHECK(tern_event_record(begin, stream) == TERN_OK);
  CHECK(tern_tensor_allocate(context, from.dtype, from.rank, from.shape, &tensor) == TERN_OK);
  CHECK(tern_tensor_get_view(tensor, &middle) == TERN_OK);
  CHECK(tern_copy(context, &middle, &from, stream) == TERN_OK);
  CHECK(tern_stream_synchronize(stream) == TERN_OK);
  CHECK(tern_tensor_to(tensor, context, &copy) == TERN_OK && tern_tensor_get_view(copy, &middle) == TERN_OK);
  CHECK(tern_copy(context, &to, &middle, stream) == TERN_OK);
  CHECK(tern_event_record(end, stream) == TERN_OK && tern_stream_wait(stream, end) == TERN_OK);
  CHECK(tern_event_synchronize(end) == TERN_OK);
  CHECK(tern_event_milliseconds(end, begin, &milliseconds) == TERN_OK && milliseconds >= 0);
  CHECK(tern_stream_status(stream) == TERN_OK && tern_context_synchronize(context) == TERN_OK);
  CHECK(memcmp(back, weights, sizeof(weights)) == 0);
  CHECK(tern_context_wrap_stream(context, cuda_stream, &wrapped) == (cuda_stream ? TERN_OK : TERN_INVALID_ARGUMENT));
  CHECK(tern_stream_release(wrapped) == TERN_OK);
  CHECK(tern_context_memory_info(context, &memory) == TERN_OK && memory.free_bytes <= memory.total_bytes);
  uint64_t needed = 0, available = 0;
  CHECK(tern_context_ensure_ready(context, (size_t)1 << 60) == TERN_INSUFFICIENT_MEMORY);
  CHECK(tern_last_error_memory(&needed, &available) == 1 && needed > available && available > 0);
  CHECK(tern_last_error_value(NULL, NULL, NULL) == 0 && tern_last_error_cuda(NULL, NULL) == 0);
  CHECK(tern_context_profile(context, text, sizeof(text), &count) == TERN_OK && strcmp(text, "[]") == 0);
  tern_event_destroy(end);
  tern_event_destroy(begin);
  tern_tensor_destroy(copy);
  tern_tensor_destroy(tensor);
}

// Convolves an image whose pixels are unit vectors with filters of one pixel: y is the filters.
static void convolution(const tern_context* context, const tern_quantized* quantized) {
  static float image[kColumns * kColumns], result[kColumns * kRows];
  tern_filter_shape shape = TERN_FILTER_SHAPE_INIT;
  tern_conv2d_problem problem = TERN_CONV2D_PROBLEM_INIT;
  tern_conv2d_args args = TERN_CONV2D_ARGS_INIT;
  tern_conv2d_plan* plan = NULL;
  tern_packed_filters* filters = NULL;
  const tern_packed_filters_info* info = NULL;
  const tern_stream* stream = NULL;
  tern_tensor* restored = NULL;
  tern_tensor_view w = TERN_TENSOR_VIEW_INIT;
  int64_t height = 0, width = 0;
  size_t bytes = 0;
  shape.out_channels = kRows;
  shape.in_channels = kColumns;
  CHECK(tern_packed_filters_create_from_quantized(context, quantized, &shape, &filters) == TERN_OK);
  CHECK(tern_packed_filters_get_info(filters, &info) == TERN_OK && info->out_channels == kRows);
  CHECK(tern_packed_filters_bytes(&shape, info->granularity, info->format, &bytes) == TERN_OK && bytes == info->bytes);
  CHECK(tern_context_stream(context, &stream) == TERN_OK);
  problem.height = 1;
  problem.width = problem.in_channels = kColumns;
  problem.out_channels = kRows;
  problem.granularity = info->granularity;
  problem.x_order = problem.y_order = TERN_IMAGE_ORDER_NHWC;
  CHECK(strcmp(tern_image_order_name(problem.x_order), "nhwc") == 0);
  CHECK(tern_conv2d_output_size(&problem, &height, &width) == TERN_OK && height == 1 && width == kColumns);
  for (int i = 0; i < kColumns; ++i) image[i * kColumns + i] = 1;
  args.x = view_of(image, TERN_DTYPE_F32, 1, 1);
  args.x.rank = 4;
  args.x.shape[2] = args.x.shape[3] = kColumns;
  args.filters = filters;
  args.y = view_of(result, TERN_DTYPE_F32, 1, 1);
  args.y.rank = 4;
  args.y.shape[2] = kColumns;
  args.y.shape[3] = kRows;
  CHECK(tern_conv2d_select(context, &problem, NULL, &plan) == TERN_OK);
  CHECK(tern_conv2d_plan_workspace_bytes(plan, &bytes) == TERN_OK);
  void* workspace = aligned_alloc(64, (bytes / 64 + 1) * 64);
  CHECK(tern_conv2d_plan_run(plan, stream, workspace, bytes, &args) == TERN_OK);
  CHECK(tern_dequantize(context, quantized, TERN_DTYPE_F32, &restored) == TERN_OK);
  CHECK(tern_tensor_get_view(restored, &w) == TERN_OK);
  for (int i = 0; i < kRows * kColumns; ++i)
    CHECK(result[i % kColumns * kRows + i / kColumns] == ((const float*)w.data)[i]);
  tern_tensor_destroy(restored);
  free(workspace);
  tern_conv2d_plan_destroy(plan);
  tern_packed_filters_destroy(filters);
}

static void files(const tern_context* context, const tern_quantized* quantized, const char* folder) {
  char path[4096];
  tern_quantized* loaded = NULL;
  uint64_t before = 0, after = 1;
  snprintf(path, sizeof(path), "%s/c_header.npz", folder);
  CHECK(tern_save_quantized(path, quantized, NULL, NULL) == TERN_OK);
  CHECK(tern_load_quantized(context, path, &loaded) == TERN_OK);
  CHECK(tern_quantized_checksum(quantized, &before) == TERN_OK);
  CHECK(tern_quantized_checksum(loaded, &after) == TERN_OK && after == before);
  tern_quantized_destroy(loaded);
  remove(path);

  tern_tensor_view x = view_of(weights, TERN_DTYPE_F32, kRows, kColumns);
  tern_tensor_view mapped = TERN_TENSOR_VIEW_INIT;
  tern_npy* npy = NULL;
  snprintf(path, sizeof(path), "%s/c_header.npy", folder);
  CHECK(tern_save_npy(path, &x, NULL, NULL) == TERN_OK);
  CHECK(tern_npy_open(path, &npy) == TERN_OK);
  CHECK(tern_npy_get_view(npy, &mapped) == TERN_OK && memcmp(mapped.data, weights, sizeof(weights)) == 0);
  tern_npy_close(npy);
  remove(path);
}

static void checkpoints(const tern_context* context, const char* folder) {
  const int64_t shape[] = {kRows, kColumns};
  char path[4096], text[32];
  size_t length = 0;
  tern_metadata* metadata = NULL;
  tern_stored_tensor tensor = TERN_STORED_TENSOR_INIT;
  tern_checkpoint_writer* writer = NULL;
  tern_model* model = NULL;
  const tern_checkpoint* checkpoint = NULL;
  const tern_metadata* read = NULL;
  tern_model_plan* plan = NULL;
  tern_write_options options = TERN_WRITE_OPTIONS_INIT;
  tern_model_report* report = NULL;
  tern_model_difference* difference = NULL;
  int32_t equal = 0;
  snprintf(path, sizeof(path), "%s/c_header.safetensors", folder);
  tensor.name = "w";
  tensor.shape = shape;
  tensor.rank = 2;
  CHECK(tern_metadata_create(&metadata) == TERN_OK && tern_metadata_set_text(metadata, "k", "v", 1) == TERN_OK);
  CHECK(tern_checkpoint_writer_create(path, TERN_CONTAINER_SAFETENSORS, metadata, &tensor, 1, &writer) == TERN_OK);
  CHECK(tern_checkpoint_writer_write(writer, weights, sizeof(weights)) == TERN_OK);
  CHECK(tern_checkpoint_writer_finish(writer) == TERN_OK);
  tern_checkpoint_writer_destroy(writer);
  tern_metadata_destroy(metadata);
  CHECK(tern_model_open(path, NULL, &model) == TERN_OK);
  CHECK(tern_model_checkpoint(model, &checkpoint) == TERN_OK);
  CHECK(tern_checkpoint_metadata(checkpoint, &read) == TERN_OK);
  CHECK(tern_metadata_get_json(read, "k", 9, text, sizeof(text), &length) == TERN_OK && strcmp(text, "\"v\"") == 0);
  options.quantize = 0;
  snprintf(path, sizeof(path), "%s/c_header_copy.safetensors", folder);
  CHECK(tern_model_plan_create(model, path, &options, &plan) == TERN_OK);
  CHECK(tern_write_model(context, model, plan, path, NULL, NULL, &report) == TERN_OK);
  CHECK(tern_compare_models(context, model, model, NULL, NULL, &difference) == TERN_OK);
  CHECK(tern_model_difference_equal(difference, &equal) == TERN_OK && equal == 1);
  tern_model_difference_destroy(difference);
  tern_model_report_destroy(report);
  tern_model_plan_destroy(plan);
  tern_model_close(model);
  remove(path);
  snprintf(path, sizeof(path), "%s/c_header.safetensors", folder);
  remove(path);
}

int main(int argc, char** argv) {
  tern_context* context = NULL;
  tern_quantized* quantized = NULL;
  for (int i = 0; i < kRows * kColumns; ++i) weights[i] = (float)(i * 37 % 201 - 100) / 64;
  words();
  CHECK(tern_context_open(NULL, &context) == TERN_OK);
  machine(context);
  streams(context);
  there_and_back(context, &quantized);
  if (failures == 0) product(context, quantized);
  if (failures == 0) convolution(context, quantized);
  layouts();
  layouts_with_scales();
  precisions(context, quantized);
  files(context, quantized, argc > 1 ? argv[1] : ".");
  checkpoints(context, argc > 1 ? argv[1] : ".");
  tern_quantized_destroy(quantized);
  tern_context_close(context);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
