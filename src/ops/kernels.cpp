// Turns kernels.inc into the list: declares each file's table, binds it to its op, and makes a kernel for each format.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/fmt.h"
#include "build_config.h"
#include "format/format.h"
#include "ops/kernel.h"
#include "ops/ops.h"

#define KERNEL(op, ...) KERNEL_FROM(op, op, __VA_ARGS__)

#define KERNEL_FROM(folder, op, formats, isa, table, ...) \
  namespace folder {                                      \
  extern const table isa;                                 \
  }
namespace tern {
#include "ops/kernels.inc"  // NOLINT(bugprone-suspicious-include)
}
#undef KERNEL_FROM

namespace tern {
namespace {

constexpr auto kSse41 = Capabilities::of(Capability::x86_sse41);
constexpr auto kAvx2 = Capabilities::of(Capability::x86_avx2);
constexpr auto kAvxVnni = Capabilities::of(Capability::x86_avx2, Capability::x86_avx_vnni);
constexpr auto kAvx512 = Capabilities::of(Capability::x86_avx512);
constexpr auto kAvx512Vnni = Capabilities::of(Capability::x86_avx512, Capability::x86_avx512vnni);
constexpr auto kAvx512Vbmi = Capabilities::of(Capability::x86_avx512vbmi);
constexpr auto kAmxInt8 = Capabilities::of(Capability::x86_avx512vbmi, Capability::x86_amx_int8);
constexpr auto kNeon = Capabilities::of(Capability::arm_neon);
constexpr auto kDotprod = Capabilities::of(Capability::arm_neon, Capability::arm_dotprod);
constexpr auto kI8mm = Capabilities::of(Capability::arm_neon, Capability::arm_dotprod, Capability::arm_i8mm);
constexpr auto kSm75 = Capabilities::of(Capability::sm_75);
constexpr auto kSm80 = Capabilities::of(Capability::sm_80);
constexpr auto kSm90a = Capabilities::of(Capability::sm_90a);
constexpr auto kFloats = EnumSet<DType>::of(DType::f32, DType::f16, DType::bf16);
constexpr auto kAllFloats = EnumSet<DType>::of(DType::f32, DType::f64, DType::f16, DType::bf16);
constexpr auto kActivations = EnumSet<DType>::of(DType::i8, DType::f32, DType::f16, DType::bf16);
// The guarantee of linear's float modes on tensor cores.
constexpr Guarantee kF32Sums{.accumulator = "f32"};
constexpr auto kMse = EnumSet<Scheme>::of(Scheme::mse);
constexpr auto kAnyScheme = EnumSet<Scheme>::of(Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2);

// The formats of a line, in its order.
struct Formats {
  template <class... F>
  constexpr Formats(F... formats) : list{formats...}, count(sizeof...(F)) {}  // NOLINT(google-explicit-constructor)
  std::array<Format, 9> list = {};
  std::size_t count = 0;
};

// A line of kernels.inc: `info` lacks name and format.
struct Line {
  KernelInfo info;
  Formats formats;
  KernelEntry entry;
};

#define TERN_FORMATS(...)        \
  [] {                           \
    using enum Format;           \
    return Formats(__VA_ARGS__); \
  }()
#define KERNEL_FROM(folder_, op_, formats_, isa_, table_, ...) \
  Line{{.op = #op_, .isa = #isa_, __VA_ARGS__},                \
       TERN_FORMATS formats_,                                  \
       op_::entry(static_cast<const folder_::table_*>(TERN_BUILT_##isa_(folder_::isa_)))},
constinit const Line kLines[] = {
#include "ops/kernels.inc"  // NOLINT(bugprone-suspicious-include)
};
#undef KERNEL_FROM
#undef KERNEL
#undef TERN_FORMATS

struct List {
  std::vector<std::string> names;
  std::vector<Kernel> kernels;
};

// Kernels of an op stand together by format, in the order in which its lines name formats.
List make_list() {
  List list;
  for (const Line& line : kLines)
    for (std::size_t i = 0; i < line.formats.count; ++i) {
      Kernel kernel{line.info, line.entry};
      kernel.info.format = line.formats.list[i];
      if (kernel.info.isa.starts_with("cuda_")) kernel.info.device = DeviceKind::cuda;
      EnumSet<Scheme> held;
      for (const Scheme scheme : {Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2})
        if (line.info.schemes.has(scheme) && holds(kernel.info.format, scheme)) held.add(scheme);
      kernel.info.schemes = held;
      list.kernels.push_back(kernel);
    }
  const std::vector<Kernel> lines = list.kernels;
  const auto first_of = [&](const Kernel& of, bool any_format) {
    return std::ranges::find_if(lines, [&](const Kernel& kernel) {
      return kernel.info.op == of.info.op && (any_format || kernel.info.format == of.info.format);
    });
  };
  std::ranges::stable_sort(list.kernels, {}, [&](const Kernel& kernel) {
    return std::pair(first_of(kernel, true), first_of(kernel, false));
  });
  for (const Kernel& kernel : list.kernels)
    list.names.push_back(fmt::format("{}.{}.{}", kernel.info.op, name(kernel.info.format), kernel.info.isa));
  for (std::size_t i = 0; i < list.kernels.size(); ++i) list.kernels[i].info.name = list.names[i];
  return list;
}

}  // namespace

std::span<const Kernel> kernel_list() {
  static const List& list = *new List(make_list());  // never destroyed: threads may outlive main()
  return list.kernels;
}

const void* loops_table(std::string_view op, Capabilities instructions) {
  for (const Line& line : kLines)  // best first
    if (line.info.op == op && !line.info.isa.starts_with("cuda_") && line.info.isa != "reference" &&
        line.entry.table != nullptr && instructions.includes(line.info.needs))
      return line.entry.table;
  return nullptr;
}

}  // namespace tern
