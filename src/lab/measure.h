// How a figure is measured: alternating samples of a kernel and of a limit, and their medians.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/status.h"

namespace tern::lab {

// The q-quantile, interpolated linearly between neighbours; 0 for no values.
double quantile(std::vector<double> values, double q);
double median(std::vector<double> values);

// The seconds that `runs` runs in a row take: from events on a GPU, from the wall clock on a CPU.
using TimedRuns = std::function<Result<double>(std::int64_t runs)>;

// Times run(turn) on the wall clock; turn counts up over all calls, so that a cold subject can walk its buffers.
TimedRuns wall_clock(std::function<Status(std::int64_t turn)> run);

struct Sampling {
  int repetitions = 0;  // 0: about 30, at least 5 for a run slower than half a second, within the budget
  double budget_s = 8;  // no new sample starts after this; ignored when repetitions are given
  // Shorter runs are timed in batches, so that neither the clock's resolution nor the wake-up of a thread matters.
  double min_sample_s = 0.01;
  bool warm = false;  // an untimed run precedes each sample, to reload what the limit's pass evicted
};

struct Samples {
  std::vector<double> run_s;   // seconds of one run, per sample
  std::vector<double> limits;  // the limit as measured just before each sample
  std::int64_t runs_per_sample = 1;
};

// Limit, kernel, limit, kernel, ...
Result<Samples> sample(const TimedRuns& kernel, const std::function<double()>& limit, const Sampling& sampling);

struct Summary {
  double median_s = 0, p10_s = 0, p90_s = 0;
  double limit = 0;  // median of the limit's measurements
  double share = 0;  // median over the samples of (work / seconds) / limit
};

// `work` is what one run does in the limit's unit: GB for GB/s.
Summary summarize(const Samples& samples, double work);

}  // namespace tern::lab
