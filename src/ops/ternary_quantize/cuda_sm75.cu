// ternary_quantize for every GPU from sm_75: chooses the kernels that read a tensor the fewest times.
#include "format/format.h"
#include "ops/ternary_quantize/cuda_long.h"
#include "ops/ternary_quantize/ternary_quantize.h"

namespace tern::ternary_quantize {

extern const Cuda cuda_simple;
extern const Cuda cuda_sm75;

namespace {

// ---- codes where ranges share bytes, or where the rows of a tensor-wide range have gaps between them ----

template <class E>
struct ByteJob {
  const Raw<E>* x;
  std::int64_t x_stride;
  std::uint8_t* codes;
  std::int64_t codes_stride;
  const float* scales;
  std::int64_t total, row_bytes, k;  // total: bytes of all rows
  std::int64_t len, per_row;         // per_row 0: one range
  Format format;
  bool saturates;
};

__device__ inline int int2_code(float x, float s) { return __float2int_rn(fminf(fmaxf(ratio(x, s), -2.0F), 1.0F)); }
__device__ inline int int2_code(double x, double s) { return __double2int_rn(fmin(fmax(ratio(x, s), -2.0), 1.0)); }

template <class E>
__device__ int code_of(Math<E> v, float s, bool is_int2) {
  if (is_int2) return int2_code(v, static_cast<Math<E>>(s));
  if (!(abs_of(v) > static_cast<Math<E>>(half_of(s)))) return 0;
  return v > 0 ? 1 : -1;
}

// One thread per byte of codes.
template <class E, bool kIsInt2>
__global__ void __launch_bounds__(256) write_bytes(const ByteJob<E> job) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= job.total) return;
  std::int64_t byte = 0, in_range = 0;
  const std::int64_t row = cuda::divide(at, job.row_bytes, byte);
  const int per_byte = codes_per_byte(job.format);
  const std::int64_t column = byte * per_byte;
  const float* scales = job.scales;
  if (job.per_row > 0) scales += row * job.per_row + cuda::divide(column, job.len, in_range);
  const Raw<E>* x = job.x + row * job.x_stride + column;

  unsigned fours = 0, threes = 0;
  int last = 0;
#pragma unroll
  for (int e = 0; e < 5; ++e) {
    if (e >= per_byte) break;
    int code = 0;
    if (column + e < job.k) {
      Words<E> q{};
      set_bits<E>(q, 0, load_bits<E>(x + e));
      if (job.saturates) saturate<E>(q);
      code = code_of<E>(math_of<E>(bits_of<E>(q, 0)), *scales, kIsInt2);
      if (job.per_row > 0 && ++in_range == job.len) in_range = 0, ++scales;
    }
    fours |= (static_cast<unsigned>(job.format == Format::i2 ? code + 1 : code) & 3U) << (2 * e);
    threes = threes * 3 + static_cast<unsigned>(code + 1);
    last = code;
  }
  std::uint8_t* to = job.codes + row * job.codes_stride + byte;
  if (job.format == Format::i8)
    *to = static_cast<std::uint8_t>(last);
  else if (job.format == Format::b3)
    *to = static_cast<std::uint8_t>((threes * 256 + 242) / 243);
  else
    *to = static_cast<std::uint8_t>(fours);
}

template <class E>
int launch_bytes(const Params& p, cudaStream_t stream) {
  const std::int64_t bytes = row_bytes(p.problem.format, p.problem.k);
  const ByteJob<E> job{static_cast<const Raw<E>*>(p.x),
                       p.x_stride,
                       p.codes,
                       p.codes_stride,
                       p.scales,
                       p.problem.rows * bytes,
                       bytes,
                       p.problem.k,
                       p.ranges.len,
                       p.ranges.per_row,
                       p.problem.format,
                       p.problem.non_finite == NonFinite::saturate};
  const auto blocks = static_cast<unsigned>((job.total + 255) / 256);
  if (p.problem.scheme == Scheme::int2)
    write_bytes<E, true><<<blocks, 256, 0, stream>>>(job);
  else
    write_bytes<E, false><<<blocks, 256, 0, stream>>>(job);
  return static_cast<int>(cudaGetLastError());
}

// ---- the choice ----

constexpr std::int64_t max_held(DType dtype) { return 1024 * (dtype == DType::f64 ? kMaxWarps<F64> : kMaxWarps<F32>); }

// Describes where the ranges of a tensor are in memory.
template <class E>
Job<E> make_job(const Params& p, const cuda::Launch& launch) {
  const std::int64_t rows = p.problem.rows, k = p.problem.k, len = p.ranges.len, per_row = p.ranges.per_row;
  const bool packs = p.problem.format != Format::i8;
  const std::int64_t per_byte = packs ? 4 : 1;
  const bool one_row = rows == 1 || p.x_stride == k;  // of x
  const bool one_row_of_codes = rows == 1 || (k % per_byte == 0 && p.codes_stride == k / per_byte);
  Job<E> job{};
  job.x = static_cast<const Raw<E>*>(p.x);
  job.codes = p.codes;
  job.scales = p.scales;
  job.given = p.given;
  job.given_step = p.given_step;
  job.report = cuda::report_of(launch);
  job.len = job.last_len = len;
  job.inverse = (len & (len - 1)) == 0 ? 1.0 / static_cast<double>(len) : 0.0;
  job.saturates = p.problem.non_finite == NonFinite::saturate;
  job.packs = packs;
  job.writes_codes = p.problem.format != Format::b3;
  job.outer = job.inner = 1;
  if (per_row == 0) {
    job.writes_codes = job.writes_codes && one_row && one_row_of_codes;
  } else if (per_row == 1) {
    job.inner = rows;
    job.x_inner = p.x_stride;
    job.codes_inner = p.codes_stride;
  } else {
    job.writes_codes = job.writes_codes && len % per_byte == 0;
    job.inner = per_row;
    job.x_inner = len;
    job.codes_inner = len / per_byte;
    job.last_len = k - (per_row - 1) * len;
    if (k % len == 0 && one_row && (one_row_of_codes || !job.writes_codes)) {
      job.inner = rows * per_row;
    } else {
      job.outer = rows;
      job.x_outer = p.x_stride;
      job.codes_outer = p.codes_stride;
      job.index_outer = k;
    }
  }
  job.vector = cuda::quads_aligned<E>(p.x, job.x_outer) && (job.inner == 1 || cuda::quads_aligned<E>(p.x, job.x_inner));
  job.words =
      reinterpret_cast<std::uintptr_t>(p.codes) % 4 == 0 && job.codes_inner % 4 == 0 && job.codes_outer % 4 == 0;
  if (len <= max_held(p.problem.dtype)) {  // in longer ranges only the last block is not whole
    job.vector = job.vector && len % 4 == 0 && job.last_len % 4 == 0;
    job.words = job.words && (!packs || (len % 16 == 0 && job.last_len % 16 == 0));
  }
  return job;
}

template <class E>
int run(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  const Job<E> job = make_job<E>(p, launch);
  auto* stream = static_cast<cudaStream_t>(launch.stream);
  const bool apart = p.ranges.per_row == 0 && p.problem.rows > 1 && p.x_stride != p.problem.k;
  const auto scales = [&]<int kRule>() {
    if (!apart && p.ranges.len <= 1024) return launch_short<E, kRule>(job, launch.multiprocessors, stream);
    if (!apart && p.ranges.len <= max_held(p.problem.dtype)) return launch_block<E, kRule>(job, stream);
    Job<E> scalar = job;
    if (apart) scalar.vector = false;
    return launch_long<E, kRule>(scalar, Split(p.ranges.len, p.ranges.total), workspace, apart ? p.problem.k : 0,
                                 p.x_stride, stream);
  };
  int error = 0;
  switch (p.problem.scheme) {
    case Scheme::absmean: error = scales.template operator()<kAbsmean>(); break;
    case Scheme::absmax: error = scales.template operator()<kAbsmax>(); break;
    case Scheme::mse: error = scales.template operator()<kMse>(); break;
    case Scheme::int2: error = scales.template operator()<kInt2>(); break;
  }
  if (error == kNotLaunched) return cuda_simple.launch(p, workspace, launch);
  return error != 0 || job.writes_codes ? error : launch_bytes<E>(p, stream);
}

std::size_t workspace_bytes(const TernaryQuantize::Problem& problem) {
  const Ranges ranges = make_ranges(problem.rows, problem.k, problem.granularity);
  const bool is_long = ranges.per_row == 0 || ranges.len > max_held(problem.dtype);
  const std::size_t bytes = ranges.total > 0 && is_long ? Split(ranges.len, ranges.total).bytes() : 0;
  return std::max(bytes, cuda_simple.workspace_bytes(problem));
}

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  if (params.ranges.total == 0) return 0;
  // The loads and stores above need naturally aligned elements. Others are rare, so cuda_simple takes them.
  const auto off = [](const void* p, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes != 0; };
  if (off(params.x, size_of(params.problem.dtype)) || off(params.scales, 4) || off(params.given, 4))
    return cuda_simple.launch(params, workspace, launch);
  return cuda::with_element(params.problem.dtype, [&]<class E>() { return run<E>(params, workspace, launch); });
}

}  // namespace

const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::ternary_quantize
