// Tests of the C ABI's contexts: the caller's allocator, parallel-for and observer, and memory statistics.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "api/c_test.h"
#include "tern/context.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kContextRows = 256, kContextColumns = 4096;  // enough for several slots

// An allocator that tracks its live blocks.
struct Heap {
  std::mutex mutex;
  std::map<void*, std::size_t> live;
  int allocations = 0;
  int foreign_frees = 0;
  bool exhausted = false;
  std::size_t misalign_by = 0;

  static void* allocate(void* user, std::size_t bytes, std::size_t alignment, const char* tag) {
    auto& heap = *static_cast<Heap*>(user);
    const std::scoped_lock lock(heap.mutex);
    if (heap.exhausted || tag == nullptr) return nullptr;
    void* block = std::aligned_alloc(alignment, (bytes + 2 * alignment) / alignment * alignment);
    block = static_cast<char*>(block) + heap.misalign_by;
    heap.live[block] = bytes;
    ++heap.allocations;
    return block;
  }
  static void deallocate(void* user, void* data, std::size_t bytes) {
    auto& heap = *static_cast<Heap*>(user);
    const std::scoped_lock lock(heap.mutex);
    const auto found = heap.live.find(data);
    if (found == heap.live.end() || found->second != bytes) {
      ++heap.foreign_frees;
      return;
    }
    heap.live.erase(found);
    std::free(static_cast<char*>(data) - heap.misalign_by);
  }
  tern_context_config config() {
    tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
    config.allocate = &allocate;
    config.deallocate = &deallocate;
    config.memory_user = this;
    return config;
  }
};

TEST(CContext, OpensTheCpu) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.threads = 2;
  const ContextHandle context = open_context(&config);
  std::int32_t threads = 0;
  const tern_device_info* device = nullptr;
  EXPECT_EQ(tern_context_threads(context.get(), &threads), TERN_OK);
  EXPECT_EQ(threads, 2);
  EXPECT_EQ(tern_context_device(context.get(), &device), TERN_OK);
  EXPECT_EQ(device->name, Context::open()->device().name);
  tern_context* by_id = nullptr;
  EXPECT_EQ(tern_context_open_device({TERN_DEVICE_CPU, 0}, nullptr, &by_id), TERN_OK);
  tern_context_close(by_id);
}

TEST(CContext, RefusesWhatIsNotThere) {
  tern_context* context = nullptr;
  EXPECT_FAILS(tern_context_open_device({TERN_DEVICE_CUDA, 99}, nullptr, &context), TERN_GPU_NOT_AVAILABLE, "");
  EXPECT_STRNE(tern_last_error()->message, "");  // the text depends on the machine: no CUDA, no driver, fewer GPUs
  EXPECT_EQ(context, nullptr);
  EXPECT_FAILS(tern_context_open_device({static_cast<tern_device_kind>(7), 0}, nullptr, &context),
               TERN_INVALID_ARGUMENT, "device.kind is 7");
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.threads = -1;
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_INVALID_ARGUMENT, "-1");
}

TEST(CContext, RefusesHalfAnAllocator) {
  tern_context* context = nullptr;
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.allocate = &Heap::allocate;
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_INVALID_ARGUMENT, "only config->allocate is set");
  config.allocate = nullptr;
  config.deallocate = &Heap::deallocate;
  EXPECT_FAILS(tern_context_open(&config, &context), TERN_INVALID_ARGUMENT, "only config->deallocate is set");
}

TEST(CContext, RefusesAnAllocatorOfTheHostForAGpu) {
  Heap heap;
  const tern_context_config config = heap.config();
  tern_context* context = nullptr;
  EXPECT_FAILS(tern_context_open_device({TERN_DEVICE_CUDA, 0}, &config, &context), TERN_INVALID_ARGUMENT,
               "host memory and the context is on cuda:0");
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(heap.allocations, 0);
}

TEST(CContext, TakesAllTensorMemoryFromTheCallersAllocator) {
  Heap heap;
  const auto weights = make_weights(kContextRows * kContextColumns);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {kContextRows, kContextColumns});
  {
    const tern_context_config config = heap.config();
    ContextHandle context = open_context(&config);
    const QuantizedHandle quantized = quantize(context.get(), x);
    EXPECT_EQ(heap.live.count(info_of(quantized).codes.data), 1U);
    EXPECT_EQ(heap.live.count(info_of(quantized).scales.data), 1U);
    tern_tensor* restored = nullptr;
    ASSERT_EQ(tern_dequantize(context.get(), quantized.get(), TERN_DTYPE_F32, &restored), TERN_OK);
    tern_tensor_view y = TERN_TENSOR_VIEW_INIT;
    EXPECT_EQ(tern_tensor_get_view(restored, &y), TERN_OK);
    EXPECT_EQ(heap.live.count(y.data), 1U);
    context.reset();  // handles outlive the context they were made with
    EXPECT_EQ(heap.live.count(y.data), 1U);
    tern_tensor_destroy(restored);
  }
  EXPECT_GE(heap.allocations, 3);
  EXPECT_TRUE(heap.live.empty());
  EXPECT_EQ(heap.foreign_frees, 0);
}

TEST(CContext, ReportsAnAllocatorThatFails) {
  Heap heap;
  const tern_context_config config = heap.config();
  const ContextHandle context = open_context(&config);
  const auto weights = make_weights(64);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {1, 64});
  tern_quantized* quantized = nullptr;
  heap.exhausted = true;
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_MEMORY_ALLOCATION, "answered NULL");
  EXPECT_EQ(quantized, nullptr);
  heap.exhausted = false;
  heap.misalign_by = 8;
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_INVALID_ARGUMENT,
               "multiple of the alignment");
  EXPECT_EQ(quantized, nullptr);
  EXPECT_TRUE(heap.live.empty());
  EXPECT_EQ(heap.foreign_frees, 0);
}

// A parallel-for whose body the test supplies.
struct Pool {
  std::function<void(std::int32_t slots, const std::function<void(std::int32_t)>& task)> body;
  std::atomic<int> calls{0};

  static void run(void* user, std::int32_t slots, tern_task_fn task, void* task_user) {
    auto& pool = *static_cast<Pool*>(user);
    ++pool.calls;
    pool.body(slots, [=](std::int32_t slot) { task(task_user, slot); });
  }
  ContextHandle open() {
    tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
    config.threads = 4;
    config.parallel_for = &run;
    config.parallel_for_user = this;
    return open_context(&config);
  }
};

TEST(CContext, RunsOnTheCallersParallelFor) {
  Pool pool;
  std::atomic<int> tasks{0};
  pool.body = [&](std::int32_t slots, const auto& task) {
    std::vector<std::thread> threads;
    for (std::int32_t slot = 0; slot < slots; ++slot)
      threads.emplace_back([&, slot] {
        ++tasks;
        task(slot);
      });
    for (std::thread& thread : threads) thread.join();
  };
  const ContextHandle ours = pool.open(), plain = open_context();
  const auto weights = make_weights(kContextRows * kContextColumns);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {kContextRows, kContextColumns});
  const QuantizedHandle a = quantize(ours.get(), x), b = quantize(plain.get(), x);
  EXPECT_GE(pool.calls, 1);
  EXPECT_GE(tasks, 2);
  EXPECT_TRUE(same_bytes(info_of(a).codes.data, info_of(b).codes.data, info_of(a).codes_bytes));
  EXPECT_TRUE(same_bytes(info_of(a).scales.data, info_of(b).scales.data, sizeof(float)));
}

TEST(CContext, NoticesAParallelForThatBreaksItsPromise) {
  const auto weights = make_weights(kContextRows * kContextColumns);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {kContextRows, kContextColumns});
  tern_quantized* quantized = nullptr;
  Pool pool;
  const ContextHandle context = pool.open();
  const auto all = [](std::int32_t slots, const auto& task) {
    for (std::int32_t slot = 0; slot < slots; ++slot) task(slot);
  };

  pool.body = [](std::int32_t slots, const auto& task) {
    for (std::int32_t slot = 1; slot < slots; ++slot) task(slot);
  };
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_INVALID_ARGUMENT, "slot 0 of 4 0 times");
  EXPECT_EQ(quantized, nullptr);

  pool.body = [&](std::int32_t slots, const auto& task) {
    all(slots, task);
    task(2);
  };
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_INVALID_ARGUMENT, "slot 2 of 4 2 times");

  pool.body = [&](std::int32_t slots, const auto& task) {
    all(slots, task);
    task(slots);
  };
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_INVALID_ARGUMENT, "slot 4 of 4 1 times");

  pool.body = all;  // a fault does not affect later calls
  EXPECT_EQ(tern_quantize(context.get(), &x, nullptr, &quantized), TERN_OK) << tern_last_error()->text;
  tern_quantized_destroy(quantized);
}

struct Diary {
  std::string selected, started, finished;
  tern_status status = TERN_INTERNAL;
};

TEST(CContext, TellsTheObserver) {
  Diary diary;
  tern_observer observer = TERN_OBSERVER_INIT;
  observer.user = &diary;
  observer.plan_selected = [](void* user, const char* kernel, const char*) {
    static_cast<Diary*>(user)->selected = kernel;
  };
  observer.run_started = [](void* user, const char* kernel, const char* device, std::int32_t) {
    static_cast<Diary*>(user)->started = std::string(kernel) + " on " + device;
  };
  observer.run_finished = [](void* user, const char* kernel, const char*, std::int32_t, tern_status status) {
    static_cast<Diary*>(user)->finished = kernel;
    static_cast<Diary*>(user)->status = status;
  };
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.observer = &observer;
  const ContextHandle context = open_context(&config);
  observer = TERN_OBSERVER_INIT;  // it was copied
  auto weights = make_weights(64);
  const auto x = view_of(weights.data(), TERN_DTYPE_F32, {64});
  const QuantizedHandle quantized = quantize(context.get(), x);
  EXPECT_EQ(diary.selected, info_of(quantized).kernel);
  EXPECT_EQ(diary.started, diary.selected + " on cpu");
  EXPECT_EQ(diary.finished, diary.selected);
  EXPECT_EQ(diary.status, TERN_OK);

  weights[5] = INFINITY;
  tern_quantized* none = nullptr;
  EXPECT_FAILS(tern_quantize(context.get(), &x, nullptr, &none), TERN_NON_FINITE, "inf");
  EXPECT_EQ(diary.status, TERN_NON_FINITE);
}

TEST(CContext, CountsMemory) {
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.count_memory = 1;
  const ContextHandle context = open_context(&config);
  tern_memory_statistics statistics = TERN_MEMORY_STATISTICS_INIT;
  const std::int64_t shape[] = {3, 100};
  tern_tensor* tensor = nullptr;
  ASSERT_EQ(tern_tensor_allocate(context.get(), TERN_DTYPE_F32, 2, shape, &tensor), TERN_OK);
  EXPECT_EQ(tern_context_memory_statistics(context.get(), &statistics), TERN_OK);
  EXPECT_EQ(statistics.bytes_in_use, 1200U);
  EXPECT_EQ(statistics.allocations, 1U);
  char report[64];
  std::size_t length = 0;
  EXPECT_EQ(tern_context_memory_report(context.get(), report, sizeof(report), &length), TERN_OK);
  EXPECT_EQ(std::string(report).find("#0 1200 bytes 'tensor' at c_tensor.cpp:"), 0U) << report;
  EXPECT_EQ(report[length - 1], '\n');
  tern_tensor_destroy(tensor);
  EXPECT_EQ(tern_context_memory_statistics(context.get(), &statistics), TERN_OK);
  EXPECT_EQ(statistics.bytes_in_use, 0U);
  EXPECT_EQ(statistics.peak_bytes, 1200U);
  EXPECT_EQ(tern_context_reset_memory_peak(context.get()), TERN_OK);
  EXPECT_EQ(tern_context_memory_statistics(context.get(), &statistics), TERN_OK);
  EXPECT_EQ(statistics.peak_bytes, 0U);
  EXPECT_EQ(statistics.deallocations, 1U);
}

TEST(CContext, WithoutCountingHasNoStatistics) {
  const ContextHandle context = open_context();
  tern_memory_statistics statistics = TERN_MEMORY_STATISTICS_INIT;
  EXPECT_FAILS(tern_context_memory_statistics(context.get(), &statistics), TERN_INVALID_ARGUMENT, "count_memory");
  EXPECT_FAILS(tern_context_reset_memory_peak(context.get()), TERN_INVALID_ARGUMENT, "count_memory");
  statistics.struct_size = 0;
  EXPECT_FAILS(tern_context_memory_statistics(context.get(), &statistics), TERN_INVALID_ARGUMENT, "struct_size is 0");
}

}  // namespace
}  // namespace tern::c_test
