// An observer that remembers which kernel an op ran on and for how long, and logs every event under --verbose.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "tern/observer.h"

namespace tern::cli {

class RunClock final : public Observer {
 public:
  // Counts runs of `op` only; `finished` is called after each of them.
  explicit RunClock(std::string op = {}, std::function<void()> finished = {});

  void plan_selected(std::string_view kernel, std::string_view note) override;
  void run_started(const RunEvent& event) override;
  void run_finished(const RunEvent& event, const Status& status) override;

  [[nodiscard]] double seconds() const;      // in successful runs; runs at the same time count once
  [[nodiscard]] std::string kernel() const;  // of the last run

 private:
  [[nodiscard]] bool counts(const RunEvent& event) const;

  const std::string op_;
  const std::function<void()> finished_;
  mutable std::mutex mutex_;
  int running_ = 0;
  std::chrono::steady_clock::time_point started_;  // when the first of the running ones started
  double seconds_ = 0;
  std::string kernel_;
};

}  // namespace tern::cli
