// The levels of each family and their order. Detection is in cpuid.cpp.
#include "device/isa.h"

#include <array>
#include <span>

#include "base/errors.h"

namespace tern {
namespace {

// Lowest first: a limit removes everything behind it.
constexpr std::array kX86 = {Capability::x86_sse41,   Capability::x86_avx2,       Capability::x86_avx_vnni,
                             Capability::x86_avx512,  Capability::x86_avx512vnni, Capability::x86_avx512vbmi,
                             Capability::x86_amx_int8};
constexpr std::array kArm = {Capability::arm_neon, Capability::arm_dotprod, Capability::arm_i8mm};
constexpr std::array kCuda = {Capability::sm_75,  Capability::sm_80,  Capability::sm_90,
                              Capability::sm_90a, Capability::sm_100, Capability::sm_120};

bool contains(std::span<const Capability> levels, Capability c) {
  for (const Capability level : levels)
    if (level == c) return true;
  return false;
}

std::span<const Capability> family_of(Capability c) {
  if (contains(kX86, c)) return kX86;
  if (contains(kArm, c)) return kArm;
  return kCuda;
}

}  // namespace

Capabilities cuda_capabilities(int major, int minor) {
  const int cc = major * 10 + minor;
  Capabilities set;
  if (cc >= 75) set.add(Capability::sm_75);
  if (cc >= 80) set.add(Capability::sm_80);
  if (cc >= 90) set.add(Capability::sm_90);
  if (cc == 90) set.add(Capability::sm_90a);
  if (cc >= 100) set.add(Capability::sm_100);
  if (cc >= 120) set.add(Capability::sm_120);
  return set;
}

Result<Capabilities> limit_capabilities(Capabilities all, DeviceKind kind, const Options::MaxIsa& limit) {
  if (!limit.level) return kind == DeviceKind::cpu ? Capabilities{} : all;
  const auto family = family_of(*limit.level);
  const bool for_gpu = contains(kCuda, *limit.level);
  if (for_gpu != (kind == DeviceKind::cuda)) return all;  // speaks of the other kind of device
  for (const Capability c : {Capability::x86_sse41, Capability::arm_neon, Capability::sm_75})
    if (all.has(c) && !contains(family, c))
      return error(Code::invalid_argument, "TERN_MAX_ISA",
                   "{} is of another kind of processor than this one, which has {}", name(*limit.level), name(c));
  bool above = false;
  for (const Capability c : family) {
    if (above) all.remove(c);
    if (c == *limit.level) above = true;
  }
  return all;
}

}  // namespace tern
