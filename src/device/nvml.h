// What the driver's management library reports about a GPU, where it is installed.
#pragma once

#include <string>

#include "tern/device.h"

namespace tern::cuda {

// Fills driver, uuid and sensors of the GPU at a PCI address; what cannot be read stays empty. Returns why nothing
// could be read, or "".
std::string add_sensors(const std::string& pci_bus_id, GpuFacts& facts);

}  // namespace tern::cuda
