// What launchers of CUDA kernels receive: where to launch, and the status word in which kernels report bad data.
// Included by host code and by .cu files.
#pragma once

#include <cstdint>

#include "tern/plan.h"

namespace tern::cuda {

// What a kernel found wrong with its data. Of several findings the smallest key wins: the earliest call, then the kind,
// then the lowest index.
enum Finding : std::uint64_t {
  kNonFinite,         // element of x (row * k + column) that is NaN or infinite, under NonFinite::reject
  kInvalidCode,       // element (row * k + column) whose code is not one of its scheme
  kScaleTooLarge,     // range whose scale overflows the type it is stored in
  kInvalidScale,      // index of a caller's scale s where s or 1/s is not finite and above 0
  kInvalidZeroPoint,  // index of a zero point that is not a code
};

//     63        47 46    44 43                0
//    [    call    ][ kind  ][      index       ]     all ones: nothing was found
inline constexpr int kIndexBits = 44, kKindBits = 3, kCallBits = 64 - kIndexBits - kKindBits;
inline constexpr std::uint64_t kNoFinding = ~std::uint64_t{0};

struct Launch {
  void* stream = nullptr;           // a cudaStream_t
  std::uint64_t* status = nullptr;  // device memory; kernels report with atomicMin
  std::uint64_t call = 0;           // the call's index, already shifted into place
  int multiprocessors = 1;
  int device = 0;                  // the current one
  const Tuning* tuning = nullptr;  // what the caller asked for; may be null
  bool dependent = false;          // may start before the previous kernel ends (sm_90 and newer)
};

constexpr std::uint64_t finding(std::uint64_t call, Finding kind, std::int64_t index) {
  return call | static_cast<std::uint64_t>(kind) << kIndexBits | static_cast<std::uint64_t>(index);
}

}  // namespace tern::cuda
