// What this machine can do at best, measured: the denominators of every share that a bench prints.
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
  streaming_read,      // GB/s of reading memory that no cache holds
  non_temporal_write,  // GB/s of writing memory past the caches
  copy,                // GB/s of both: read from one half of the memory, written to the other past the caches
  host_to_device,      // GB/s of copying pinned memory of the host to a GPU
  int8_peak,           // 10^9 operations a second of int8 products summed in int16, from registers
  vnni_peak,           // the same summed by fours in int32
  amx_peak,            // the same of whole tiles
  f32_peak,            // the same of fused multiplications and additions in f32
  gpu_int8_peak,       // the same of a GPU's matrix instructions on int8
  gpu_bf16_peak,       // ... on bf16
};

std::string_view name(Limit);  // "streaming read"
constexpr bool counts_operations(Limit limit) { return limit >= Limit::int8_peak; }
// The peak of the instructions that a kernel of int8 products is made of.
Limit int8_limit(std::string_view kernel);

// The loop that was the fastest for one limit and thread count.
struct CalibratedLoop {
  Limit limit = Limit::streaming_read;
  int threads = 1;
  std::string loop;
  double rate = 0;  // of its best pass during calibration, in the limit's unit
};

// The limits of one machine. Measures over one buffer, which no caller sees.
class Limits {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{1} << 30;

  static Result<Limits> make(std::shared_ptr<MemoryResource> memory, std::size_t bytes = kDefaultBytes);

  // One pass over the buffer (or some milliseconds of arithmetic) on all threads of the pool: GB/s or 10^9 operations
  // a second; 0 where this processor has no loop for it. The first pass of each limit and thread count is
  // preceded by the search for its fastest loop (about a second).
  double measure(Limit limit, const Threads& threads);

  [[nodiscard]] const std::vector<CalibratedLoop>& calibrated() const { return calibrated_; }

  // The buffer, so that a test can see that a pass wrote it; the word that the last writing pass wrote.
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
