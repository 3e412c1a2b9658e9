// Where the time of a conversion goes: what each thread does or waits for, averaged over the threads.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "tern/model.h"

namespace tern {

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Thread-safe. Time that is not reported for any stage counts as computing: the kernels, and all short steps.
class StageClock {
 public:
  explicit StageClock(int threads) : threads_(threads) {}

  // While a Together exists, all threads work, so one second of one thread counts as 1 / threads seconds. Otherwise it
  // counts in full, because the other threads wait for it.
  class Together {
   public:
    explicit Together(StageClock* clock) : clock_(clock) {
      if (clock_ != nullptr) clock_->share_ = 1.0 / clock_->threads_;
    }
    ~Together() {
      if (clock_ != nullptr) clock_->share_ = 1;
    }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

   private:
    StageClock* clock_;
  };

  // A thread spent this time in a stage, or waiting for it.
  void spent(Stage stage, double seconds);
  // The stage itself was active for this time and processed this many bytes; they give its speed.
  void busy(Stage stage, double seconds, std::size_t bytes);
  void waited_for_writes(double seconds);
  void idle(double seconds);

  // At the end of a run that took `seconds`, flushing included, and read `in_bytes`.
  void settle(double seconds, double flush_seconds, std::size_t in_bytes, ModelReport& report);

 private:
  const int threads_;
  std::atomic<double> share_ = 1;
  std::mutex mutex_;  // guards the members below
  std::array<StageTime, kStageCount> stages_ = {};
  double waiting_seconds_ = 0, idle_seconds_ = 0;
};

}  // namespace tern
