// Sums up the times of the stages, and finds the one that took most.
#include "model/stage_clock.h"

#include <algorithm>

#include "base/words.h"

namespace tern {
namespace {

constexpr WordTable<Stage, kStageCount> kStages = {{{Stage::reading, "reading"},
                                                    {Stage::computing, "computing"},
                                                    {Stage::bus, "bus"},
                                                    {Stage::gpu, "gpu"},
                                                    {Stage::writing, "writing"}}};

std::size_t index(Stage stage) { return static_cast<std::size_t>(stage); }

}  // namespace

std::string_view name(Stage stage) { return word_of(kStages, stage); }

double StageTime::gb_per_s() const { return busy_seconds > 0 ? static_cast<double>(bytes) / busy_seconds / 1e9 : 0; }

const StageTime& ModelReport::spent(Stage stage) const { return stages[index(stage)]; }

Stage ModelReport::limited_by() const {
  const auto most = std::max_element(stages.begin(), stages.end(),
                                     [](const StageTime& a, const StageTime& b) { return a.seconds < b.seconds; });
  return static_cast<Stage>(most - stages.begin());
}

void StageClock::spent(Stage stage, double seconds) {
  const std::lock_guard lock(mutex_);
  stages_[index(stage)].seconds += seconds * share_;
}

void StageClock::busy(Stage stage, double seconds, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  stages_[index(stage)].busy_seconds += seconds;
  stages_[index(stage)].bytes += bytes;
}

void StageClock::waited_for_writes(double seconds) {
  const std::lock_guard lock(mutex_);
  waiting_seconds_ += seconds * share_;
}

void StageClock::idle(double seconds) {
  const std::lock_guard lock(mutex_);
  idle_seconds_ += seconds * share_;
}

void StageClock::settle(double seconds, double flush_seconds, std::size_t in_bytes, ModelReport& report) {
  const std::lock_guard lock(mutex_);
  StageTime& writing = stages_[index(Stage::writing)];
  writing.seconds += waiting_seconds_ + flush_seconds;
  writing.busy_seconds += flush_seconds;
  // All threads read at once, so the file was busy for as long as each of them (on average) was reading.
  StageTime& reading = stages_[index(Stage::reading)];
  reading.busy_seconds = reading.seconds;
  double others = idle_seconds_;
  for (const StageTime& stage : stages_) others += stage.seconds;
  StageTime& computing = stages_[index(Stage::computing)];
  computing = {.seconds = std::max(seconds - others, 0.0), .bytes = in_bytes};
  computing.busy_seconds = computing.seconds;
  report.seconds = seconds;
  report.flush_seconds = flush_seconds;
  report.waiting_seconds = waiting_seconds_;
  report.idle_seconds = idle_seconds_;
  report.stages = stages_;
}

}  // namespace tern
