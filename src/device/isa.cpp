// The levels of each family and their order. Detection is in cpuid.cpp.
#include "device/isa.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/words.h"
#include "device/topology.h"

namespace tern {
namespace {

// Lowest first: a limit removes all later levels.
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

// The levels of a device, for an error message that lists the valid ones.
std::string levels_text(Capabilities all, DeviceKind kind) {
  std::vector<std::string_view> levels;
  if (kind == DeviceKind::cpu) levels.emplace_back("scalar");
  for (const std::span<const Capability> family : {std::span<const Capability>(kX86), {kArm}, {kCuda}})
    for (const Capability c : family)
      if (all.has(c)) levels.push_back(name(c));
  return listed(levels);
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

Result<Capabilities> limit_capabilities(Capabilities all, DeviceKind kind, const Options& options) {
  const bool gpu = kind == DeviceKind::cuda;
  if (gpu ? !options.max_gpu : !options.max_isa) {
    if (!options.max_isa && !options.max_gpu) return all;
    return error(Code::invalid_argument, "TERN_MAX_ISA",
                 "{} is a level of {}, and this context is on {}; give one of {}, or one of each, as in x86_avx2,sm_80",
                 max_isa_text(options), gpu ? "CPUs" : "GPUs", gpu ? "a GPU" : "a CPU", levels_text(all, kind));
  }
  const std::optional<Capability> level = gpu ? options.max_gpu : options.max_isa->level;
  if (!level) return Capabilities{};
  const auto family = family_of(*level);
  for (const Capability c : {Capability::x86_sse41, Capability::arm_neon})
    if (all.has(c) && !contains(family, c))
      return error(Code::invalid_argument, "TERN_MAX_ISA",
                   "{} is of another kind of processor than this one; give one of {}", name(*level),
                   levels_text(all, kind));
  bool above = false;
  for (const Capability c : family) {
    if (above) all.remove(c);
    if (c == *level) above = true;
  }
  return all;
}

Result<Capabilities> usable_instructions() {
  TERN_ASSIGN(options, read_options());
  const Device& cpu = host_device();
  if (!options.max_isa) return cpu.capabilities;
  return limit_capabilities(cpu.capabilities, cpu.id.kind, options);
}

}  // namespace tern
