// Sends matrices through a GPU: all threads upload the next one, piece by piece, while they convert the current one.
//
//     threads   | matrix 0 to pinned memory | convert 0, matrix 1 to pinned memory | convert 1, matrix 2 ...
//     bus          | 0 in               |out 0|    | 1 in                     |out 1|
//     GPU                                |k|                                   |k|
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "model/quantized_rows.h"
#include "model/stage_clock.h"
#include "plan/own_stream.h"
#include "tern/plan.h"

namespace tern {

// A CUDA event of one GPU, with timing.
class GpuEvent {
 public:
  static Result<GpuEvent> make(int device);
  GpuEvent() = default;
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  GpuEvent& operator=(GpuEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  [[nodiscard]] cuda::Event* get() const { return event_; }

 private:
  GpuEvent(int device, cuda::Event* event) : device_(device), event_(event) {}
  int device_ = 0;
  cuda::Event* event_ = nullptr;
};

class GpuFeed {
 public:
  // `context` is a GPU's; it and the clock must outlive the feed.
  GpuFeed(const Context& context, StageClock& clock);
  ~GpuFeed();
  GpuFeed(const GpuFeed&) = delete;
  GpuFeed& operator=(const GpuFeed&) = delete;

  // Whether two matrices of this size fit on the GPU at once.
  [[nodiscard]] static bool fits(const TernaryQuantize::Problem& problem);

  // A matrix in flight. The results of the previous one may still be read, those of older ones may not.
  class Matrix;
  Result<Matrix*> begin(const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                        const Preference& preference);

 private:
  struct Slot;
  Status open();
  Status up(Slot& slot, Matrix& matrix, std::size_t offset, std::size_t bytes);

  const Context& context_;
  StageClock& clock_;
  std::shared_ptr<MemoryResource> pinned_;
  std::mutex mutex_;                                 // guards the slots; keeps a slot's stream commands together
  std::deque<std::unique_ptr<Slot>> slots_;          // the slot that has been in flight longest comes first
  std::array<std::unique_ptr<Matrix>, 2> matrices_;  // destroyed first (declared last), because they use slots
  std::size_t turn_ = 0;
};

class GpuFeed::Matrix {
 public:
  explicit Matrix(GpuFeed& feed) : feed_(feed) {}

  [[nodiscard]] std::int64_t pieces() const;
  // Call once for each piece, from any thread. wait() returns the first error.
  void upload(std::int64_t piece);
  // Waits for all pieces and the kernel; the result is valid until the second begin() from now.
  Result<QuantizedRows::Made> wait();

 private:
  friend class GpuFeed;
  Status prepare(const TernaryQuantize::Problem& problem, const ConstTensorView& x, const Preference& preference);
  Status finish_uploads();  // starts the kernel and the copy back, after the last piece
  Status room(Tensor& tensor, const std::shared_ptr<MemoryResource>& memory, std::size_t bytes, const char* tag);

  GpuFeed& feed_;
  const std::uint8_t* from_ = nullptr;
  std::size_t x_bytes_ = 0, codes_bytes_ = 0, scales_bytes_ = 0;
  std::atomic<std::int64_t> left_ = 0;  // pieces
  std::optional<TernaryQuantizePlan> plan_;
  Status failed_;  // guarded by the feed's mutex
  Tensor x_, codes_, scales_, workspace_, host_codes_, host_scales_;
  GpuEvent uploaded_, computed_, back_;
  std::optional<detail::OwnStream> own_;  // destroyed first (declared last)
};

}  // namespace tern
