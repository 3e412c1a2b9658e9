// The C ABI of what a GPU changes: streams, events, copies between devices, memory and the time of kernels. All of it
// works on a CPU, too, which has one stream and has done its work when a call returns. tern_c.h includes this file.
//
//   tern_context* gpu = NULL;
//   tern_tensor* x = NULL;
//   const tern_stream* stream = NULL;
//   tern_tensor_view there = TERN_TENSOR_VIEW_INIT;
//   tern_device_id device = {TERN_DEVICE_CUDA, 0};
//   if (tern_context_open_device(device, NULL, &gpu) != TERN_OK || tern_context_stream_at(gpu, 1, &stream) != TERN_OK
//   ||
//       tern_tensor_allocate(gpu, TERN_DTYPE_F32, 2, shape, &x) != TERN_OK || tern_tensor_get_view(x, &there) !=
//       TERN_OK || tern_copy(gpu, &there, &here, stream) != TERN_OK || ... plans run on the same stream ... ||
//       tern_stream_synchronize(stream) != TERN_OK)
//     fprintf(stderr, "%s\n", tern_last_error()->text);
//
// Views, and the workspaces of plans, lie on the device of the plan; a copy may have one side on the host.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

// What only a GPU has. What the driver does not report is "", -1, or NAN for a double.
struct tern_gpu_info {
  size_t struct_size;
  int32_t compute_major;
  int32_t compute_minor;
  int32_t multiprocessors;
  int32_t clock_mhz;  // the highest
  int32_t memory_clock_mhz;
  int32_t clock_now_mhz;
  int32_t memory_clock_now_mhz;
  int32_t utilization_percent;
  int32_t memory_utilization_percent;
  size_t l2_bytes;
  const char* driver_version;   // of CUDA, as in "13.0"
  const char* runtime_version;  // likewise
  const char* driver;           // the kernel's, as in "580.159.04"
  const char* pci_bus_id;
  const char* uuid;
  double temperature_c;
  double power_w;
  double power_limit_w;
  int64_t ecc_corrected;  // errors since the driver was loaded
  int64_t ecc_uncorrected;
};

// Streams. Work on one stream runs in order, different streams run side by side.

// The context's own streams, valid as long as it is. The index is below the count, which is 1 on a CPU.
TERN_API tern_status tern_context_stream_count(const tern_context* context, size_t* out);
TERN_API tern_status tern_context_stream_at(const tern_context* context, size_t index, const tern_stream** out);

// The caller's own cudaStream_t, which may be NULL, CUDA's default stream; it must stay valid until the handle is
// released.
TERN_API tern_status tern_context_wrap_stream(const tern_context* context, void* cuda_stream, tern_stream** out);
// Waits for the stream and returns what tern_stream_status() would. The handle is gone in either case; NULL is TERN_OK.
TERN_API tern_status tern_stream_release(tern_stream* wrapped);

TERN_API tern_status tern_stream_synchronize(const tern_stream* stream);  // waits, then returns tern_stream_status()
// Waits, and returns the first error that kernels found in their data since the last call; the error's index is the
// element. Each finding is reported once.
TERN_API tern_status tern_stream_status(const tern_stream* stream);
TERN_API tern_status tern_stream_cuda_stream(const tern_stream* stream, void** out);  // NULL on a CPU
TERN_API tern_status tern_context_synchronize(const tern_context* context);           // every stream

// Events: points in the order of a stream, with their times. One thread at a time records an event.

typedef struct tern_event tern_event;

TERN_API tern_status tern_event_create(const tern_context* context, tern_event** out);
TERN_API void tern_event_destroy(tern_event* event);
TERN_API tern_status tern_event_record(tern_event* event, const tern_stream* stream);
TERN_API tern_status tern_event_synchronize(const tern_event* event);  // waits until the stream has reached it
// The time from `earlier` to `event`; waits for both.
TERN_API tern_status tern_event_milliseconds(const tern_event* event, const tern_event* earlier, double* out);
// Later work on the stream waits for the event.
TERN_API tern_status tern_stream_wait(const tern_stream* stream, const tern_event* event);

// Copies between the host and the context's device, or within either: same dtype and shape, rows may be strided. The
// copy is ordered on the stream, so both sides must stay valid until it is done. Host memory that is not pinned makes
// the copy synchronous.
TERN_API tern_status tern_copy(const tern_context* context, const tern_tensor_view* to, const tern_tensor_view* from,
                               const tern_stream* stream);
// A copy in a context's memory, whichever devices are involved; waits until it is complete.
TERN_API tern_status tern_tensor_to(const tern_tensor* tensor, const tern_context* context, tern_tensor** out);

// Memory.

typedef struct tern_memory_info {
  size_t struct_size;
  size_t total_bytes;  // of the device; free is what no program uses
  size_t free_bytes;
  size_t reserved_bytes;  // by this context's pool; 0 on a CPU, as are the following
  size_t in_use_bytes;
  size_t reserved_peak_bytes;
  size_t in_use_peak_bytes;
} tern_memory_info;

TERN_API tern_status tern_context_memory_info(const tern_context* context, tern_memory_info* out);
// Checks before work that `bytes` and a fifth more are free; TERN_INSUFFICIENT_MEMORY if not.
TERN_API tern_status tern_context_ensure_ready(const tern_context* context, size_t bytes);

// If config->profiling is set: the number of runs and the time of each kernel since the last call that returned the
// whole text: [{"kernel":"ternary_quantize.i2.cuda","runs":5,"milliseconds":0.25}]. Waits for running work. A call that
// only measures the text, or truncates it, resets nothing.
TERN_API tern_status tern_context_profile(const tern_context* context, char* buffer, size_t buffer_bytes,
                                          size_t* length);

#define TERN_MEMORY_INFO_INIT \
  { sizeof(tern_memory_info), 0, 0, 0, 0, 0, 0 }

#ifdef __cplusplus
}  // extern "C"
#endif
