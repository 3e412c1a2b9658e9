// The parts of the CUDA runtime that the folders above this one use. cuda.cpp calls the runtime; cuda_absent.cpp
// replaces it in builds without CUDA. The handles are those of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <variant>

#include "tern/device.h"
#include "tern/status.h"

namespace tern::cuda {

// Adds the GPUs of this machine, or a note that says why there are none.
void add_devices(Inventory& inventory);
// Describes one GPU as add_devices() does, or returns why it cannot be used.
Result<Device> usable_device(int index);

// Makes a device current on this thread; the destructor restores the device before it.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  [[maybe_unused]] int before_ = -1;  // not used in builds without CUDA
  Status status_;
};

// Converts the code that a launcher returned to a Status.
Status launched(int code);
// The error of a failed launch, with the kernel's name.
inline Error launch_failed(std::string_view kernel, Error why) {
  why.message = "the launch failed: " + why.message;
  why.where = kernel;
  if (auto* failure = std::get_if<CudaFailure>(&why.details)) failure->kernel = kernel;
  return why;
}

// Streams and events of the current device.
struct Stream;
struct Event;
Result<Stream*> create_stream();
void destroy(Stream*);
Status synchronize(Stream*);
Status synchronize_device();
Result<bool> capturing(Stream*);
Result<Event*> create_event(bool timing);
void destroy(Event*);
Status record(Event*, Stream*);
Status wait(Stream*, Event*);  // the stream continues after the event
Status synchronize(Event*);
Result<double> milliseconds(Event* from, Event* to);

// Captures as a graph the work that `put` puts on the stream, so that it can be replayed many times.
struct Graph;
Result<Graph*> capture(Stream*, const std::function<Status()>& put);
Status replay(Graph*, Stream*);
void destroy(Graph*);

// Copies bytes between host and device, or on the device. Ordered on the stream; pageable host memory makes the copy
// synchronous.
Status copy(void* to, const void* from, std::size_t bytes, Stream*);
// Rows of bytes, `pitch` apart.
Status copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t row_bytes,
                 std::size_t rows, Stream*);
Status fill(void* to, int byte, std::size_t bytes, Stream*);

// A pool of device memory. It keeps up to `kept_bytes` of freed memory for later allocations.
struct Pool;
Result<Pool*> create_pool(int device, std::size_t kept_bytes);
void destroy(Pool*);
Result<void*> allocate(Pool*, std::size_t bytes, Stream*);
Status deallocate(void* data, Stream*);
Status trim(Pool*, std::size_t kept_bytes);
struct PoolInfo {
  std::size_t reserved = 0, in_use = 0, reserved_peak = 0, in_use_peak = 0;
};
Result<PoolInfo> info(Pool*);
Status reset_peaks(Pool*);

// Memory of the current device outside any pool, for data that lives as long as a context.
Result<void*> allocate_plain(std::size_t bytes);
Status deallocate_plain(void* data);

struct MemoryBytes {
  std::size_t free = 0, total = 0;
};
Result<MemoryBytes> memory_bytes();  // of the current device

// Pinned host memory, which a GPU reads and writes directly.
Result<void*> allocate_pinned(std::size_t bytes);
Status deallocate_pinned(void* data);
bool pinned(const void* data);

}  // namespace tern::cuda

// Makes a device current until the end of the block, or returns the error to the caller.
#define TERN_ON_GPU(index)                          \
  const ::tern::cuda::CurrentDevice current(index); \
  if (!current.status().ok()) return ::tern::Error(current.status().error())
