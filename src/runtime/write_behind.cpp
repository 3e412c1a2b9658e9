// A queue of one piece and the thread behind it.
#include "runtime/write_behind.h"

#include <chrono>
#include <new>
#include <system_error>

namespace tern {
namespace {

constexpr std::size_t kMaxWaiting = 1;  // and one that is being written

}  // namespace

WriteBehind::WriteBehind(CheckpointWriter& writer) : writer_(writer) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {  // push() does without
  }
}

WriteBehind::~WriteBehind() { stop(); }

void WriteBehind::write(Piece& piece) {
  const bool useless = [&] {
    const std::lock_guard lock(mutex_);
    return !failed_.ok();
  }();
  Status status;
  try {
    if (!useless) status = writer_.write(piece.bytes);
  } catch (const std::bad_alloc&) {  // an error that a full disk makes has a text, too
    status = Error{Code::memory_allocation, "there is no memory left", "write_model"};
  }
  if (piece.done) piece.done();
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  failed_ = std::move(status);
}

void WriteBehind::work() {
  for (;;) {
    Piece piece;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      piece = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
    }
    write(piece);
    {
      const std::lock_guard lock(mutex_);
      busy_ = false;
    }
    changed_.notify_all();
  }
}

Status WriteBehind::push(std::span<const std::uint8_t> bytes, std::function<void()> done) {
  Piece piece{bytes, std::move(done)};
  if (!thread_.joinable()) {
    write(piece);
  } else {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < kMaxWaiting; });
    waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    waiting_.push_back(std::move(piece));
  }
  changed_.notify_all();
  const std::lock_guard lock(mutex_);
  if (failed_.ok()) return {};
  return Error(failed_.error());
}

void WriteBehind::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status WriteBehind::finish() {
  stop();
  if (failed_.ok()) return {};
  return Error(failed_.error());
}

}  // namespace tern
