// Tests of the C ABI's streams, events, copies, memory and profile on a CPU, and of asking for a GPU that is not there.
#include "api/c_gpu_test.h"

#include <cstdlib>
#include <numeric>

namespace tern::c_test {
namespace {

TEST(CStreams, ACpuHasOne) {
  const ContextHandle context = open_context();
  std::size_t count = 0;
  EXPECT_EQ(tern_context_stream_count(context.get(), &count), TERN_OK);
  EXPECT_EQ(count, 1U);
  const tern_stream* stream = stream_at(context.get(), 0);
  EXPECT_EQ(stream, stream_at(context.get(), 0));
  const tern_stream* fallback = nullptr;
  EXPECT_EQ(tern_context_stream(context.get(), &fallback), TERN_OK);
  EXPECT_EQ(fallback, stream);
  const tern_stream* none = stream;
  EXPECT_FAILS(tern_context_stream_at(context.get(), 1, &none), TERN_INVALID_ARGUMENT, "index is 1");
  EXPECT_EQ(none, nullptr);
  int x = 0;
  void* cuda_stream = &x;
  EXPECT_EQ(tern_stream_cuda_stream(stream, &cuda_stream), TERN_OK);
  EXPECT_EQ(cuda_stream, nullptr);
  EXPECT_EQ(tern_stream_synchronize(stream), TERN_OK);
  EXPECT_EQ(tern_stream_status(stream), TERN_OK);
  EXPECT_EQ(tern_context_synchronize(context.get()), TERN_OK);
}

TEST(CStreams, ACpuWrapsNoneAndItsOwnIsNotReleased) {
  const ContextHandle context = open_context();
  int x = 0;
  tern_stream* wrapped = nullptr;
  EXPECT_FAILS(tern_context_wrap_stream(context.get(), &x, &wrapped), TERN_INVALID_ARGUMENT, "no CUDA streams");
  EXPECT_EQ(wrapped, nullptr);
  auto* own = const_cast<tern_stream*>(stream_at(context.get(), 0));
  EXPECT_FAILS(tern_stream_release(own), TERN_INVALID_ARGUMENT, "the context's own");
  EXPECT_EQ(tern_stream_status(own), TERN_OK);  // it is still there
  EXPECT_EQ(tern_stream_release(nullptr), TERN_OK);
}

TEST(CEvents, OfACpuAreTimes) {
  const ContextHandle context = open_context();
  const tern_stream* stream = stream_at(context.get(), 0);
  const EventHandle a = make_event(context.get()), b = make_event(context.get());
  double milliseconds = -1;
  EXPECT_FAILS(tern_event_synchronize(a.get()), TERN_INVALID_ARGUMENT, "not recorded");
  EXPECT_FAILS(tern_stream_wait(stream, a.get()), TERN_INVALID_ARGUMENT, "not recorded");
  EXPECT_EQ(tern_event_record(a.get(), stream), TERN_OK);
  EXPECT_FAILS(tern_event_milliseconds(b.get(), a.get(), &milliseconds), TERN_INVALID_ARGUMENT, "recorded");
  EXPECT_EQ(milliseconds, -1);
  EXPECT_EQ(tern_event_record(b.get(), stream), TERN_OK);
  EXPECT_EQ(tern_event_synchronize(b.get()), TERN_OK);
  EXPECT_EQ(tern_stream_wait(stream, a.get()), TERN_OK);
  EXPECT_EQ(tern_event_milliseconds(b.get(), a.get(), &milliseconds), TERN_OK);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(tern_event_milliseconds(a.get(), b.get(), &milliseconds), TERN_OK);
  EXPECT_LE(milliseconds, 0);
}

TEST(CCopy, TakesStridedRowsAndLeavesTheGaps) {
  const ContextHandle context = open_context();
  const tern_stream* stream = stream_at(context.get(), 0);
  std::vector<std::int32_t> from(12), to(15, -1);
  std::iota(from.begin(), from.end(), 0);
  tern_tensor_view source = view_of(from.data(), TERN_DTYPE_I32, {3, 3});
  source.strides[0] = 4;
  source.strides[1] = 1;
  tern_tensor_view target = view_of(to.data(), TERN_DTYPE_I32, {3, 3});
  target.strides[0] = 5;
  target.strides[1] = 1;
  ASSERT_EQ(tern_copy(context.get(), &target, &source, stream), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(to, (std::vector<std::int32_t>{0, 1, 2, -1, -1, 4, 5, 6, -1, -1, 8, 9, 10, -1, -1}));
  const tern_tensor_view dense = view_of(to.data(), TERN_DTYPE_I32, {3, 3});
  ASSERT_EQ(tern_copy(context.get(), &dense, &source, stream), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(to, (std::vector<std::int32_t>{0, 1, 2, 4, 5, 6, 8, 9, 10, -1, 8, 9, 10, -1, -1}));
}

TEST(CCopy, NothingNeedsNoData) {
  const ContextHandle context = open_context();
  const tern_tensor_view nothing = view_of<void>(nullptr, TERN_DTYPE_F32, {3, 0});
  const tern_tensor_view something = view_of<void>(nullptr, TERN_DTYPE_F32, {3, 1});
  const tern_stream* stream = stream_at(context.get(), 0);
  EXPECT_EQ(tern_copy(context.get(), &nothing, &nothing, stream), TERN_OK) << tern_last_error()->text;
  EXPECT_FAILS(tern_copy(context.get(), &something, &something, stream), TERN_INVALID_ARGUMENT, "to is null");
}

TEST(CCopy, RefusesWhatDoesNotFit) {
  const ContextHandle context = open_context(), other = open_context();
  const tern_stream* stream = stream_at(context.get(), 0);
  float data[8] = {};
  const tern_tensor_view x = view_of(data, TERN_DTYPE_F32, {8});
  tern_tensor_view y = view_of(data, TERN_DTYPE_F32, {7});
  EXPECT_FAILS(tern_copy(context.get(), &y, &x, stream), TERN_INVALID_ARGUMENT, "to is f32 [7], from is f32 [8]");
  y = view_of(data, TERN_DTYPE_I32, {8});
  EXPECT_FAILS(tern_copy(context.get(), &y, &x, stream), TERN_INVALID_ARGUMENT, "to is i32 [8]");
  y = view_of(data, static_cast<tern_dtype>(9), {8});
  EXPECT_FAILS(tern_copy(context.get(), &y, &x, stream), TERN_INVALID_ARGUMENT, "to.dtype is 9");
  y = x;
  y.device = {TERN_DEVICE_CUDA, 0};
  EXPECT_FAILS(tern_copy(context.get(), &x, &y, stream), TERN_INVALID_ARGUMENT, "lies on cuda:0");
  y.device = {static_cast<tern_device_kind>(5), 0};
  EXPECT_FAILS(tern_copy(context.get(), &x, &y, stream), TERN_INVALID_ARGUMENT, "from.device.kind is 5");
  EXPECT_FAILS(tern_copy(other.get(), &x, &x, stream), TERN_INVALID_ARGUMENT, "not one of this context");
}

TEST(CCopy, ATensorGoesToAContext) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.count_memory = 1;
  const ContextHandle from = open_context(), to = open_context(&config);
  const TensorHandle x = allocate(from.get(), TERN_DTYPE_I8, {2, 3});
  std::memcpy(elements_of(x).data, "tern!", 6);
  tern_tensor* made = nullptr;
  ASSERT_EQ(tern_tensor_to(x.get(), to.get(), &made), TERN_OK) << tern_last_error()->text;
  const TensorHandle y(made);
  EXPECT_NE(elements_of(y).data, elements_of(x).data);
  EXPECT_EQ(elements_of(y).dtype, TERN_DTYPE_I8);
  EXPECT_EQ(elements_of(y).rank, 2);
  EXPECT_EQ(elements_of(y).shape[1], 3);
  EXPECT_STREQ(static_cast<const char*>(elements_of(y).data), "tern!");
  tern_memory_statistics statistics = TERN_MEMORY_STATISTICS_INIT;
  EXPECT_EQ(tern_context_memory_statistics(to.get(), &statistics), TERN_OK);
  EXPECT_EQ(statistics.bytes_in_use, 6U);
}

TEST(CCopy, PartsOfAGpuAreNotForACpu) {
  const ContextHandle context = open_context();
  float data[4] = {};
  tern_quantized_parts parts = TERN_QUANTIZED_PARTS_INIT;
  parts.codes = view_of(data, TERN_DTYPE_U8, {1, 2});
  parts.codes.device = {TERN_DEVICE_CUDA, 0};
  parts.scales = view_of(data, TERN_DTYPE_F32, {1});
  parts.rank = 1;
  parts.shape[0] = 8;
  tern_quantized* quantized = nullptr;
  EXPECT_FAILS(tern_quantized_from_parts(context.get(), &parts, &quantized), TERN_INVALID_ARGUMENT, "lies on cuda:0");
  EXPECT_EQ(quantized, nullptr);
}

TEST(CMemory, OfACpuIsTheMachines) {
  const ContextHandle context = open_context();
  const tern_device_info* device = nullptr;
  ASSERT_EQ(tern_context_device(context.get(), &device), TERN_OK);
  tern_memory_info info = TERN_MEMORY_INFO_INIT;
  info.in_use_bytes = 7;
  EXPECT_EQ(tern_context_memory_info(context.get(), &info), TERN_OK);
  EXPECT_EQ(info.struct_size, sizeof(tern_memory_info));
  EXPECT_EQ(info.total_bytes, device->memory_total_bytes);
  EXPECT_GT(info.free_bytes, 0U);
  EXPECT_EQ(info.in_use_bytes, 0U);
  info.struct_size -= sizeof(std::size_t);
  EXPECT_FAILS(tern_context_memory_info(context.get(), &info), TERN_INVALID_ARGUMENT, "out->struct_size is 48");
  EXPECT_EQ(tern_context_ensure_ready(context.get(), 1000), TERN_OK);
  EXPECT_FAILS(tern_context_ensure_ready(context.get(), std::size_t{1} << 60), TERN_INSUFFICIENT_MEMORY,
               "1152921504606846976 bytes and a fifth");
}

TEST(CProfile, TellsARunOnceAndOnlyWhole) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.profiling = 1;
  const ContextHandle context = open_context(&config);
  EXPECT_TRUE(profile_of(context.get()).empty());
  const auto weights = make_weights(64);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {64});
  const QuantizedHandle quantized = quantize(context.get(), x);
  // The profile survives a call that only asks for its length, one whose buffer is a byte too short, and a refused one.
  std::size_t length = 0;
  EXPECT_EQ(tern_context_profile(context.get(), nullptr, 0, &length), TERN_OK);
  std::string cut(length, 'x');
  EXPECT_EQ(tern_context_profile(context.get(), cut.data(), length, &length), TERN_OK);
  EXPECT_EQ(cut.back(), '\0');
  EXPECT_EQ(cut[length - 2], '}');
  EXPECT_FAILS(tern_context_profile(context.get(), nullptr, 8, &length), TERN_INVALID_ARGUMENT, "buffer is NULL");
  quantize(context.get(), x);
  const auto times = profile_of(context.get());
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].size(), 3U);
  EXPECT_EQ(times[0].at("kernel"), info_of(quantized).kernel);
  EXPECT_EQ(times[0].at("runs"), 2);
  EXPECT_GT(times[0].at("milliseconds"), 0.0);
  EXPECT_TRUE(profile_of(context.get()).empty());
}

TEST(CProfile, IsEmptyUnlessAskedFor) {
  const ContextHandle context = open_context();
  const auto weights = make_weights(64);
  quantize(context.get(), view_of(weights.data(), TERN_DTYPE_F32, {64}));
  EXPECT_TRUE(profile_of(context.get()).empty());
}

TEST(CGpuNull, HandlesAndOutPointersAreRefusedByName) {
  const ContextHandle context = open_context();
  const tern_context* c = context.get();
  const tern_stream *stream = stream_at(c, 0), *none = stream;
  const EventHandle event = make_event(c);
  const TensorHandle tensor = allocate(c, TERN_DTYPE_F32, {1});
  const tern_tensor_view view = elements_of(tensor);
  std::size_t size = 0;
  double milliseconds = 0;
  void* cuda_stream = nullptr;
  tern_stream* wrapped = nullptr;
  tern_event* made = nullptr;
  tern_tensor* copy = nullptr;
  tern_memory_info info = TERN_MEMORY_INFO_INIT;
  char text[8];
  tern_event_destroy(nullptr);

#define EXPECT_NULL(call, parameter) EXPECT_FAILS(call, TERN_INVALID_ARGUMENT, parameter " is NULL")
  EXPECT_NULL(tern_context_stream_count(nullptr, &size), "context");
  EXPECT_NULL(tern_context_stream_count(c, nullptr), "out");
  EXPECT_NULL(tern_context_stream_at(nullptr, 0, &none), "context");
  EXPECT_EQ(none, nullptr);
  EXPECT_NULL(tern_context_stream_at(c, 0, nullptr), "out");
  EXPECT_NULL(tern_context_wrap_stream(nullptr, nullptr, &wrapped), "context");
  EXPECT_NULL(tern_context_wrap_stream(c, nullptr, nullptr), "out");
  EXPECT_NULL(tern_stream_synchronize(nullptr), "stream");
  EXPECT_NULL(tern_stream_status(nullptr), "stream");
  EXPECT_NULL(tern_stream_cuda_stream(nullptr, &cuda_stream), "stream");
  EXPECT_NULL(tern_stream_cuda_stream(stream, nullptr), "out");
  EXPECT_NULL(tern_context_synchronize(nullptr), "context");
  EXPECT_NULL(tern_event_create(nullptr, &made), "context");
  EXPECT_NULL(tern_event_create(c, nullptr), "out");
  EXPECT_NULL(tern_event_record(nullptr, stream), "event");
  EXPECT_NULL(tern_event_record(event.get(), nullptr), "stream");
  EXPECT_NULL(tern_event_synchronize(nullptr), "event");
  EXPECT_NULL(tern_event_milliseconds(nullptr, event.get(), &milliseconds), "event");
  EXPECT_NULL(tern_event_milliseconds(event.get(), nullptr, &milliseconds), "earlier");
  EXPECT_NULL(tern_event_milliseconds(event.get(), event.get(), nullptr), "out");
  EXPECT_NULL(tern_stream_wait(nullptr, event.get()), "stream");
  EXPECT_NULL(tern_stream_wait(stream, nullptr), "event");
  EXPECT_NULL(tern_copy(nullptr, &view, &view, stream), "context");
  EXPECT_NULL(tern_copy(c, nullptr, &view, stream), "to");
  EXPECT_NULL(tern_copy(c, &view, nullptr, stream), "from");
  EXPECT_NULL(tern_copy(c, &view, &view, nullptr), "stream");
  EXPECT_NULL(tern_tensor_to(nullptr, c, &copy), "tensor");
  EXPECT_NULL(tern_tensor_to(tensor.get(), nullptr, &copy), "context");
  EXPECT_NULL(tern_tensor_to(tensor.get(), c, nullptr), "out");
  EXPECT_NULL(tern_context_memory_info(nullptr, &info), "context");
  EXPECT_NULL(tern_context_memory_info(c, nullptr), "out");
  EXPECT_NULL(tern_context_ensure_ready(nullptr, 1), "context");
  EXPECT_NULL(tern_context_profile(nullptr, text, sizeof(text), &size), "context");
  EXPECT_NULL(tern_context_profile(c, text, sizeof(text), nullptr), "length");
#undef EXPECT_NULL
}

TEST(CGpu, AnAbsentOneIsRefusedWithAReason) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  for (config.count_memory = 0; config.count_memory < 2; ++config.count_memory) {
    tern_context* context = nullptr;
    EXPECT_FAILS(tern_context_open_device({TERN_DEVICE_CUDA, 99}, &config, &context), TERN_GPU_NOT_AVAILABLE, "");
    EXPECT_STRNE(tern_last_error()->message, "");
    EXPECT_EQ(context, nullptr);
  }
}

TEST(CGpu, IsAlsoTheOneThatTheEnvironmentNames) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.allocate = [](void*, std::size_t, std::size_t, const char*) -> void* { return nullptr; };
  config.deallocate = [](void*, void*, std::size_t) {};
  tern_context* context = nullptr;
  ASSERT_EQ(setenv("TERN_DEVICE", "cuda:99", 1), 0);
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_INVALID_ARGUMENT, "the context is on cuda:99");
  config = TERN_CONTEXT_CONFIG_INIT;
  config.count_memory = 1;
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_GPU_NOT_AVAILABLE, "");
  EXPECT_EQ(tern_context_open_device({TERN_DEVICE_CPU, 0}, &config, &context), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(unsetenv("TERN_DEVICE"), 0);
  tern_context_close(context);
}

}  // namespace
}  // namespace tern::c_test
