// The only way in which the core reports what it does: monitoring, tracing and logging are built on this interface.
#pragma once

#include <string_view>

#include "tern/status.h"

namespace tern {

struct RunEvent {
  std::string_view kernel;  // "ternary_quantize.i2.x86_avx2"
  std::string_view device;  // "cpu"
  int threads = 1;
};

// Called on the thread that does the work; must be thread-safe and must not call back into the library. Models are
// quantized piece by piece, several at once: each piece is a run with one thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void plan_selected(std::string_view /*kernel*/, std::string_view /*note*/) {}
  virtual void run_started(const RunEvent&) {}
  virtual void run_finished(const RunEvent&, const Status&) {}
};

}  // namespace tern
