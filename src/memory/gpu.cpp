// GPU memory from a stream-ordered pool, and pinned host memory.
#include "memory/gpu.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/errors.h"
#include "tern/memory.h"

namespace tern {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::string_view kWhere = "gpu_memory";

// The streams of all contexts, each with its device. The list is global so that memory adaptors need no context. A
// stream that several contexts use is listed once for each.
std::mutex streams_mutex;
std::vector<std::pair<int, cuda::Stream*>> served;

// Makes `waiting` wait for the work submitted so far to every listed stream of the device. Streams that are capturing a
// graph are skipped: captured work does not run yet.
Status wait_for_all(int device, cuda::Stream* waiting, cuda::Event* event) {
  const std::scoped_lock lock(streams_mutex);
  for (const auto& [of, stream] : served) {
    if (of != device) continue;
    TERN_ASSIGN(captured, cuda::capturing(stream));
    if (captured) continue;
    TERN_RETURN_IF_ERROR(cuda::record(event, stream));
    TERN_RETURN_IF_ERROR(cuda::wait(waiting, event));
  }
  return {};
}

// Allocates and frees on a stream of its own. When allocate() returns, any stream may use the block. A free waits, on
// that stream, for the work submitted before it to the streams of all contexts on this device.
class Pool final : public GpuMemory {
 public:
  static Result<std::shared_ptr<GpuMemory>> open(int index, std::size_t kept_bytes) {
    TERN_ON_GPU(index);
    auto memory = std::shared_ptr<Pool>(new Pool(index));
    TERN_ASSIGN(stream, cuda::create_stream());
    memory->stream_ = stream;
    TERN_ASSIGN(event, cuda::create_event(false));
    memory->event_ = event;
    TERN_ASSIGN(pool, cuda::create_pool(index, kept_bytes));
    memory->pool_ = pool;
    return std::shared_ptr<GpuMemory>(std::move(memory));
  }
  ~Pool() override {
    const cuda::CurrentDevice current(index_);
    if (stream_ != nullptr) {
      for (const auto& [data, bytes] : live_) (void)cuda::deallocate(data, stream_).ok();
      (void)cuda::synchronize(stream_).ok();
    }
    if (pool_ != nullptr) cuda::destroy(pool_);
    if (event_ != nullptr) cuda::destroy(event_);
    if (stream_ != nullptr) cuda::destroy(stream_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Result<void*> allocate(const Request& request) override {
    if (request.alignment == 0 || (request.alignment & (request.alignment - 1)) != 0)
      return error(Code::invalid_argument, kWhere, "alignment {} is not a power of two", request.alignment);
    if (request.alignment > kAlignment)
      return error(Code::invalid_argument, kWhere, "alignment {} is above the {} of GPU memory", request.alignment,
                   kAlignment);
    if (request.bytes == 0) return static_cast<void*>(nullptr);
    TERN_ON_GPU(index_);
    const std::scoped_lock lock(mutex_);
    auto block = cuda::allocate(pool_, request.bytes, stream_);
    if (!block.ok()) {
      if (block.code() != Code::memory_allocation) return block;
      const auto bytes = cuda::memory_bytes();
      const std::size_t free = bytes.ok() ? bytes->free : 0;
      return with(MemoryShortage{.needed_bytes = request.bytes, .free_bytes = free},
                  error(Code::insufficient_memory, kWhere, "{} bytes for '{}' were asked for, {} of cuda:{} are free",
                        request.bytes, request.tag, free, index_));
    }
    TERN_RETURN_IF_ERROR(cuda::synchronize(stream_));
    live_[*block] = request.bytes;
    return block;
  }

  Status deallocate(void* data, std::size_t bytes) override {
    if (data == nullptr) return {};
    TERN_ON_GPU(index_);
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(data);
    if (found == live_.end())
      return error(Code::invalid_argument, kWhere, "{} is not a live allocation of cuda:{}", data, index_);
    if (found->second != bytes)
      return error(Code::invalid_argument, kWhere, "{} was allocated with {} bytes, not {}", data, found->second,
                   bytes);
    live_.erase(found);
    TERN_RETURN_IF_ERROR(wait_for_all(index_, stream_, event_));
    return cuda::deallocate(data, stream_);
  }

  [[nodiscard]] DeviceId device() const override { return {DeviceKind::cuda, index_}; }

  Status release_unused() override {
    TERN_ON_GPU(index_);
    TERN_RETURN_IF_ERROR(cuda::synchronize(stream_));
    return cuda::trim(pool_, 0);
  }

  [[nodiscard]] Result<GpuMemoryInfo> info() const override {
    TERN_ON_GPU(index_);
    TERN_RETURN_IF_ERROR(cuda::synchronize(stream_));  // so that finished frees are counted
    TERN_ASSIGN(bytes, cuda::memory_bytes());
    TERN_ASSIGN(pool, cuda::info(pool_));
    return GpuMemoryInfo{.total_bytes = bytes.total,
                         .free_bytes = bytes.free,
                         .reserved_bytes = pool.reserved,
                         .in_use_bytes = pool.in_use,
                         .reserved_peak_bytes = pool.reserved_peak,
                         .in_use_peak_bytes = pool.in_use_peak};
  }
  Status reset_peaks() override { return cuda::reset_peaks(pool_); }

 private:
  explicit Pool(int index) : index_(index) {}

  int index_;
  cuda::Stream* stream_ = nullptr;
  cuda::Event* event_ = nullptr;
  cuda::Pool* pool_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> live_;
};

class PinnedMemory final : public MemoryResource {
 public:
  Result<void*> allocate(const Request& request) override {
    constexpr std::size_t kPage = 4096;
    if (request.alignment == 0 || (request.alignment & (request.alignment - 1)) != 0 || request.alignment > kPage)
      return error(Code::invalid_argument, "pinned_memory", "alignment {} is not a power of two up to {}",
                   request.alignment, kPage);
    if (request.bytes == 0) return static_cast<void*>(nullptr);
    auto block = cuda::allocate_pinned(request.bytes);
    if (block.ok() || block.code() != Code::memory_allocation) return block;
    return error(Code::memory_allocation, "pinned_memory", "{} bytes for '{}' could not be pinned", request.bytes,
                 request.tag);
  }
  Status deallocate(void* data, std::size_t /*bytes*/) override {
    return data == nullptr ? Status() : cuda::deallocate_pinned(data);
  }
  [[nodiscard]] DeviceId device() const override { return {DeviceKind::cpu, 0}; }
};

}  // namespace

void serve_stream(int device, cuda::Stream* stream) {
  const std::scoped_lock lock(streams_mutex);
  served.emplace_back(device, stream);
}
void forget_stream(int device, cuda::Stream* stream) {
  const std::scoped_lock lock(streams_mutex);
  const auto found = std::ranges::find(served, std::pair(device, stream));
  if (found != served.end()) served.erase(found);
}

Result<std::shared_ptr<GpuMemory>> gpu_memory(int index, std::size_t kept_bytes) {
  TERN_RETURN_IF_ERROR(cuda::usable_device(index));
  return Pool::open(index, kept_bytes);
}

Result<std::shared_ptr<MemoryResource>> pinned_memory() {
  TERN_RETURN_IF_ERROR(cuda::usable_device(0));
  static const auto memory = std::make_shared<PinnedMemory>();
  return std::shared_ptr<MemoryResource>(memory);
}

}  // namespace tern
