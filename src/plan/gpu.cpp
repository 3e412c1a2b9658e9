// Lanes of a GPU: a stream, its status word and the calls that may have written it.
#include "plan/gpu.h"

#include "base/errors.h"
#include "memory/gpu.h"

namespace tern::detail {
namespace {

constexpr int kMaxLanes = 256;
constexpr int kMaxBorrowed = 256;
constexpr int kWords = kMaxLanes + kMaxBorrowed;
constexpr std::size_t kMaxTimed = 4096;  // profiled runs whose events have not been read yet
constexpr std::uint64_t kCallMask = (std::uint64_t{1} << cuda::kCallBits) - 1;

}  // namespace

Gpu::Gpu(const Device& device, int streams, bool profiling)
    : index_(device.id.index),
      multiprocessors_(device.gpu->multiprocessors),
      streams_(streams),
      profiling_(profiling) {}

Result<std::unique_ptr<Gpu>> Gpu::open(const Device& device, int streams, bool profiling) {
  auto gpu = std::unique_ptr<Gpu>(new Gpu(device, streams, profiling));
  TERN_RETURN_IF_ERROR(gpu->make());
  return gpu;
}

Status Gpu::make() {
  TERN_ON_GPU(index_);
  TERN_ASSIGN(read, cuda::allocate_pinned(kWords * sizeof *read_));
  read_ = static_cast<std::uint64_t*>(read);
  TERN_ASSIGN(words, cuda::allocate_plain(kWords * sizeof *words_));
  words_ = static_cast<std::uint64_t*>(words);
  for (int i = 0; i < streams_; ++i) {
    TERN_ASSIGN(stream, cuda::create_stream());
    Lane& lane = lanes_.emplace_back();
    lane.stream = stream;
    lane.live = true;
    lane.status = words_ + i;
    serve_stream(index_, stream);
  }
  TERN_RETURN_IF_ERROR(cuda::fill(words_, 0xFF, kWords * sizeof *words_, lanes_.front().stream));
  return cuda::synchronize(lanes_.front().stream);
}

Gpu::~Gpu() {
  const cuda::CurrentDevice current(index_);
  for (Lane& lane : lanes_) {
    if (!lane.live) continue;
    (void)cuda::synchronize(lane.stream).ok();
    forget_stream(index_, lane.stream);
    if (!lane.wrapped) cuda::destroy(lane.stream);
  }
  for (Lane& lane : borrowed_) {
    (void)cuda::synchronize(lane.stream).ok();
    forget_stream(index_, lane.stream);
    cuda::destroy(lane.front);
    cuda::destroy(lane.stream);
  }
  for (const Timed& timed : timed_) {
    cuda::destroy(timed.begin);
    cuda::destroy(timed.end);
  }
  for (cuda::Event* event : spare_) cuda::destroy(event);
  if (words_ != nullptr) (void)cuda::deallocate_plain(words_).ok();
  if (read_ != nullptr) (void)cuda::deallocate_pinned(read_).ok();
}

Gpu::Lane& Gpu::lane(int index) {
  const std::scoped_lock lock(mutex_);
  return index < kMaxLanes ? lanes_[static_cast<std::size_t>(index)]
                           : borrowed_[static_cast<std::size_t>(index - kMaxLanes)];
}

cuda::Stream* Gpu::stream(int index) { return lane(index).stream; }

Result<int> Gpu::wrap(cuda::Stream* stream) {
  const std::scoped_lock lock(mutex_);
  std::size_t at = static_cast<std::size_t>(streams_);
  for (std::size_t i = at; i < lanes_.size(); ++i)
    if (lanes_[i].live && lanes_[i].stream == stream) return static_cast<int>(i);
  while (at < lanes_.size() && lanes_[at].live) ++at;
  if (at == kMaxLanes)
    return error(Code::invalid_argument, "context", "{} streams of the caller are wrapped; release() some first",
                 kMaxLanes - streams_);
  Lane& lane = at < lanes_.size() ? lanes_[at] : lanes_.emplace_back();
  lane.stream = stream;
  lane.live = lane.wrapped = true;
  lane.status = words_ + at;
  serve_stream(index_, stream);
  return static_cast<int>(at);
}

Status Gpu::release(int index) {
  Lane& of = lane(index);
  if (!of.live || !of.wrapped)
    return error(Code::invalid_argument, "context", "the stream is the context's own, or was released");
  Status status = synchronize(index);
  const std::scoped_lock lock(mutex_);
  forget_stream(index_, of.stream);
  of.live = false;
  return status;
}

Result<int> Gpu::borrow() {
  TERN_ON_GPU(index_);
  const std::scoped_lock lock(mutex_);
  TERN_ASSIGN(captured, cuda::capturing(lanes_.front().stream));
  if (captured)
    return error(Code::invalid_argument, "context",
                 "this call waits for the context's first stream, which is capturing a graph; end the capture first");
  std::size_t at = 0;
  while (at < borrowed_.size() && borrowed_[at].live) ++at;
  if (at == kMaxBorrowed)
    return error(Code::unsupported, "context", "{} calls that wait are under way at once; let some end first",
                 kMaxBorrowed);
  if (at == borrowed_.size()) {
    TERN_ASSIGN(front, cuda::create_event(false));
    auto stream = cuda::create_stream();
    if (!stream.ok()) {
      cuda::destroy(front);
      return std::move(stream).error();
    }
    Lane& made = borrowed_.emplace_back();
    made.stream = *stream;
    made.front = front;
    made.status = words_ + kMaxLanes + at;
    serve_stream(index_, made.stream);
  }
  Lane& lane = borrowed_[at];
  // Reset the status word here, where a failure can be returned, and not in give_back(). Otherwise a borrower might
  // receive the findings of the one before it.
  TERN_RETURN_IF_ERROR(cuda::fill(lane.status, 0xFF, sizeof *lane.status, lane.stream));
  TERN_RETURN_IF_ERROR(cuda::record(lane.front, lanes_.front().stream));
  TERN_RETURN_IF_ERROR(cuda::wait(lane.stream, lane.front));
  lane.live = true;
  return static_cast<int>(kMaxLanes + at);
}

void Gpu::give_back(int index) {
  const cuda::CurrentDevice current(index_);
  Lane& of = lane(index);
  const bool idle = current.status().ok() && cuda::synchronize(of.stream).ok();
  const std::scoped_lock lock(mutex_);
  of.live = !idle;  // a lane that may still be running work is never lent again
}

Status Gpu::synchronize(int index) {
  TERN_ON_GPU(index_);
  Lane& of = lane(index);
  if (!of.live) return error(Code::invalid_argument, "context", "the stream was released");
  TERN_ASSIGN(captured, cuda::capturing(of.stream));
  if (captured)
    return error(Code::invalid_argument, "context",
                 "a stream that captures a graph cannot be waited for; end the capture first");
  const std::scoped_lock lock(of.mutex);
  std::uint64_t& key = read_[index];
  TERN_RETURN_IF_ERROR(cuda::copy(&key, of.status, sizeof key, of.stream));
  TERN_RETURN_IF_ERROR(cuda::synchronize(of.stream));
  if (key == cuda::kNoFinding) return {};
  const std::uint64_t found = key;
  TERN_RETURN_IF_ERROR(cuda::fill(of.status, 0xFF, sizeof key, of.stream));
  return describe(of, found);
}

Status Gpu::synchronize_all() {
  std::vector<int> live;
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].live) live.push_back(static_cast<int>(i));
  }
  Status first;
  for (const int lane : live) {
    Status status = synchronize(lane);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Error Gpu::describe(Lane& of, std::uint64_t key) {
  const std::uint64_t number = key >> (cuda::kIndexBits + cuda::kKindBits);
  const auto kind = static_cast<cuda::Finding>(key >> cuda::kIndexBits & ((1U << cuda::kKindBits) - 1));
  const auto index = static_cast<std::int64_t>(key & ((std::uint64_t{1} << cuda::kIndexBits) - 1));
  Call call = of.recent[number % kCalls];
  if (call.number != number) call = {.op = "a run on this stream"};
  const std::string element = call.k > 0 ? fmt::format("[{}, {}] (element {})", index / call.k, index % call.k, index)
                                         : fmt::format("[{}]", index);
  switch (kind) {
    case cuda::kNonFinite:
      return error_at(index, Code::non_finite, call.op, "x{} is not finite; mend it, or ask for non_finite = saturate",
                      element);
    case cuda::kInvalidCode:
      return error_at(index, Code::invalid_quantized_value, call.op, "codes{} is not a code of its scheme", element);
    case cuda::kScaleTooLarge:
      return error_at(index, Code::invalid_scale, call.op,
                      "the scale of range {} is beyond the largest of its type; make x smaller", index);
    case cuda::kInvalidZeroPoint:
      return error_at(index, Code::invalid_argument, call.op, "zero point {} is not one of the codes", index);
    case cuda::kInvalidScale: break;
  }
  return error_at(index, Code::invalid_scale, call.op, "scale {} must be finite and above 0", index);
}

Result<cuda::Event*> Gpu::timer() {
  if (spare_.empty()) return cuda::create_event(true);
  cuda::Event* event = spare_.back();
  spare_.pop_back();
  return event;
}

Result<Gpu::Run> Gpu::start(int index, std::string_view op, std::int64_t k) {
  Lane& of = lane(index);
  if (!of.live) return error(Code::invalid_argument, op, "the stream was released");
  Run run{.launch = {.stream = of.stream, .status = of.status, .multiprocessors = multiprocessors_, .device = index_},
          .lane = index};
  {
    const std::scoped_lock lock(of.mutex);
    const std::uint64_t number = of.calls++ & kCallMask;
    of.recent[number % kCalls] = {number, op, k};
    run.launch.call = number << (cuda::kIndexBits + cuda::kKindBits);
  }
  if (!profiling_) return run;
  TERN_ASSIGN(captured, cuda::capturing(of.stream));
  if (captured) return run;  // runs captured into a graph are not timed
  const std::scoped_lock lock(timing_mutex_);
  TERN_ASSIGN(begin, timer());
  run.begin = begin;
  TERN_RETURN_IF_ERROR(cuda::record(begin, of.stream));
  return run;
}

Status Gpu::finish(const Run& run, const RunEvent& event, std::shared_ptr<const void> plan) {
  if (run.begin == nullptr) return {};
  const std::scoped_lock lock(timing_mutex_);
  TERN_ASSIGN(end, timer());
  timed_.push_back({event, std::move(plan), run.begin, end});
  TERN_RETURN_IF_ERROR(cuda::record(end, stream(run.lane)));
  return timed_.size() < kMaxTimed ? Status() : collect();
}

Status Gpu::collect() {
  for (Timed& timed : timed_) {
    TERN_RETURN_IF_ERROR(cuda::synchronize(timed.end));
    TERN_ASSIGN(ms, cuda::milliseconds(timed.begin, timed.end));
    KernelTime& total = times_[std::string(timed.event.kernel)];
    total.kernel = timed.event.kernel;
    ++total.runs;
    total.milliseconds += ms;
    spare_.push_back(timed.begin);
    spare_.push_back(timed.end);
    if (timed.plan == nullptr) continue;
    timed.event.milliseconds = ms;
    for (const auto& observer : observers_) observer->run_timed(timed.event);
  }
  timed_.clear();
  return {};
}

Result<std::vector<KernelTime>> Gpu::profile() {
  TERN_ON_GPU(index_);
  const std::scoped_lock lock(timing_mutex_);
  TERN_RETURN_IF_ERROR(collect());
  std::vector<KernelTime> times;
  for (auto& [kernel, time] : times_) times.push_back(std::move(time));
  times_.clear();
  return times;
}

}  // namespace tern::detail
