// Lists the devices of this machine.
#include "base/errors.h"
#include "base/options.h"
#include "device/cuda.h"
#include "device/isa.h"
#include "device/topology.h"
#include "tern/device.h"

namespace tern {

Result<Inventory> devices() {
  TERN_ASSIGN(options, read_options());  // a malformed variable is an error here, too
  Inventory inventory;
  Device cpu = host_topology(inventory.notes);
  cpu.capabilities = detect_cpu_capabilities();
  inventory.devices.push_back(std::move(cpu));
  cuda::add_devices(inventory);
  if (const std::string limit = max_isa_text(options); !limit.empty())
    inventory.notes.push_back(fmt::format("TERN_MAX_ISA={}: kernels that need more do not run", limit));
  return inventory;
}

}  // namespace tern
