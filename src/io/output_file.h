// A file that appears under its name only when it is whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tern/io.h"
#include "tern/status.h"

namespace tern {

// Writes to a temporary name beside `path`; commit() gives it the name, dropping it without commit() removes it.
class OutputFile {
 public:
  // A file or link at `path` is replaced by commit(); a directory, pipe or device is refused here. `where` is the
  // operation that errors name and must outlive the file.
  static Result<OutputFile> create(const std::string& path, std::string_view where);

  ~OutputFile();
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status write(std::span<const std::uint8_t> bytes);
  Status overwrite(std::size_t offset, std::span<const std::uint8_t> bytes);  // of what is written or skipped already
  Status skip(std::size_t bytes);  // zeros where nothing is overwritten; the last bytes of a file are not skipped
  [[nodiscard]] std::size_t written_bytes() const { return written_bytes_; }

  // Flushes to the disk and renames. When it fails nothing is left behind and what was at `path` is untouched.
  Status commit();

 private:
  OutputFile(int fd, std::string path, std::string temporary, std::string_view where)
      : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)), where_(where) {}
  Status failed(int number) const;

  int fd_ = -1;
  std::string path_;
  std::string temporary_;  // empty once renamed
  std::string_view where_;
  std::size_t written_bytes_ = 0;
};

// Removes what processes that were killed left of this output: temporary files beside it that nobody holds.
void remove_stale_outputs(const std::string& path);

bool same_file(const std::string& a, const std::string& b);

// Passes on to the caller's callback, every few MiB, how much of `total_bytes` is written.
class ProgressMeter {
 public:
  ProgressMeter(const Progress& callback, std::size_t total_bytes) : callback_(callback), total_bytes_(total_bytes) {}
  void advance(std::size_t bytes);
  void finish() const;  // the last call says total of total, and only after success

 private:
  static constexpr std::size_t kStepBytes = std::size_t{4} << 20;  // a few ms of disk: smooth, and free to call
  const Progress& callback_;
  std::size_t total_bytes_;
  std::size_t done_bytes_ = 0;
  std::size_t next_bytes_ = kStepBytes;
};

// Bytes that are hashed, written and reported together, so that each is still in cache for the next.
inline constexpr std::size_t kWriteChunkBytes = std::size_t{1} << 20;

}  // namespace tern
