// What a Context handle stands for.
#pragma once

#include "device/threads.h"
#include "tern/context.h"

namespace tern::detail {

struct ContextState {
  ContextState(const Device& device_, int threads_, ContextConfig config)
      : device(device_),
        threads(threads_, std::move(config.parallel_for)),
        memory(std::move(config.memory)),
        observer(std::move(config.observer)) {}

  Device device;
  Threads threads;
  std::shared_ptr<MemoryResource> memory;
  std::shared_ptr<Observer> observer;

  static const ContextState* owner(const Stream& stream) { return stream.owner_; }
};

}  // namespace tern::detail
