// ternary_dequantize for every GPU from sm_75: a kernel that writes 16 bytes at a time, limited by memory, and one that
// takes what does not lie on such boundaries element by element.
#include "base/checked.h"
#include "format/format.h"
#include "ops/cuda_words.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"

namespace tern::ternary_dequantize {
namespace {

constexpr int kThreads = 256;
// Loads in flight in each thread before the first store.
constexpr int kVectorsEach = 4, kElementsEach = 4;
// Elements that one thread writes at once: 16 bytes, or two times 16 of f64 so that a byte of four codes is one vector.
template <class E>
constexpr int kVector = sizeof(typename E::Raw) == 2 ? 8 : 4;

// Quotients of numbers below 2^31 by one that is not above it, without dividing. With 2^shift >= divisor and factor =
// ceil(2^(31 + shift) / divisor) the product n * factor / 2^(31 + shift) is less than 1 / divisor above n / divisor.
struct Divisor {
  std::uint32_t factor = 0;
  int shift = 0;
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) {
    while ((std::int64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<std::uint32_t>(((std::int64_t{1} << (31 + shift)) + divisor - 1) / divisor);
  }
  __device__ std::uint32_t quotient(std::uint32_t n) const { return __umulhi(n << 1, factor) >> shift; }
};
constexpr std::int64_t kDivisible = std::int64_t{1} << 31;  // numbers below it

// What the kernels get. Rows of dense tensors may have become one.
struct Job {
  const std::uint8_t* codes;
  std::int64_t codes_stride;
  const float* scales;
  void* y;
  std::int64_t y_stride;
  std::int64_t rows, k;
  std::int64_t range_len, ranges_per_row;  // per row 0: one range
  Divisor by_range;                        // of columns, where k < kDivisible
  Divisor by_range_vectors;                // of vectors, where ranges are whole ones
  Format format;
  bool trits;  // codes are -1..1, else -2..1
  cuda::Report report;
};

// --- one element ---

__device__ int code_at(const Job& job, const std::uint8_t* row, std::int64_t column) {
  if (job.format == Format::i8) return static_cast<std::int8_t>(__ldg(row + column));
  if (job.format == Format::b3) {
    const std::int64_t at = column / 5;
    unsigned byte = __ldg(row + at);
    if ((byte * 243U & 255U) >= 243) return 2;  // no five trits give it
    for (int j = static_cast<int>(column - at * 5); j > 0; --j) byte = byte * 3 & 255U;
    return static_cast<int>(byte * 3 >> 8) - 1;
  }
  const int bits = (__ldg(row + column / 4) >> (2 * (column % 4))) & 3;
  return job.format == Format::i2 ? bits - 1 : bits >= 2 ? bits - 4 : bits;
}

struct CodeAndScale {
  int code;
  float scale;
};
// Those of an element; reports them where they are not valid.
__device__ CodeAndScale checked_element(const Job& job, std::int64_t row, std::int64_t column) {
  const int code = code_at(job, job.codes + row * job.codes_stride, column);
  if (code < (job.trits ? -1 : -2) || code > 1) job.report(cuda::kInvalidCode, row * job.k + column);
  const std::int64_t range =
      row * job.ranges_per_row +
      (job.k < kDivisible ? job.by_range.quotient(static_cast<std::uint32_t>(column)) : column / job.range_len);
  const float scale = __ldg(job.scales + range);
  if (!valid_scale(scale)) job.report(cuda::kInvalidScale, range);
  return {code, scale};
}

template <class E>
__device__ void dequantize_element(const Job& job, std::int64_t row, std::int64_t column) {
  const auto [code, scale] = checked_element(job, row, column);
  // The product is exact, or beyond the type and infinite: a code is a power of two or 0.
  using Math = typename E::Math;
  static_cast<typename E::Raw*>(job.y)[row * job.y_stride + column] =
      E::round(static_cast<Math>(code) * static_cast<Math>(scale));
}

// Blocks have (x, y) threads, x along a row and y rows. Their own x is along a row, y and z count rows.
__device__ std::int64_t this_row() {
  return (static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
}

template <class E>
__global__ void __launch_bounds__(kThreads) dequantize_elements(const __grid_constant__ Job job) {
  const std::int64_t row = this_row();
  if (row >= job.rows) return;
  const std::int64_t tile = static_cast<std::int64_t>(blockDim.x) * kElementsEach;
  for (std::int64_t first = blockIdx.x * tile + threadIdx.x; first < job.k; first += gridDim.x * tile)
#pragma unroll
    for (int i = 0; i < kElementsEach; ++i)
      if (const std::int64_t column = first + i * static_cast<int>(blockDim.x); column < job.k)
        dequantize_element<E>(job, row, column);
}

// --- vectors ---
//
// Whatever the format, the codes of a vector become indexes of two bits, the first in the low bits, into the four
// values that a scale gives:
//    index     0    1    2    3
//    trits    -s    0    s    -      as i2 has them
//    -2..1     0    s  -2s   -s      as s2 has them

struct Indexes {
  unsigned bits;
  bool invalid;
};
__device__ Indexes checked(unsigned bits, bool trits) { return {bits, trits && (bits & (bits >> 1) & 0x5555U) != 0}; }

// Where a vector's codes lie and how they become indexes: i2 and s2, i8, b3. Loads are apart from the rest so that
// those of several vectors are in flight together.
struct TwoBits {
  using Table = char;
  static __device__ void fill(Table*) {}
  template <int kCodes>
  static __device__ unsigned load(const std::uint8_t* row, std::uint32_t vector) {
    if constexpr (kCodes == 8) return __ldg(reinterpret_cast<const unsigned short*>(row) + vector);
    return __ldg(row + vector);
  }
  template <int kCodes>
  static __device__ Indexes indexes(const Table*, unsigned loaded, bool trits) {
    return checked(loaded, trits);
  }
};

struct Bytes {
  using Table = char;
  static __device__ void fill(Table*) {}
  template <int kCodes>
  static __device__ uint2 load(const std::uint8_t* row, std::uint32_t vector) {
    if constexpr (kCodes == 8) return __ldg(reinterpret_cast<const uint2*>(row) + vector);
    return {__ldg(reinterpret_cast<const unsigned*>(row) + vector), 0};
  }
  static __device__ Indexes of_four(unsigned codes, bool trits) {
    const unsigned lift = trits ? 0x01010101U : 0x02020202U;
    const unsigned lifted = ((codes & 0x7F7F7F7FU) + lift) ^ (codes & 0x80808080U);  // each byte, without carries
    const unsigned beyond = (lifted & 0xFCFCFCFCU) | (trits ? lifted & (lifted >> 1) & 0x01010101U : 0);
    unsigned bits = (trits ? lifted : codes) & 0x03030303U;
    bits = (bits | bits >> 6) & 0x000F000FU;
    return {(bits | bits >> 12) & 0xFFU, beyond != 0};
  }
  template <int kCodes>
  static __device__ Indexes indexes(const Table*, uint2 loaded, bool trits) {
    const Indexes low = of_four(loaded.x, trits);
    if constexpr (kCodes == 4) return low;
    const Indexes high = of_four(loaded.y, trits);
    return {low.bits | high.bits << 8, low.invalid || high.invalid};
  }
};

struct Base3 {
  using Table = std::uint16_t;  // the five indexes of every byte, 3 where there are none
  static __device__ void fill(Table* table) {
    const unsigned byte = threadIdx.y * blockDim.x + threadIdx.x;
    static_assert(kThreads == 256);
    unsigned bits = 0, rest = byte;
    for (int j = 0; j < 5; ++j) {
      bits |= (rest * 3 >> 8) << (2 * j);
      rest = rest * 3 & 255U;
    }
    table[byte] = static_cast<Table>((byte * 243U & 255U) < 243 ? bits : 0x3FFU);
    __syncthreads();
  }
  // Up to three bytes hold a vector; only those that do are read, for a row may end there. The fourth says how many
  // codes of the first byte belong to the vector before.
  template <int kCodes>
  static __device__ unsigned load(const std::uint8_t* row, std::uint32_t vector) {
    const std::uint32_t fives = vector / 5, first = (vector - fives * 5) * kCodes, skipped = first % 5;
    const std::uint8_t* at = row + (fives * kCodes + first / 5);
    unsigned bytes = __ldg(at) | skipped << 24;
    if (skipped + kCodes > 5) bytes |= static_cast<unsigned>(__ldg(at + 1)) << 8;
    if (skipped + kCodes > 10) bytes |= static_cast<unsigned>(__ldg(at + 2)) << 16;
    return bytes;
  }
  template <int kCodes>
  static __device__ Indexes indexes(const Table* table, unsigned loaded, bool) {
    const unsigned bits = table[loaded & 255U] | static_cast<unsigned>(table[loaded >> 8 & 255U]) << 10 |
                          static_cast<unsigned>(table[loaded >> 16 & 255U]) << 20;
    return checked(bits >> (2 * (loaded >> 24)) & ((1U << (2 * kCodes)) - 1), true);
  }
};

// Values by index.
template <class E>
struct Values {
  typename E::Raw v[4];
  __device__ Values(float scale, bool trits) {
    const typename E::Math s = scale;
    if (trits) {
      v[0] = E::round(-s), v[1] = 0, v[2] = E::round(s), v[3] = 0;
    } else {
      v[0] = 0, v[1] = E::round(s), v[2] = E::round(-2 * s), v[3] = E::round(-s);
    }
  }
  __device__ typename E::Raw at(unsigned index) const {
    return (index & 2U) != 0 ? ((index & 1U) != 0 ? v[3] : v[2]) : ((index & 1U) != 0 ? v[1] : v[0]);
  }
};

// Eight values of two bytes are picked a byte at a time from the eight bytes that the four values have:
//    selector   [2b+1][2b][2a+1][2a]  of values a, b; a * 0x22 + 0x10 has both places of a
template <class E>
__device__ void store(typename E::Raw* to, unsigned bits, const Values<E>& values) {
  if constexpr (sizeof(typename E::Raw) == 2) {
    const unsigned low = values.v[0] | static_cast<unsigned>(values.v[1]) << 16;
    const unsigned high = values.v[2] | static_cast<unsigned>(values.v[3]) << 16;
    const auto selectors = [](unsigned four) {  // 8 bits to two selectors
      four = (four | four << 12) & 0x000F000FU;
      four = (four | four << 6) & 0x03030303U;
      return four * 0x22U + 0x10101010U;
    };
    const unsigned first = selectors(bits & 0xFFU), second = selectors(bits >> 8);
    __stcs(reinterpret_cast<uint4*>(to),
           make_uint4(__byte_perm(low, high, first), __byte_perm(low, high, first >> 16),
                      __byte_perm(low, high, second), __byte_perm(low, high, second >> 16)));
  } else if constexpr (sizeof(typename E::Raw) == 4) {
    __stcs(reinterpret_cast<float4*>(to),
           make_float4(values.at(bits), values.at(bits >> 2), values.at(bits >> 4), values.at(bits >> 6)));
  } else {
    __stcs(reinterpret_cast<double2*>(to), make_double2(values.at(bits), values.at(bits >> 2)));
    __stcs(reinterpret_cast<double2*>(to) + 1, make_double2(values.at(bits >> 4), values.at(bits >> 6)));
  }
}

// Neighbours write neighbouring vectors.
template <class E, class Codes>
__global__ void __launch_bounds__(kThreads) dequantize_vectors(const __grid_constant__ Job job) {
  constexpr int kCodes = kVector<E>;
  __shared__ typename Codes::Table table[256];
  Codes::fill(table);
  const std::int64_t row = this_row();
  if (row >= job.rows) return;
  const std::uint8_t* from = job.codes + row * job.codes_stride;
  auto* to = static_cast<typename E::Raw*>(job.y) + row * job.y_stride;
  const float* scales = job.scales + row * job.ranges_per_row;
  const auto whole = static_cast<std::uint32_t>(job.k / kCodes);
  const std::uint32_t first = blockIdx.x * blockDim.x * kVectorsEach + threadIdx.x;
  const auto vector = [first](int i) { return first + i * blockDim.x; };

  decltype(Codes::template load<kCodes>(from, 0)) loaded[kVectorsEach];
  float scale[kVectorsEach];
#pragma unroll
  for (int i = 0; i < kVectorsEach; ++i)
    if (vector(i) < whole) {
      loaded[i] = Codes::template load<kCodes>(from, vector(i));
      scale[i] = __ldg(scales + job.by_range_vectors.quotient(vector(i)));
    }
  bool valid = true;
#pragma unroll
  for (int i = 0; i < kVectorsEach; ++i)
    if (vector(i) < whole) {
      const Indexes indexes = Codes::template indexes<kCodes>(table, loaded[i], job.trits);
      store<E>(to + static_cast<std::int64_t>(vector(i)) * kCodes, indexes.bits, Values<E>(scale[i], job.trits));
      valid = valid && !indexes.invalid && valid_scale(scale[i]);
    }
  if (!valid)  // looks again for what it was
    for (int i = 0; i < kVectorsEach * kCodes; ++i)
      if (vector(i / kCodes) < whole)
        checked_element(job, row, static_cast<std::int64_t>(vector(i / kCodes)) * kCodes + i % kCodes);
  // What is left behind the last whole vector.
  const std::int64_t column = static_cast<std::int64_t>(whole) * kCodes + threadIdx.x;
  if (blockIdx.x == 0 && threadIdx.x < kCodes && column < job.k) dequantize_element<E>(job, row, column);
}

// --- launches ---

std::size_t workspace_bytes(const TernaryDequantize::Problem&) { return 0; }

// Whether every row begins on a boundary.
bool aligned(const void* data, std::int64_t stride_bytes, std::int64_t rows, std::int64_t boundary) {
  return reinterpret_cast<std::uintptr_t>(data) % boundary == 0 && (rows == 1 || stride_bytes % boundary == 0);
}

// Dense rows, whose ranges and vectors fit as well into one row, become that row: short rows then fill blocks too.
template <class E>
void fold_rows(Job& job) {
  const std::int64_t per_byte = codes_per_byte(job.format);
  const bool dense = job.y_stride == job.k && job.k % per_byte == 0 && job.codes_stride == job.k / per_byte;
  const bool ranges_fit = job.ranges_per_row == 0 || (job.k % job.range_len == 0 && job.range_len % kVector<E> == 0);
  if (!dense || !ranges_fit || job.rows * job.k / kVector<E> >= kDivisible) return;
  job.k *= job.rows;
  job.ranges_per_row *= job.rows;
  job.rows = 1;
  if (job.ranges_per_row == 0) job.range_len = job.k;
}

// Threads and blocks for rows of `items`, `each` to a thread.
struct Shape {
  dim3 blocks, threads;
  Shape(std::int64_t rows, std::int64_t items, int each) {
    constexpr std::int64_t kMaxX = 0x7FFFFFFF, kMaxY = 65535;
    std::int64_t x = 8;  // not fewer than elements may be left behind the vectors of a row
    while (x < kThreads && x * each < items) x *= 2;
    const std::int64_t y = kThreads / x;
    const std::int64_t along = items > 0 ? ceil_div(items, x * each) : 1, rows_of_blocks = ceil_div(rows, y);
    const std::int64_t blocks_y = rows_of_blocks < kMaxY ? rows_of_blocks : kMaxY;
    threads = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
    blocks = dim3(static_cast<unsigned>(along < kMaxX ? along : kMaxX), static_cast<unsigned>(blocks_y),
                  static_cast<unsigned>(ceil_div(rows_of_blocks, blocks_y)));
  }
};

template <class E, class Codes>
int launch_vectors(const Job& job, cudaStream_t stream) {
  const Shape shape(job.rows, job.k / kVector<E>, kVectorsEach);
  dequantize_vectors<E, Codes><<<shape.blocks, shape.threads, 0, stream>>>(job);
  return cudaGetLastError();
}

template <class E>
int launch_as(Job job, cudaStream_t stream) {
  constexpr int kCodes = kVector<E>;
  fold_rows<E>(job);
  // A vector's codes are 2 bytes or 1 of i2 and s2, 8 or 4 of i8; those of b3 are read one by one.
  const std::int64_t code_boundary = job.format == Format::b3 ? 1 : kCodes / codes_per_byte(job.format);
  const std::int64_t whole = job.k / kCodes;
  const bool one_range = job.ranges_per_row <= 1;
  job.by_range = Divisor(job.range_len < kDivisible ? job.range_len : kDivisible);
  if (whole < kDivisible && (one_range || job.range_len % kCodes == 0) &&
      aligned(job.codes, job.codes_stride, job.rows, code_boundary) &&
      aligned(job.y, job.y_stride * static_cast<std::int64_t>(sizeof(typename E::Raw)), job.rows, 16)) {
    job.by_range_vectors = Divisor(one_range ? (whole > 0 ? whole : 1) : job.range_len / kCodes);
    if (job.format == Format::i8) return launch_vectors<E, Bytes>(job, stream);
    if (job.format == Format::b3) return launch_vectors<E, Base3>(job, stream);
    return launch_vectors<E, TwoBits>(job, stream);
  }
  const Shape shape(job.rows, job.k, kElementsEach);
  dequantize_elements<E><<<shape.blocks, shape.threads, 0, stream>>>(job);
  return cudaGetLastError();
}

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const bool one_range = params.ranges.per_row == 0;
  const Job job{.codes = params.codes,
                .codes_stride = params.codes_stride,
                .scales = params.scales,
                .y = params.y,
                .y_stride = params.y_stride,
                .rows = p.rows,
                .k = p.k,
                .range_len = one_range ? p.k : params.ranges.len,
                .ranges_per_row = params.ranges.per_row,
                .by_range = {},
                .by_range_vectors = {},
                .format = p.format,
                .trits = code_range(p.scheme).min == -1,
                .report = cuda::report_of(launch)};
  return cuda::with_element(
      p.dtype, [&]<class E>() -> int { return launch_as<E>(job, static_cast<cudaStream_t>(launch.stream)); });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::ternary_dequantize
