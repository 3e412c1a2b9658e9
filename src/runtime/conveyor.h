// Items that all threads work on, and what must be done with them one after the other, in their order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "device/threads.h"
#include "runtime/stage_clock.h"
#include "tern/status.h"

namespace tern {

// There is no thread for the second part: whoever has worked on an item does it for all that are ready, and the others
// go on. So a machine of two cores has two threads that are busy, not three.
class Conveyor {
 public:
  // Both are told the item and its place, 0 .. places - 1: the buffers it may use until it is finished.
  using Part = std::function<Status(std::int64_t item, std::int64_t place)>;

  // The clock, if there is one, is told how long threads wait for a place, and for the others at the end.
  Conveyor(const Threads& threads, std::int64_t places, StageClock* clock = nullptr);

  // work() of items in any order, finish() of each in order and never two at once. Ends with the first item that fails,
  // in order; of later ones nothing is finished. Memory that is not there is an error, too.
  Status run(std::int64_t items, const Part& work, const Part& finish);

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
  std::vector<Item> ring_;          // items between finished_ and next_
  std::vector<std::int64_t> free_;  // places; the last one that was given back, still in a cache, is taken first
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t items_ = 0, next_ = 0, finished_ = 0;
  bool finishing_ = false, stopped_ = false;
  Status failed_;
  StageClock* clock_;
};

}  // namespace tern
