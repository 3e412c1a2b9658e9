// The handles of the C ABI, and how values become them.
#pragma once

#include <concepts>
#include <map>
#include <mutex>

#include "api/c_abi.h"

namespace tern::c {

// The C structs of a list's elements; face_of() also gets the address of that element in the other lists.
template <class List, class... More>
auto faces_of(const List& list, const More&... more) {
  std::vector<decltype(face_of(list[0], &more[0]...))> faces;
  faces.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) faces.push_back(face_of(list[i], &more[i]...));
  return faces;
}

// A KernelDescription as a C struct, with the storage that its pointers need.
struct KernelFace : Pinned {
  explicit KernelFace(KernelDescription from);

  KernelDescription kernel;
  std::vector<const char*> needs, dtypes, schemes;
  tern_kernel_info info;
};

// The caller's wrapped streams. A stream wrapped twice is one stream of the context, released with its last handle.
struct WrappedStreams {
  explicit WrappedStreams(Context of) : context(std::move(of)) {}

  Context context;
  std::mutex mutex;
  std::map<void*, int> handles;  // how many, for each cudaStream_t
};

}  // namespace tern::c

struct tern_stream {
  tern::Stream stream;
  std::shared_ptr<tern::c::WrappedStreams> wrapped = {};  // null: the context's own
};

struct tern_event {
  tern::Event event;
};

struct tern_context {
  tern::Context context;
  std::shared_ptr<tern::StatisticsResource> statistics;  // null: not counted
  std::shared_ptr<tern::GpuMemory> counted_gpu;          // the pool whose memory it counts; null on a CPU
  tern::c::DeviceFace device;
  std::vector<tern_stream> streams;  // never changes: callers have pointers into it
  std::shared_ptr<tern::c::WrappedStreams> wrapped;

  mutable std::mutex profile_mutex = {};
  mutable std::map<std::string, tern::KernelTime> profile = {};  // times that were not yet returned in full
};

struct tern_tensor {
  tern::Tensor tensor;
};

struct tern_quantized : tern::c::Pinned {
  explicit tern_quantized(tern::QuantizedTensor from);

  tern::QuantizedTensor tensor;
  tern_quality quality;
  tern_quantized_info info;
};

struct tern_packed_weights : tern::c::Pinned {
  explicit tern_packed_weights(tern::PackedWeights from);

  tern::PackedWeights weights;
  std::string tile;
  tern_packed_weights_info info;
};

struct tern_packed_filters : tern::c::Pinned {
  explicit tern_packed_filters(tern::PackedFilters from);

  tern::PackedFilters filters;
  tern_packed_filters_info info;
};

struct tern_inventory {
  explicit tern_inventory(tern::Inventory from);

  std::vector<std::unique_ptr<tern::c::DeviceFace>> devices;
  std::vector<std::string> notes;
};

struct tern_kernel_list {
  explicit tern_kernel_list(std::vector<tern::KernelDescription> from);

  std::vector<std::unique_ptr<tern::c::KernelFace>> kernels;
};

struct tern_npy {
  tern::NpyFile file;
};

struct tern_precision_reports : tern::c::Pinned {
  explicit tern_precision_reports(tern::PrecisionComparison from);
  explicit tern_precision_reports(tern::PrecisionReport one);

  tern::PrecisionComparison comparison;  // the faces point into it
  std::vector<tern_precision_report> faces;
};

struct tern_metadata {
  tern::Metadata entries;
};

struct tern_checkpoint : tern::c::Pinned {
  explicit tern_checkpoint(tern::Checkpoint from);

  tern::Checkpoint checkpoint;
  tern_metadata metadata;
  std::vector<std::string> notes;
  std::vector<tern_stored_tensor> tensors;
  tern_checkpoint_info info{};
};

struct tern_checkpoint_writer : tern::c::Pinned {
  explicit tern_checkpoint_writer(tern::CheckpointWriter from);

  tern::CheckpointWriter writer;
  std::vector<tern_stored_tensor> tensors;
};

struct tern_model : tern::c::Pinned {
  explicit tern_model(tern::Model from);

  tern::Model model;
  tern_checkpoint checkpoint;
  std::vector<tern_layout_spec> layouts;  // one per tensor; unused if the tensor has none
  std::vector<tern_model_tensor> tensors;
};

struct tern_model_plan : tern::c::Pinned {
  explicit tern_model_plan(tern::ModelPlan from);

  tern::ModelPlan plan;
  tern_metadata metadata;
  std::vector<std::string> notes;
  std::vector<tern_layout_spec> layouts;  // one per tensor; unused if the tensor has none
  std::vector<tern_tensor_plan> tensors;
  tern_model_plan_info info{};
};

struct tern_model_report : tern::c::Pinned {
  explicit tern_model_report(tern::ModelReport from);
  explicit tern_model_report(tern::TensorReport one);

  tern::ModelReport report;
  std::vector<tern_quality> qualities;  // one per tensor; unused if the tensor has none
  std::vector<tern_scale_loss> losses;
  std::vector<tern_tensor_report> tensors;
  tern_model_report_info info{};
};

struct tern_model_difference : tern::c::Pinned {
  explicit tern_model_difference(tern::ModelDifference from);

  tern::ModelDifference difference;
  std::vector<tern_tensor_difference> tensors;
};

namespace tern::c {

// Hands a value to the caller: a handle that is made of it, a struct that the caller's version limits, or the value.
template <class Out, class T>
Status put(Out* out, T value) {
  if constexpr (std::is_pointer_v<Out> && !std::is_pointer_v<T>)
    *out = new std::remove_pointer_t<Out>{std::move(value)};
  else if constexpr (std::is_same_v<T, std::optional<std::size_t>>)
    *out = place_or_none(value);
  else if constexpr (requires { out->struct_size; })
    write_struct(face_of(value), out);
  else if constexpr (std::is_class_v<Out>)
    *out = face_of(value);
  else
    *out = static_cast<Out>(value);
  return {};
}
template <class Out, class T>
Status put(Out* out, Result<T> value) {
  if (!value.ok()) return std::move(value).error();
  return put(out, *std::move(value));
}

// Memory for results that stay on the host: the context's memory, or the process's if the context is on a GPU.
std::shared_ptr<MemoryResource> host_memory_of(const tern_context& context);
// Of a context that counts its memory.
Result<MemoryStatistics> statistics_of(const char* where, const tern_context& context);
Status reset_peak(const char* where, const tern_context& context);
Result<std::string> live_allocations(const char* where, const tern_context& context);

// Here so that reports of memory name one file for the tensors of C.
Result<Tensor> allocate_tensor(const Context& context, DType dtype, const Shape& shape);

Result<std::uint64_t> checksum_of(const char* where, const QuantizedTensor& quantized);

Progress adapt(tern_progress_fn progress, void* user);
ModelProgress adapt(const ParallelForWatch& watch, tern_model_progress_fn progress, void* user);
ByteWriter adapt(tern_write_fn writer, void* user, const char* where);

}  // namespace tern::c
