// Writes a checkpoint on a thread of its own, so that the disk and the computation work at the same time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "tern/checkpoint.h"

namespace tern {

class WriteBehind {
 public:
  explicit WriteBehind(CheckpointWriter& writer);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // The next bytes; they must stay until `done` is called, which happens on the other thread. Waits while a piece
  // waits behind the one that is being written. Fails when an earlier piece did.
  Status push(std::span<const std::uint8_t> bytes, std::function<void()> done);
  // Waits until everything is written. Nothing may be pushed any more.
  Status finish();
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

 private:
  struct Piece {
    std::span<const std::uint8_t> bytes;
    std::function<void()> done;
  };
  void work();
  void write(Piece& piece);
  void stop();

  CheckpointWriter& writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> waiting_;
  bool busy_ = false, ending_ = false;
  Status failed_;
  double waited_seconds_ = 0;
  std::thread thread_;  // not started where the process may have no more threads: push() writes itself
};

}  // namespace tern
