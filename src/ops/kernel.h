// What a kernel looks like from outside: its line of the list as data, and its functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_set.h"
#include "device/cuda.h"
#include "device/threads.h"
#include "ops/cuda_launch.h"
#include "tern/device.h"
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// What kernels of one instruction set, by KernelInfo::isa, make of a problem.
struct IsaFacts {
  std::string_view isa;
  std::string refused = {};  // why they cannot do it
  std::string note = {};     // what they leave to another kernel
};

// What selection needs to know of a problem, whatever its op.
struct ProblemFacts {
  std::string_view op;
  DType dtype = DType::f32;  // of the float side
  Format format = Format::i2;
  Scheme scheme = Scheme::absmean;
  std::int64_t m = 1;  // the largest number of tokens; 1 where an op has none
  std::int64_t k = 0;
  std::string refused = {};                        // why no kernel can do it, whatever its line says
  std::string refused_on_gpu = {};                 // why none of a GPU's can
  std::vector<IsaFacts> of_isas = {};              // of instruction sets about which there is something to say
  std::string epilogue = "none";                   // for the plan's id
  DType aux = DType::f32;                          // of scales, likewise
  std::optional<Guarantee> guarantee = {};         // where it depends on the problem; else the kernel's own
  std::optional<Guarantee> guarantee_on_gpu = {};  // where it is another one there
};

// A line of kernels.inc. Everything a kernel demands is here, so that it can be judged where it is not built.
struct KernelInfo {
  std::string_view name;  // op.format.isa[.variant]
  std::string_view op;
  Format format = Format::i2;
  std::string_view isa;
  DeviceKind device = DeviceKind::cpu;
  Capabilities needs = {};
  EnumSet<DType> dtypes = {};
  EnumSet<Scheme> schemes = {};  // empty: the op has none
  std::int64_t m_min = 0;
  std::int64_t m_max = std::numeric_limits<std::int64_t>::max();
  std::int64_t k_multiple = 1;
  Guarantee guarantee = {};
};

// What an op tells the plan room; each op specialises it in its header.
template <class Op>
struct OpTraits;

// Where a kernel runs: the threads it may use, and its scratch memory.
struct Exec {
  const Threads& threads;
  std::span<std::byte> workspace;        // of the device
  const cuda::Launch* launch = nullptr;  // on a GPU
  const Tuning* tuning =
      nullptr;  // on a CPU, for kernels that have the choice; null: as is best where nothing is known
};

// What a .cu file gives to an op. A launcher puts its kernels on the stream, synchronizes nothing, allocates nothing,
// and returns what the last call of the CUDA runtime returned: 0, or the cudaError_t.
template <class Op>
struct CudaTable {
  std::size_t (*workspace_bytes)(const typename Op::Problem& problem);
  int (*launch)(const typename OpTraits<Op>::Params& params, std::byte* workspace, const cuda::Launch& launch);
  // Reports how the longest run of a problem would be launched, without launching it: for the device of `launch`, its
  // multiprocessors and the caller's wishes. False if the kernel has no such choice.
  bool (*tuning)(const typename Op::Problem& problem, const cuda::Launch& launch, Tuning& tuning) = nullptr;
};

// The entry of a kernel, its table and parameter types erased; bind_kernel() gives them back.
struct KernelEntry {
  const void* table = nullptr;  // null: not in this build
  std::size_t (*workspace_bytes)(const void* table, const void* problem, int threads) = nullptr;
  Status (*run)(const void* table, const void* params, const Exec& exec) = nullptr;
  std::optional<Tuning> (*tuning)(const void* table, const void* problem, const cuda::Launch& launch) = nullptr;
  // Of a CPU's kernel, which may be missing in this build: what a processor gets of what was asked for.
  Tuning (*cpu_tuning)(const void* table, const CpuModel& cpu, const Tuning& asked) = nullptr;
};

struct Kernel {
  KernelInfo info;
  KernelEntry entry;
};

// Every kernel of every op, best first, the reference of each op last.
std::span<const Kernel> kernel_list();

// The table of the best loops of an op on a CPU that need no other capabilities than these. Every machine has the
// scalar ones.
const void* loops_table(std::string_view op, Capabilities instructions);

// Makes an entry of typed functions: kWorkspace(table, problem, threads) and kRun(table, params, exec).
template <class Op, auto kWorkspace, auto kRun, class Table>
constexpr KernelEntry bind_kernel(const Table* table) {
  return {
      table,
      [](const void* t, const void* problem, int threads) -> std::size_t {
        return kWorkspace(*static_cast<const Table*>(t), *static_cast<const typename Op::Problem*>(problem), threads);
      },
      [](const void* t, const void* params, const Exec& exec) -> Status {
        return kRun(*static_cast<const Table*>(t), *static_cast<const typename OpTraits<Op>::Params*>(params), exec);
      }};
}

// The same of a .cu file's table.
template <class Op>
constexpr KernelEntry bind_cuda(const CudaTable<Op>* table) {
  return {table,
          [](const void* t, const void* problem, int /*threads*/) -> std::size_t {
            return static_cast<const CudaTable<Op>*>(t)->workspace_bytes(
                *static_cast<const typename Op::Problem*>(problem));
          },
          [](const void* t, const void* params, const Exec& exec) -> Status {
            return cuda::launched(static_cast<const CudaTable<Op>*>(t)->launch(
                *static_cast<const typename OpTraits<Op>::Params*>(params), exec.workspace.data(), *exec.launch));
          },
          [](const void* t, const void* problem, const cuda::Launch& launch) -> std::optional<Tuning> {
            const auto tell = static_cast<const CudaTable<Op>*>(t)->tuning;
            Tuning tuning;
            if (tell == nullptr || !tell(*static_cast<const typename Op::Problem*>(problem), launch, tuning)) return {};
            return tuning;
          }};
}

}  // namespace tern
