// linear on a GPU in its simplest form: one warp for each result, any problem, layout and alignment. Sums are in f64,
// which holds those of int8 exactly, in an order that depends on k alone.
#include "memory/workspace.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/cuda_plain.h"

namespace tern::activation_quantize {
extern const Cuda cuda_simple;
}

namespace tern::linear {
namespace {

struct PlainJob {
  Job job;
  PlainTokens tokens;
  std::int64_t m;
  std::int64_t rows;  // of all matrices
  std::int64_t groups[Linear::kMaxMatrices];
  const float* s;  // scales of int8 tokens; null: none
};

__global__ void multiply(const __grid_constant__ PlainJob job) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / kWarp);
  std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  for (; item < job.m * job.rows; item += step) {
    const std::int64_t token = item / job.rows;
    std::int64_t n = item % job.rows;
    int i = 0;
    for (; n >= job.job.matrices[i].n; ++i) n -= job.job.matrices[i].n;
    const MatrixJob& matrix = job.job.matrices[i];

    double sum = plain_sum(matrix, job.groups[i], job.tokens, token, n, lane, kWarp);
    for (int far = kWarp / 2; far > 0; far /= 2) sum = __dadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, far));
    if (lane != 0) continue;
    if (n == 0 && job.s != nullptr) check_scale(job.tokens.report, job.s[token], token);
    if (matrix.y_dtype == DType::i32) {
      reinterpret_cast<std::int32_t*>(matrix.y)[token * matrix.y_stride + n] = static_cast<std::int32_t>(sum);
      continue;
    }
    auto t = static_cast<float>(sum);
    if (job.s != nullptr) t = __fdiv_rn(t, job.s[token]);
    const auto row = static_cast<int>(n);
    store_y(matrix, token, row, activated(matrix, terms_of(matrix, job.groups[i] > 0, row), t));
  }
}

// Workspace: float activations quantized to token_i8.
struct Quantized {
  std::int8_t* q = nullptr;
  float* scales = nullptr;
  std::int32_t* sums = nullptr;
  std::size_t bytes = 0;

  Quantized(std::byte* workspace, std::int64_t m, std::int64_t k) {
    WorkspaceLedger ledger(workspace);
    q = ledger.book<std::int8_t>(static_cast<std::size_t>(m * k));
    scales = ledger.book<float>(static_cast<std::size_t>(m));
    sums = ledger.book<std::int32_t>(static_cast<std::size_t>(m));
    bytes = ledger.bytes();
  }
};

std::size_t workspace_bytes(const Linear::Problem& p) {
  return p.math == LinearMath::w2a8 && p.x_dtype != DType::i8 ? Quantized(nullptr, p.m_max, p.k).bytes : 0;
}

int launch(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  PlainJob job = {};
  job.job = job_of(p);
  job.m = p.m;
  job.s = p.x_scales;
  for (std::size_t i = 0; i < p.count; ++i) {
    job.rows += p.matrices[i].spec.n;
    job.groups[i] = group_of(p.matrices[i].spec.granularity);
  }
  job.tokens = {.x = p.x,
                .stride = p.x_stride,
                .k = p.k,
                .first = 0,
                .dtype = p.x_dtype,
                .saturate = p.non_finite == NonFinite::saturate,
                .report = cuda::report_of(launch)};
  if (p.math == LinearMath::w2a8 && p.x_dtype != DType::i8) {
    const Quantized to(workspace, p.m, p.k);
    const int code = activation_quantize::cuda_simple.launch(
        {.problem = {.m = p.m, .k = p.k, .dtype = p.x_dtype, .non_finite = p.non_finite},
         .x = p.x,
         .x_stride = p.x_stride,
         .q = to.q,
         .q_stride = p.k,
         .scales = to.scales,
         .sums = to.sums},
        nullptr, launch);
    if (code != cudaSuccess) return code;
    job.tokens.x = to.q;
    job.tokens.stride = p.k;
    job.tokens.dtype = DType::i8;
    job.s = to.scales;
  }
  constexpr int kThreads = 256, kBlocksEach = 64;  // per multiprocessor: enough to fill it several times
  const std::int64_t most = std::int64_t{launch.multiprocessors} * kBlocksEach;
  const std::int64_t blocks = ceil_div(job.m * job.rows, kThreads / kWarp);
  multiply<<<static_cast<unsigned>(blocks < most ? blocks : most), kThreads, 0,
             static_cast<cudaStream_t>(launch.stream)>>>(job);
  return cudaGetLastError();
}

}  // namespace

extern const Cuda cuda_simple;
constinit const Cuda cuda_simple = {workspace_bytes, launch};

}  // namespace tern::linear
