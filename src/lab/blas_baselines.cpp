// Times the matrix products of the two libraries.
#include "lab/blas_baselines.h"

#include <array>
#include <cstring>

#include "base/errors.h"
#include "lab/blas_functions.h"
#include "lab/rotation.h"

namespace tern::lab {
namespace {

using Sgemv = void(int order, int trans, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                   float beta, float* y, int incy);
using GemmS8 = int(char trans_a, char trans_b, char offset_c, std::int64_t m, std::int64_t n, std::int64_t k,
                   float alpha, const std::int8_t* a, std::int64_t lda, std::int8_t ao, const std::int8_t* b,
                   std::int64_t ldb, std::int8_t bo, float beta, std::int32_t* c, std::int64_t ldc,
                   const std::int32_t* co);

struct Sizes {
  std::int64_t m = 0, n = 0, k = 0;
};

// Treats the matrices of the problem as one.
Sizes sizes_of(const Linear::Problem& p) {
  Sizes s{.m = p.m_max, .k = p.k};
  for (const Linear::Matrix& matrix : p.matrices) s.n += matrix.n;
  return s;
}

struct Buffers {
  Rotation weights;
  std::vector<std::byte> x, y;
};

Result<std::shared_ptr<Buffers>> make_buffers(const BenchRequest& request, const Context& context, Sizes s,
                                              std::size_t element_bytes) {
  const std::array part = {static_cast<std::size_t>(s.n * s.k) * element_bytes};
  TERN_ASSIGN(weights, Rotation::make(request, context, part));
  auto buffers = std::make_shared<Buffers>();
  buffers->weights = std::move(weights);
  // The byte 0x3C is 60 as int8, and about 0.01 as f32: no value is denormal.
  for (std::int64_t copy = 0; copy < buffers->weights.copies(); ++copy)
    std::memset(buffers->weights.part(0, copy), 0x3C, part[0]);
  buffers->x.assign(static_cast<std::size_t>(s.m * s.k) * element_bytes, std::byte{0x3C});
  buffers->y.resize(static_cast<std::size_t>(s.m * s.n) * sizeof(float));
  return buffers;
}

Result<BaselineRun> openblas(const BenchRequest& request, const Context& context, Sizes s, int threads) {
  TERN_ASSIGN(library, open_library(kOpenBlas));
  auto* sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  auto* sgemv = symbol<Sgemv>(library, "cblas_sgemv");
  auto* set_threads = symbol<SetThreads>(library, "openblas_set_num_threads");
  if (sgemm == nullptr || sgemv == nullptr || set_threads == nullptr)
    return error(Code::unsupported, "bench", "{} lacks cblas_sgemm, cblas_sgemv or its thread count", kOpenBlas);
  TERN_ASSIGN(buffers, make_buffers(request, context, s, sizeof(float)));
  const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
  return BaselineRun([=](std::int64_t turn) -> Status {
    set_threads(threads);
    const auto* w = static_cast<const float*>(buffers->weights.part(0, turn % buffers->weights.copies()));
    const auto* x = reinterpret_cast<const float*>(buffers->x.data());
    auto* y = reinterpret_cast<float*>(buffers->y.data());
    if (m == 1)
      sgemv(kRowMajor, kPlain, n, k, 1, w, k, x, 1, 0, y, 1);
    else
      sgemm(kRowMajor, kPlain, kTransposed, m, n, k, 1, x, k, w, k, 0, y, n);
    return {};
  });
}

Result<BaselineRun> onednn(const BenchRequest& request, const Context& context, Sizes s, int threads) {
  TERN_ASSIGN(library, open_library(kOneDnn));
  auto* gemm = symbol<GemmS8>(library, "dnnl_gemm_s8s8s32");
  auto* set_threads = symbol<SetThreads>(library, "omp_set_num_threads");  // of the library's OpenMP runtime
  if (gemm == nullptr || set_threads == nullptr)
    return error(Code::unsupported, "bench", "{} lacks dnnl_gemm_s8s8s32 or OpenMP", kOneDnn);
  TERN_ASSIGN(buffers, make_buffers(request, context, s, sizeof(std::int8_t)));
  return BaselineRun([=](std::int64_t turn) -> Status {
    set_threads(threads);
    const auto* w = static_cast<const std::int8_t*>(buffers->weights.part(0, turn % buffers->weights.copies()));
    const auto* x = reinterpret_cast<const std::int8_t*>(buffers->x.data());
    const std::int32_t none = 0;
    if (gemm('N', 'T', 'F', s.m, s.n, s.k, 1, x, s.k, 0, w, s.k, 0, 0,
             reinterpret_cast<std::int32_t*>(buffers->y.data()), s.n, &none) != 0)
      return error(Code::internal, "bench", "dnnl_gemm_s8s8s32 failed");
    return {};
  });
}

}  // namespace

std::vector<BaselineCase> blas_baselines(const BenchRequest& request, const Context& context,
                                         const Linear::Problem& problem) {
  const Sizes s = sizes_of(problem);
  return {{s.m == 1 ? "openblas sgemv" : "openblas sgemm",
           [=](int threads) { return openblas(request, context, s, threads); }},
          {"onednn gemm_s8s8s32", [=](int threads) { return onednn(request, context, s, threads); }}};
}

}  // namespace tern::lab
