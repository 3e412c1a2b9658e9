// A progress bar on standard error: phases by name, and bytes, rate and time left if they are known. Prints nothing
// unless standard error is a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tern::cli {

class ProgressBar {
 public:
  explicit ProgressBar(bool wanted = true);  // also requires a terminal
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void phase(const std::string& what);  // "quantizing"
  void update(std::size_t done_bytes, std::size_t total_bytes);
  void clear();  // erases the line; call before printing anything else

 private:
  void draw(const std::string& line);

  bool shown_;
  std::string phase_;
  std::size_t drawn_columns_ = 0;
  std::chrono::steady_clock::time_point last_drawn_{};
  std::chrono::steady_clock::time_point phase_began_ = std::chrono::steady_clock::now();
};

}  // namespace tern::cli
