// The plain ternary_dequantize on a GPU, written for readability: one thread per element, any format, layout and
// alignment.
#include "format/b3.h"
#include "format/format.h"
#include "format/i2.h"
#include "format/s2.h"
#include "ops/cuda_words.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"

namespace tern::ternary_dequantize {
namespace {

__device__ int code_at(Format format, const std::uint8_t* row, std::int64_t column) {
  switch (format) {
    case Format::i8: return static_cast<std::int8_t>(row[column]);
    case Format::b3: return b3::read(row[column / 5], static_cast<int>(column % 5));
    case Format::s2: return s2::read(row[column / 4], static_cast<int>(column % 4));
    default: break;
  }
  return i2::read(row[column / 4], static_cast<int>(column % 4));
}

template <class E>
__global__ void dequantize(const Params params, const CodeRange valid, const cuda::Report report) {
  const auto& p = params.problem;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.rows * p.k; i += step) {
    const std::int64_t row = i / p.k, column = i % p.k;
    const int code = code_at(p.format, params.codes + row * params.codes_stride, column);
    if (code < valid.min || code > valid.max) report(cuda::kInvalidCode, i);

    const std::int64_t range =
        params.ranges.per_row == 0 ? 0 : row * params.ranges.per_row + column / params.ranges.len;
    const float scale = params.scales[range];
    if (!valid_scale(scale)) report(cuda::kInvalidScale, range);

    // The product is exact, or it overflows to infinity: a code is 0 or plus or minus a power of two.
    using Math = typename E::Math;
    static_cast<typename E::Raw*>(params.y)[row * params.y_stride + column] =
        E::round(static_cast<Math>(code) * static_cast<Math>(scale));
  }
}

std::size_t workspace_bytes(const TernaryDequantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  constexpr int kThreads = 256, kBlocksEach = 64;  // per multiprocessor: enough to fill it several times
  return cuda::with_element(params.problem.dtype, [&]<class E>() -> int {
    dequantize<E><<<launch.multiprocessors * kBlocksEach, kThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(
        params, code_range(params.problem.scheme), cuda::report_of(launch));
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::ternary_dequantize
