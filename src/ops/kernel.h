// What a kernel looks like from outside: its line of kernels.inc as data, and its functions.
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

// What the kernels of one instruction set (KernelInfo::isa) can do with a problem.
struct IsaFacts {
  std::string_view isa;
  std::string refused = {};  // why they cannot run it
  std::string note = {};     // which part of it another kernel runs
};

// What selection needs to know about a problem of any op.
struct ProblemFacts {
  std::string_view op;
  DType dtype = DType::f32;  // of the float side
  Format format = Format::i2;
  Scheme scheme = Scheme::absmean;
  std::int64_t m = 1;  // the largest number of tokens; 1 where an op has none
  std::int64_t k = 0;
  std::string refused = {};                        // why no kernel can run it, whatever its line says
  std::string refused_on_gpu = {};                 // why no GPU kernel can run it
  std::vector<IsaFacts> of_isas = {};              // only for instruction sets with something to report
  std::string epilogue = "none";                   // for the plan's id
  DType aux = DType::f32;                          // of scales; also for the plan's id
  std::optional<Guarantee> guarantee = {};         // if it depends on the problem; else the kernel's holds
  std::optional<Guarantee> guarantee_on_gpu = {};  // if it differs on a GPU
};

// A line of kernels.inc, for one of its formats. It has every requirement of a kernel, so that selection can judge
// kernels that are not built.
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

// What a call moves and computes at least, for observers.
struct Work {
  std::int64_t bytes = 0;       // of its operands, each once
  std::int64_t operations = 0;  // of linear 2 * m * n * k; of other ops one for each element
};

inline std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

// What an op tells the planning code in src/plan; each op specialises it in its header.
template <class Op>
struct OpTraits;

// Where a kernel runs: the threads it may use, and its scratch memory.
struct Exec {
  const Threads& threads;
  std::span<std::byte> workspace;        // on the kernel's device
  const cuda::Launch* launch = nullptr;  // on a GPU
  const Tuning* tuning = nullptr;        // on a CPU, for kernels with a choice; null: the default
};

// What a .cu file gives to an op. A launcher puts its kernels on the stream, synchronizes nothing, allocates nothing,
// and returns what the last call of the CUDA runtime returned: 0, or the cudaError_t.
template <class Op>
struct CudaTable {
  std::size_t (*workspace_bytes)(const typename Op::Problem& problem);
  int (*launch)(const typename OpTraits<Op>::Params& params, std::byte* workspace, const cuda::Launch& launch);
  // Writes to `tuning` how the longest run of a problem would be launched, given the device, the multiprocessors and
  // the requested tuning of `launch`. Launches nothing. Returns false if the kernel has no such choice.
  bool (*tuning)(const typename Op::Problem& problem, const cuda::Launch& launch, Tuning& tuning) = nullptr;
};

// A kernel's functions with the types of its table and parameters erased; bind_kernel() casts them back.
struct KernelEntry {
  const void* table = nullptr;  // null: not in this build
  std::size_t (*workspace_bytes)(const void* table, const void* problem, int threads) = nullptr;
  Status (*run)(const void* table, const void* params, const Exec& exec) = nullptr;
  std::optional<Tuning> (*tuning)(const void* table, const void* problem, const cuda::Launch& launch) = nullptr;
  // For CPU kernels: the tuning that a processor gets of the one that was asked for. table is null if the kernel is not
  // in this build.
  Tuning (*cpu_tuning)(const void* table, const CpuModel& cpu, const Tuning& asked) = nullptr;
};

struct Kernel {
  KernelInfo info;
  KernelEntry entry;
};

// Every kernel of every op, best first, the reference of each op last.
std::span<const Kernel> kernel_list();

// The table of the best CPU kernel of an op that needs only these capabilities. There always is one: the scalar kernel
// needs none.
const void* loops_table(std::string_view op, Capabilities instructions);

// Makes an entry from typed functions: kWorkspace(table, problem, threads) and kRun(table, params, exec).
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

// The same for the table of a .cu file.
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

// For the namespace of an op: what reference.cpp and cpu.cpp define, and the entries of its tables.
#define TERN_OP_DRIVERS(Op)                                                                                      \
  struct ReferenceTable {};                                                                                      \
  using Cuda = CudaTable<Op>;                                                                                    \
  std::size_t reference_workspace(const ReferenceTable&, const Op::Problem&, int threads);                       \
  Status reference_run(const ReferenceTable&, const Params&, const Exec&);                                       \
  std::size_t cpu_workspace(const SimdTable&, const Op::Problem&, int threads);                                  \
  Status cpu_run(const SimdTable&, const Params&, const Exec&);                                                  \
  constexpr KernelEntry entry(const SimdTable* table) { return bind_kernel<Op, cpu_workspace, cpu_run>(table); } \
  constexpr KernelEntry entry(const Cuda* table) { return bind_cuda(table); }                                    \
  constexpr KernelEntry entry(const ReferenceTable* table) {                                                     \
    return bind_kernel<Op, reference_workspace, reference_run>(table);                                           \
  }

}  // namespace tern
