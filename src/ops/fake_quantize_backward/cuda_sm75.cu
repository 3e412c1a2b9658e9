// fake_quantize_backward for GPUs from sm_75 on. Every element is read and written once, even if sums are requested;
// later launches fold the partial sums.
#include <algorithm>

#include "memory/workspace.h"
#include "ops/affine/families.h"
#include "ops/fake_quantize_backward/cuda_sums.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"

namespace tern::fake_quantize_backward {

extern const Cuda cuda_simple;
extern const Cuda cuda_sm75;

namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;
using affine::Lines;

constexpr std::size_t kGradY = 0, kX = 1, kGradX = 2;  // indices of the tensors in Lines

struct Job {
  affine::Walk walk;
  const void* grad_y;
  const void* x;
  void* grad_x;
  const std::uint8_t* mask;  // null: computed from x
  bool strict;
};

// ---- gradients of x alone ----

template <class E, bool kFromMask>
__global__ void __launch_bounds__(kThreads) pass(const Job job) {
  using Math = typename E::Math;
  const affine::Walk& walk = job.walk;
  const affine::Tile<E> tile(walk);
  if (tile.rest == 0) return;
  const void* grad_y = affine::line_of(walk, tile, job.grad_y, kGradY);
  const void* x = kFromMask ? nullptr : affine::line_of(walk, tile, job.x, kX);
  void* grad_x = affine::line_of(walk, tile, job.grad_x, kGradX);

  affine::Vector<E> g[kVectors], of_x[kVectors];
  affine::Codes<E> mask[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int n = tile.count(tile.column(i));
    const std::int64_t column = tile.first_column + tile.column(i);
    g[i].read(grad_y, walk.access[kGradY], column, n);
    if constexpr (kFromMask)
      mask[i].read(job.mask + tile.line * walk.lines.code_bytes, walk.codes, column, n);
    else
      of_x[i].read(x, walk.access[kX], column, n);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = tile.column(i), n = tile.count(column);
    if (n == 0) return;
    bool inside[kElems<E>] = {};
    if constexpr (kFromMask) {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) inside[j] = (mask[i].w[j / 4] >> (8 * (j % 4)) & 0xFFU) != 0;
    } else {
      if (!of_x[i].finite()) of_x[i].mend(walk.report, walk.saturate, tile.index(walk, column));
      affine::round_each<E, Math>(walk, tile, column, n, of_x[i], [&](int j, Math sum, const affine::By<E, Math>& by) {
        inside[j] = fake_quantize::Ends<Math>(by.rounding, job.strict).inside(sum - affine::kWhole<Math>);
      });
    }
    affine::Vector<E> out{};
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) out.set(j, passed<E>(g[i].raw(j), inside[j]));
    out.write(grad_x, walk.access[kGradX], tile.first_column + column, n);
  }
}

// ---- and sums of ranges ----

struct SumJob {
  Job job;
  affine::Families families;
  bool one_line, quads;    // quads: each quad of neighbours is on one line and aligned
  std::int64_t units;      // (families, or tiles of their columns) times blocks
  std::int64_t blocks;     // blocks of the longest range's sum
  std::int64_t col_tiles;  // tiles of 32 columns
  Outputs to;
  Sums* partials;  // [ranges, blocks]; null if there is one block
};

template <class E>
__device__ void keep(const SumJob& sum, std::int64_t range, std::int64_t block, const Sums& sums) {
  if (sum.partials == nullptr)
    write_gradients<E>(sum.to, range, sums);
  else
    sum.partials[range * sum.blocks + block] = sums;
}

// Returns the terms of an element. Replaces g by its gradient of x.
template <class E>
__device__ Sums term_of(const Job& job, const Terms<E>& terms, typename E::Raw x, typename E::Raw& g,
                        std::int64_t index) {
  typename E::Math v = E::widen(x);
  if (!cuda::finite(v)) {
    if (!job.walk.saturate) job.walk.report(cuda::kNonFinite, index);
    v = cuda::saturated<E>(v);
  }
  Sums sums;
  g = passed<E>(g, terms(v, E::widen(g), sums));
  return sums;
}

// Ranges made of contiguous pieces of one line or several. A warp sums one block, each lane every 32nd quad of it.
template <class E>
__global__ void __launch_bounds__(kThreads) sum_pieces(const SumJob sum) {
  using Raw = typename E::Raw;
  constexpr int kHeld = sizeof(Raw) == 8 ? 2 : 4;  // quads of each tensor in flight
  const Job& job = sum.job;
  const Lines& lines = job.walk.lines;
  const std::int64_t unit = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (unit >= sum.units) return;
  std::int64_t block = 0;
  const std::int64_t number = sum.blocks == 1 ? unit : cuda::divide(unit, sum.blocks, block);
  affine::Family family;
  if (sum.one_line && lines.run == Lines::Run::groups) {
    const std::int64_t column = number * lines.group, left = lines.k - column;
    family = {.range = number, .lines = 1, .column = column, .len = left < lines.group ? left : lines.group};
  } else {
    family = sum.families[number];
  }
  const Terms<E> terms(job.walk, family.range, job.strict);
  const auto* x = static_cast<const Raw*>(job.x);
  const auto* grad_y = static_cast<const Raw*>(job.grad_y);
  auto* grad_x = static_cast<Raw*>(job.grad_x);
  // at(i) is the line and column of element i of the range, offset() its offset in a tensor.
  struct At {
    std::int64_t line, column;
  };
  const auto at = [&](std::int64_t i) -> At {
    if (family.lines == 1) return {family.base, family.column + i};
    std::int64_t column = 0;
    const std::int64_t line = cuda::divide(i, family.len, column);
    return {family.line(line), family.column + column};
  };
  const auto offset = [&](const At& a, std::size_t tensor) {
    return lines.offset_of(a.line, tensor) + a.column * lines.tensors[tensor].last;
  };
  const std::int64_t n = family.lines * family.len;

  // With aligned quads, the first `whole` of this lane's 8 quads are complete and at most one incomplete quad follows.
  // Otherwise `whole` is 0, and the second loop handles all elements.
  const std::int64_t first = block * kBlock + 4 * (threadIdx.x % 32), left = n - first;
  const int whole = !sum.quads || left < 4 ? 0 : left >= kBlock ? 8 : static_cast<int>((left - 4) / 128 + 1);
  Sums lane;
  for (int j = 0; j < whole; j += kHeld) {
    cuda::Quad<E> of_x[kHeld], g[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (j + h < whole) {
        const At a = at(first + 128 * (j + h));
        of_x[h] = *reinterpret_cast<const cuda::Quad<E>*>(x + offset(a, kX));
        g[h] = *reinterpret_cast<const cuda::Quad<E>*>(grad_y + offset(a, kGradY));
      }
#pragma unroll
    for (int h = 0; h < kHeld; ++h)
      if (j + h < whole) {
        const At a = at(first + 128 * (j + h));
        Sums four[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
          four[e] = term_of<E>(job, terms, of_x[h].v[e], g[h].v[e], a.line * lines.k + a.column + e);
        lane.add(quad_sum(four));
        *reinterpret_cast<cuda::Quad<E>*>(grad_x + offset(a, kGradX)) = g[h];
      }
  }
#pragma unroll 1
  for (int j = whole; j < 8 && 128 * j < left; ++j) {
    Sums four[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (const std::int64_t i = first + 128 * j + e; i < n) {
        const At a = at(i);
        Raw g = grad_y[offset(a, kGradY)];
        four[e] = term_of<E>(job, terms, x[offset(a, kX)], g, a.line * lines.k + a.column);
        grad_x[offset(a, kGradX)] = g;
      }
    lane.add(quad_sum(four));
  }
  __syncwarp();
  for (int distance = 16; distance > 0; distance /= 2) fold(lane, distance);
  if (threadIdx.x % 32 == 0) keep<E>(sum, family.range, block, lane);
}

// Ranges that are columns of lines. A block of threads computes one block of the sums of 32 adjacent columns.
//
//   thread (c, r): column c; lanes r, r + 8, r + 16 and r + 24 of its sum
template <class E>
__device__ void sum_columns_of(const SumJob& sum, std::int64_t unit, Sums (&shared)[8][32]) {
  using Raw = typename E::Raw;
  const Job& job = sum.job;
  const Lines& lines = job.walk.lines;
  std::int64_t block = 0, col_tile = 0;
  const std::int64_t number = cuda::divide(cuda::divide(unit, sum.blocks, block), sum.col_tiles, col_tile);
  const affine::Family family = sum.families[number];
  const int c = static_cast<int>(threadIdx.x % 32), r = static_cast<int>(threadIdx.x / 32);
  const std::int64_t column = col_tile * 32 + c, range = family.range + column;
  Sums lanes[4];
  if (column < family.len) {
    const Terms<E> terms(job.walk, range, job.strict);
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll 1
      for (int j = 0; j < 8; ++j) {
        const std::int64_t first = block * kBlock + 4 * (r + 8 * m + 32 * j);
        if (first >= family.lines) break;
        Raw x[4] = {}, g[4] = {};
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (first + e < family.lines) {
            const std::int64_t line = family.line(first + e);
            x[e] = static_cast<const Raw*>(job.x)[lines.offset_of(line, kX) + column * lines.tensors[kX].last];
            g[e] = static_cast<const Raw*>(
                job.grad_y)[lines.offset_of(line, kGradY) + column * lines.tensors[kGradY].last];
          }
        Sums four[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (first + e < family.lines) {
            const std::int64_t line = family.line(first + e);
            four[e] = term_of<E>(job, terms, x[e], g[e], line * lines.k + column);
            static_cast<Raw*>(job.grad_x)[lines.offset_of(line, kGradX) + column * lines.tensors[kGradX].last] = g[e];
          }
        lanes[m].add(quad_sum(four));
      }
  }
  lanes[0].add(lanes[2]);  // lane l += lane l + 16
  lanes[1].add(lanes[3]);
  lanes[0].add(lanes[1]);  // lane l += lane l + 8
  shared[r][c] = lanes[0];
  for (int half = 4; half > 0; half /= 2) {
    __syncthreads();
    if (r < half) shared[r][c].add(shared[r + half][c]);
  }
  if (r == 0 && column < family.len) keep<E>(sum, range, block, shared[0][c]);
}
template <class E>
__global__ void __launch_bounds__(kThreads, 2) sum_columns(const SumJob sum) {
  __shared__ Sums shared[8][32];
  for (std::int64_t unit = blockIdx.x; unit < sum.units; unit += gridDim.x) {
    sum_columns_of<E>(sum, unit, shared);
    __syncthreads();
  }
}

// ---- the choice ----

std::int64_t blocks_of(const FakeQuantizeBackward::Problem& p) {
  return p.qparam_gradients ? ceil_div(affine::longest_range(p.shape, p.granularity), kBlock) : 1;
}
struct Partials {
  Sums* first;
  Sums* folded;
};
Partials book_partials(WorkspaceLedger& ledger, std::int64_t ranges, std::int64_t blocks) {
  const auto sums = [&](std::int64_t n) { return static_cast<std::size_t>(blocks > 1 ? ranges * n : 0); };
  Sums* first = ledger.book<Sums>(sums(blocks));
  return {first, ledger.book<Sums>(sums(ceil_div(blocks, 32)))};
}

std::size_t workspace_bytes(const FakeQuantizeBackward::Problem& p) {
  if (affine::is_empty(p.shape)) return 0;
  const auto ranges = affine_scale_count(p.shape, p.granularity);
  WorkspaceLedger ledger(nullptr);
  book_partials(ledger, ranges.ok() ? *ranges : 0, blocks_of(p));
  return ledger.bytes();
}

Lines lines_of(const Params& params) {
  affine::Words words = affine::words_of(params.problem);
  words.format = Format::u8;  // the mask is laid out like codes of one byte
  if (params.mask != nullptr) words.granularity = {};
  const Shape& x = params.mask != nullptr ? params.grad_y.strides : params.x.strides;
  const Shape strides[] = {params.grad_y.strides, x, params.grad_x.strides};
  return affine::make_lines(words, strides, params.mask_row_bytes);
}

// Whether the quads of a range, counted from its first element, are contiguous and aligned in all tensors.
template <class E>
bool has_quads(const Params& params, const Lines& lines) {
  const std::int64_t piece = lines.run == Lines::Run::groups ? lines.group : lines.k;
  bool quads = piece % 4 == 0;
  const void* data[] = {params.grad_y.data, params.x.data, params.grad_x.data};
  for (std::size_t t = 0; t < Lines::kMaxTensors; ++t) {
    quads = quads && lines.tensors[t].last == 1;
    for (int i = 0; i < lines.leading; ++i)
      quads = quads && cuda::quads_aligned<E>(data[t], lines.tensors[t].leading[static_cast<std::size_t>(i)]);
    quads = quads && cuda::quads_aligned<E>(data[t], 4);
  }
  return quads;
}

template <class E>
int launch_sums(const Params& params, const Job& job, std::byte* workspace, cudaStream_t stream) {
  const auto& p = params.problem;
  const Lines& lines = job.walk.lines;
  WorkspaceLedger ledger(workspace);
  const std::int64_t ranges = params.qparams.count, blocks = blocks_of(p);
  const Partials partials = book_partials(ledger, ranges, blocks);
  SumJob sum{.job = job,
             .families = affine::Families(lines),
             .one_line = lines.count == 1,
             .quads = has_quads<E>(params, lines),
             .units = 0,
             .blocks = blocks,
             .col_tiles = ceil_div(lines.k, 32),
             .to = outputs_of(params),
             .partials = blocks > 1 ? partials.first : nullptr};
  if (lines.run == Lines::Run::each) {
    sum.units = sum.families.count() * sum.col_tiles * blocks;
    const auto blocks_at_once = static_cast<unsigned>(std::min<std::int64_t>(sum.units, 0x7FFFFFFF));
    sum_columns<E><<<blocks_at_once, kThreads, 0, stream>>>(sum);
  } else {
    sum.units = sum.families.count() * blocks;
    sum_pieces<E><<<static_cast<unsigned>(ceil_div(sum.units, kThreads / 32)), kThreads, 0, stream>>>(sum);
  }
  Sums* from = partials.first;
  Sums* to = partials.folded;
  for (std::int64_t n = blocks; n > 1; n = ceil_div(n, 32)) {
    const std::int64_t warps = ranges * ceil_div(n, 32);
    fold_sums<E>
        <<<static_cast<unsigned>(ceil_div(warps, kThreads / 32)), kThreads, 0, stream>>>(sum.to, from, ranges, n, to);
    Sums* const read = from;
    from = to;
    to = read;
  }
  return cudaGetLastError();
}

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const auto& p = params.problem;
  // PyTorch's fake_quantize does not divide in f64 on a GPU, so speed matters little here: use the plain kernel.
  if (params.mask == nullptr && p.math == AffineMath::torch_cuda && p.dtype != DType::f64)
    return cuda_simple.launch(params, workspace, launch);
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    auto* stream = static_cast<cudaStream_t>(launch.stream);
    const void* x = params.mask == nullptr ? params.x.data : params.grad_y.data;
    Job job{.walk = affine::make_walk<E>(lines_of(params), {params.grad_y.data, x, params.grad_x.data}, Format::u8,
                                         params.mask, launch),
            .grad_y = params.grad_y.data,
            .x = params.x.data,
            .grad_x = params.grad_x.data,
            .mask = params.mask,
            .strict = p.strict};
    if (params.mask != nullptr) {
      pass<E, true><<<job.walk.blocks(), kThreads, 0, stream>>>(job);
      return cudaGetLastError();
    }
    affine::give_qparams(job.walk, params.qparams, params.q);
    job.walk.beyond = 1;
    job.walk.reciprocal = p.math == AffineMath::reciprocal;
    job.walk.saturate = p.non_finite == NonFinite::saturate;
    if (p.qparam_gradients) return launch_sums<E>(params, job, workspace, stream);
    pass<E, false><<<job.walk.blocks(), kThreads, 0, stream>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::fake_quantize_backward
