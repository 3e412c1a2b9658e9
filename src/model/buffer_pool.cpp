// A list of free buffers; a request that none can serve replaces one that is too small.
#include "model/buffer_pool.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "memory/workspace.h"

namespace tern {
namespace {

constexpr std::size_t kStep = std::size_t{64} << 10;  // matrices whose sizes differ by a few bytes share buffers
constexpr std::align_val_t kAlignment{kWorkspaceAlignment};

}  // namespace

BufferPool::~BufferPool() {
  for (const Free& free : free_) ::operator delete[](free.memory, kAlignment);
}

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  const std::size_t capacity = round_up(std::max<std::size_t>(bytes, 1), kStep);
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(free_.begin(), free_.end(), [&](const Free& f) { return f.capacity == capacity; });
    const auto found = fits != free_.end() || free_.empty() ? fits : free_.begin();
    if (found != free_.end()) {
      const Free free = *found;
      free_.erase(found);
      if (free.capacity == capacity) return {free.memory, GiveBack{this, capacity}};
      ::operator delete[](free.memory, kAlignment);
    }
  }
  return {new (kAlignment) std::byte[capacity], GiveBack{this, capacity}};
}

void BufferPool::give_back(std::byte* memory, std::size_t capacity) {
  const std::lock_guard lock(mutex_);
  try {
    free_.push_back({memory, capacity});
  } catch (const std::bad_alloc&) {
    ::operator delete[](memory, kAlignment);
  }
}

}  // namespace tern
