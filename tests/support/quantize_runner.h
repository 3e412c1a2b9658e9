// Runs kernels without a plan: any op's kernels that run on this machine, and ternary_quantize's with guarded buffers.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "base/elements.h"
#include "base/options.h"
#include "device/topology.h"
#include "format/format.h"
#include "ops/kernel.h"
#include "ops/ternary_quantize/ternary_quantize.h"
#include "plan/select.h"
#include "simd/emulated.h"
#include "tests/support/gpu.h"
#include "tests/support/guarded.h"

namespace tern::test {

struct NamedKernel {
  std::string name;
  KernelEntry entry;
  bool on_gpu = false;  // runs through the GPU, whose errors have other texts
};

// The kernels of an op and format that run here, without the reference.
inline std::vector<NamedKernel> runnable_kernels(std::string_view op, Format format) {
  std::vector<NamedKernel> found;
  const Machine machine{.device = {}, .capabilities = host_device().capabilities};
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.op == op && kernel.info.format == format && kernel.info.isa != "reference" &&
        !refused_by_machine(kernel, machine, Options{}))
      found.push_back({std::string(kernel.info.name), kernel.entry});
  if (gpu() == nullptr) return found;
  const Machine there{.device = gpu()->device().id, .capabilities = gpu()->device().capabilities};
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.op == op && kernel.info.format == format && !refused_by_machine(kernel, there, Options{}))
      found.push_back({std::string(kernel.info.name), through_gpu(kernel), true});
  return found;
}

// The entry of a table that lies in its op's namespace.
inline constexpr auto kEntryOf = [](const auto* table) { return entry(table); };

// The same, plus the emulated loops of the op at 32 and 64 bytes, which this machine may not have.
template <template <class> class Loops, class EntryOf = decltype(kEntryOf)>
std::vector<NamedKernel> kernels_and_loops(std::string_view op, Format format, EntryOf entry_of = kEntryOf) {
  static constexpr auto k32 = Loops<simd::Emulated<32>>::table(), k64 = Loops<simd::Emulated<64>>::table();
  auto kernels = runnable_kernels(op, format);
  kernels.push_back({"emulated 32 bytes", entry_of(&k32)});
  kernels.push_back({"emulated 64 bytes", entry_of(&k64)});
  return kernels;
}

inline KernelEntry reference_kernel(std::string_view op, Format format) {
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.op == op && kernel.info.format == format && kernel.info.isa == "reference") return kernel.entry;
  return {};
}

// Pools are cached, because making one takes longer than most tests.
inline const Threads& pool_of(int threads) {
  static std::map<int, Threads> pools;
  return pools.try_emplace(threads, threads).first->second;
}

// Runs a kernel without a plan, with a workspace that ends at a guard page.
template <class Problem, class Params>
Status run_entry(const KernelEntry& entry, const Problem& problem, const Params& params, int threads,
                 const Tuning* tuning = nullptr) {
  const std::size_t bytes = entry.workspace_bytes(entry.table, &problem, threads);
  Guarded<std::byte> workspace((bytes + 63) / 64 * 64);  // a multiple of 64, so that the beginning is aligned, too
  return entry.run(entry.table, &params, {pool_of(threads), {workspace.data(), bytes}, nullptr, tuning});
}

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  Status status;
};

// Runs an entry on x [rows, k], rounded to the problem's type, with guard pages behind every buffer and poisoned
// outputs.
template <class T>
Quantized run_quantize(const KernelEntry& entry, const TernaryQuantize::Problem& p, const std::vector<T>& x,
                       int threads = 1, const std::vector<float>& given = {}) {
  const std::int64_t bytes = row_bytes(p.format, p.k), ranges = make_ranges(p.rows, p.k, p.granularity).total;
  Guarded<std::byte> in(x.size() * size_of(p.dtype));
  constexpr DType of_x = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  static_assert(std::is_same_v<T, double> || std::is_same_v<T, float>);
  if (p.dtype == of_x)
    std::copy(x.begin(), x.end(), reinterpret_cast<T*>(in.data()));
  else
    for (std::size_t i = 0; i < x.size(); ++i) write_element(in.data(), p.dtype, static_cast<std::int64_t>(i), x[i]);
  Guarded<std::uint8_t> codes(static_cast<std::size_t>(p.rows * bytes));
  Guarded<float> scales(static_cast<std::size_t>(ranges));
  const TernaryQuantize::Args args{
      .x = {in.data(), p.dtype, {p.rows, p.k}},
      .codes = {codes.data(), code_dtype(p.format), {p.rows, bytes}},
      .scales = {scales.data(), DType::f32, {ranges}},
      .given_scale = {given.data(), DType::f32, {static_cast<std::int64_t>(given.size())}}};
  Quantized out;
  auto params = OpTraits<TernaryQuantize>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  out.status = run_entry(entry, p, *params, threads);
  out.codes.assign(codes.data(), codes.data() + codes.size());
  out.scales.assign(scales.data(), scales.data() + scales.size());
  return out;
}

inline std::string describe(const TernaryQuantize::Problem& p) {
  return std::to_string(p.rows) + "x" + std::to_string(p.k) + " " + std::string(name(p.dtype)) + " " +
         std::string(name(p.scheme)) + " " + name(p.granularity) + " " + std::string(name(p.format)) +
         (p.scale_given ? " given" : "") + " " + std::string(name(p.non_finite));
}

// Compares bytes and bit patterns, not values.
inline bool same_bits(const Quantized& a, const Quantized& b) {
  return a.codes == b.codes && a.scales.size() == b.scales.size() &&
         (a.scales.empty() || std::memcmp(a.scales.data(), b.scales.data(), a.scales.size() * sizeof(float)) == 0);
}

}  // namespace tern::test
