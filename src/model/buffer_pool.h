// Reusable buffers. Fresh memory costs a page fault per 4 KiB, which takes longer than the work done in it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tern {

// Thread-safe. Must outlive its buffers.
class BufferPool {
 public:
  struct GiveBack {
    BufferPool* pool = nullptr;
    std::size_t capacity = 0;
    void operator()(std::byte* memory) const { pool->give_back(memory, capacity); }
  };
  using Buffer = std::unique_ptr<std::byte[], GiveBack>;

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least this many bytes, aligned for a workspace and uninitialised. Throws std::bad_alloc.
  Buffer take(std::size_t bytes);

 private:
  struct Free {
    std::byte* memory = nullptr;
    std::size_t capacity = 0;
  };
  void give_back(std::byte* memory, std::size_t capacity);

  std::mutex mutex_;
  std::vector<Free> free_;
};

}  // namespace tern
