// The C ABI on a GPU: a CPU's bits, findings reported by their stream, no memory leaked. Skipped without a GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "api/c_gpu_test.h"
#include "tests/support/no_gpu.h"

namespace tern::c_test {
namespace {

// Every test has a context of its own, whose memory is counted and whose kernels are timed.
class COnAGpu : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 96, kColumns = 1280, kCodeBytes = kColumns / 4;

  void SetUp() override {
    tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
    config.count_memory = config.profiling = 1;
    config.streams = 3;
    tern_context* context = nullptr;
    const tern_status status = tern_context_open_device({TERN_DEVICE_CUDA, 0}, &config, &context);
    if (status == TERN_GPU_NOT_AVAILABLE && test::says_no_gpu(tern_last_error()->message))
      GTEST_SKIP() << "no CUDA device: " << tern_last_error()->message;
    ASSERT_EQ(status, TERN_OK) << tern_last_error()->text;
    gpu_.reset(context);
  }
  [[nodiscard]] const tern_context* gpu() const { return gpu_.get(); }
  [[nodiscard]] std::size_t bytes_in_use() const {
    tern_memory_statistics statistics = TERN_MEMORY_STATISTICS_INIT;
    EXPECT_EQ(tern_context_memory_statistics(gpu(), &statistics), TERN_OK) << tern_last_error()->text;
    return statistics.bytes_in_use;
  }

  ContextHandle gpu_, cpu_ = open_context();
};

// A quantization by row, whose tensors and workspace are on the GPU.
struct Quantization {
  TensorHandle x, codes, scales, workspace;
  QuantizePlan plan;
  tern_ternary_quantize_args args = TERN_TERNARY_QUANTIZE_ARGS_INIT;
  std::size_t workspace_bytes = 0;

  Quantization(const tern_context* context, std::int64_t rows, std::int64_t columns)
      : x(allocate(context, TERN_DTYPE_F32, {rows, columns})),
        codes(allocate(context, TERN_DTYPE_U8, {rows, columns / 4})),
        scales(allocate(context, TERN_DTYPE_F32, {rows, 1})) {
    tern_ternary_quantize_problem problem = TERN_TERNARY_QUANTIZE_PROBLEM_INIT;
    problem.rows = rows;
    problem.k = columns;
    problem.granularity.kind = TERN_GRANULARITY_ROW;
    tern_ternary_quantize_plan* made = nullptr;
    EXPECT_EQ(tern_ternary_quantize_select(context, &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
    plan.reset(made);
    EXPECT_EQ(tern_ternary_quantize_plan_workspace_bytes(plan.get(), &workspace_bytes), TERN_OK);
    workspace = allocate(context, TERN_DTYPE_U8, {static_cast<std::int64_t>(workspace_bytes)});
    args.x = elements_of(x);
    args.codes = elements_of(codes);
    args.scales = elements_of(scales);
  }
  tern_status run(const tern_stream* stream) const {
    return tern_ternary_quantize_plan_run(plan.get(), stream, elements_of(workspace).data, workspace_bytes, &args);
  }
};

TEST_F(COnAGpu, QuantizesOnASecondStreamAsACpuDoes) {
  const auto weights = make_weights(kRows * kColumns);
  const auto host = view_of(weights.data(), TERN_DTYPE_F32, {kRows, kColumns});
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.granularity.kind = TERN_GRANULARITY_ROW;
  const QuantizedHandle want = quantize(cpu_.get(), host, &options);
  std::vector<std::uint8_t> codes(kRows * kCodeBytes);
  std::vector<float> scales(kRows);
  {
    const Quantization q(gpu(), kRows, kColumns);
    EXPECT_GE(bytes_in_use(), kRows * (kColumns * 4 + kCodeBytes + 4) + q.workspace_bytes);
    const tern_stream *first = stream_at(gpu(), 0), *second = stream_at(gpu(), 1);
    const EventHandle begin = make_event(gpu()), copied = make_event(gpu()), end = make_event(gpu());
    EXPECT_EQ(tern_event_record(begin.get(), first), TERN_OK);
    ASSERT_EQ(tern_copy(gpu(), &q.args.x, &host, first), TERN_OK) << tern_last_error()->text;
    EXPECT_EQ(tern_event_record(copied.get(), first), TERN_OK);
    EXPECT_EQ(tern_stream_wait(second, copied.get()), TERN_OK);
    ASSERT_EQ(q.run(second), TERN_OK) << tern_last_error()->text;
    const auto codes_here = view_of(codes.data(), TERN_DTYPE_U8, {kRows, kCodeBytes});
    const auto scales_here = view_of(scales.data(), TERN_DTYPE_F32, {kRows, 1});
    ASSERT_EQ(tern_copy(gpu(), &codes_here, &q.args.codes, second), TERN_OK) << tern_last_error()->text;
    ASSERT_EQ(tern_copy(gpu(), &scales_here, &q.args.scales, second), TERN_OK) << tern_last_error()->text;
    EXPECT_EQ(tern_event_record(end.get(), second), TERN_OK);
    ASSERT_EQ(tern_stream_synchronize(second), TERN_OK) << tern_last_error()->text;
    double milliseconds = 0;
    EXPECT_EQ(tern_event_milliseconds(end.get(), begin.get(), &milliseconds), TERN_OK) << tern_last_error()->text;
    EXPECT_GT(milliseconds, 0);
    const auto times = profile_of(gpu());
    ASSERT_EQ(times.size(), 1U);
    EXPECT_EQ(times[0].at("runs"), 1);
    EXPECT_GT(times[0].at("milliseconds"), 0.0);
  }
  EXPECT_TRUE(same_bytes(codes.data(), info_of(want).codes.data, codes.size()));
  EXPECT_TRUE(same_bytes(scales.data(), info_of(want).scales.data, scales.size() * sizeof(float)));
  EXPECT_EQ(bytes_in_use(), 0U);
}

TEST_F(COnAGpu, AFindingIsReportedOnceByItsStream) {
  auto weights = make_weights(kRows * kColumns);
  weights[3 * kColumns + 7] = NAN;
  const auto host = view_of(weights.data(), TERN_DTYPE_F32, {kRows, kColumns});
  const Quantization q(gpu(), kRows, kColumns);
  const tern_stream *first = stream_at(gpu(), 0), *second = stream_at(gpu(), 1);
  ASSERT_EQ(tern_copy(gpu(), &q.args.x, &host, second), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(q.run(second), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(tern_stream_status(first), TERN_OK);
  EXPECT_FAILS(tern_stream_status(second), TERN_NON_FINITE, "[3, 7]");
  EXPECT_EQ(tern_last_error()->index, 3 * kColumns + 7);
  EXPECT_EQ(tern_stream_status(second), TERN_OK);
  ASSERT_EQ(q.run(second), TERN_OK) << tern_last_error()->text;
  EXPECT_FAILS(tern_context_synchronize(gpu()), TERN_NON_FINITE, "[3, 7]");
}

TEST_F(COnAGpu, TensorsGoThereAndBackAndAreCounted) {
  const TensorHandle x = allocate(cpu_.get(), TERN_DTYPE_F32, {kRows, kColumns});
  const auto weights = make_weights(kRows * kColumns);
  std::memcpy(elements_of(x).data, weights.data(), weights.size() * sizeof(float));
  tern_tensor *there = nullptr, *back = nullptr;
  ASSERT_EQ(tern_tensor_to(x.get(), gpu(), &there), TERN_OK) << tern_last_error()->text;
  const TensorHandle device(there);
  EXPECT_EQ(elements_of(device).device.kind, TERN_DEVICE_CUDA);
  EXPECT_EQ(bytes_in_use(), weights.size() * sizeof(float));
  tern_memory_info info = TERN_MEMORY_INFO_INIT;
  EXPECT_EQ(tern_context_memory_info(gpu(), &info), TERN_OK) << tern_last_error()->text;
  EXPECT_GE(info.in_use_bytes, weights.size() * sizeof(float));
  EXPECT_GE(info.reserved_bytes, info.in_use_bytes);
  EXPECT_GE(info.in_use_peak_bytes, info.in_use_bytes);
  EXPECT_GT(info.total_bytes, info.free_bytes);
  EXPECT_FAILS(tern_context_ensure_ready(gpu(), std::size_t{1} << 60), TERN_INSUFFICIENT_MEMORY, "cuda:0");
  ASSERT_EQ(tern_tensor_to(device.get(), cpu_.get(), &back), TERN_OK) << tern_last_error()->text;
  const TensorHandle host(back);
  EXPECT_TRUE(same_bytes(elements_of(host).data, weights.data(), weights.size() * sizeof(float)));
}

TEST_F(COnAGpu, WrapsAStreamForEveryHandle) {
  // A stream of another context serves as a stream of the caller's.
  tern_context* made = nullptr;
  ASSERT_EQ(tern_context_open_device({TERN_DEVICE_CUDA, 0}, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const ContextHandle other(made);
  std::size_t count = 0;
  EXPECT_EQ(tern_context_stream_count(other.get(), &count), TERN_OK);
  EXPECT_EQ(count, 4U);
  void *cuda_stream = nullptr, *same = nullptr;
  EXPECT_EQ(tern_stream_cuda_stream(stream_at(other.get(), 0), &cuda_stream), TERN_OK);
  ASSERT_NE(cuda_stream, nullptr);
  tern_stream *a = nullptr, *b = nullptr;
  ASSERT_EQ(tern_context_wrap_stream(gpu(), cuda_stream, &a), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(tern_context_wrap_stream(gpu(), cuda_stream, &b), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(tern_stream_release(a), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(tern_stream_cuda_stream(b, &same), TERN_OK);
  EXPECT_EQ(same, cuda_stream);
  auto weights = make_weights(kRows * kColumns);
  weights[5] = INFINITY;
  const auto host = view_of(weights.data(), TERN_DTYPE_F32, {kRows, kColumns});
  const Quantization q(gpu(), kRows, kColumns);
  ASSERT_EQ(tern_copy(gpu(), &q.args.x, &host, b), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(q.run(b), TERN_OK) << tern_last_error()->text;
  EXPECT_FAILS(tern_stream_release(b), TERN_NON_FINITE, "[0, 5]");
  EXPECT_EQ(tern_stream_status(stream_at(gpu(), 0)), TERN_OK);
}

// linear on a GPU gives a CPU's sums, by tern_w2a8_gemv and by a plan with the caller's tuning.
TEST_F(COnAGpu, OneTokenTimesWeightsIsWhatACpuGives) {
  const auto weights = make_weights(kRows * kColumns);
  const QuantizedHandle q = quantize(cpu_.get(), view_of(weights.data(), TERN_DTYPE_F32, {kRows, kColumns}));
  const tern_granularity granularity = info_of(q).granularity;
  std::size_t bytes = 0;
  ASSERT_EQ(tern_packed_weights_bytes_on(gpu(), kRows, kColumns, granularity, TERN_FORMAT_I2, &bytes), TERN_OK);
  const TensorHandle memory = allocate(gpu(), TERN_DTYPE_U8, {static_cast<std::int64_t>(bytes)});
  tern_packed_weights* made = nullptr;
  ASSERT_EQ(tern_packed_weights_create_from_quantized(gpu(), q.get(), elements_of(memory).data, bytes, &made), TERN_OK)
      << tern_last_error()->text;
  const WeightsHandle there(made), here = pack(cpu_.get(), q);
  std::vector<std::int8_t> a(kColumns);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37);
  std::vector<std::int32_t> want(kRows, -1), got(kRows, -2);
  const auto a_here = view_of(a.data(), TERN_DTYPE_I8, {1, kColumns});
  const auto want_here = view_of(want.data(), TERN_DTYPE_I32, {1, kRows});
  const auto got_here = view_of(got.data(), TERN_DTYPE_I32, {1, kRows});
  ASSERT_EQ(tern_w2a8_gemv(cpu_.get(), here.get(), &a_here, &want_here, kRows, kColumns, 0), TERN_OK);
  const TensorHandle token = allocate(gpu(), TERN_DTYPE_I8, {1, kColumns}),
                     sums = allocate(gpu(), TERN_DTYPE_I32, {1, kRows});
  const tern_tensor_view a_there = elements_of(token), y_there = elements_of(sums);
  const tern_stream* stream = stream_at(gpu(), 1);
  ASSERT_EQ(tern_copy(gpu(), &a_there, &a_here, stream), TERN_OK);
  const auto fetch = [&] {
    EXPECT_EQ(tern_copy(gpu(), &got_here, &y_there, stream), TERN_OK);
    EXPECT_EQ(tern_stream_synchronize(stream), TERN_OK) << tern_last_error()->text;
  };
  ASSERT_EQ(tern_w2a8_gemv(gpu(), there.get(), &a_there, &y_there, kRows, kColumns, 1), TERN_OK)
      << tern_last_error()->text;
  fetch();
  EXPECT_EQ(got, want);

  tern_linear_matrix matrix = TERN_LINEAR_MATRIX_INIT;
  matrix.n = kRows;
  matrix.granularity = granularity;
  matrix.y_dtype = TERN_DTYPE_I32;
  tern_linear_problem problem = TERN_LINEAR_PROBLEM_INIT;
  problem.k = kColumns;
  problem.matrices = &matrix;
  problem.matrix_count = 1;
  tern_tuning tuning = TERN_TUNING_INIT;
  tuning.threads = 128;
  tuning.split = 2;
  tuning.grid = TERN_GRID_FIXED;
  tuning.dependent_launch = 0;
  tern_preference preference = TERN_PREFERENCE_INIT;
  preference.tuning = &tuning;
  tern_linear_plan* chosen = nullptr;
  ASSERT_EQ(tern_linear_select(gpu(), &problem, &preference, &chosen), TERN_OK) << tern_last_error()->text;
  const LinearPlanHandle plan(chosen);
  const tern_plan_info* info = nullptr;
  ASSERT_EQ(tern_linear_plan_get_info(plan.get(), &info), TERN_OK);
  ASSERT_NE(info->tuning, nullptr);
  EXPECT_EQ(info->tuning->threads, 128);
  // Hopper's kernel splits k over all of its warps.
  EXPECT_TRUE(info->tuning->split == 2 || info->tuning->split == 4) << info->tuning->split;
  EXPECT_EQ(info->tuning->grid, TERN_GRID_FIXED);
  EXPECT_EQ(info->tuning->dependent_launch, 0);
  tern_linear_output output = TERN_LINEAR_OUTPUT_INIT;
  output.weights = there.get();
  output.y = y_there;
  tern_linear_args args = TERN_LINEAR_ARGS_INIT;
  args.x = a_there;
  args.outputs = &output;
  args.output_count = 1;
  EXPECT_EQ(tern_linear_plan_workspace_bytes(plan.get(), &bytes), TERN_OK);
  const TensorHandle workspace = allocate(gpu(), TERN_DTYPE_U8, {static_cast<std::int64_t>(bytes)});
  std::ranges::fill(got, -2);
  ASSERT_EQ(tern_copy(gpu(), &y_there, &got_here, stream), TERN_OK);
  ASSERT_EQ(tern_linear_plan_run(plan.get(), stream, elements_of(workspace).data, bytes, &args), TERN_OK)
      << tern_last_error()->text;
  fetch();
  EXPECT_EQ(got, want);
}

TEST_F(COnAGpu, QuantizedTensorsStayWhereTheyAre) {
  const auto weights = make_weights(kRows * kColumns);
  const auto host = view_of(weights.data(), TERN_DTYPE_F32, {kRows, kColumns});
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.granularity.kind = TERN_GRANULARITY_ROW;
  tern_quantized* none = nullptr;
  options.device_bytes = 256 << 10;
  EXPECT_FAILS(tern_quantize(gpu(), &host, &options, &none), TERN_INSUFFICIENT_MEMORY, "give device_bytes ");
  options.device_bytes = 1152 << 10;  // several pieces
  const QuantizedHandle on_host = quantize(gpu(), host, &options);
  EXPECT_EQ(info_of(on_host).codes.device.kind, TERN_DEVICE_CPU);
  std::uint64_t got = 0, want = 1;
  EXPECT_EQ(tern_quantized_checksum(on_host.get(), &got), TERN_OK);
  EXPECT_EQ(tern_quantized_checksum(quantize(cpu_.get(), host, &options).get(), &want), TERN_OK);
  EXPECT_EQ(got, want);

  const std::string path = ::testing::TempDir() + "c_on_gpu_test.npz";
  tern_quantized* loaded = nullptr;
  ASSERT_EQ(tern_save_quantized(path.c_str(), on_host.get(), nullptr, nullptr), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(tern_load_quantized(gpu(), path.c_str(), &loaded), TERN_OK) << tern_last_error()->text;
  const QuantizedHandle from_file(loaded);
  EXPECT_EQ(info_of(from_file).codes.device.kind, TERN_DEVICE_CPU);
  EXPECT_EQ(std::remove(path.c_str()), 0);

  const TensorHandle x = allocate(gpu(), TERN_DTYPE_F32, {kRows, kColumns});
  const tern_tensor_view there = elements_of(x);
  ASSERT_EQ(tern_copy(gpu(), &there, &host, stream_at(gpu(), 0)), TERN_OK);
  const QuantizedHandle on_gpu = quantize(gpu(), there, &options);
  EXPECT_FAILS(tern_quantized_checksum(on_gpu.get(), &got), TERN_INVALID_ARGUMENT, "on cuda:0");

  // A quantized tensor on the host and one on the GPU, each made again from its parts.
  for (const QuantizedHandle* whole : {&on_host, &on_gpu}) {
    tern_quantized_parts parts = TERN_QUANTIZED_PARTS_INIT;
    parts.codes = info_of(*whole).codes;
    parts.scales = info_of(*whole).scales;
    parts.rank = 2;
    parts.shape[0] = kRows;
    parts.shape[1] = kColumns;
    parts.granularity.kind = TERN_GRANULARITY_ROW;
    tern_quantized* made = nullptr;
    ASSERT_EQ(tern_quantized_from_parts(gpu(), &parts, &made), TERN_OK) << tern_last_error()->text;
    const QuantizedHandle copy(made);
    EXPECT_EQ(info_of(copy).codes.device.kind, parts.codes.device.kind);
    tern_tensor *restored = nullptr, *back = nullptr;
    ASSERT_EQ(tern_dequantize(gpu(), copy.get(), TERN_DTYPE_F32, &restored), TERN_OK) << tern_last_error()->text;
    const TensorHandle y(restored);
    ASSERT_EQ(tern_tensor_to(y.get(), cpu_.get(), &back), TERN_OK) << tern_last_error()->text;
    const TensorHandle y_here(back);
    ASSERT_EQ(tern_dequantize(cpu_.get(), on_host.get(), TERN_DTYPE_F32, &restored), TERN_OK);
    const TensorHandle y_cpu(restored);
    EXPECT_TRUE(same_bytes(elements_of(y_here).data, elements_of(y_cpu).data, weights.size() * sizeof(float)));
  }
}

}  // namespace
}  // namespace tern::c_test
