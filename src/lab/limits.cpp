// Times the loops on the thread pool that the kernels use, and remembers the fastest for each thread count.
#include "lab/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/checked.h"
#include "base/errors.h"
#include "device/isa.h"

namespace tern::lab {

std::string_view name(Limit limit) {
  switch (limit) {
    case Limit::streaming_read: return "streaming read";
    case Limit::non_temporal_write: return "non-temporal write";
    case Limit::copy: return "copy";
    case Limit::host_to_device: return "pinned copy to the GPU";
    case Limit::int8_peak: return "maddubs+add peak";
    case Limit::vnni_peak: return "vpdpbusd peak";
    case Limit::amx_peak: return "tdpbsud peak";
    case Limit::gpu_int8_peak: return "int8 matrix peak";
    case Limit::gpu_bf16_peak: return "bf16 matrix peak";
    case Limit::f32_peak: return "fma peak";
  }
  return "unknown";
}

Limit int8_limit(std::string_view kernel) {
  const auto has = [&](std::string_view word) { return kernel.find(word) != kernel.npos; };
  if (has("cuda")) return Limit::gpu_int8_peak;
  if (has("amx")) return Limit::amx_peak;
  return has("vnni") || has("vbmi") ? Limit::vnni_peak : Limit::int8_peak;
}

namespace {

// Threads take pieces from a queue, as kernels do, so that a pass does not wait for a thread that was held up.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr std::int64_t kComputePieces = 16;  // for each thread

// Takes about ten milliseconds, long enough for the processor's clock to settle.
double compute_pass(const ComputeLoop& loop, const Threads& threads) {
  constexpr double kMilliseconds = 10;
  const auto seconds = [&](std::int64_t steps) {
    WorkQueue queue(kComputePieces * threads.count(), 1);
    const auto start = std::chrono::steady_clock::now();
    threads.run(threads.count(), [&](int) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);) loop.run(steps);
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  constexpr std::int64_t kFew = 1000;
  const auto steps = static_cast<std::int64_t>(kMilliseconds / 1e3 / std::max(seconds(kFew), 1e-6) * kFew) + 1;
  const double elapsed = seconds(steps);
  return static_cast<double>(steps * kComputePieces * threads.count()) * loop.operations / 1e9 / elapsed;
}

}  // namespace

Result<Limits> Limits::make(std::shared_ptr<MemoryResource> memory, std::size_t bytes) {
  if (bytes < kLoopMultipleBytes)
    return error(Code::invalid_argument, "limits", "a buffer of {} bytes is too small; {} is the least", bytes,
                 kLoopMultipleBytes);
  Limits limits;
  const auto whole = static_cast<std::int64_t>(round_up(bytes, kLoopMultipleBytes));
  TERN_ASSIGN(buffer, Tensor::allocate(std::move(memory), DType::u8, {whole}, "limits"));
  limits.buffer_ = std::move(buffer);
  // The hardware's limit, whatever TERN_MAX_ISA allows the kernels.
  const Capabilities all = detect_cpu_capabilities();
  limits.read_loops_ = read_loops(all);
  limits.write_loops_ = write_loops(all);
  limits.copy_loops_ = copy_loops(all);
  limits.compute_loops_[Limit::int8_peak] = int8_loops(all);
  limits.compute_loops_[Limit::vnni_peak] = vnni_loops(all);
  limits.compute_loops_[Limit::amx_peak] = amx_loops(all);
  limits.compute_loops_[Limit::f32_peak] = f32_loops(all);
  std::memset(limits.buffer_.data(), 0, limits.buffer_.bytes());  // allocates the pages before the first pass
  return limits;
}

double Limits::pass(Limit limit, std::size_t loop, const Threads& threads, Window window) {
  // A copy goes from the first half of the window to the second.
  const std::size_t halves = limit == Limit::copy ? 2 : 1;
  const std::size_t units = window.bytes / halves / kLoopMultipleBytes;
  const std::size_t pieces = std::max<std::size_t>(units * kLoopMultipleBytes / kPieceBytes, 1);
  auto* base = static_cast<std::byte*>(buffer_.data()) + window.offset_bytes;
  if (limit == Limit::non_temporal_write) ++word_;
  std::atomic<std::uint64_t> found{0};

  const auto start = std::chrono::steady_clock::now();
  WorkQueue queue(static_cast<std::int64_t>(pieces), 1);
  threads.run(threads.count(), [&](int) {
    std::uint64_t read = 0;
    for (std::int64_t piece = 0, next = 0; queue.next(piece, next);) {
      const std::size_t begin = units * static_cast<std::size_t>(piece) / pieces * kLoopMultipleBytes;
      const std::size_t end = units * static_cast<std::size_t>(next) / pieces * kLoopMultipleBytes;
      if (limit == Limit::streaming_read)
        read |= read_loops_[loop].run(base + begin, end - begin);
      else if (limit == Limit::copy)
        copy_loops_[loop].run(base + begin, end - begin, base + units * kLoopMultipleBytes + begin);
      else
        write_loops_[loop].run(base + begin, end - begin, word_);
    }
    found |= read;
  });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  read_result_ |= found;
  return static_cast<double>(halves * units * kLoopMultipleBytes) / 1e9 / elapsed.count();
}

const std::vector<ComputeLoop>& Limits::compute_loops(Limit limit) const { return compute_loops_.at(limit); }

std::string_view Limits::loop_name(Limit limit, std::size_t loop) const {
  if (counts_operations(limit)) return compute_loops(limit)[loop].name;
  if (limit == Limit::copy) return copy_loops_[loop].name;
  return limit == Limit::streaming_read ? read_loops_[loop].name : write_loops_[loop].name;
}

// Times every loop over a quarter of the buffer, each on the next quarter, so that no loop finds in the caches what the
// loop before it left there. Then times the best few over the whole buffer.
std::size_t Limits::calibrate(Limit limit, const Threads& threads) {
  constexpr std::size_t kRounds = 3, kFinalists = 3, kQuarters = 4;
  const std::size_t loops = counts_operations(limit)         ? compute_loops(limit).size()
                            : limit == Limit::streaming_read ? read_loops_.size()
                            : limit == Limit::copy           ? copy_loops_.size()
                                                             : write_loops_.size();
  const std::size_t quarter_bytes = buffer_.bytes() / kQuarters / kLoopMultipleBytes * kLoopMultipleBytes;
  struct Candidate {
    std::size_t loop = 0;
    double rate = 0;
  };
  std::vector<Candidate> candidates(loops);
  for (std::size_t loop = 0; loop < loops; ++loop) candidates[loop].loop = loop;
  if (quarter_bytes != 0 && !counts_operations(limit)) {
    std::size_t turn = 0;
    for (std::size_t round = 0; round < kRounds; ++round)
      for (Candidate& c : candidates) {
        const Window window{turn++ % kQuarters * quarter_bytes, quarter_bytes};
        c.rate = std::max(c.rate, pass(limit, c.loop, threads, window));
      }
    std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::rate);
    candidates.resize(std::min(kFinalists, candidates.size()));
  }
  for (Candidate& c : candidates) c.rate = 0;
  for (std::size_t round = 0; round < kRounds; ++round)
    for (Candidate& c : candidates)
      c.rate = std::max(c.rate, counts_operations(limit) ? compute_pass(compute_loops(limit)[c.loop], threads)
                                                         : pass(limit, c.loop, threads, {0, buffer_.bytes()}));
  const auto best = std::ranges::max_element(candidates, {}, &Candidate::rate);
  calibrated_.push_back({limit, threads.count(), std::string(loop_name(limit, best->loop)), best->rate});
  return best->loop;
}

double Limits::measure(Limit limit, const Threads& threads) {
  if (counts_operations(limit) && compute_loops(limit).empty()) return 0;
  const std::pair key{limit, threads.count()};
  auto found = fastest_.find(key);
  if (found == fastest_.end()) found = fastest_.emplace(key, calibrate(limit, threads)).first;
  if (counts_operations(limit)) return compute_pass(compute_loops(limit)[found->second], threads);
  return pass(limit, found->second, threads, {0, buffer_.bytes()});
}

}  // namespace tern::lab
