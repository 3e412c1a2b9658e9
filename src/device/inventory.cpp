// Lists the devices of this machine.
#include "device/cuda.h"
#include "device/isa.h"
#include "device/topology.h"
#include "tern/device.h"

namespace tern {

Result<Inventory> devices() {
  Inventory inventory;
  Device cpu = host_topology(inventory.notes);
  cpu.capabilities = detect_cpu_capabilities();
  inventory.devices.push_back(std::move(cpu));
  cuda::add_devices(inventory);
  return inventory;
}

}  // namespace tern
