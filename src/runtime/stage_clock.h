// Where the time of a conversion goes: what each thread does or waits for, in the mean over the threads.
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

// For any thread. What nobody claims was computing: the kernels, and all that is neither long nor worth a name.
class StageClock {
 public:
  explicit StageClock(int threads) : threads_(threads) {}

  // While all threads work on their own, a second of one is a share of a second; else the others wait for it.
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

  // A thread spent this with a stage, or waiting for it.
  void spent(Stage stage, double seconds);
  // The stage itself was busy with so many bytes: what its speed is told from.
  void busy(Stage stage, double seconds, std::size_t bytes);
  void waited_for_writes(double seconds);
  void idle(double seconds);

  // Of a run that took so long, flushing included, and read so many bytes.
  void settle(double seconds, double flush_seconds, std::size_t in_bytes, ModelReport& report);

 private:
  const int threads_;
  std::atomic<double> share_ = 1;
  std::mutex mutex_;  // of what follows
  std::array<StageTime, kStageCount> stages_ = {};
  double waiting_seconds_ = 0, idle_seconds_ = 0;
};

}  // namespace tern
