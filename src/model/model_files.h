// The input and the output of a conversion: reads and writes are timed, pages released in large pieces.
#pragma once

#include <span>

#include "device/threads.h"
#include "model/stage_clock.h"
#include "tern/checkpoint.h"

namespace tern {

inline constexpr std::size_t kCopyBytes = std::size_t{1} << 20;  // pieces that are read, cast and copied

class ModelFiles {
 public:
  ModelFiles(const Checkpoint& in, CheckpointWriter& out, const Threads& threads);

  [[nodiscard]] const Checkpoint& in() const { return in_; }
  [[nodiscard]] const Threads& threads() const { return threads_; }
  [[nodiscard]] StageClock& clock() { return clock_; }

  // Reads pages on the calling thread.
  void fetch(std::span<const std::uint8_t> bytes);
  // Reads all pages in order on all threads, before they access them in any order.
  void fetch_all(std::span<const std::uint8_t> bytes);

  // One call at a time. Errors are unrelated().
  Status write(std::span<const std::uint8_t> bytes);
  Status fill(std::size_t writer_index, std::span<const std::uint8_t> bytes);

  // Passes a status on and remembers whether it is an error that has nothing to do with the current tensor, and so is
  // reported without the tensor's name.
  Status unrelated(Status status);
  [[nodiscard]] bool unrelated() const { return unrelated_; }

  // Releases a tensor's pages as they are done with.
  class Pages {
   public:
    Pages(const Checkpoint& checkpoint, std::size_t index) : checkpoint_(checkpoint), index_(index) {}
    // Those before byte `end`; at once if they are the last.
    void done(std::size_t end, bool last);
    void again() { released_ = 0; }

   private:
    const Checkpoint& checkpoint_;
    std::size_t index_, released_ = 0;
  };

 private:
  Status timed(const Stopwatch& writing, std::size_t bytes, Status status);

  const Checkpoint& in_;
  CheckpointWriter& out_;
  const Threads& threads_;
  StageClock clock_;
  bool unrelated_ = false;
};

}  // namespace tern
