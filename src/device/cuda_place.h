// Which device memory belongs to, asked of the CUDA runtime.
#pragma once

#include <optional>

#include "tern/device.h"

namespace tern::cuda {

// Nothing where every device reaches it. Before this process uses a GPU all memory is the host's: the question alone
// would open one.
std::optional<DeviceId> place_of(const void* data);

}  // namespace tern::cuda
