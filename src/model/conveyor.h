// Runs items in two steps: all threads process them in any order, then each is finished, one at a time and in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "device/threads.h"
#include "model/stage_clock.h"
#include "tern/status.h"

namespace tern {

// No thread is reserved for the second step: whichever thread has processed an item finishes all that are ready, and
// the others go on. So a machine with two cores has two busy threads, not three.
class Conveyor {
 public:
  // Both steps get the item and its place, 0 .. places - 1, which identifies the buffers that the item may use until it
  // is finished.
  using Part = std::function<Status(std::int64_t item, std::int64_t place)>;

  // The clock, if there is one, records how long threads wait for a place, and for each other at the end.
  Conveyor(const Threads& threads, std::int64_t places, StageClock* clock = nullptr);

  // Calls work() for items in any order and finish() for each in order, never two at once. Stops at the first item that
  // fails, in order; no later one is finished. An allocation failure is an error, too.
  Status run(std::int64_t items, const Part& work, const Part& finish);

  // A tensor, piece by piece: a source, a step, a sink. Parts that are not set do nothing.
  struct Line {
    std::int64_t pieces = 0;
    std::function<void(std::int64_t piece)> fetch = {};  // on any thread: reads the piece from its file
    Part step = {};                                      // on any thread: converts it
    Part sink = {};                                      // one at a time and in order: writes it and adds up figures
    // Tasks of others, spread evenly among the pieces: those that must run one at a time (copying tensors), so that one
    // thread writes while the others compute, and those that may run at the same time (uploads of the next matrix).
    std::int64_t serial_tasks = 0;
    std::function<Status()> serial_task = {};
    std::int64_t parallel_tasks = 0;
    std::function<void(std::int64_t)> parallel_task = {};
  };
  Status run(const Line& line);

 private:
  struct Item {
    bool ready = false;
    std::int64_t place = 0;
    Status status;
  };
  [[nodiscard]] bool enough_free() const { return 2 * free_.size() >= ring_.size(); }
  void take(const Part& work, const Part& finish);
  void finish_ready(std::unique_lock<std::mutex>& lock, const Part& finish);

  const Threads& threads_;
  std::vector<Item> ring_;          // items that are claimed but not finished
  std::vector<std::int64_t> free_;  // places; the one returned last is taken first, as it is still in a cache
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t items_ = 0, next_ = 0, finished_ = 0;
  bool finishing_ = false, stopped_ = false;
  Status failed_;
  StageClock* clock_;
};

}  // namespace tern
