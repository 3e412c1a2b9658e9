// A progress bar on standard error: phases by name, and bytes, rate and time left if they are known. Prints nothing
// unless standard error is a terminal.
#include "progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "log.h"
#include "units.h"

namespace tern::cli {
namespace {

constexpr std::size_t kBarColumns = 30;
constexpr double kRateAfterSeconds = 0.5;
constexpr auto kBetweenDrawings = std::chrono::milliseconds(50);  // 20 frames a second look smooth

}  // namespace

ProgressBar::ProgressBar(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::phase(const std::string& what) {
  phase_ = what;
  phase_began_ = std::chrono::steady_clock::now();
  last_drawn_ = {};
  if (shown_) draw(fmt::format("{:<12}", phase_));
}

void ProgressBar::update(std::size_t done_bytes, std::size_t total_bytes) {
  if (!shown_ || total_bytes == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (done_bytes < total_bytes && now - last_drawn_ < kBetweenDrawings) return;
  last_drawn_ = now;
  const double share = std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_bytes));
  const auto filled = static_cast<std::size_t>(share * kBarColumns);
  // In the first moments the rate would jump about.
  std::string rate;
  const double seconds = std::chrono::duration<double>(now - phase_began_).count();
  if (seconds > kRateAfterSeconds && done_bytes > 0)
    rate = fmt::format(", {}, {:.0f} s left", gigabytes_per_second(static_cast<double>(done_bytes) / seconds / 1e9),
                       seconds / share - seconds);
  draw(fmt::format("{:<12} [{}{}] {:3.0f} %  {} of {}{}", phase_, std::string(filled, '='),
                   std::string(kBarColumns - filled, ' '), share * 100, human_bytes(done_bytes),
                   human_bytes(total_bytes), rate));
}

void ProgressBar::clear() {
  if (drawn_columns_ == 0) return;
  say(fmt::format("\r{}\r", std::string(drawn_columns_, ' ')));
  drawn_columns_ = 0;
}

void ProgressBar::draw(const std::string& line) {
  const std::size_t rest = drawn_columns_ > line.size() ? drawn_columns_ - line.size() : 0;
  say(fmt::format("\r{}{}", line, std::string(rest, ' ')));
  drawn_columns_ = line.size();
}

}  // namespace tern::cli
