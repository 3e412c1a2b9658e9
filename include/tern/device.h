// What hardware is here: devices, their capabilities, caches, cores and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/export.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// Everything a kernel may need of a device, CPU or GPU, in one enum. A capability is present only when the operating
// system supports it too (saved vector state, permission to use tiles).
enum class Capability : std::uint8_t {
  x86_sse41,
  x86_avx2,  // AVX2, FMA, F16C
  x86_avx_vnni,
  x86_avx512,  // F, BW, VL, DQ
  x86_avx512vnni,
  x86_amx_int8,
  arm_neon,
  arm_dotprod,
  arm_i8mm,
  sm_75,  // this compute capability or a newer one
  sm_80,
  sm_90,
  sm_90a,  // exactly 9.0: wgmma and setmaxnreg exist nowhere else
  sm_100,
  sm_120,
  x86_avx512vbmi,  // VBMI, and VNNI
};
inline constexpr int kCapabilityCount = 16;

TERN_API std::string_view name(Capability);
TERN_API Result<Capability> parse_capability(std::string_view);

// A set of capabilities.
class Capabilities {
 public:
  constexpr Capabilities() = default;
  template <class... C>
  static constexpr Capabilities of(C... capabilities) {
    Capabilities set;
    ((set.bits_ |= bit(capabilities)), ...);
    return set;
  }
  [[nodiscard]] constexpr bool has(Capability c) const { return (bits_ & bit(c)) != 0; }
  [[nodiscard]] constexpr bool includes(Capabilities other) const { return (other.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(Capability c) { bits_ |= bit(c); }
  constexpr void remove(Capability c) { bits_ &= ~bit(c); }
  friend constexpr bool operator==(Capabilities, Capabilities) = default;

 private:
  static constexpr std::uint32_t bit(Capability c) { return std::uint32_t{1} << static_cast<unsigned>(c); }
  std::uint32_t bits_ = 0;
};

struct Cache {
  int level = 1;
  std::string type = {};  // "data", "unified", "instruction"
  std::size_t bytes = 0;
  std::size_t line_bytes = 64;
  int shared_by = 1;  // hardware threads
  int count = 1;      // caches of this kind on the device
};

struct NumaNode {
  int id = 0;
  std::size_t memory_bytes = 0;
  std::vector<int> cpus = {};
};

// What only a GPU has. What the driver does not report is empty.
struct GpuFacts {
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;
  int clock_mhz = 0, memory_clock_mhz = 0;                // the highest
  std::string driver_version = {}, runtime_version = {};  // of CUDA, as in "13.0"
  std::string driver = {};                                // the kernel's, as in "580.159.04"
  std::string pci_bus_id = {}, uuid = {};
  std::optional<int> temperature_c = {};
  std::optional<double> power_w = {}, power_limit_w = {};
  std::optional<int> utilization_percent = {}, memory_utilization_percent = {};
  std::optional<int> clock_now_mhz = {}, memory_clock_now_mhz = {};
  std::optional<std::uint64_t> ecc_corrected = {}, ecc_uncorrected = {};  // errors since the driver was loaded
};

// Which processor it is, as x86 processors say it of themselves: "AuthenticAMD" 25 17 is a Zen 4. Elsewhere empty.
struct CpuModel {
  std::string vendor = {};
  int family = 0, model = 0;
};

struct Device {
  DeviceId id = {};
  std::string name = {};          // "Intel(R) Xeon(R) Processor"
  std::string architecture = {};  // "x86_64", "aarch64"
  CpuModel cpu = {};
  Capabilities capabilities = {};
  int sockets = 0;
  int cores = 0;
  int hardware_threads = 0;
  int usable_threads = 1;  // that this process may use, after affinity and cgroup quota
  std::size_t memory_total_bytes = 0;
  std::size_t memory_available_bytes = 0;
  std::vector<Cache> caches = {};
  std::vector<NumaNode> numa_nodes = {};
  std::optional<GpuFacts> gpu = {};
  std::string unusable = {};  // why no kernel here can run on it; empty when one can
};

struct Inventory {
  std::vector<Device> devices = {};
  std::vector<std::string> notes = {};  // what could not be found out, and why
};

// Examines the machine anew on every call. The CPU is always in the list.
TERN_API Result<Inventory> devices();

}  // namespace tern
