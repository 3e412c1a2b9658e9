// Tensors whose bytes become others, piece by piece: floats that are cast, codes in another order, and copies.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "format/checksum.h"
#include "model/cast_floats.h"
#include "model/coded_weights.h"
#include "model/model_files.h"

namespace tern {

// What becomes of a piece of the input.
struct BytePiece {
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> scales;  // where they are a separate tensor
  CastLoss cast;
  CodedLoss coded;
};

// What distinguishes one kind of conversion from another.
struct ByteStep {
  // Converts the input's bytes from `at` on, on any thread; none: they are copied.
  std::function<Status(std::size_t at, std::span<const std::uint8_t> in, BytePiece& out)> convert = {};
  std::size_t piece_bytes = kCopyBytes;
  bool checked = false;  // the checksum of the input is already compared

  // For a plan to cast or to copy.
  static Result<ByteStep> of(const Checkpoint& checkpoint, const ModelTensor& tensor, const TensorPlan& plan);
};

class ByteLine {
 public:
  struct Outcome {
    TensorReport& report;
    std::vector<std::uint8_t>& scales;            // of codes whose scales are a separate tensor
    std::function<Status(std::size_t)> progress;  // gets the bytes of the input that are done since the last call
  };
  // A copy has a writer_index: its bytes are filled in beside those of other tensors.
  ByteLine(ModelFiles& files, const ModelTensor& tensor, ByteStep step, Outcome outcome,
           std::optional<std::size_t> writer_index = {});

  Status run();         // all pieces that are left, on all threads
  Status copy_piece();  // the next piece of a copy, on the calling thread
  [[nodiscard]] std::int64_t pieces_left() const { return pieces_ - next_; }

 private:
  [[nodiscard]] std::span<const std::uint8_t> input(std::int64_t piece) const;
  Status convert();
  Status copy();
  Status take(std::int64_t piece, const BytePiece& made);
  Status put(std::int64_t piece, std::span<const std::uint8_t> out);
  void sum(std::int64_t piece);
  Status finish();  // fills in the report and compares the checksum of the input

  ModelFiles& files_;
  const ModelTensor& tensor_;
  const ByteStep step_;
  const Outcome outcome_;
  const std::optional<std::size_t> writer_index_;
  const std::span<const std::uint8_t> bytes_;
  const std::int64_t pieces_;
  std::int64_t next_ = 0;
  std::size_t released_ = 0;
  RunningChecksum before_, after_;
  CastLoss cast_;
  CodedLoss coded_;
};

}  // namespace tern
