// The adaptor that counts allocations and knows which are live.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/errors.h"
#include "tern/memory.h"

namespace tern {
namespace {

std::string place(const CallSite& where) {
  std::string_view file = where.file;
  file.remove_prefix(file.rfind('/') + 1);
  return fmt::format("{}:{}", file, where.line);
}

class Statistics final : public StatisticsResource {
 public:
  explicit Statistics(std::shared_ptr<MemoryResource> upstream) : upstream_(std::move(upstream)) {}

  Result<void*> allocate(const Request& request) override {
    auto block = upstream_->allocate(request);
    const std::scoped_lock lock(mutex_);
    if (!block.ok()) {
      ++counts_.failures;
      return block;
    }
    if (*block == nullptr) return block;
    live_[*block] = {request.tag, request.bytes, counts_.allocations, place(request.where)};
    ++counts_.allocations;
    counts_.bytes_in_use += request.bytes;
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.bytes_in_use);
    return block;
  }

  Status deallocate(void* data, std::size_t bytes) override {
    if (data == nullptr) return {};
    {
      const std::scoped_lock lock(mutex_);
      const auto found = live_.find(data);
      if (found == live_.end())
        return error(Code::invalid_argument, "deallocate", "{} is not a live allocation of this resource", data);
      if (found->second.bytes != bytes)
        return error(Code::invalid_argument, "deallocate", "{} was allocated with {} bytes, not {}", data,
                     found->second.bytes, bytes);
      counts_.bytes_in_use -= bytes;
      ++counts_.deallocations;
      live_.erase(found);
    }
    return upstream_->deallocate(data, bytes);
  }

  [[nodiscard]] DeviceId device() const override { return upstream_->device(); }
  [[nodiscard]] const MemoryResource* upstream() const override { return upstream_.get(); }
  Status release_unused() override { return upstream_->release_unused(); }

  [[nodiscard]] MemoryStatistics statistics() const override {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }

  [[nodiscard]] std::vector<LiveAllocation> live() const override {
    std::vector<LiveAllocation> blocks;
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [data, block] : live_) blocks.push_back(block);
    }
    std::ranges::sort(blocks, {}, &LiveAllocation::sequence);
    return blocks;
  }

  void reset_peak() override {
    const std::scoped_lock lock(mutex_);
    counts_.peak_bytes = counts_.bytes_in_use;
  }

 private:
  std::shared_ptr<MemoryResource> upstream_;
  mutable std::mutex mutex_;
  MemoryStatistics counts_;
  std::unordered_map<void*, LiveAllocation> live_;
};

}  // namespace

std::shared_ptr<StatisticsResource> with_statistics(std::shared_ptr<MemoryResource> upstream) {
  return std::make_shared<Statistics>(std::move(upstream));
}

}  // namespace tern
