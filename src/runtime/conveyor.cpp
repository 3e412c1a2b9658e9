// A ring of places between the threads that work and the one that finishes.
#include "runtime/conveyor.h"

#include <chrono>
#include <new>

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

}  // namespace

Conveyor::Conveyor(const Threads& threads, std::int64_t places)
    : threads_(threads), places_(static_cast<std::size_t>(places)) {}

double Conveyor::waited_seconds() const { return waited_seconds_ / threads_.count(); }

Status Conveyor::run(std::int64_t items, const Part& work, const Part& finish) {
  items_ = items;
  next_ = finished_ = 0;
  stopped_ = false;
  failed_ = {};
  for (Place& place : places_) place = {};
  threads_.run(threads_.count(), [&](int) { take(work, finish); });
  return std::move(failed_);
}

void Conveyor::take(const Part& work, const Part& finish) {
  const auto places = static_cast<std::int64_t>(places_.size());
  std::unique_lock lock(mutex_);
  for (;;) {
    // The item that all wait for is being worked on, by a thread that has its place.
    if (!stopped_ && next_ < items_ && next_ >= finished_ + places) {
      const auto begin = std::chrono::steady_clock::now();
      // Not for one place alone: to wake up costs more than some items do.
      changed_.wait(lock, [&] { return stopped_ || next_ >= items_ || next_ <= finished_ + places / 2; });
      waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    if (stopped_ || next_ >= items_) return;
    const std::int64_t item = next_++, at = item % places;
    lock.unlock();
    Status status = guarded(work, item, at);
    lock.lock();
    places_[static_cast<std::size_t>(at)] = {true, std::move(status)};
    if (!finishing_) finish_ready(lock, finish);
  }
}

void Conveyor::finish_ready(std::unique_lock<std::mutex>& lock, const Part& finish) {
  const auto places = static_cast<std::int64_t>(places_.size());
  finishing_ = true;
  while (!stopped_ && finished_ < next_ && places_[static_cast<std::size_t>(finished_ % places)].ready) {
    Place& place = places_[static_cast<std::size_t>(finished_ % places)];
    Status status = std::move(place.status);
    place = {};
    if (status.ok()) {
      lock.unlock();
      status = guarded(finish, finished_, finished_ % places);
      lock.lock();
    }
    if (!status.ok()) {
      failed_ = std::move(status);
      stopped_ = true;
    }
    ++finished_;
    changed_.notify_all();
  }
  finishing_ = false;
}

}  // namespace tern
