// Streams and events of a Context. On a CPU, work is complete when its call returns, and an event is a point in time.
#include <chrono>

#include "base/errors.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "stream";

Error no_context() { return error(Code::invalid_argument, kWhere, "the stream belongs to no context"); }

}  // namespace

Status Stream::synchronize() const { return status(); }
Status Stream::status() const {
  if (owner_ == nullptr) return no_context();
  return owner_->gpu ? owner_->gpu->synchronize(lane_) : Status();
}
void* Stream::cuda_stream() const { return owner_ != nullptr && owner_->gpu ? owner_->gpu->stream(lane_) : nullptr; }

struct Event::Impl {
  int device = -1;  // of a GPU
  cuda::Event* event = nullptr;
  std::chrono::steady_clock::time_point time{};
  bool recorded = false;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (event == nullptr) return;
    const cuda::CurrentDevice current(device);
    cuda::destroy(event);
  }
};

Event::Event(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

Result<Event> Context::event() const {
  auto impl = std::make_unique<Event::Impl>();
  if (state_->gpu) {
    TERN_ON_GPU(state_->gpu->index());
    TERN_ASSIGN(made, cuda::create_event(true));
    impl->device = state_->gpu->index();
    impl->event = made;
  }
  return Event(std::move(impl));
}

Status Event::record(const Stream& stream) {
  const detail::ContextState* owner = detail::ContextState::owner(stream);
  if (owner == nullptr) return no_context();
  if ((impl_->event != nullptr) != (owner->gpu != nullptr) || (owner->gpu && owner->gpu->index() != impl_->device))
    return error(Code::invalid_argument, kWhere, "the event and the stream belong to different devices");
  impl_->recorded = true;
  impl_->time = std::chrono::steady_clock::now();
  if (impl_->event == nullptr) return {};
  TERN_ON_GPU(impl_->device);
  return cuda::record(impl_->event, owner->gpu->stream(detail::ContextState::lane(stream)));
}

Status Event::synchronize() const {
  if (!impl_->recorded) return error(Code::invalid_argument, kWhere, "the event was not recorded");
  return impl_->event == nullptr ? Status() : cuda::synchronize(impl_->event);
}

Result<double> Event::milliseconds_since(const Event& earlier) const {
  if (!impl_->recorded || !earlier.impl_->recorded || (impl_->event != nullptr) != (earlier.impl_->event != nullptr))
    return error(Code::invalid_argument, kWhere, "both events must be recorded, on one device");
  if (impl_->event != nullptr) {
    TERN_RETURN_IF_ERROR(synchronize());
    return cuda::milliseconds(earlier.impl_->event, impl_->event);
  }
  return std::chrono::duration<double, std::milli>(impl_->time - earlier.impl_->time).count();
}

Status Stream::wait(const Event& event) const {
  if (owner_ == nullptr) return no_context();
  if (!event.impl_->recorded) return error(Code::invalid_argument, kWhere, "the event was not recorded");
  if (event.impl_->event == nullptr) return {};  // it has happened
  if (!owner_->gpu) return event.synchronize();
  TERN_ON_GPU(owner_->gpu->index());
  return cuda::wait(owner_->gpu->stream(lane_), event.impl_->event);
}

}  // namespace tern
