// A ring of places between the threads that process items and the one that finishes them.
#include "model/conveyor.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/errors.h"

namespace tern {
namespace {

Status guarded(const Conveyor::Part& part, std::int64_t item, std::int64_t place) {
  try {
    return part(item, place);
  } catch (const std::bad_alloc&) {
    return Error{Code::memory_allocation, "there is no memory left", "write_model"};
  }
}

struct Turn {
  enum What : std::uint8_t { piece, serial_task, parallel_task } what = piece;
  std::int64_t number = 0;
};

Turn turn_of(const Conveyor::Line& line, std::int64_t item) {
  const std::int64_t others = line.serial_tasks + line.parallel_tasks, items = line.pieces + others;
  // `part` items are spread evenly over `all`: how many of them are among the first `some`.
  const auto before = [](std::int64_t some, std::int64_t part, std::int64_t all) { return some * part / all; };
  const std::int64_t other = before(item, others, items);
  if (before(item + 1, others, items) == other) return {Turn::piece, item - other};
  const std::int64_t parallel_task = before(other, line.parallel_tasks, others);
  if (before(other + 1, line.parallel_tasks, others) == parallel_task)
    return {Turn::serial_task, other - parallel_task};
  return {Turn::parallel_task, parallel_task};
}

}  // namespace

Status Conveyor::run(const Line& line) {
  return run(
      line.pieces + line.serial_tasks + line.parallel_tasks,
      [&](std::int64_t item, std::int64_t place) -> Status {
        const Turn turn = turn_of(line, item);
        if (turn.what == Turn::parallel_task) line.parallel_task(turn.number);
        if (turn.what != Turn::piece) return {};
        if (line.fetch) line.fetch(turn.number);
        return line.step ? line.step(turn.number, place) : Status();
      },
      [&](std::int64_t item, std::int64_t place) -> Status {
        const Turn turn = turn_of(line, item);
        if (turn.what == Turn::serial_task) return line.serial_task();
        return turn.what == Turn::piece && line.sink ? line.sink(turn.number, place) : Status();
      });
}

Conveyor::Conveyor(const Threads& threads, std::int64_t places, StageClock* clock)
    : threads_(threads), ring_(static_cast<std::size_t>(places)), clock_(clock) {}

Status Conveyor::run(std::int64_t items, const Part& work, const Part& finish) {
  items_ = items;
  next_ = finished_ = 0;
  stopped_ = false;
  failed_ = {};
  free_.clear();
  for (std::size_t i = ring_.size(); i-- > 0;) {
    ring_[i] = {};
    free_.push_back(static_cast<std::int64_t>(i));
  }
  const StageClock::Together together(clock_);
  const Stopwatch all;
  std::atomic<double> taken = 0;  // seconds, of all threads
  threads_.run(threads_.count(), [&](int) {
    const Stopwatch mine;
    take(work, finish);
    taken += mine.seconds();
  });
  if (clock_ != nullptr) clock_->idle(std::max(all.seconds() * threads_.count() - taken, 0.0));
  return std::move(failed_);
}

void Conveyor::take(const Part& work, const Part& finish) {
  std::unique_lock lock(mutex_);
  for (;;) {
    // This cannot deadlock: the item to be finished next already has its place and a thread that processes it.
    if (!stopped_ && next_ < items_ && free_.empty()) {
      const Stopwatch waiting;
      // Waits until several places are free: waking up costs more than some items do.
      changed_.wait(lock, [&] { return stopped_ || next_ >= items_ || enough_free(); });
      if (clock_ != nullptr) clock_->waited_for_writes(waiting.seconds());
    }
    if (stopped_ || next_ >= items_) return;
    if (free_.empty()) continue;
    const std::int64_t item = next_++, place = free_.back();
    free_.pop_back();
    lock.unlock();
    Status status = guarded(work, item, place);
    lock.lock();
    ring_[static_cast<std::size_t>(item) % ring_.size()] = {true, place, std::move(status)};
    if (!finishing_) finish_ready(lock, finish);
  }
}

void Conveyor::finish_ready(std::unique_lock<std::mutex>& lock, const Part& finish) {
  finishing_ = true;
  while (!stopped_ && ring_[static_cast<std::size_t>(finished_) % ring_.size()].ready) {
    Item item = std::exchange(ring_[static_cast<std::size_t>(finished_) % ring_.size()], {});
    if (item.status.ok()) {
      lock.unlock();
      item.status = guarded(finish, finished_, item.place);
      lock.lock();
    }
    if (!item.status.ok()) {
      failed_ = std::move(item.status);
      stopped_ = true;
    }
    ++finished_;
    free_.push_back(item.place);
    if (stopped_ || enough_free()) changed_.notify_all();
  }
  finishing_ = false;
}

}  // namespace tern
