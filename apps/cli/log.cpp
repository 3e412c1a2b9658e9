// Writes to standard error: plain text, and the lines of --verbose with the time.
#include "log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>

namespace tern::cli {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_logger_mt("tern");
    made->set_pattern("%H:%M:%S.%e %n: %v");
    made->set_level(spdlog::level::off);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_verbose(bool verbose) { logger().set_level(verbose ? spdlog::level::info : spdlog::level::off); }

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void log_line(std::string_view line) { logger().info("{}", line); }

}  // namespace tern::cli
