// The C ABI: what handles are made of.
#include "api/c_handles.h"

namespace tern::c {
namespace {

// What C gets of the elements, which must outlive the pointers.
template <class T>
auto pointers_to(const std::vector<T>& elements) {
  std::vector<decltype(face(elements[0]))> pointers;
  for (const T& element : elements) pointers.push_back(face(element));
  return pointers;
}

}  // namespace

std::uint64_t mask_of(Capabilities capabilities) {
  std::uint64_t mask = 0;
  for (int i = 0; i < kCapabilityCount; ++i)
    if (capabilities.has(static_cast<Capability>(i))) mask |= std::uint64_t{1} << i;
  return mask;
}

Status check_index(const char* where, std::size_t index, std::size_t count) {
  if (index >= count) return error(Code::invalid_argument, where, "index is {}, but there are only {}", index, count);
  return {};
}

DeviceFace::DeviceFace(Device from)
    : device(std::move(from)),
      caches(faces_of(device.caches)),
      cache_pointers(pointers_to(caches)),
      nodes(faces_of(device.numa_nodes)),
      node_pointers(pointers_to(nodes)) {
  if (device.gpu) gpu = face_of(*device.gpu);
  info = face_of(device, *this);
}

KernelFace::KernelFace(KernelDescription from)
    : kernel(std::move(from)),
      needs(pointers_to(kernel.needs)),
      dtypes(pointers_to(kernel.dtypes)),
      schemes(pointers_to(kernel.schemes)),
      info(face_of(kernel, *this)) {}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): the handles are global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_inventory::tern_inventory(Inventory from) : notes(std::move(from.notes)) {
  for (Device& device : from.devices) devices.push_back(std::make_unique<DeviceFace>(std::move(device)));
}

tern_kernel_list::tern_kernel_list(std::vector<KernelDescription> from) {
  for (KernelDescription& kernel : from) kernels.push_back(std::make_unique<KernelFace>(std::move(kernel)));
}

tern_quantized::tern_quantized(QuantizedTensor from)
    : tensor(std::move(from)), quality(face_of(tensor.quality.value_or(Quality()))), info(face_of(tensor, &quality)) {
  std::ranges::copy(tensor.shape.sizes(), info.shape);
}

tern_packed_weights::tern_packed_weights(PackedWeights from)
    : weights(std::move(from)), tile(weights.tile()), info(face_of(weights, tile)) {}

tern_packed_filters::tern_packed_filters(PackedFilters from) : filters(std::move(from)), info(face_of(filters)) {}

tern_precision_reports::tern_precision_reports(PrecisionComparison from)
    : comparison(std::move(from)), faces(faces_of(comparison.modes)) {}
tern_precision_reports::tern_precision_reports(PrecisionReport one)
    : tern_precision_reports(PrecisionComparison{.modes = {std::move(one)}}) {}

tern_checkpoint::tern_checkpoint(Checkpoint from)
    : checkpoint(std::move(from)),
      metadata{checkpoint.metadata()},
      notes(checkpoint.notes().begin(), checkpoint.notes().end()),
      tensors(faces_of(checkpoint.tensors())),
      info(face_of(checkpoint)) {}

tern_checkpoint_writer::tern_checkpoint_writer(CheckpointWriter from)
    : writer(std::move(from)), tensors(faces_of(writer.tensors())) {}

tern_model::tern_model(Model from) : model(std::move(from)), checkpoint(model.checkpoint()) {
  for (const ModelTensor& tensor : model.tensors()) layouts.push_back(face_of(tensor.layout.value_or(LayoutSpec())));
  tensors = faces_of(model.tensors(), layouts);
}

tern_model_plan::tern_model_plan(ModelPlan from)
    : plan(std::move(from)), metadata{plan.metadata}, notes(plan.notes), info(face_of(plan)) {
  for (std::size_t i = 0; i < std::size(info.actions); ++i) info.actions[i] = plan.count(static_cast<Action>(i));
  for (const TensorPlan& tensor : plan.tensors) layouts.push_back(face_of(tensor.layout));
  tensors = faces_of(plan.tensors, layouts);
}
static_assert(std::size(tern_model_plan_info{}.actions) == static_cast<std::size_t>(kLastAction) + 1);

tern_model_report::tern_model_report(ModelReport from) : report(std::move(from)), info(face_of(report)) {
  for (const TensorReport& tensor : report.tensors) {
    qualities.push_back(face_of(tensor.quality.value_or(Quality())));
    losses.push_back(face_of(tensor.scale_loss));
  }
  tensors = faces_of(report.tensors, qualities, losses);
}
tern_model_report::tern_model_report(TensorReport one) : tern_model_report(ModelReport{.tensors = {std::move(one)}}) {}

tern_model_difference::tern_model_difference(ModelDifference from)
    : difference(std::move(from)), tensors(faces_of(difference.tensors)) {}
