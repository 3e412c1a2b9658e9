// What a bench needs of a GPU: its limits, and a clock that counts by events and graphs.
#pragma once

#include <memory>
#include <vector>

#include "lab/bench.h"
#include "lab/measure.h"

namespace tern::lab {

// The streaming read and write of a GPU over a buffer of its memory.
class GpuLimits {
 public:
  static Result<GpuLimits> make(const Context& context, std::size_t bytes);
  // GB/s of one pass; 0 for a limit that is not of memory. The first of each is preceded by a search for the best loop.
  double measure(Limit limit);
  [[nodiscard]] const std::vector<CalibratedLoop>& calibrated() const;

 private:
  struct State;
  explicit GpuLimits(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Times runs of a subject as a graph that is replayed: no launch from the host counts.
Result<TimedRuns> gpu_clock(const Context& context, const Subject& subject);

}  // namespace tern::lab
