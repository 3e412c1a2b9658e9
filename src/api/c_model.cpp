// The C ABI: models as they are read.
#include "api/c_handles.h"

namespace tern::c {
Result<std::vector<KernelTiles>> to_tiles(const char* kernel_config) {
  if (kernel_config == nullptr) return std::vector<KernelTiles>();
  return parse_kernel_config(kernel_config);
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_model::tern_model(Model from) : model(std::move(from)), checkpoint(model.checkpoint()) {
  for (const ModelTensor& tensor : model.tensors()) layouts.push_back(face_of(tensor.layout.value_or(LayoutSpec())));
  for (std::size_t i = 0; i < layouts.size(); ++i) tensors.push_back(face_of(model.tensors()[i], &layouts[i]));
}
