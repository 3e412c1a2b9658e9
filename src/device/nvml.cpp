// Loads NVML on first use: a machine without a driver has none, and nothing else here depends on it. The few
// declarations follow its documented, versioned C interface.
#include "device/nvml.h"

#include <dlfcn.h>

#include "base/fmt.h"

namespace tern::cuda {
namespace {

using Handle = void*;
struct Utilization {
  unsigned gpu, memory;
};
constexpr int kSuccess = 0;
constexpr unsigned kTemperatureGpu = 0, kClockSm = 1, kClockMemory = 2, kCorrected = 0, kUncorrected = 1, kVolatile = 0;

class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      why_not_ = "libnvidia-ml.so.1 is not installed";
      return;
    }
    int (*init)() = nullptr;
    if (!find("nvmlInit_v2", init) || init() != kSuccess) why_not_ = "NVML does not start";
  }

  template <class F>
  bool find(const char* symbol, F& function) const {
    function = library_ == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library_, symbol));
    return function != nullptr;
  }
  // Calls a function that writes its answer through its last argument.
  template <class Answer, class... Before>
  bool ask(const char* symbol, Answer& answer, Before... before) const {
    int (*function)(Before..., Answer*) = nullptr;
    return find(symbol, function) && function(before..., &answer) == kSuccess;
  }
  template <class... Before>
  std::string text(const char* symbol, Before... before) const {
    char buffer[128] = {};
    int (*function)(Before..., char*, unsigned) = nullptr;
    if (!find(symbol, function) || function(before..., buffer, sizeof buffer) != kSuccess) return "";
    return buffer;
  }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  void* library_ = nullptr;  // never unloaded, like the driver
  std::string why_not_;
};

}  // namespace

std::string add_sensors(const std::string& pci_bus_id, GpuFacts& facts) {
  static const Nvml nvml;
  if (!nvml.why_not().empty()) return nvml.why_not();
  facts.driver = nvml.text("nvmlSystemGetDriverVersion");
  Handle gpu = nullptr;
  if (!nvml.ask("nvmlDeviceGetHandleByPciBusId_v2", gpu, pci_bus_id.c_str()))
    return fmt::format("NVML does not know the GPU at {}", pci_bus_id);
  facts.uuid = nvml.text("nvmlDeviceGetUUID", gpu);
  unsigned value = 0;
  const auto number = [&](const char* symbol, auto... before) -> std::optional<int> {
    if (!nvml.ask(symbol, value, gpu, before...)) return std::nullopt;
    return static_cast<int>(value);
  };
  const auto watts = [&](const char* symbol) -> std::optional<double> {
    if (!nvml.ask(symbol, value, gpu)) return std::nullopt;
    return value / 1000.0;
  };
  const auto errors = [&](unsigned kind) -> std::optional<std::uint64_t> {
    unsigned long long count = 0;
    if (!nvml.ask("nvmlDeviceGetTotalEccErrors", count, gpu, kind, kVolatile)) return std::nullopt;
    return count;
  };
  facts.temperature_c = number("nvmlDeviceGetTemperature", kTemperatureGpu);
  facts.power_w = watts("nvmlDeviceGetPowerUsage");
  facts.power_limit_w = watts("nvmlDeviceGetEnforcedPowerLimit");
  facts.clock_now_mhz = number("nvmlDeviceGetClockInfo", kClockSm);
  facts.memory_clock_now_mhz = number("nvmlDeviceGetClockInfo", kClockMemory);
  if (Utilization use{}; nvml.ask("nvmlDeviceGetUtilizationRates", use, gpu)) {
    facts.utilization_percent = static_cast<int>(use.gpu);
    facts.memory_utilization_percent = static_cast<int>(use.memory);
  }
  facts.ecc_corrected = errors(kCorrected);
  facts.ecc_uncorrected = errors(kUncorrected);
  return "";
}

}  // namespace tern::cuda
