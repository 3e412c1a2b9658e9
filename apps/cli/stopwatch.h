// Measures the seconds since it was made or last restarted.
#pragma once

#include <chrono>

namespace tern::cli {

class Stopwatch {
 public:
  void restart() { start_ = std::chrono::steady_clock::now(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tern::cli
