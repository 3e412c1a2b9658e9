// What the launchers of CUDA kernels get: where to launch, and the word in which a kernel reports bad data. Seen by
// host code and by .cu files.
#pragma once

#include <cstdint>

#include "tern/plan.h"

namespace tern::cuda {

// What a kernel found wrong with its data. Of several findings the smallest key wins: the earliest call, then the kind,
// then the lowest index.
enum Finding : std::uint64_t {
  kNonFinite,         // element of x (row * k + column) that is NaN or infinite, under NonFinite::reject
  kInvalidCode,       // element (row * k + column) whose code is not one of its scheme
  kScaleTooLarge,     // range whose scale the type it is stored in cannot hold
  kInvalidScale,      // index of a scale, given by the caller, that is not finite and above 0 (or whose 1/s is not)
  kInvalidZeroPoint,  // index of a zero point that is not a code
};

//     63        47 46    44 43                0
//    [    call    ][ kind  ][      index       ]     all ones: nothing was found
inline constexpr int kIndexBits = 44, kKindBits = 3, kCallBits = 64 - kIndexBits - kKindBits;
inline constexpr std::uint64_t kNoFinding = ~std::uint64_t{0};

struct Launch {
  void* stream = nullptr;           // a cudaStream_t
  std::uint64_t* status = nullptr;  // device memory; findings go there with atomicMin
  std::uint64_t call = 0;           // shifted into place
  int multiprocessors = 1;
  int device = 0;                  // which is current
  const Tuning* tuning = nullptr;  // what the caller asked for; null: nothing
  bool dependent = false;          // may begin while the kernel before runs out, where that is an sm_90 or newer
};

constexpr std::uint64_t finding(std::uint64_t call, Finding kind, std::int64_t index) {
  return call | static_cast<std::uint64_t>(kind) << kIndexBits | static_cast<std::uint64_t>(index);
}

}  // namespace tern::cuda
