// A progress bar on standard error: phases by name; bytes, rate and time left where they are known. Silent when nobody
// watches.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tern::cli {

class ProgressBar {
 public:
  explicit ProgressBar(bool wanted = true);  // shows itself only when standard error is a terminal, too
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void phase(const std::string& what);  // "quantizing"
  void update(std::size_t done_bytes, std::size_t total_bytes);
  void clear();  // gives the line back, before anything else is printed

 private:
  void draw(const std::string& line);

  bool shown_;
  std::string phase_;
  std::size_t drawn_columns_ = 0;
  std::chrono::steady_clock::time_point last_drawn_{};
  std::chrono::steady_clock::time_point phase_began_ = std::chrono::steady_clock::now();
};

}  // namespace tern::cli
