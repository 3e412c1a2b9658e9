// What a bench needs on a GPU: its limits, and a clock made of events and graphs.
#pragma once

#include <memory>
#include <vector>

#include "lab/bench.h"
#include "lab/measure.h"

namespace tern::lab {

// The limits of a GPU: reading, writing and copying a buffer of its memory, copying from the host, and matrix
// instructions.
class GpuLimits {
 public:
  static Result<GpuLimits> make(const Context& context, std::size_t bytes);
  // GB/s or 10^9 operations per second of one pass; 0 for a limit that the GPU does not have. The first call for each
  // limit searches for its fastest loop.
  double measure(Limit limit);
  [[nodiscard]] const std::vector<CalibratedLoop>& calibrated() const;

 private:
  struct State;
  explicit GpuLimits(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Times runs of a subject as replays of a graph, so that launches from the host are not measured.
Result<TimedRuns> gpu_clock(const Context& context, const Subject& subject);

}  // namespace tern::lab
