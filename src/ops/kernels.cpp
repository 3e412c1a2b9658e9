// Turns kernels.inc into the list: declares each file's table, then binds it to its op.

#include "build_config.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/kernel.h"
#include "ops/linear/linear.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"
#include "ops/ternary_quantize/ternary_quantize.h"

#define KERNEL(op, ...) KERNEL_FROM(op, op, __VA_ARGS__)

#define KERNEL_FROM(folder, op, format, isa, table, ...) \
  namespace folder {                                     \
  extern const table isa;                                \
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
constexpr auto kTrits = EnumSet<Scheme>::of(Scheme::absmean, Scheme::absmax, Scheme::mse);
constexpr auto kMse = EnumSet<Scheme>::of(Scheme::mse);
constexpr auto kInt2 = EnumSet<Scheme>::of(Scheme::int2);
constexpr auto kAnyScheme = EnumSet<Scheme>::of(Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2);

#define KERNEL_FROM(folder_, op_, format_, isa_, table_, ...)                                                     \
  Kernel{{.name = #op_ "." #format_ "." #isa_, .op = #op_, .format = Format::format_, .isa = #isa_, __VA_ARGS__}, \
         op_::entry(static_cast<const folder_::table_*>(TERN_BUILT_##isa_(folder_::isa_)))},
constinit const Kernel kKernels[] = {
#include "ops/kernels.inc"  // NOLINT(bugprone-suspicious-include)
};
#undef KERNEL_FROM
#undef KERNEL

}  // namespace

std::span<const Kernel> kernel_list() { return kKernels; }

const void* loops_table(std::string_view op, Capabilities instructions) {
  for (const Kernel& kernel : kKernels)  // best first
    if (kernel.info.op == op && kernel.info.device == DeviceKind::cpu && kernel.info.isa != "reference" &&
        kernel.entry.table != nullptr && instructions.includes(kernel.info.needs))
      return kernel.entry.table;
  return nullptr;
}

}  // namespace tern
