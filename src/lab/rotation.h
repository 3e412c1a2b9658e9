// Copies of a problem's buffers: so many that a run finds none of its data in the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/bench.h"
#include "tern/tensor.h"

namespace tern::lab {

// How many copies of `copy_bytes` a request wants, and how many the memory allows.
struct RotationPlan {
  std::int64_t copies = 1;
  std::string note;  // why there are fewer than wanted; empty if there are as many
};

// Four times the last-level cache, as far as the device knows its caches.
std::size_t cold_rotation_bytes(const Device& device);

// `available_bytes` may be taken. If not even one copy fits, the error is insufficient_memory.
Result<RotationPlan> plan_rotation(std::size_t copy_bytes, std::size_t wanted_bytes, std::size_t available_bytes);

class Rotation {
 public:
  // Each copy has parts of these sizes, 64-byte aligned on a CPU and 256-byte aligned on a GPU. A warm request gets one
  // copy.
  static Result<Rotation> make(const BenchRequest& request, const Context& context,
                               std::span<const std::size_t> part_bytes);

  [[nodiscard]] std::int64_t copies() const { return copies_; }
  [[nodiscard]] void* part(std::size_t part, std::int64_t copy) const;
  [[nodiscard]] DeviceId device() const { return device_; }
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  std::int64_t copies_ = 1;
  std::string note_;
  DeviceId device_;
  std::vector<Tensor> slabs_;  // one per part, copies side by side
  std::vector<std::size_t> stride_bytes_;
};

}  // namespace tern::lab
