// A ring of pinned pieces, two alternating matrices, and events that time each step.
#include "model/gpu_feed.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"

namespace tern {
namespace {

// Large enough for full bus speed and for few calls of the CUDA runtime, which take some microseconds each.
constexpr std::size_t kPieceBytes = std::size_t{2} << 20;
constexpr int kMoreSlots = 4;  // slots beyond one per thread: these are in transit on the bus
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;  // 256 MiB of codes, twice, in pinned memory

Status add_milliseconds(StageClock& clock, Stage stage, const GpuEvent& from, const GpuEvent& to, std::size_t bytes) {
  TERN_ASSIGN(milliseconds, cuda::milliseconds(from.get(), to.get()));
  clock.busy(stage, milliseconds / 1e3, bytes);
  return {};
}

Status wait_for(StageClock& clock, Stage stage, const GpuEvent& event) {
  const Stopwatch waiting;
  Status status = cuda::synchronize(event.get());
  clock.spent(stage, waiting.seconds());
  return status;
}

}  // namespace

Result<GpuEvent> GpuEvent::make(int device) {
  TERN_ON_GPU(device);
  TERN_ASSIGN(event, cuda::create_event(true));
  return GpuEvent(device, event);
}
GpuEvent::~GpuEvent() {
  if (event_ == nullptr) return;
  const cuda::CurrentDevice current(device_);
  cuda::destroy(event_);
}

// Pinned memory for a piece, and when its copy began and ended.
struct GpuFeed::Slot {
  Tensor memory;
  GpuEvent begin, end;
  std::size_t bytes = 0;  // being copied, or copied but not reported to the clock yet
};

GpuFeed::GpuFeed(const Context& context, StageClock& clock) : context_(context), clock_(clock) {}
GpuFeed::~GpuFeed() {
  for (auto& matrix : matrices_) matrix.reset();  // waits for its copies and kernels
}

bool GpuFeed::fits(const TernaryQuantize::Problem& problem) { return problem.rows <= kMostElements / problem.k; }

Status GpuFeed::open() {
  TERN_ASSIGN(pinned, pinned_memory());
  pinned_ = std::move(pinned);
  const int device = context_.device().id.index;
  for (int i = 0; i < context_.threads() + kMoreSlots; ++i) {
    auto slot = std::make_unique<Slot>();
    TERN_ASSIGN(memory, Tensor::allocate(pinned_, DType::u8, {static_cast<std::int64_t>(kPieceBytes)}, "pinned x"));
    TERN_ASSIGN(begin, GpuEvent::make(device));
    TERN_ASSIGN(end, GpuEvent::make(device));
    slot->memory = std::move(memory);
    slot->begin = std::move(begin);
    slot->end = std::move(end);
    slots_.push_back(std::move(slot));
  }
  for (auto& matrix : matrices_) {
    matrix = std::make_unique<Matrix>(*this);
    for (GpuEvent* event : {&matrix->uploaded_, &matrix->computed_, &matrix->back_}) {
      TERN_ASSIGN(made, GpuEvent::make(device));
      *event = std::move(made);
    }
  }
  return {};
}

Result<GpuFeed::Matrix*> GpuFeed::begin(const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                                        const Preference& preference) {
  if (!matrices_[1]) {
    slots_.clear();
    TERN_RETURN_IF_ERROR(open());
  }
  turn_ = 1 - turn_;
  TERN_RETURN_IF_ERROR(matrices_[turn_]->prepare(problem, x, preference));
  return matrices_[turn_].get();
}

// Queues the upload of a filled slot on the matrix's stream. The caller holds the mutex, so that no other slot's events
// come between.
Status GpuFeed::up(Slot& slot, Matrix& matrix, std::size_t offset, std::size_t bytes) {
  auto* stream = static_cast<cuda::Stream*>((*matrix.own_)->cuda_stream());
  TERN_RETURN_IF_ERROR(cuda::record(slot.begin.get(), stream));
  TERN_RETURN_IF_ERROR(cuda::copy(matrix.x_.as<std::uint8_t>().data() + offset, slot.memory.data(), bytes, stream));
  TERN_RETURN_IF_ERROR(cuda::record(slot.end.get(), stream));
  slot.bytes = bytes;
  return {};
}

std::int64_t GpuFeed::Matrix::pieces() const {
  return ceil_div(static_cast<std::int64_t>(x_bytes_), static_cast<std::int64_t>(kPieceBytes));
}

Status GpuFeed::Matrix::room(Tensor& tensor, const std::shared_ptr<MemoryResource>& memory, std::size_t bytes,
                             const char* tag) {
  if (tensor.bytes() >= bytes && tensor.data() != nullptr) return {};
  tensor = {};  // freed before the next allocation: both at once may not fit
  TERN_ASSIGN(made,
              Tensor::allocate(memory, DType::u8, {static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1))}, tag));
  tensor = std::move(made);
  return {};
}

Status GpuFeed::Matrix::prepare(const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                                const Preference& preference) {
  const Context& context = feed_.context_;
  if (!own_) {
    TERN_ASSIGN(own, detail::OwnStream::open(context));
    own_.emplace(std::move(own));
  }
  TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, problem, preference));
  from_ = static_cast<const std::uint8_t*>(x.data);
  x_bytes_ = static_cast<std::size_t>(problem.rows * problem.k) * size_of(problem.dtype);
  codes_bytes_ = static_cast<std::size_t>(problem.rows * row_bytes(problem.format, problem.k));
  scales_bytes_ =
      static_cast<std::size_t>(make_ranges(problem.rows, problem.k, problem.granularity).total) * sizeof(float);
  TERN_RETURN_IF_ERROR(room(x_, context.memory(), x_bytes_, "matrix"));
  TERN_RETURN_IF_ERROR(room(codes_, context.memory(), codes_bytes_, "codes of a matrix"));
  TERN_RETURN_IF_ERROR(room(scales_, context.memory(), scales_bytes_, "scales of a matrix"));
  TERN_RETURN_IF_ERROR(room(workspace_, context.memory(), plan.workspace_bytes(), "workspace"));
  TERN_RETURN_IF_ERROR(room(host_codes_, feed_.pinned_, codes_bytes_, "pinned codes"));
  TERN_RETURN_IF_ERROR(room(host_scales_, feed_.pinned_, scales_bytes_, "pinned scales"));
  plan_ = std::move(plan);
  failed_ = {};
  left_ = pieces();
  return {};
}

void GpuFeed::Matrix::upload(std::int64_t piece) {
  const cuda::CurrentDevice current(feed_.context_.device().id.index);
  const std::size_t offset = static_cast<std::size_t>(piece) * kPieceBytes,
                    bytes = std::min(kPieceBytes, x_bytes_ - offset);
  std::unique_ptr<GpuFeed::Slot> slot;
  {
    const std::lock_guard lock(feed_.mutex_);
    slot = std::move(feed_.slots_.front());  // never empty: there are more slots than threads
    feed_.slots_.pop_front();
  }
  Status status = current.status().ok() ? Status() : Status(Error(current.status().error()));
  if (status.ok() && slot->bytes > 0) {
    status = wait_for(feed_.clock_, Stage::bus, slot->end);
    if (status.ok()) status = add_milliseconds(feed_.clock_, Stage::bus, slot->begin, slot->end, slot->bytes);
    slot->bytes = 0;
  }
  if (status.ok()) {
    const Stopwatch reading;
    std::memcpy(slot->memory.data(), from_ + offset, bytes);
    feed_.clock_.spent(Stage::reading, reading.seconds());
    feed_.clock_.busy(Stage::reading, 0, bytes);
  }
  const std::lock_guard lock(feed_.mutex_);
  if (status.ok() && failed_.ok()) status = feed_.up(*slot, *this, offset, bytes);
  feed_.slots_.push_back(std::move(slot));
  if (--left_ == 0 && status.ok() && failed_.ok()) status = finish_uploads();
  if (!status.ok() && failed_.ok()) failed_ = std::move(status);
}

Status GpuFeed::Matrix::finish_uploads() {
  auto* stream = static_cast<cuda::Stream*>((*own_)->cuda_stream());
  const TernaryQuantize::Problem& p = plan_->problem();
  const DeviceId device = feed_.context_.device().id;
  const auto scales = static_cast<std::int64_t>(scales_bytes_ / sizeof(float));
  TERN_RETURN_IF_ERROR(cuda::record(uploaded_.get(), stream));
  TERN_RETURN_IF_ERROR(
      plan_->run(**own_, workspace_.as<std::byte>(),
                 {.x = {x_.data(), p.dtype, {p.rows, p.k}, device},
                  .codes = {codes_.data(), code_dtype(p.format), {p.rows, row_bytes(p.format, p.k)}, device},
                  .scales = {scales_.data(), DType::f32, {scales}, device}}));
  TERN_RETURN_IF_ERROR(cuda::record(computed_.get(), stream));
  TERN_RETURN_IF_ERROR(cuda::copy(host_codes_.data(), codes_.data(), codes_bytes_, stream));
  TERN_RETURN_IF_ERROR(cuda::copy(host_scales_.data(), scales_.data(), scales_bytes_, stream));
  return cuda::record(back_.get(), stream);
}

Result<QuantizedRows::Made> GpuFeed::Matrix::wait() {
  TERN_ON_GPU(feed_.context_.device().id.index);
  {
    const std::lock_guard lock(feed_.mutex_);
    if (!failed_.ok()) return Error(failed_.error());
    if (left_ != 0)
      return error(Code::internal, "write_model", "{} pieces of a matrix were not uploaded", left_.load());
  }
  TERN_RETURN_IF_ERROR(wait_for(feed_.clock_, Stage::bus, uploaded_));
  TERN_RETURN_IF_ERROR(wait_for(feed_.clock_, Stage::gpu, computed_));
  TERN_RETURN_IF_ERROR(wait_for(feed_.clock_, Stage::bus, back_));
  TERN_RETURN_IF_ERROR((*own_)->synchronize());  // also returns errors that the kernel found
  TERN_RETURN_IF_ERROR(add_milliseconds(feed_.clock_, Stage::gpu, uploaded_, computed_, x_bytes_));
  TERN_RETURN_IF_ERROR(add_milliseconds(feed_.clock_, Stage::bus, computed_, back_, codes_bytes_ + scales_bytes_));
  return QuantizedRows::Made{host_codes_.as<const std::uint8_t>().data(), host_scales_.as<const float>().data(),
                             plan_->id().kernel};
}

}  // namespace tern
