// Checks the overrides of the environment against this machine.
#include "lab/environment.h"

#include <algorithm>

#include "base/errors.h"
#include "base/options.h"
#include "device/isa.h"
#include "device/topology.h"
#include "ops/kernel.h"
#include "plan/select.h"

namespace tern::lab {

Status check_environment() {
  TERN_ASSIGN(options, read_options());
  TERN_RETURN_IF_ERROR(check_forced_names(kernel_list(), options));
  bool for_a_cpu = options.max_isa.has_value();
  if (options.max_gpu && !for_a_cpu) {
    TERN_ASSIGN(inventory, devices());
    for_a_cpu = std::ranges::none_of(inventory.devices, [](const Device& d) { return d.id.kind == DeviceKind::cuda; });
  }
  if (for_a_cpu) TERN_RETURN_IF_ERROR(limit_capabilities(host_device().capabilities, DeviceKind::cpu, options));
  return {};
}

}  // namespace tern::lab
