// Implements device/cuda.h with the CUDA runtime: checks every call and translates its errors.
#include "device/cuda.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

#include "base/errors.h"
#include "device/cuda_place.h"

namespace tern::cuda {
namespace {

std::atomic<bool> in_use = false;  // set once a device was made current

cudaStream_t raw(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t raw(Event* event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaMemPool_t raw(Pool* pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

// The runtime also remembers the error. cudaGetLastError() clears it, so that no later call reports it.
Status checked(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return {};
  (void)cudaGetLastError();
  const Code ours = code == cudaErrorMemoryAllocation ? Code::memory_allocation
                    : code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
                            code == cudaErrorInvalidDevice || code == cudaErrorInitializationError
                        ? Code::gpu_not_available
                    : code == cudaErrorInvalidValue ? Code::invalid_argument
                                                    : Code::kernel_launch;
  return with(
      CudaFailure{.kernel = {}, .code = static_cast<int>(code)},
      error(ours, call, "{} ({}, code {})", cudaGetErrorString(code), cudaGetErrorName(code), static_cast<int>(code)));
}

template <class T, class Made>
Result<T> checked(cudaError_t code, std::string_view call, Made made) {
  TERN_RETURN_IF_ERROR(checked(code, call));
  return reinterpret_cast<T>(made);
}

}  // namespace

CurrentDevice::CurrentDevice(int index) {
  in_use.store(true, std::memory_order_relaxed);
  int current = 0;
  status_ = checked(cudaGetDevice(&current), "cudaGetDevice");
  if (!status_.ok() || current == index) return;
  status_ = checked(cudaSetDevice(index), "cudaSetDevice");
  if (status_.ok()) before_ = current;
}
CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

Status launched(int code) {
  const auto status = static_cast<cudaError_t>(code);
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();
  return with(CudaFailure{.kernel = {}, .code = code},
              error(Code::kernel_launch, "launch", "{} ({}, code {})", cudaGetErrorString(status),
                    cudaGetErrorName(status), code));
}

Result<Stream*> create_stream() {
  cudaStream_t stream = nullptr;
  const cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return checked<Stream*>(code, "cudaStreamCreateWithFlags", stream);
}
void destroy(Stream* stream) { (void)cudaStreamDestroy(raw(stream)); }
Status synchronize(Stream* stream) { return checked(cudaStreamSynchronize(raw(stream)), "cudaStreamSynchronize"); }
Status synchronize_device() { return checked(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }
Result<bool> capturing(Stream* stream) {
  cudaStreamCaptureStatus status{};
  TERN_RETURN_IF_ERROR(checked(cudaStreamIsCapturing(raw(stream), &status), "cudaStreamIsCapturing"));
  return status != cudaStreamCaptureStatusNone;
}

Result<Event*> create_event(bool timing) {
  cudaEvent_t event = nullptr;
  const cudaError_t code = cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming);
  return checked<Event*>(code, "cudaEventCreateWithFlags", event);
}
void destroy(Event* event) { (void)cudaEventDestroy(raw(event)); }
Status record(Event* event, Stream* stream) {
  return checked(cudaEventRecord(raw(event), raw(stream)), "cudaEventRecord");
}
Status wait(Stream* stream, Event* event) {
  return checked(cudaStreamWaitEvent(raw(stream), raw(event), 0), "cudaStreamWaitEvent");
}
Status synchronize(Event* event) { return checked(cudaEventSynchronize(raw(event)), "cudaEventSynchronize"); }
Result<double> milliseconds(Event* from, Event* to) {
  float ms = 0;
  TERN_RETURN_IF_ERROR(checked(cudaEventElapsedTime(&ms, raw(from), raw(to)), "cudaEventElapsedTime"));
  return static_cast<double>(ms);
}

Result<Graph*> capture(Stream* stream, const std::function<Status()>& put) {
  TERN_RETURN_IF_ERROR(
      checked(cudaStreamBeginCapture(raw(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
  Status status = put();
  cudaGraph_t graph = nullptr;
  Status ended = checked(cudaStreamEndCapture(raw(stream), &graph), "cudaStreamEndCapture");
  if (status.ok()) status = std::move(ended);
  cudaGraphExec_t ready = nullptr;
  if (status.ok()) status = checked(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (!status.ok()) return std::move(status).error();
  return reinterpret_cast<Graph*>(ready);
}
Status replay(Graph* graph, Stream* stream) {
  return checked(cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), raw(stream)), "cudaGraphLaunch");
}
void destroy(Graph* graph) { (void)cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph)); }

Status copy(void* to, const void* from, std::size_t bytes, Stream* stream) {
  if (bytes == 0) return {};
  return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, raw(stream)), "cudaMemcpyAsync");
}
Status copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t row_bytes,
                 std::size_t rows, Stream* stream) {
  if (row_bytes == 0 || rows == 0) return {};
  return checked(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, row_bytes, rows, cudaMemcpyDefault, raw(stream)),
                 "cudaMemcpy2DAsync");
}
Status fill(void* to, int byte, std::size_t bytes, Stream* stream) {
  if (bytes == 0) return {};
  return checked(cudaMemsetAsync(to, byte, bytes, raw(stream)), "cudaMemsetAsync");
}

Result<Pool*> create_pool(int device, std::size_t kept_bytes) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;  // CUDA's word for memory that is not migrated
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  TERN_RETURN_IF_ERROR(checked(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate"));
  std::uint64_t kept = kept_bytes;
  if (Status set =
          checked(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
      !set.ok()) {
    (void)cudaMemPoolDestroy(pool);
    return std::move(set).error();
  }
  return reinterpret_cast<Pool*>(pool);
}
void destroy(Pool* pool) { (void)cudaMemPoolDestroy(raw(pool)); }
Result<void*> allocate(Pool* pool, std::size_t bytes, Stream* stream) {
  void* data = nullptr;
  const cudaError_t code = cudaMallocFromPoolAsync(&data, bytes, raw(pool), raw(stream));
  return checked<void*>(code, "cudaMallocFromPoolAsync", data);
}
Status deallocate(void* data, Stream* stream) { return checked(cudaFreeAsync(data, raw(stream)), "cudaFreeAsync"); }
Status trim(Pool* pool, std::size_t kept_bytes) {
  return checked(cudaMemPoolTrimTo(raw(pool), kept_bytes), "cudaMemPoolTrimTo");
}
Result<PoolInfo> info(Pool* pool) {
  PoolInfo info;
  const std::array<std::pair<cudaMemPoolAttr, std::size_t*>, 4> fields = {
      {{cudaMemPoolAttrReservedMemCurrent, &info.reserved},
       {cudaMemPoolAttrUsedMemCurrent, &info.in_use},
       {cudaMemPoolAttrReservedMemHigh, &info.reserved_peak},
       {cudaMemPoolAttrUsedMemHigh, &info.in_use_peak}}};
  for (const auto& [attribute, field] : fields) {
    std::uint64_t value = 0;
    TERN_RETURN_IF_ERROR(checked(cudaMemPoolGetAttribute(raw(pool), attribute, &value), "cudaMemPoolGetAttribute"));
    *field = value;
  }
  return info;
}
Status reset_peaks(Pool* pool) {
  for (const cudaMemPoolAttr attribute : {cudaMemPoolAttrReservedMemHigh, cudaMemPoolAttrUsedMemHigh}) {
    std::uint64_t none = 0;
    TERN_RETURN_IF_ERROR(checked(cudaMemPoolSetAttribute(raw(pool), attribute, &none), "cudaMemPoolSetAttribute"));
  }
  return {};
}

Result<void*> allocate_plain(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  return checked<void*>(code, "cudaMalloc", data);
}
Status deallocate_plain(void* data) { return checked(cudaFree(data), "cudaFree"); }

Result<MemoryBytes> memory_bytes() {
  MemoryBytes bytes;
  TERN_RETURN_IF_ERROR(checked(cudaMemGetInfo(&bytes.free, &bytes.total), "cudaMemGetInfo"));
  return bytes;
}

Result<void*> allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMallocHost(&data, bytes);
  return checked<void*>(code, "cudaMallocHost", data);
}
Status deallocate_pinned(void* data) { return checked(cudaFreeHost(data), "cudaFreeHost"); }
bool pinned(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess) return attributes.type == cudaMemoryTypeHost;
  (void)cudaGetLastError();
  return false;
}
std::optional<DeviceId> place_of(const void* data) {
  cudaPointerAttributes attributes{};
  if (!in_use.load(std::memory_order_relaxed)) return DeviceId{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    (void)cudaGetLastError();
    return DeviceId{};
  }
  if (attributes.type == cudaMemoryTypeManaged) return {};
  if (attributes.type != cudaMemoryTypeDevice) return DeviceId{};
  return DeviceId{DeviceKind::cuda, attributes.device};
}

}  // namespace tern::cuda
