// The C ABI: contexts, with the caller's allocator, parallel-for and observer behind the C++ interfaces.
#include <atomic>
#include <optional>

#include "api/c_handles.h"
#include "base/options.h"
#include "plan/context_state.h"

namespace tern::c {
namespace {

class CallerMemory final : public MemoryResource {
 public:
  CallerMemory(tern_allocate_fn take, tern_deallocate_fn give_back, void* user)
      : allocate_(take), deallocate_(give_back), user_(user) {}

  Result<void*> allocate(const Request& request) override {
    if (request.bytes == 0) return static_cast<void*>(nullptr);
    void* data = allocate_(user_, request.bytes, request.alignment, request.tag);
    if (data == nullptr)
      return error(Code::memory_allocation, "allocate", "the caller's allocator answered NULL for {} bytes for '{}'",
                   request.bytes, request.tag);
    if (reinterpret_cast<std::uintptr_t>(data) % request.alignment != 0) {  // NOLINT: only to see the low bits
      deallocate_(user_, data, request.bytes);
      return error(Code::invalid_argument, "allocate",
                   "the caller's allocator answered {}, which is not a multiple of the alignment {}", data,
                   request.alignment);
    }
    return data;
  }

  Status deallocate(void* data, std::size_t bytes) override {
    if (data != nullptr) deallocate_(user_, data, bytes);
    return {};
  }

  [[nodiscard]] DeviceId device() const override { return {DeviceKind::cpu, 0}; }

 private:
  tern_allocate_fn allocate_;
  tern_deallocate_fn deallocate_;
  void* user_;
};

class CallerObserver final : public Observer {
 public:
  explicit CallerObserver(const tern_observer& observer) : observer_(observer) {}

  // The views may lack the zero that C needs, hence the copies.
  void plan_selected(std::string_view kernel, std::string_view note) override {
    if (observer_.plan_selected != nullptr)
      observer_.plan_selected(observer_.user, std::string(kernel).c_str(), std::string(note).c_str());
  }
  void run_started(const RunEvent& event) override {
    if (observer_.run_started != nullptr)
      observer_.run_started(observer_.user, std::string(event.kernel).c_str(), std::string(event.device).c_str(),
                            event.threads);
  }
  void run_finished(const RunEvent& event, const Status& status) override {
    if (observer_.run_finished != nullptr)
      observer_.run_finished(observer_.user, std::string(event.kernel).c_str(), std::string(event.device).c_str(),
                             event.threads, static_cast<tern_status>(status.code()));
  }

 private:
  tern_observer observer_;
};

struct ParallelForFault {
  int slots = 0;
  int slot = 0;
  int times = 0;
};
thread_local std::optional<ParallelForFault> parallel_for_fault;

// Runs each slot at most once, whatever the caller's parallel-for does, and reports a slot that was not called exactly
// once.
class SlotLedger {
 public:
  SlotLedger(int slots, const std::function<void(int)>& task) : task_(task), calls_(static_cast<std::size_t>(slots)) {}

  static void run(void* self, std::int32_t slot) { static_cast<SlotLedger*>(self)->run(slot); }

  [[nodiscard]] std::optional<ParallelForFault> fault() const {
    const int slots = static_cast<int>(calls_.size());
    if (stray_) return ParallelForFault{slots, stray_slot_, 1};
    for (int slot = 0; slot < slots; ++slot)
      if (const int times = calls_[static_cast<std::size_t>(slot)]; times != 1)
        return ParallelForFault{slots, slot, times};
    return std::nullopt;
  }

 private:
  void run(std::int32_t slot) {
    if (slot < 0 || static_cast<std::size_t>(slot) >= calls_.size()) {
      stray_slot_ = slot;
      stray_ = true;
    } else if (calls_[static_cast<std::size_t>(slot)].fetch_add(1) == 0) {
      task_(slot);
    }
  }

  const std::function<void(int)>& task_;
  std::vector<std::atomic<int>> calls_;
  std::atomic<int> stray_slot_{0};
  std::atomic<bool> stray_{false};
};

ParallelFor adapt(tern_parallel_for_fn parallel_for, void* user) {
  if (parallel_for == nullptr) return {};
  return [parallel_for, user](int slots, const std::function<void(int)>& task) {
    SlotLedger ledger(slots, task);
    parallel_for(user, slots, &SlotLedger::run, &ledger);
    if (const auto fault = ledger.fault()) parallel_for_fault = fault;
  };
}

// The device that the caller names, or else TERN_DEVICE.
Result<DeviceId> device_of(const char* where, const tern_device_id* device) {
  if (device != nullptr) return to_device(where, "device.kind", *device);
  TERN_ASSIGN(options, read_options());
  return options.device.value_or(DeviceId{});
}

struct ContextMemory {
  std::shared_ptr<MemoryResource> resource;        // null: the context's own choice
  std::shared_ptr<StatisticsResource> statistics;  // the same resource, if it counts
  std::shared_ptr<GpuMemory> counted_gpu;          // the pool that it counts on a GPU
};

Result<ContextMemory> memory_of(const char* where, const tern_context_config& given, DeviceId device) {
  const bool gpu = device.kind == DeviceKind::cuda;
  ContextMemory memory;
  if (given.allocate != nullptr) {
    if (gpu)
      return error(Code::invalid_argument, where,
                   "config->allocate is set, but it gives host memory and the context is on {}; leave it NULL",
                   name(device));
    memory.resource = std::make_shared<CallerMemory>(given.allocate, given.deallocate, given.memory_user);
  }
  if (given.count_memory == 0) return memory;
  if (gpu) {
    TERN_ASSIGN(pool, gpu_memory(device.index, given.pool_bytes));
    TERN_RETURN_IF_ERROR(preallocate(*pool, given.preallocate_bytes));
    memory.resource = memory.counted_gpu = std::move(pool);
  }
  memory.statistics = with_statistics(memory.resource ? memory.resource : host_memory());
  memory.resource = memory.statistics;
  return memory;
}

Status open_context(const char* where, const tern_context_config* config, const tern_device_id* device,
                    tern_context** out) {
  TERN_RETURN_IF_ERROR(cleared(where, out, {}));
  TERN_ASSIGN(given, read_struct(where, "config", config));
  if ((given.allocate == nullptr) != (given.deallocate == nullptr))
    return error(Code::invalid_argument, where, "only config->{} is set; an allocator needs both functions",
                 given.allocate == nullptr ? "deallocate" : "allocate");

  TERN_ASSIGN(id, device_of(where, device));
  ContextConfig cpp{.threads = given.threads,
                    .memory = nullptr,
                    .observer = nullptr,
                    .parallel_for = adapt(given.parallel_for, given.parallel_for_user),
                    .pool_bytes = given.pool_bytes,
                    .streams = given.streams,
                    .profiling = given.profiling != 0,
                    .preallocate_bytes = given.preallocate_bytes};
  TERN_RETURN_IF_ERROR(check_preallocation(cpp, id));
  TERN_ASSIGN(memory, memory_of(where, given, id));
  if (memory.counted_gpu) cpp.preallocate_bytes = 0;  // memory_of() did it
  cpp.memory = memory.resource;
  if (given.observer != nullptr) {
    TERN_ASSIGN(observer, read_struct(where, "config->observer", given.observer));
    cpp.observer = std::make_shared<CallerObserver>(observer);
  }
  TERN_ASSIGN(context, Context::open(id, std::move(cpp)));
  std::vector<tern_stream> streams;
  for (int i = 0; i < context.streams(); ++i) streams.push_back({context.stream(i)});
  *out = new tern_context{.context = context,
                          .statistics = std::move(memory.statistics),
                          .counted_gpu = std::move(memory.counted_gpu),
                          .device = DeviceFace(context.device()),
                          .streams = std::move(streams),
                          .wrapped = std::make_shared<WrappedStreams>(context)};
  return {};
}

Result<StatisticsResource*> counted(const char* where, const tern_context& context) {
  if (context.statistics == nullptr)
    return error(Code::invalid_argument, where, "this context was opened without config->count_memory");
  return context.statistics.get();
}

}  // namespace

std::shared_ptr<MemoryResource> host_memory_of(const tern_context& context) {
  const auto& memory = context.context.memory();
  return memory->device().kind == DeviceKind::cpu ? memory : host_memory();
}

Result<MemoryStatistics> statistics_of(const char* where, const tern_context& context) {
  TERN_ASSIGN(memory, counted(where, context));
  return memory->statistics();
}

Status reset_peak(const char* where, const tern_context& context) {
  TERN_ASSIGN(memory, counted(where, context));
  memory->reset_peak();
  return context.counted_gpu ? context.counted_gpu->reset_peaks() : Status();
}

Result<std::string> live_allocations(const char* where, const tern_context& context) {
  TERN_ASSIGN(memory, counted(where, context));
  std::string text;
  for (const LiveAllocation& block : memory->live())
    text += fmt::format("#{} {} bytes '{}' at {}\n", block.sequence, block.bytes, block.tag, block.where);
  return text;
}

ParallelForWatch::ParallelForWatch() { parallel_for_fault.reset(); }

Status ParallelForWatch::status(const char* where) const {
  if (!parallel_for_fault) return {};
  const ParallelForFault fault = *parallel_for_fault;
  return error(
      Code::invalid_argument, where,
      "the caller's parallel-for called slot {} of {} {} times; each slot in [0, {}) must be called exactly once",
      fault.slot, fault.slots, fault.times, fault.slots);
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_context_open(const tern_context_config* config, tern_context** out) {
  return guarded("tern_context_open",
                 [&](const char* where) -> Status { return open_context(where, config, nullptr, out); });
}

tern_status tern_context_open_device(tern_device_id device, const tern_context_config* config, tern_context** out) {
  return guarded("tern_context_open_device",
                 [&](const char* where) -> Status { return open_context(where, config, &device, out); });
}
