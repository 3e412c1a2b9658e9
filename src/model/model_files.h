// The input and the output of a conversion: reads and writes are timed, pages released in large pieces.
#pragma once

#include <algorithm>
#include <span>

#include "base/checked.h"
#include "io/mapped_file.h"
#include "model/conveyor.h"
#include "tern/checkpoint.h"

namespace tern {

inline constexpr std::size_t kCopyBytes = std::size_t{1} << 20;  // pieces that are read, cast and copied
inline constexpr std::size_t kReleaseBytes = std::size_t{16}
                                             << 20;  // large: each call interrupts other cores (TLB shootdown)

class ModelFiles {
 public:
  ModelFiles(const Checkpoint& from, CheckpointWriter& to, const Threads& pool)
      : in(from), threads(pool), clock(pool.count()), out_(to) {}

  const Checkpoint& in;
  const Threads& threads;
  StageClock clock;

  // Reads pages on the calling thread.
  void fetch(std::span<const std::uint8_t> bytes) {
    const Stopwatch reading;
    fetch_pages(bytes);
    clock.spent(Stage::reading, reading.seconds());
    clock.busy(Stage::reading, 0, bytes.size());
  }
  // Reads all pages in order on all threads, before they access them in any order.
  void fetch_all(std::span<const std::uint8_t> bytes) {
    const auto piece = [&](std::int64_t item) {
      const std::size_t at = static_cast<std::size_t>(item) * kCopyBytes;
      fetch(bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at)));
    };
    for_each(ceil_div(static_cast<std::int64_t>(bytes.size()), kCopyBytes), piece);
  }
  // Calls part(0) to part(count - 1), each once, on all threads.
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& part) {
    (void)Conveyor(threads, 4 * threads.count(), &clock).run({.pieces = count, .fetch = part}).ok();
  }

  // One call at a time. Without an index, the next bytes of the output; with one, those of a tensor that was skipped.
  Status write(std::span<const std::uint8_t> bytes, std::optional<std::size_t> skipped = {}) {
    const Stopwatch writing;
    Status status = skipped ? out_.fill(*skipped, bytes) : out_.write(bytes);
    const double seconds = writing.seconds();
    clock.spent(Stage::writing, seconds);
    clock.busy(Stage::writing, seconds, bytes.size());
    return unrelated(std::move(status));
  }

  // Passes a status on and remembers whether it is an error that has nothing to do with the current tensor, and so is
  // reported without the tensor's name.
  Status unrelated(Status status) {
    unrelated_ = unrelated_ || !status.ok();
    return status;
  }
  [[nodiscard]] bool unrelated() const { return unrelated_; }

  // Releases a tensor's pages before byte `end`; at once if they are the last. `released` is where the rest begins.
  void release(std::size_t index, std::size_t& released, std::size_t end, bool last) const {
    if (!last && end - released < kReleaseBytes) return;
    in.release(index, released, end - released);
    released = end;
  }

 private:
  CheckpointWriter& out_;
  bool unrelated_ = false;
};

}  // namespace tern
