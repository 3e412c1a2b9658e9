// A stream for one call that waits: it returns the errors of its own kernels only, and takes none that belong to
// others.
#pragma once

#include <utility>

#include "base/errors.h"
#include "plan/context_state.h"

namespace tern::detail {

// Starts after the work on the context's first stream. The destructor waits, so that memory the stream uses may be
// freed after it. On a CPU it is the only stream. The context must outlive it.
class OwnStream {
 public:
  static Result<OwnStream> open(const Context& context) {
    const ContextState& state = context.state();
    if (!state.gpu) return OwnStream(context.stream(), nullptr);
    TERN_ASSIGN(lane, state.gpu->borrow());
    return OwnStream(ContextState::stream(state, lane), state.gpu.get());
  }
  OwnStream() = default;
  ~OwnStream() {
    if (gpu_ != nullptr) gpu_->give_back(ContextState::lane(stream_));
  }
  OwnStream(OwnStream&& other) noexcept : stream_(other.stream_), gpu_(std::exchange(other.gpu_, nullptr)) {}
  OwnStream& operator=(OwnStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(gpu_, other.gpu_);
    return *this;
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  [[nodiscard]] const Stream& operator*() const { return stream_; }
  [[nodiscard]] const Stream* operator->() const { return &stream_; }

 private:
  OwnStream(const Stream& stream, Gpu* gpu) : stream_(stream), gpu_(gpu) {}
  Stream stream_;
  Gpu* gpu_ = nullptr;  // the GPU that lent the stream; null: nothing to give back
};

}  // namespace tern::detail
