// Memory adaptors: one limits the bytes in use, the other makes room and retries when memory runs out.
#include <atomic>

#include "base/errors.h"
#include "tern/memory.h"

namespace tern {
namespace {

class Limit final : public MemoryResource {
 public:
  Limit(std::shared_ptr<MemoryResource> upstream, std::size_t bytes) : upstream_(std::move(upstream)), bytes_(bytes) {}

  Result<void*> allocate(const Request& request) override {
    std::size_t used = used_.load();
    do {
      if (request.bytes > bytes_ - used)
        return with(MemoryShortage{.needed_bytes = request.bytes, .free_bytes = bytes_ - used},
                    error(Code::insufficient_memory, "limit",
                          "{} bytes for '{}' were asked for, {} of the limit of {} are left", request.bytes,
                          request.tag, bytes_ - used, bytes_));
    } while (!used_.compare_exchange_weak(used, used + request.bytes));
    auto block = upstream_->allocate(request);
    if (!block.ok()) used_ -= request.bytes;
    return block;
  }
  Status deallocate(void* data, std::size_t bytes) override {
    Status status = upstream_->deallocate(data, bytes);
    if (status.ok() && data != nullptr) used_ -= bytes;
    return status;
  }
  [[nodiscard]] DeviceId device() const override { return upstream_->device(); }
  [[nodiscard]] const MemoryResource* upstream() const override { return upstream_.get(); }
  Status release_unused() override { return upstream_->release_unused(); }

 private:
  std::shared_ptr<MemoryResource> upstream_;
  std::size_t bytes_;
  std::atomic<std::size_t> used_{0};
};

class Retry final : public MemoryResource {
 public:
  Retry(std::shared_ptr<MemoryResource> upstream, std::function<void()> make_room, int attempts)
      : upstream_(std::move(upstream)), make_room_(std::move(make_room)), attempts_(attempts) {}

  Result<void*> allocate(const Request& request) override {
    auto block = upstream_->allocate(request);
    for (int i = 0; i < attempts_ && ran_out(block); ++i) {
      if (make_room_)
        make_room_();
      else
        TERN_RETURN_IF_ERROR(upstream_->release_unused());
      block = upstream_->allocate(request);
    }
    return block;
  }
  Status deallocate(void* data, std::size_t bytes) override { return upstream_->deallocate(data, bytes); }
  [[nodiscard]] DeviceId device() const override { return upstream_->device(); }
  [[nodiscard]] const MemoryResource* upstream() const override { return upstream_.get(); }
  Status release_unused() override { return upstream_->release_unused(); }

 private:
  static bool ran_out(const Result<void*>& block) {
    return block.code() == Code::memory_allocation || block.code() == Code::insufficient_memory;
  }
  std::shared_ptr<MemoryResource> upstream_;
  std::function<void()> make_room_;
  int attempts_;
};

}  // namespace

std::shared_ptr<MemoryResource> with_limit(std::shared_ptr<MemoryResource> upstream, std::size_t bytes) {
  return std::make_shared<Limit>(std::move(upstream), bytes);
}
std::shared_ptr<MemoryResource> with_retry(std::shared_ptr<MemoryResource> upstream, std::function<void()> make_room,
                                           int attempts) {
  return std::make_shared<Retry>(std::move(upstream), std::move(make_room), attempts);
}

}  // namespace tern
