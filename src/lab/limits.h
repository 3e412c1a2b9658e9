// The measured peaks of this machine: the denominators of every share that a bench prints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/threads.h"
#include "lab/compute_loops.h"
#include "lab/limits_loops.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern::lab {

enum class Limit : std::uint8_t {
  streaming_read,      // GB/s of reading memory that is in no cache
  non_temporal_write,  // GB/s of writing memory past the caches
  copy,                // GB/s read plus written: from one half of the memory to the other, past the caches
  host_to_device,      // GB/s of copying pinned memory of the host to a GPU
  int8_peak,           // 10^9 operations per second of int8 products summed in int16, from registers
  vnni_peak,           // the same, summed in fours in int32
  amx_peak,            // the same, in whole tiles
  f32_peak,            // the same, of fused multiply-adds in f32
  gpu_int8_peak,       // the same, of a GPU's matrix instructions on int8
  gpu_bf16_peak,       // ... on bf16
};

std::string_view name(Limit);  // "streaming read"
constexpr bool counts_operations(Limit limit) { return limit >= Limit::int8_peak; }
// The peak of the instructions that a kernel of int8 products uses, judged by its name.
Limit int8_limit(std::string_view kernel);

// The loop that was the fastest for one limit and thread count.
struct CalibratedLoop {
  Limit limit = Limit::streaming_read;
  int threads = 1;
  std::string loop;
  double rate = 0;  // of the best pass during calibration, in the limit's unit
};

// The limits of one machine, measured on a buffer of its own.
class Limits {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{1} << 30;

  static Result<Limits> make(std::shared_ptr<MemoryResource> memory, std::size_t bytes = kDefaultBytes);

  // One pass over the buffer (or some milliseconds of arithmetic) on all threads of the pool. Returns GB/s or 10^9
  // operations per second; 0 if this processor has no loop for the limit. The first call for each limit and thread
  // count searches for the fastest loop (about a second).
  double measure(Limit limit, const Threads& threads);

  [[nodiscard]] const std::vector<CalibratedLoop>& calibrated() const { return calibrated_; }

  // For tests: the buffer, and the word that the last writing pass wrote to it.
  [[nodiscard]] std::span<const std::uint64_t> words() const { return buffer_.as<const std::uint64_t>(); }
  [[nodiscard]] std::uint64_t last_word() const { return word_; }

 private:
  struct Window {
    std::size_t offset_bytes = 0;
    std::size_t bytes = 0;
  };
  double pass(Limit limit, std::size_t loop, const Threads& threads, Window window);
  [[nodiscard]] const std::vector<ComputeLoop>& compute_loops(Limit limit) const;
  [[nodiscard]] std::string_view loop_name(Limit limit, std::size_t loop) const;
  std::size_t calibrate(Limit limit, const Threads& threads);

  Tensor buffer_;
  std::vector<ReadLoop> read_loops_;
  std::vector<WriteLoop> write_loops_;
  std::vector<CopyLoop> copy_loops_;
  std::map<Limit, std::vector<ComputeLoop>> compute_loops_;
  std::map<std::pair<Limit, int>, std::size_t> fastest_;
  std::vector<CalibratedLoop> calibrated_;
  std::uint64_t word_ = 0;
  std::uint64_t read_result_ = 0;  // keeps the reads alive
};

}  // namespace tern::lab
