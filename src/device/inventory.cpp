// Lists the devices of this machine.
#include "device/isa.h"
#include "device/topology.h"
#include "tern/device.h"

namespace tern {

Result<Inventory> devices() {
  Inventory inventory;
  Device cpu = host_topology(inventory.notes);
  cpu.capabilities = detect_cpu_capabilities();
  inventory.devices.push_back(std::move(cpu));
  inventory.notes.emplace_back("NVIDIA GPUs: this build has no CUDA");
  return inventory;
}

}  // namespace tern
