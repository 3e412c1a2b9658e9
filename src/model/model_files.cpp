// Times what threads wait for, and remembers which errors are the files'.
#include "model/model_files.h"

#include <algorithm>

#include "base/checked.h"
#include "io/mapped_file.h"
#include "model/conveyor.h"

namespace tern {
namespace {

constexpr std::size_t kReleaseBytes = std::size_t{16} << 20;  // large: each call interrupts other cores (TLB shootdown)

}  // namespace

ModelFiles::ModelFiles(const Checkpoint& in, CheckpointWriter& out, const Threads& threads)
    : in_(in), out_(out), threads_(threads), clock_(threads.count()) {}

void ModelFiles::fetch(std::span<const std::uint8_t> bytes) {
  const Stopwatch reading;
  fetch_pages(bytes);
  clock_.spent(Stage::reading, reading.seconds());
  clock_.busy(Stage::reading, 0, bytes.size());
}

void ModelFiles::fetch_all(std::span<const std::uint8_t> bytes) {
  const auto piece = [&](std::int64_t item) {
    const std::size_t at = static_cast<std::size_t>(item) * kCopyBytes;
    fetch(bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at)));
  };
  const std::int64_t pieces = ceil_div(static_cast<std::int64_t>(bytes.size()), kCopyBytes);
  (void)Conveyor(threads_, 4 * threads_.count(), &clock_).run({.pieces = pieces, .fetch = piece}).ok();
}

Status ModelFiles::timed(const Stopwatch& writing, std::size_t bytes, Status status) {
  const double seconds = writing.seconds();
  clock_.spent(Stage::writing, seconds);
  clock_.busy(Stage::writing, seconds, bytes);
  return unrelated(std::move(status));
}

Status ModelFiles::write(std::span<const std::uint8_t> bytes) {
  const Stopwatch writing;
  return timed(writing, bytes.size(), out_.write(bytes));
}

Status ModelFiles::fill(std::size_t writer_index, std::span<const std::uint8_t> bytes) {
  const Stopwatch writing;
  return timed(writing, bytes.size(), out_.fill(writer_index, bytes));
}

Status ModelFiles::unrelated(Status status) {
  if (!status.ok()) unrelated_ = true;
  return status;
}

void ModelFiles::Pages::done(std::size_t end, bool last) {
  if (!last && end - released_ < kReleaseBytes) return;
  checkpoint_.release(index_, released_, end - released_);
  released_ = end;
}

}  // namespace tern
