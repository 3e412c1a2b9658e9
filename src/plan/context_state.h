// The state behind a Context handle.
#pragma once

#include <map>
#include <mutex>

#include "device/threads.h"
#include "plan/gpu.h"
#include "tern/context.h"

namespace tern {

// Checks preallocate_bytes against the device and the rest of the config.
Status check_preallocation(const ContextConfig& config, DeviceId device);

}  // namespace tern

namespace tern::detail {

struct ContextState {
  ContextState(const Device& device_, int threads_, ContextConfig config, std::unique_ptr<Gpu> gpu_)
      : device(device_),
        threads(threads_, std::move(config.parallel_for)),
        memory(std::move(config.memory)),
        observers(watching(std::move(config.observer), std::move(config.observers))),
        profiling(config.profiling),
        gpu(std::move(gpu_)) {
    if (gpu) gpu->report_times_to(observers);
  }

  Device device;
  Threads threads;
  std::shared_ptr<MemoryResource> memory;
  std::vector<std::shared_ptr<Observer>> observers;  // none is null
  bool profiling;
  std::unique_ptr<Gpu> gpu;  // null on a CPU
  bool overrides = true;     // whether TERN_DEVICE, TERN_FORCE_KERNEL and a GPU's TERN_MAX_ISA apply

  mutable std::mutex times_mutex;
  mutable std::map<std::string, KernelTime> times;  // of a CPU's kernels

  // A CPU context for reference results, used alongside the device that TERN_DEVICE and TERN_FORCE_KERNEL name. These
  // variables do not apply to its plans.
  static Context cpu_beside(int threads);

  static std::vector<std::shared_ptr<Observer>> watching(std::shared_ptr<Observer> first,
                                                         std::vector<std::shared_ptr<Observer>> others) {
    others.insert(others.begin(), std::move(first));
    std::erase(others, nullptr);
    return others;
  }
  static const ContextState* owner(const Stream& stream) { return stream.owner_; }
  static int lane(const Stream& stream) { return stream.lane_; }
  static Stream stream(const ContextState& owner, int lane) { return {&owner, lane}; }
};

}  // namespace tern::detail
