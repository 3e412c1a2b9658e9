// Asks the processor and the operating system what they can do.
#include "device/isa.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tern {

#if defined(__x86_64__)

const char* cpu_architecture() { return "x86_64"; }

namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool bit(unsigned word, int index) { return ((word >> index) & 1U) != 0; }

// XCR0: which register states the operating system saves.
unsigned saved_states() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Linux enables tile state only for a process that asks for it (arch_prctl ARCH_REQ_XCOMP_PERM, state 18).
bool tiles_permitted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

Capabilities detect_cpu_capabilities() {
  Capabilities set;
  const Registers l1 = cpuid(1, 0), l7 = cpuid(7, 0), l71 = cpuid(7, 1);
  if (bit(l1.ecx, 19) && bit(l1.ecx, 9)) set.add(Capability::x86_sse41);  // SSE4.1 and SSSE3

  if (!bit(l1.ecx, 27)) return set;  // no OSXSAVE: the system saves no more than 128 bits
  const unsigned states = saved_states();
  const bool os_avx = (states & 0x6) == 0x6;            // XMM, YMM
  const bool os_avx512 = (states & 0xE6) == 0xE6;       // and opmask, ZMM
  const bool os_tiles = (states & 0x60000) == 0x60000;  // TILECFG, TILEDATA

  const bool avx2 = os_avx && bit(l1.ecx, 28) && bit(l7.ebx, 5) && bit(l1.ecx, 12) && bit(l1.ecx, 29);
  if (avx2) set.add(Capability::x86_avx2);
  if (avx2 && bit(l71.eax, 4)) set.add(Capability::x86_avx_vnni);
  const bool avx512 =
      avx2 && os_avx512 && bit(l7.ebx, 16) && bit(l7.ebx, 17) && bit(l7.ebx, 30) && bit(l7.ebx, 31);  // F DQ BW VL
  if (avx512) set.add(Capability::x86_avx512);
  if (avx512 && bit(l7.ecx, 11)) set.add(Capability::x86_avx512vnni);
  if (avx512 && bit(l7.ecx, 11) && bit(l7.ecx, 1)) set.add(Capability::x86_avx512vbmi);
  if (avx512 && os_tiles && bit(l7.edx, 24) && bit(l7.edx, 25) && tiles_permitted()) set.add(Capability::x86_amx_int8);
  return set;
}

CpuModel detect_cpu_model() {
  const Registers name = cpuid(0, 0), l1 = cpuid(1, 0);
  char vendor[12];
  std::memcpy(vendor, &name.ebx, 4);
  std::memcpy(vendor + 4, &name.edx, 4);
  std::memcpy(vendor + 8, &name.ecx, 4);
  // Families from 15 on, and the models of families 6 and 15, have extension bits higher up.
  int family = static_cast<int>(l1.eax >> 8 & 15U), model = static_cast<int>(l1.eax >> 4 & 15U);
  if (family == 6 || family == 15) model += static_cast<int>(l1.eax >> 16 & 15U) << 4;
  if (family == 15) family += static_cast<int>(l1.eax >> 20 & 255U);
  return {.vendor = std::string(vendor, sizeof vendor), .family = family, .model = model};
}

#elif defined(__aarch64__)

const char* cpu_architecture() { return "aarch64"; }
CpuModel detect_cpu_model() { return {}; }

Capabilities detect_cpu_capabilities() {
  Capabilities set;
  set.add(Capability::arm_neon);                      // part of every 64-bit ARM
#if defined(__linux__)
  constexpr unsigned long kHwcapDotprod = 1UL << 20;  // HWCAP_ASIMDDP
  constexpr unsigned long kHwcap2I8mm = 1UL << 13;
  if ((getauxval(AT_HWCAP) & kHwcapDotprod) != 0) set.add(Capability::arm_dotprod);
  if ((getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0) set.add(Capability::arm_i8mm);
#endif
  return set;
}

#else

const char* cpu_architecture() { return "other"; }
CpuModel detect_cpu_model() { return {}; }
Capabilities detect_cpu_capabilities() { return {}; }

#endif

}  // namespace tern
