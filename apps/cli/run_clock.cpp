// An observer that remembers which kernel an op ran on and for how long, and logs every event under --verbose.
#include "run_clock.h"

#include <fmt/format.h>

#include <utility>

#include "log.h"
#include "tern/text.h"
#include "units.h"

namespace tern::cli {

RunClock::RunClock(std::string op, std::function<void()> finished)
    : op_(std::move(op)), finished_(std::move(finished)) {}

void RunClock::plan_selected(std::string_view kernel, std::string_view note) {
  log_line(fmt::format("selected {}{}{}", kernel, note.empty() ? "" : ": ", note));
}

void RunClock::run_started(const RunEvent& event) {
  log_line(fmt::format("{} starts on {} with {}", event.kernel, event.device, counted(event.threads, "thread")));
  if (!counts(event)) return;
  const std::lock_guard lock(mutex_);
  if (running_++ == 0) started_ = std::chrono::steady_clock::now();
}

void RunClock::run_finished(const RunEvent& event, const Status& status) {
  const auto now = std::chrono::steady_clock::now();
  log_line(fmt::format("{} {}", event.kernel, status.ok() ? "finished" : one_line(status.error().str())));
  if (!counts(event)) return;
  {
    const std::lock_guard lock(mutex_);
    const bool last = --running_ == 0;
    if (!status.ok()) return;
    if (last) seconds_ += std::chrono::duration<double>(now - started_).count();
    kernel_ = event.kernel;
  }
  if (finished_) finished_();
}

double RunClock::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

std::string RunClock::kernel() const {
  const std::lock_guard lock(mutex_);
  return kernel_;
}

bool RunClock::counts(const RunEvent& event) const {
  return event.kernel.size() > op_.size() && event.kernel.starts_with(op_) && event.kernel[op_.size()] == '.';
}

}  // namespace tern::cli
