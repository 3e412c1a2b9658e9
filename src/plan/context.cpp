// Opens a Context: resolves device, threads and memory.
#include "tern/context.h"

#include "base/errors.h"
#include "base/options.h"
#include "device/topology.h"
#include "plan/context_state.h"

namespace tern {

Result<Context> Context::open(ContextConfig config) {
  TERN_ASSIGN(options, read_options());
  return open(options.device.value_or(DeviceId{}), std::move(config));
}

Result<Context> Context::open(DeviceId device, ContextConfig config) {
  if (device.kind != DeviceKind::cpu)
    return error(Code::gpu_not_available, "context", "{} was asked for, but this build has no CUDA", name(device));
  if (device.index != 0) return error(Code::invalid_argument, "context", "there is one cpu, not cpu:{}", device.index);
  TERN_ASSIGN(options, read_options());
  int threads = config.threads;
  if (threads < 0 || threads > kMaxThreads)
    return error(Code::invalid_argument, "context", "threads is {}; take 1 to {}, or 0 for all", threads, kMaxThreads);
  if (threads == 0) threads = options.threads.value_or(usable_threads());
  if (!config.memory) config.memory = host_memory();
  return Context(std::make_shared<const detail::ContextState>(host_device(), threads, std::move(config)));
}

const Device& Context::device() const { return state_->device; }
int Context::threads() const { return state_->threads.count(); }
const std::shared_ptr<MemoryResource>& Context::memory() const { return state_->memory; }
Stream Context::stream() const { return Stream(state_.get()); }

}  // namespace tern
