// Tests of the C ABI's words, errors, growing structs, devices and kernels.
#include "api/c_abi.h"

#include <cmath>
#include <stdexcept>
#include <thread>

#include "api/c_test.h"

// A struct in its second version, to see what an older caller gets.
struct Grown {
  std::size_t struct_size;
  std::int64_t old_field;
  std::int64_t new_field;
};
template <>
struct tern::c::Grows<Grown> {
  static constexpr std::size_t first_bytes = offsetof(Grown, old_field) + sizeof(Grown::old_field);
  static Grown defaults() { return {sizeof(Grown), 1, 2}; }
};

namespace tern::c_test {
namespace {

TEST(CStatus, VersionIsTheHeaders) { EXPECT_STREQ(tern_version(), TERN_VERSION); }

TEST(CStatus, NamesAreTheCppNames) {
  for (int i = 0; i <= TERN_INTERNAL; ++i)
    EXPECT_EQ(tern_status_name(static_cast<tern_status>(i)), name(static_cast<Code>(i)));
  for (int i = 0; i <= TERN_DTYPE_I32; ++i) {
    EXPECT_EQ(tern_dtype_name(static_cast<tern_dtype>(i)), name(static_cast<DType>(i)));
    EXPECT_EQ(tern_dtype_bytes(static_cast<tern_dtype>(i)), size_of(static_cast<DType>(i)));
  }
  for (int i = 0; i < kCapabilityCount; ++i)
    EXPECT_EQ(tern_capability_name(static_cast<tern_capability>(i)), name(static_cast<Capability>(i)));
  EXPECT_STREQ(tern_format_name(TERN_FORMAT_DEFAULT), "default");
  EXPECT_STREQ(tern_non_finite_name(TERN_NON_FINITE_SATURATE), "saturate");
  EXPECT_STREQ(tern_activation_name(TERN_ACTIVATION_SQUARED_RELU), "squared_relu");
  EXPECT_STREQ(tern_linear_math_name(TERN_LINEAR_MATH_W2_FLOAT), "w2_float");
}

TEST(CStatus, NumbersThatAreNoWordHaveNoName) {
  EXPECT_STREQ(tern_status_name(static_cast<tern_status>(15)), "unknown");
  EXPECT_STREQ(tern_status_name(static_cast<tern_status>(-1)), "unknown");
  EXPECT_STREQ(tern_scheme_name(static_cast<tern_scheme>(4)), "unknown");
  EXPECT_STREQ(tern_activation_name(static_cast<tern_activation>(3)), "unknown");
  EXPECT_STREQ(tern_linear_math_name(static_cast<tern_linear_math>(2)), "unknown");
  EXPECT_EQ(tern_dtype_bytes(static_cast<tern_dtype>(256)), 0U);  // 256 would be 0, f32, in the C++ enum's one byte
}

TEST(CStatus, ParsesWhatItNames) {
  tern_scheme scheme{};
  tern_format format{};
  tern_dtype dtype{};
  tern_capability capability{};
  tern_non_finite policy{};
  tern_activation activation{};
  tern_linear_math math{};
  tern_granularity granularity{};
  tern_device_id device{};
  EXPECT_EQ(tern_activation_parse("squared_relu", &activation), TERN_OK);
  EXPECT_EQ(activation, TERN_ACTIVATION_SQUARED_RELU);
  EXPECT_EQ(tern_linear_math_parse("w2_float", &math), TERN_OK);
  EXPECT_EQ(math, TERN_LINEAR_MATH_W2_FLOAT);
  EXPECT_EQ(tern_scheme_parse("int2", &scheme), TERN_OK);
  EXPECT_EQ(scheme, TERN_SCHEME_INT2);
  EXPECT_EQ(tern_format_parse("s2", &format), TERN_OK);
  EXPECT_EQ(format, TERN_FORMAT_S2);
  EXPECT_EQ(tern_format_parse("b3", &format), TERN_OK);
  EXPECT_EQ(format, TERN_FORMAT_B3);
  EXPECT_EQ(tern_dtype_parse("bf16", &dtype), TERN_OK);
  EXPECT_EQ(dtype, TERN_DTYPE_BF16);
  EXPECT_EQ(tern_capability_parse("x86_avx2", &capability), TERN_OK);
  EXPECT_EQ(capability, TERN_CAPABILITY_X86_AVX2);
  EXPECT_EQ(tern_non_finite_parse("saturate", &policy), TERN_OK);
  EXPECT_EQ(policy, TERN_NON_FINITE_SATURATE);
  EXPECT_EQ(tern_granularity_parse("group:96", &granularity), TERN_OK);
  EXPECT_EQ(granularity.kind, TERN_GRANULARITY_GROUP);
  EXPECT_EQ(granularity.group_size, 96);
  EXPECT_EQ(tern_device_parse("cuda:3", &device), TERN_OK);
  EXPECT_EQ(device.kind, TERN_DEVICE_CUDA);
  EXPECT_EQ(device.index, 3);
}

TEST(CStatus, RefusesUnknownWords) {
  tern_scheme scheme{};
  tern_granularity granularity{};
  tern_device_id device{};
  EXPECT_FAILS(tern_scheme_parse("best", &scheme), TERN_INVALID_ARGUMENT, "'best' is not one of absmean");
  EXPECT_FAILS(tern_granularity_parse("group:0", &granularity), TERN_INVALID_ARGUMENT, "'0'");
  EXPECT_FAILS(tern_device_parse("tpu", &device), TERN_INVALID_ARGUMENT, "'tpu'");
  EXPECT_FAILS(tern_scheme_parse(nullptr, &scheme), TERN_INVALID_ARGUMENT, "text is NULL");
  EXPECT_FAILS(tern_scheme_parse("mse", nullptr), TERN_INVALID_ARGUMENT, "out is NULL");
  EXPECT_FAILS(tern_granularity_parse(nullptr, &granularity), TERN_INVALID_ARGUMENT, "text is NULL");
  EXPECT_FAILS(tern_device_parse("cpu", nullptr), TERN_INVALID_ARGUMENT, "out is NULL");
}

TEST(CError, IsOfItsThread) {
  tern_scheme scheme{};
  EXPECT_EQ(tern_scheme_parse("here", &scheme), TERN_INVALID_ARGUMENT);
  std::thread([] {
    tern_dtype dtype{};
    EXPECT_EQ(tern_last_error()->status, TERN_OK);
    EXPECT_STREQ(tern_last_error()->text, "");
    EXPECT_EQ(tern_dtype_parse("there", &dtype), TERN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tern_last_error()->text).find("there"), std::string::npos);
  }).join();
  EXPECT_NE(std::string(tern_last_error()->text).find("here"), std::string::npos);
  EXPECT_EQ(std::string(tern_last_error()->text).find("there"), std::string::npos);
}

TEST(CError, HasAllPartsAndOutlivesSuccess) {
  EXPECT_EQ(tern_validate(nullptr), TERN_INVALID_ARGUMENT);
  tern_scheme scheme{};
  EXPECT_EQ(tern_scheme_parse("mse", &scheme), TERN_OK);
  const tern_error* error = tern_last_error();
  EXPECT_EQ(error->struct_size, sizeof(tern_error));
  EXPECT_STREQ(error->message, "quantized is NULL");
  EXPECT_STREQ(error->where, "tern_validate");
  EXPECT_STREQ(error->text, "invalid_argument: quantized is NULL (tern_validate)");
  EXPECT_EQ(error->index, -1);
}

TEST(CError, SaysTheSameInFieldsWhereItHasThem) {
  const ContextHandle context = open_context();
  std::uint64_t needed = 1, free = 2;
  double value = 1, lowest = 2, highest = 3;
  const char* kernel = "untouched";
  std::int32_t code = 4;
  EXPECT_FAILS(tern_context_ensure_ready(context.get(), std::size_t{5} << 58), TERN_INSUFFICIENT_MEMORY, "free");
  EXPECT_EQ(tern_last_error_memory(nullptr, nullptr), 1);
  EXPECT_EQ(tern_last_error_memory(&needed, &free), 1);
  EXPECT_EQ(needed, std::uint64_t{6} << 58);
  EXPECT_GT(free, 2U);
  EXPECT_EQ(tern_last_error_value(&value, &lowest, &highest), 0);
  EXPECT_EQ(tern_last_error_cuda(&kernel, &code), 0);
  EXPECT_EQ(value, 1);
  EXPECT_STREQ(kernel, "untouched");

  const auto weights = make_weights(8);
  const QuantizedHandle quantized = quantize(context.get(), view_of(weights.data(), TERN_DTYPE_F32, {2, 4}));
  auto* codes = static_cast<std::uint8_t*>(info_of(quantized).codes.data);
  codes[1] |= 0b1100;  // row 1, element 1
  EXPECT_FAILS(tern_validate(quantized.get()), TERN_INVALID_QUANTIZED_VALUE, "codes[1, 1] is 2");
  EXPECT_EQ(tern_last_error_memory(&needed, &free), 0);  // not from the error before
  EXPECT_EQ(tern_last_error_value(&value, nullptr, nullptr), 1);
  EXPECT_EQ(tern_last_error_value(&value, &lowest, &highest), 1);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(lowest, -1);
  EXPECT_EQ(highest, 1);

  c::report(with(CudaFailure{.kernel = "k", .code = 700}, error(Code::kernel_launch, "k", "no")));
  EXPECT_EQ(tern_last_error_cuda(&kernel, &code), 1);
  EXPECT_STREQ(kernel, "k");
  EXPECT_EQ(code, 700);
  c::report_literal(TERN_MEMORY_ALLOCATION, "no", "there");
  EXPECT_EQ(tern_last_error_cuda(&kernel, &code), 0);
}

TEST(CGuard, TurnsExceptionsIntoCodes) {
  EXPECT_FAILS(c::guarded("there", [](const char*) -> Status { throw std::bad_alloc(); }), TERN_MEMORY_ALLOCATION,
               "memory");
  EXPECT_STREQ(tern_last_error()->where, "there");
  EXPECT_FAILS(c::guarded("there", [](const char*) -> Status { throw std::runtime_error("x"); }), TERN_INTERNAL,
               "exception");
  EXPECT_FAILS(c::guarded("there", [](const char*) -> Status { throw 1; }), TERN_INTERNAL, "exception");
}

TEST(CStructs, AnOlderCallerGetsDefaultsForWhatItLacks) {
  Grown given{offsetof(Grown, new_field), 7, 999};
  const auto read = c::read_struct("there", "given", &given);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->old_field, 7);
  EXPECT_EQ(read->new_field, 2);
  c::write_struct(Grown{sizeof(Grown), 5, 6}, &given);
  EXPECT_EQ(given.struct_size, offsetof(Grown, new_field));
  EXPECT_EQ(given.old_field, 5);
  EXPECT_EQ(given.new_field, 999);  // beyond struct_size: the library must not write it
}

TEST(CStructs, ANewerCallerIsServedUnlessItUsesWhatIsNew) {
  struct Newer {
    tern_context_config known = TERN_CONTEXT_CONFIG_INIT;
    std::uint64_t unknown = 0;
  } newer;
  newer.known.struct_size = sizeof(Newer);
  newer.known.threads = 3;
  int threads = 0;
  EXPECT_EQ(tern_context_threads(open_context(&newer.known).get(), &threads), TERN_OK);
  EXPECT_EQ(threads, 3);
  newer.unknown = 1;
  tern_context* context = nullptr;
  EXPECT_FAILS(tern_context_open(&newer.known, &context), TERN_INVALID_ARGUMENT, "does not have");
  EXPECT_EQ(context, nullptr);
}

// The structs as they were before GPUs.
TEST(CStructs, ACallerOfTheFirstVersionGetsTheDefaultsOfGpus) {
  static_assert(offsetof(tern_context_config, pool_bytes) == c::Grows<tern_context_config>::first_bytes);
  static_assert(offsetof(tern_quantize_options, device_bytes) == c::Grows<tern_quantize_options>::first_bytes);
  static_assert(c::Grows<tern_context_config>::first_bytes % alignof(tern_context_config) == 0);  // no padding there
  static_assert(c::Grows<tern_quantize_options>::first_bytes % alignof(tern_quantize_options) == 0);
  const ContextConfig cpp;
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  EXPECT_EQ(config.pool_bytes, cpp.pool_bytes);
  EXPECT_EQ(config.streams, cpp.streams);
  EXPECT_EQ(config.profiling, 0);
  EXPECT_EQ(config.preallocate_bytes, cpp.preallocate_bytes);
  config = {.struct_size = offsetof(tern_context_config, pool_bytes),
            .threads = 3,
            .pool_bytes = 7,
            .streams = -7,
            .profiling = 7};
  const auto read = c::read_struct("there", "config", &config);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->threads, 3);
  EXPECT_EQ(read->pool_bytes, cpp.pool_bytes);
  EXPECT_EQ(read->streams, cpp.streams);
  EXPECT_EQ(read->profiling, 0);
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  EXPECT_EQ(options.device_bytes, QuantizeOptions().device_bytes);
  EXPECT_EQ(options.ensure_ready != 0, QuantizeOptions().ensure_ready);
  EXPECT_EQ(options.validate != 0, QuantizeOptions().validate);
  options.struct_size = offsetof(tern_quantize_options, device_bytes);
  options.device_bytes = 7;
  EXPECT_EQ(c::read_struct("there", "options", &options)->device_bytes, QuantizeOptions().device_bytes);
}

TEST(CStructs, WithoutInitAreRefused) {
  tern_context_config config{};
  tern_context* context = nullptr;
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_INVALID_ARGUMENT, "config->struct_size is 0");
}

// Values that change between two queries (clocks, power) are only compared as known or unknown.
void expect_same(const tern_gpu_info& info, const GpuFacts& gpu) {
  EXPECT_EQ(info.struct_size, sizeof(tern_gpu_info));
  EXPECT_EQ(info.compute_major, gpu.compute_major);
  EXPECT_EQ(info.compute_minor, gpu.compute_minor);
  EXPECT_EQ(info.multiprocessors, gpu.multiprocessors);
  EXPECT_EQ(info.l2_bytes, gpu.l2_bytes);
  EXPECT_EQ(info.clock_mhz, gpu.clock_mhz);
  EXPECT_EQ(info.memory_clock_mhz, gpu.memory_clock_mhz);
  EXPECT_EQ(info.driver_version, gpu.driver_version);
  EXPECT_EQ(info.runtime_version, gpu.runtime_version);
  EXPECT_EQ(info.driver, gpu.driver);
  EXPECT_EQ(info.pci_bus_id, gpu.pci_bus_id);
  EXPECT_EQ(info.uuid, gpu.uuid);
  EXPECT_EQ(std::isnan(info.temperature_c), !gpu.temperature_c);
  EXPECT_EQ(std::isnan(info.power_w), !gpu.power_w);
  EXPECT_EQ(std::isnan(info.power_limit_w), !gpu.power_limit_w);
  EXPECT_EQ(info.utilization_percent == -1, !gpu.utilization_percent);
  EXPECT_EQ(info.memory_utilization_percent == -1, !gpu.memory_utilization_percent);
  EXPECT_EQ(info.clock_now_mhz == -1, !gpu.clock_now_mhz);
  EXPECT_EQ(info.memory_clock_now_mhz == -1, !gpu.memory_clock_now_mhz);
  EXPECT_EQ(info.ecc_corrected == -1, !gpu.ecc_corrected);
  EXPECT_EQ(info.ecc_uncorrected == -1, !gpu.ecc_uncorrected);
}

TEST(CDevices, AGpuThatTellsNothingAndOneThatTellsAll) {
  Device device;
  device.unusable = "compute capability 7.0 is below 7.5";
  EXPECT_EQ(c::DeviceFace(device).info.gpu, nullptr);
  EXPECT_STREQ(c::DeviceFace(device).info.unusable, "compute capability 7.0 is below 7.5");
  device.gpu = GpuFacts{.compute_major = 9, .multiprocessors = 132, .l2_bytes = 50 << 20, .uuid = "GPU-1"};
  const c::DeviceFace silent(device);
  ASSERT_EQ(silent.info.gpu, &silent.gpu);
  expect_same(silent.gpu, *device.gpu);
  device.gpu->temperature_c = 40;
  device.gpu->power_w = 71.5;
  device.gpu->power_limit_w = 700;
  device.gpu->utilization_percent = 1;
  device.gpu->memory_utilization_percent = 2;
  device.gpu->clock_now_mhz = 345;
  device.gpu->memory_clock_now_mhz = 2619;
  device.gpu->ecc_corrected = 3;
  device.gpu->ecc_uncorrected = 0;
  const c::DeviceFace all(device);
  expect_same(all.gpu, *device.gpu);
  EXPECT_EQ(all.gpu.temperature_c, 40);
  EXPECT_EQ(all.gpu.power_w, 71.5);
  EXPECT_EQ(all.gpu.power_limit_w, 700);
  EXPECT_EQ(all.gpu.utilization_percent, 1);
  EXPECT_EQ(all.gpu.memory_utilization_percent, 2);
  EXPECT_EQ(all.gpu.clock_now_mhz, 345);
  EXPECT_EQ(all.gpu.memory_clock_now_mhz, 2619);
  EXPECT_EQ(all.gpu.ecc_corrected, 3);
  EXPECT_EQ(all.gpu.ecc_uncorrected, 0);
}

TEST(CDevices, AreTheCppOnes) {
  tern_inventory* inventory = nullptr;
  ASSERT_EQ(tern_inventory_create(&inventory), TERN_OK);
  const auto expected = devices();
  ASSERT_TRUE(expected.ok());
  std::size_t count = 0;
  EXPECT_EQ(tern_inventory_device_count(inventory, &count), TERN_OK);
  ASSERT_EQ(count, expected->devices.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Device& device = expected->devices[i];
    const tern_device_info* info = nullptr;
    ASSERT_EQ(tern_inventory_device(inventory, i, &info), TERN_OK);
    EXPECT_EQ(info->struct_size, sizeof(tern_device_info));
    EXPECT_EQ(info->name, device.name);
    EXPECT_EQ(info->architecture, device.architecture);
    EXPECT_EQ(info->cores, device.cores);
    EXPECT_EQ(info->usable_threads, device.usable_threads);
    EXPECT_EQ(info->memory_total_bytes, device.memory_total_bytes);
    EXPECT_EQ(info->unusable, device.unusable);
    ASSERT_EQ(info->gpu != nullptr, device.gpu.has_value());
    if (device.gpu) expect_same(*info->gpu, *device.gpu);
    for (int c = 0; c < kCapabilityCount; ++c)
      EXPECT_EQ((info->capabilities >> c & 1) != 0, device.capabilities.has(static_cast<Capability>(c)));
    ASSERT_EQ(info->cache_count, device.caches.size());
    for (std::size_t j = 0; j < info->cache_count; ++j) {
      EXPECT_EQ(info->caches[j]->level, device.caches[j].level);
      EXPECT_EQ(info->caches[j]->bytes, device.caches[j].bytes);
      EXPECT_EQ(info->caches[j]->type, device.caches[j].type);
    }
    ASSERT_EQ(info->numa_node_count, device.numa_nodes.size());
    for (std::size_t j = 0; j < info->numa_node_count; ++j) {
      EXPECT_EQ(info->numa_nodes[j]->id, device.numa_nodes[j].id);
      ASSERT_EQ(info->numa_nodes[j]->cpu_count, device.numa_nodes[j].cpus.size());
      for (std::size_t cpu = 0; cpu < info->numa_nodes[j]->cpu_count; ++cpu)
        EXPECT_EQ(info->numa_nodes[j]->cpus[cpu], device.numa_nodes[j].cpus[cpu]);
    }
  }
  std::size_t notes = 0;
  const char* note = nullptr;
  EXPECT_EQ(tern_inventory_note_count(inventory, &notes), TERN_OK);
  EXPECT_EQ(notes, expected->notes.size());
  for (std::size_t i = 0; i < notes; ++i) {
    EXPECT_EQ(tern_inventory_note(inventory, i, &note), TERN_OK);
    EXPECT_EQ(note, expected->notes[i]);
  }
  const tern_device_info* none = nullptr;
  EXPECT_FAILS(tern_inventory_device(inventory, count, &none), TERN_INVALID_ARGUMENT, "index is");
  EXPECT_FAILS(tern_inventory_note(inventory, notes, &note), TERN_INVALID_ARGUMENT, "index is");
  tern_inventory_destroy(inventory);
}

TEST(CKernels, AreTheCppOnes) {
  const ContextHandle context = open_context();
  const auto expected = kernels(*Context::open());
  ASSERT_TRUE(expected.ok());
  tern_kernel_list* list = nullptr;
  ASSERT_EQ(tern_kernel_list_create(context.get(), &list), TERN_OK);
  std::size_t count = 0;
  EXPECT_EQ(tern_kernel_list_count(list, &count), TERN_OK);
  ASSERT_EQ(count, expected->size());
  const auto strings = [](const char* const* first, std::size_t n) {
    return std::vector<std::string>(first, first + n);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const KernelDescription& kernel = (*expected)[i];
    const tern_kernel_info* info = nullptr;
    ASSERT_EQ(tern_kernel_list_get(list, i, &info), TERN_OK);
    EXPECT_EQ(info->name, kernel.name);
    EXPECT_EQ(info->op, kernel.op);
    EXPECT_EQ(info->format, kernel.format);
    EXPECT_EQ(strings(info->needs, info->need_count), kernel.needs);
    EXPECT_EQ(strings(info->dtypes, info->dtype_count), kernel.dtypes);
    EXPECT_EQ(strings(info->schemes, info->scheme_count), kernel.schemes);
    EXPECT_EQ(info->in_build != 0, kernel.in_build);
    EXPECT_EQ(info->refused, kernel.refused);
  }
  const tern_kernel_info* none = nullptr;
  EXPECT_FAILS(tern_kernel_list_get(list, count, &none), TERN_INVALID_ARGUMENT, "index is");
  EXPECT_EQ(none, nullptr);
  tern_kernel_list_destroy(list);
}

}  // namespace
}  // namespace tern::c_test
