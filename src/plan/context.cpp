// Opens a Context: resolves device, threads, streams and memory. Also its copies, memory queries and profile.
#include "tern/context.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/errors.h"
#include "base/options.h"
#include "device/topology.h"
#include "plan/context_state.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "context";
constexpr int kMaxStreams = 64;

// A context on a GPU has threads too: they stage copies through pinned memory.
Result<int> threads_of(const ContextConfig& config) {
  TERN_ASSIGN(options, read_options());
  if (config.threads < 0 || config.threads > kMaxThreads)
    return error(Code::invalid_argument, kWhere, "threads is {}; give 1 to {}, or 0 for all the process may use",
                 config.threads, kMaxThreads);
  return config.threads == 0 ? options.threads.value_or(usable_threads()) : config.threads;
}

Result<std::shared_ptr<const detail::ContextState>> open_gpu(int index, ContextConfig config) {
  TERN_ASSIGN(threads, threads_of(config));
  if (config.streams < 1 || config.streams > kMaxStreams)
    return error(Code::invalid_argument, kWhere, "streams is {}; give 1 to {}", config.streams, kMaxStreams);
  TERN_ASSIGN(device, cuda::usable_device(index));
  TERN_ASSIGN(gpu, detail::Gpu::open(device, config.streams, config.profiling));
  if (!config.memory) {
    TERN_ASSIGN(memory, gpu_memory(index, config.pool_bytes));
    TERN_RETURN_IF_ERROR(preallocate(*memory, config.preallocate_bytes));
    config.memory = std::move(memory);
  } else if (config.memory->device() != device.id) {
    return error(Code::invalid_argument, kWhere,
                 "the memory is of {}, the context of {}; give memory of that device, or none",
                 name(config.memory->device()), name(device.id));
  }
  return std::make_shared<const detail::ContextState>(device, threads, std::move(config), std::move(gpu));
}

// A view described as evenly spaced rows of contiguous bytes.
struct ByteRows {
  std::size_t rows = 1, row_bytes = 0, pitch = 0;
};
Result<ByteRows> byte_rows(std::string_view what, const ConstTensorView& view) {
  TERN_ASSIGN(elements, element_count(view.shape));
  const std::size_t size = size_of(view.dtype);
  ByteRows rows{.row_bytes = static_cast<std::size_t>(elements) * size};
  rows.pitch = rows.row_bytes;
  if (elements == 0) return rows;
  if (view.data == nullptr) return error(Code::invalid_argument, "copy", "{} is null", what);
  // The last axes form a contiguous row; the axes before them must fold into one stride.
  std::int64_t inner = 1, folded = 1, step = 0;
  int axis = view.shape.rank() - 1;
  for (; axis >= 0 && (view.shape[axis] == 1 || view.strides[axis] == inner); --axis) inner *= view.shape[axis];
  for (; axis >= 0; --axis) {
    if (view.shape[axis] == 1) continue;
    if (folded == 1) step = view.strides[axis];
    if (step < inner || view.strides[axis] != step * folded)
      return error(Code::invalid_argument, "copy", "{} {} with strides {} is not a set of evenly spaced rows", what,
                   name(view.shape), name(view.strides));
    folded *= view.shape[axis];
  }
  if (folded == 1) return rows;
  return ByteRows{static_cast<std::size_t>(folded), static_cast<std::size_t>(inner) * size,
                  static_cast<std::size_t>(step) * size};
}

}  // namespace

Status check_preallocation(const ContextConfig& config, DeviceId device) {
  if (config.preallocate_bytes == 0) return {};
  if (device.kind == DeviceKind::cpu)
    return error(Code::invalid_argument, kWhere,
                 "preallocate_bytes is {}, and {} keeps no pool of memory; leave it 0, or open a GPU",
                 config.preallocate_bytes, name(device));
  if (config.memory)
    return error(Code::invalid_argument, kWhere,
                 "preallocate_bytes is {}, but the memory is the caller's; call preallocate() on it",
                 config.preallocate_bytes);
  if (config.preallocate_bytes > config.pool_bytes)
    return error(Code::invalid_argument, kWhere,
                 "preallocate_bytes is {}, above the {} of pool_bytes that the pool keeps; raise pool_bytes",
                 config.preallocate_bytes, config.pool_bytes);
  return {};
}

Result<Context> Context::open(ContextConfig config) {
  TERN_ASSIGN(options, read_options());
  return open(options.device.value_or(DeviceId{}), std::move(config));
}

Result<Context> Context::open(DeviceId device, ContextConfig config) {
  TERN_RETURN_IF_ERROR(check_preallocation(config, device));
  if (device.kind == DeviceKind::cuda) {
    TERN_ASSIGN(state, open_gpu(device.index, std::move(config)));
    return Context(std::move(state));
  }
  if (device.index != 0) return error(Code::invalid_argument, kWhere, "there is one cpu, not cpu:{}", device.index);
  TERN_ASSIGN(threads, threads_of(config));
  if (!config.memory) config.memory = host_memory();
  return Context(std::make_shared<const detail::ContextState>(host_device(), threads, std::move(config), nullptr));
}

Context detail::ContextState::cpu_beside(int threads) {
  auto state = std::make_shared<ContextState>(host_device(), threads, ContextConfig{}, nullptr);
  state->memory = host_memory();
  state->overrides = false;
  return Context(std::move(state));
}

const Device& Context::device() const { return state_->device; }
int Context::threads() const { return state_->threads.count(); }
const std::shared_ptr<MemoryResource>& Context::memory() const { return state_->memory; }

int Context::streams() const { return state_->gpu ? state_->gpu->streams() : 1; }
Stream Context::stream(int index) const {
  const int count = streams();
  return {state_.get(), (index % count + count) % count};
}
Result<Stream> Context::wrap(void* cuda_stream) const {
  if (!state_->gpu)
    return error(Code::invalid_argument, kWhere, "a CPU has no CUDA streams; wrap() is for contexts of a GPU");
  TERN_ASSIGN(lane, state_->gpu->wrap(static_cast<cuda::Stream*>(cuda_stream)));
  return Stream(state_.get(), lane);
}
Status Context::release(const Stream& wrapped) const {
  if (!state_->gpu || wrapped.owner_ != state_.get())
    return error(Code::invalid_argument, kWhere, "the stream is not one of this context");
  return state_->gpu->release(wrapped.lane_);
}
Status Context::synchronize() const { return state_->gpu ? state_->gpu->synchronize_all() : Status(); }

Result<Tensor> Context::allocate(DType dtype, const Shape& shape, const char* tag, CallSite where) const {
  return Tensor::allocate(state_->memory, dtype, shape, tag, where);
}

Status Context::copy(const TensorView& to, const ConstTensorView& from, const Stream& stream) const {
  if (stream.owner_ != state_.get())
    return error(Code::invalid_argument, "copy", "the stream is not one of this context");
  if (to.dtype != from.dtype || to.shape != from.shape)
    return error(Code::invalid_argument, "copy", "to is {} {}, from is {} {}", name(to.dtype), name(to.shape),
                 name(from.dtype), name(from.shape));
  for (const DeviceId& device : {to.device, from.device})
    if (device.kind != DeviceKind::cpu && device != state_->device.id)
      return error(Code::invalid_argument, "copy", "a tensor lies on {}, this context is of {}", name(device),
                   name(state_->device.id));
  TERN_ASSIGN(target, byte_rows("to", to));
  TERN_ASSIGN(source, byte_rows("from", from));
  // If only one side has gaps, split the dense side into the same rows.
  if (target.rows == 1 && source.rows > 1) target = {source.rows, source.row_bytes, source.row_bytes};
  if (source.rows == 1 && target.rows > 1) source = {target.rows, target.row_bytes, target.row_bytes};
  if (source.rows != target.rows)
    return error(Code::invalid_argument, "copy", "rows of {} bytes cannot be copied to rows of {}", source.row_bytes,
                 target.row_bytes);
  if (source.row_bytes == 0) return {};  // data may be null
  if (!state_->gpu) {
    for (std::size_t row = 0; row < source.rows; ++row)
      std::memcpy(static_cast<std::byte*>(to.data) + row * target.pitch,
                  static_cast<const std::byte*>(from.data) + row * source.pitch, source.row_bytes);
    return {};
  }
  TERN_ON_GPU(state_->gpu->index());
  cuda::Stream* on = state_->gpu->stream(stream.lane_);
  if (source.rows == 1) return cuda::copy(to.data, from.data, source.row_bytes, on);
  return cuda::copy_rows(to.data, target.pitch, from.data, source.pitch, source.row_bytes, source.rows, on);
}

Result<GpuMemoryInfo> Context::memory_info() const {
  if (!state_->gpu) {
    const Device& cpu = host_device();
    return GpuMemoryInfo{.total_bytes = cpu.memory_total_bytes, .free_bytes = available_memory_bytes()};
  }
  for (const MemoryResource* memory = state_->memory.get(); memory != nullptr; memory = memory->upstream())
    if (const auto* pool = dynamic_cast<const GpuMemory*>(memory)) return pool->info();
  TERN_ON_GPU(state_->gpu->index());
  TERN_ASSIGN(bytes, cuda::memory_bytes());
  return GpuMemoryInfo{.total_bytes = bytes.total, .free_bytes = bytes.free};
}

Status Context::ensure_ready(std::size_t bytes) const {
  TERN_ASSIGN(info, memory_info());
  const std::size_t free = info.free_bytes + (info.reserved_bytes - info.in_use_bytes);
  if (bytes <= free && bytes / 5 <= free - bytes) return {};
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  return with(MemoryShortage{.needed_bytes = bytes + std::min(bytes / 5, most - bytes), .free_bytes = free},
              error(Code::insufficient_memory, kWhere, "{} bytes and a fifth more are needed; {} has {} free", bytes,
                    name(state_->device.id), free));
}

Result<std::vector<KernelTime>> Context::profile() const {
  if (state_->gpu) return state_->gpu->profile();
  const std::scoped_lock lock(state_->times_mutex);
  std::vector<KernelTime> times;
  for (auto& [kernel, time] : state_->times) times.push_back(std::move(time));
  state_->times.clear();
  return times;
}

Result<Tensor> Tensor::to(const Context& context) const {
  TERN_ASSIGN(copy, context.allocate(dtype_, shape_, "copy"));
  const ConstTensorView from = view();
  if (from.device.kind == DeviceKind::cuda) {
    TERN_ON_GPU(from.device.index);
    TERN_RETURN_IF_ERROR(cuda::synchronize_device());  // its writer may use any stream
    if (context.device().id != from.device) {
      TERN_RETURN_IF_ERROR(cuda::copy(copy.data(), from.data, bytes_, nullptr));
      TERN_RETURN_IF_ERROR(cuda::synchronize_device());
      return copy;
    }
  }
  const Stream stream = context.stream();
  TERN_RETURN_IF_ERROR(context.copy(copy.view(), from, stream));
  if (context.state().gpu) {
    const cuda::CurrentDevice current(context.device().id.index);
    TERN_RETURN_IF_ERROR(cuda::synchronize(static_cast<cuda::Stream*>(stream.cuda_stream())));
  }
  return copy;
}

}  // namespace tern
