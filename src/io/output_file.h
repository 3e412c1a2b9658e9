// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tern/io.h"
#include "tern/status.h"

namespace tern {

// Takes the bytes of an output in their order.
class OutputBytes {
 public:
  virtual ~OutputBytes() = default;
  virtual Status write(std::span<const std::uint8_t> bytes) = 0;
  [[nodiscard]] std::size_t written_bytes() const { return written_bytes_; }

 protected:
  std::size_t written_bytes_ = 0;
};

// Passes the bytes to a caller's function; what was passed cannot be overwritten.
class OutputStream final : public OutputBytes {
 public:
  static Result<OutputStream> create(const ByteWriter& writer, std::string_view where);  // refuses an empty function
  Status write(std::span<const std::uint8_t> bytes) override;

 private:
  explicit OutputStream(const ByteWriter& writer) : writer_(&writer) {}
  const ByteWriter* writer_;
};

// Writes to a temporary file next to `path`. commit() renames it to `path`; destruction without commit() deletes it.
class OutputFile final : public OutputBytes {
 public:
  // A file at `path` is replaced by commit(). A link is followed and kept: its target is replaced, or created if it
  // does not exist. A directory, pipe, device or socket is refused. Removes temporary files of this output that killed
  // processes left behind. `where` is the operation that errors name, and must outlive the file.
  static Result<OutputFile> create(const std::string& path, std::string_view where);

  ~OutputFile() override;
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  Status write(std::span<const std::uint8_t> bytes) override;
  Status overwrite(std::size_t offset, std::span<const std::uint8_t> bytes);  // only bytes that were written or skipped
  Status skip(std::size_t bytes);  // leaves zeros; at the end of the file, overwrite the last byte

  // Flushes to the disk and renames. When it fails nothing is left behind and what was at `path` is untouched.
  Status commit();

 private:
  OutputFile(int fd, std::string target, std::string shown, std::string temporary, std::string_view where)
      : fd_(fd),
        target_(std::move(target)),
        shown_(std::move(shown)),
        temporary_(std::move(temporary)),
        where_(where) {}
  Status failed(int number) const;

  int fd_ = -1;
  std::string target_;     // not a link
  std::string shown_;      // for errors: the path as given, and the target of a link
  std::string temporary_;  // empty once renamed
  std::string_view where_;
};

bool same_file(const std::string& a, const std::string& b);

// Tells the caller's callback every few MiB how much of `total_bytes` is written.
class ProgressMeter {
 public:
  ProgressMeter(const Progress& callback, std::size_t total_bytes) : callback_(callback), total_bytes_(total_bytes) {}
  void advance(std::size_t bytes);
  void finish() const;  // the last call, only after success: total_bytes of total_bytes

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
