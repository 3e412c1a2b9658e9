// Asks the CUDA runtime to which device a piece of memory belongs.
#pragma once

#include <optional>

#include "tern/device.h"

namespace tern::cuda {

// Empty for managed memory, which every device can reach. Until this process uses a GPU, the answer is the host,
// without a call of the runtime: the call alone would initialise a GPU.
std::optional<DeviceId> place_of(const void* data);

}  // namespace tern::cuda
