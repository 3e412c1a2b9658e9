// The only way in which the core reports what it does: monitoring, tracing and logging are built on this interface.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tern/status.h"

namespace tern {

struct RunEvent {
  std::string_view kernel;  // "ternary_quantize.i2.x86_avx2"
  std::string_view device;  // "cpu"
  int threads = 1;
  std::string_view plan = {};   // PlanId::str()
  int stream = 0;               // its number in the context; a wrapped or internal stream has one above the others
  std::int64_t bytes = 0;       // what the run reads and writes at least: each operand once
  std::int64_t operations = 0;  // of linear 2 * m * n * k; of other ops one for each element
  std::optional<double> milliseconds = {};  // only in run_timed()
};

// Called on the thread that does the work; must be thread-safe and must not call back into the library. Models are
// quantized piece by piece, several at once: each piece is a run with one thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void plan_selected(std::string_view /*kernel*/, std::string_view /*note*/) {}
  virtual void run_started(const RunEvent&) {}
  // On a GPU the kernel has been launched then.
  virtual void run_finished(const RunEvent&, const Status&) {}
  // With ContextConfig::profiling: how long a run took that did not fail. On a CPU right after run_finished(); on a GPU
  // by events, when they are read: in Context::profile(), or after some thousand runs. Runs captured into a graph have
  // no time.
  virtual void run_timed(const RunEvent&) {}
};

}  // namespace tern
