// A plain choose_qparams for GPUs, written to be read: one block for each range, which rereads the range as often as
// needed.
#include "ops/affine/cuda_place.h"
#include "ops/choose_qparams/cuda_rule.h"
#include "ops/cuda_block_folds.h"

namespace tern::choose_qparams {
namespace {

template <class E>
struct Job {
  affine::CudaPlaces places;
  const void* x;
  QparamsMethod method;
  double percentile;
  bool saturate;
  CudaRule<E> rule;
};

// Maps floats to integers of the same order, and back.
__device__ unsigned long long order_of(float v) {
  const unsigned bits = __float_as_uint(v);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
__device__ unsigned long long order_of(double v) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(v));
  return bits >> 63 != 0 ? ~bits : bits | 0x8000000000000000ULL;
}
__device__ float from_order(unsigned long long order, float) {
  const auto bits = static_cast<unsigned>(order);
  return __uint_as_float(bits >> 31 != 0 ? bits & 0x7FFFFFFFU : ~bits);
}
__device__ double from_order(unsigned long long order, double) {
  const unsigned long long bits = order >> 63 != 0 ? order & 0x7FFFFFFFFFFFFFFFULL : ~order;
  return __longlong_as_double(static_cast<long long>(bits));
}

// The element of this rank, counted from 1. Finds its order number bit by bit: the highest number with fewer than
// `rank` elements below it.
template <class Math, class At>
__device__ Math ranked(std::int64_t n, std::int64_t rank, At at) {
  unsigned long long order = 0;
  for (int bit = 8 * static_cast<int>(sizeof(Math)) - 1; bit >= 0; --bit) {
    const unsigned long long next = order | 1ULL << bit;
    // A sum of ones is exact.
    const double below = cuda::ordered_sum(n, [&](std::int64_t i) { return order_of(at(i)) < next ? 1.0 : 0.0; });
    if (below < static_cast<double>(rank)) order = next;
  }
  return from_order(order, Math{});
}

template <class E>
__global__ void __launch_bounds__(cuda::kThreads, 2) choose_ranges(const Job<E> job) {
  using Math = typename E::Math;
  const CudaRule<E>& rule = job.rule;
  for (std::int64_t range = blockIdx.x; range < job.places.ranges; range += gridDim.x) {
    const affine::CudaRange of(job.places, range);
    const auto at = [&](std::int64_t i) {
      return affine::cuda_value<E>(job.x, affine::CudaPlace(job.places, of.element(i)).offsets[0], job.saturate);
    };
    for (std::int64_t i = threadIdx.x; i < of.n; i += cuda::kThreads)
      if (!cuda::finite(at(i))) {
        job.places.report(cuda::kNonFinite, of.element(i));
        break;
      }
    const auto magnitude = [&](std::int64_t i) { return at(i) < 0 ? -at(i) : at(i); };
    Math up = 0, down = 0;
    if (job.method == QparamsMethod::percentile) {
      const double nearest = ceil(__ddiv_rn(__dmul_rn(job.percentile, static_cast<double>(of.n)), 100.0));
      const auto rank = static_cast<std::int64_t>(nearest < 1 ? 1.0 : nearest > of.n ? of.n : nearest);
      const Math high = rule.zero_points ? ranked<Math>(of.n, rank, at) : ranked<Math>(of.n, rank, magnitude);
      const Math low = rule.zero_points ? ranked<Math>(of.n, of.n - rank + 1, at) : -high;
      up = high > 0 ? high : Math{0};
      down = low < 0 ? -low : Math{0};
    } else {
      up = cuda::largest<Math>(of.n, at);
      down = cuda::largest<Math>(of.n, [&](std::int64_t i) { return -at(i); });
    }
    auto best = rule.choose(up, down);
    if (job.method == QparamsMethod::mse && cuda::finite(best.scale)) {
      double least = 0;
      for (int i = 0; i < kShrinks; ++i) {
        const Math factor = static_cast<Math>(100 - i) / Math{100};
        const auto next = rule.choose(up * factor, down * factor);
        const Math first = static_cast<Math>(rule.q.min - next.zero), last = static_cast<Math>(rule.q.max - next.zero);
        const double error = cuda::ordered_sum(of.n, [&](std::int64_t e) {
          const Math x = at(e), whole = rint(x / next.scale);
          const auto d = static_cast<double>(x - (whole < first ? first : whole > last ? last : whole) * next.scale);
          return __dmul_rn(d, d);
        });
        if (i == 0 || error < least) best = next, least = error;
      }
    }
    if (threadIdx.x == 0) rule.store(range, best);
  }
}

std::size_t workspace_bytes(const ChooseQparams::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  affine::Qparams count{.count = params.count};
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const Job<E> job{
        .places = affine::make_places(affine::words_of(p), count, params.rule.q, {params.x.strides}, launch),
        .x = params.x.data,
        .method = p.method,
        .percentile = p.percentile,
        .saturate = p.non_finite == NonFinite::saturate,
        .rule = rule_of<E>(params, launch)};
    choose_ranges<E><<<launch.multiprocessors * affine::kPlainBlocks, cuda::kThreads, 0,
                       static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::choose_qparams
