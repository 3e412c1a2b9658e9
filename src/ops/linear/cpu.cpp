// Drives the loops of an instruction set over matrices: stages the activations, hands rows to threads, blocks for the
// caches, and applies group scales.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "memory/workspace.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/linear.h"

namespace tern::linear {
namespace {

constexpr std::int64_t kUnitRows = 16;    // threads part rows on these: a line of f32 outputs, four tiles
constexpr std::int64_t kBlockRows = 64;   // rows whose sums are kept at a time
constexpr std::int64_t kMaxTokens = 129;   // tokens of a block: with kChunkLines of columns they fill 240 KiB of L2
constexpr std::int64_t kChunkLines = 40;  // columns in lines: 2560, of which two decoded tiles take 20 KiB of L1
constexpr std::int64_t kTilePair = 2;     // tiles that are decoded together
static_assert(kMaxFloatLines * kLine * static_cast<std::int64_t>(sizeof(float)) <= kTilePair * kChunkLines * kLine);
constexpr std::int64_t kMinProducts = 256 * 1024;  // a slot's least work: some microseconds

struct Shape {
  std::int64_t m = 0;
  bool floats = false;        // activations stay float
  std::int64_t columns = 0;   // padded columns of a token, the most of all matrices
  std::int64_t segments = 1;  // the most of all matrices
  bool any_float_sums = false;
};

// matrix(i) is number i of `count`.
template <class MatrixAt>
Shape shape_of(std::int64_t m, std::int64_t k, LinearMath math, std::size_t count, MatrixAt matrix) {
  Shape s{.m = m, .floats = math == LinearMath::w2_float};
  for (std::size_t i = 0; i < count; ++i) {
    const Granularity& granularity = matrix(i).granularity;
    const Tile4 tile = Tile4::of(matrix(i).n, k, granularity);
    s.columns = std::max(s.columns, tile.tile_bytes);
    s.segments = std::max(s.segments, tile.segments);
    s.any_float_sums = s.any_float_sums || !exact(math, granularity);
  }
  return s;
}

// What a slot works with.
struct Scratch {
  std::uint8_t* codes = nullptr;  // two decoded tiles, or a piece of one as floats
  std::int32_t* sums = nullptr;   // [tokens][kBlockRows]; floats in float modes
  double* totals = nullptr;       // the same, over segments
  float* clean = nullptr;         // a token without its infinities
};

struct Staged {
  std::int8_t* bytes = nullptr;  // panels of int8 ...
  float* floats = nullptr;       // ... or of floats
  std::int32_t* sums = nullptr;  // [m][segments]: sum of x, because codes are one too large
  float* scales = nullptr;       // [m]
};

std::int64_t block_tokens(std::int64_t m) {
  const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(m, kMaxTokens));
  return ceil_div(ceil_div(m, blocks), kPanelTokens) * kPanelTokens;
}

// The same bookings at plan time and at run time.
struct Memory {
  Staged staged;
  Scratch first;  // of slot 0
  std::int64_t codes_step = 0, sums_step = 0, clean_step = 0;
  Memory(WorkspaceLedger& ledger, const Shape& s, std::int64_t k, bool saturate, int slots) {
    const auto m = static_cast<std::size_t>(s.m);
    if (s.floats)
      staged.floats = ledger.book<float>(m * static_cast<std::size_t>(s.columns));
    else
      staged.bytes = ledger.book<std::int8_t>(m * static_cast<std::size_t>(s.columns));
    staged.sums = ledger.book<std::int32_t>(m * static_cast<std::size_t>(s.segments));
    staged.scales = ledger.book<float>(m);
    const auto n = static_cast<std::size_t>(slots);
    codes_step = s.m > kPanelTokens ? kTilePair * Tile4::kRows * kChunkLines * kLine : 0;
    sums_step = block_tokens(std::min(s.m, kMaxTokens)) * kBlockRows;
    clean_step = saturate ? static_cast<std::int64_t>(round_up(static_cast<std::size_t>(k), 16)) : 0;
    first.codes = ledger.book<std::uint8_t>(n * static_cast<std::size_t>(codes_step));
    first.sums = ledger.book<std::int32_t>(n * static_cast<std::size_t>(sums_step));
    first.totals = s.any_float_sums ? ledger.book<double>(n * static_cast<std::size_t>(sums_step)) : nullptr;
    first.clean = ledger.book<float>(n * static_cast<std::size_t>(clean_step));
  }
  [[nodiscard]] Scratch of(int slot) const {
    return {first.codes + slot * codes_step, first.sums + slot * sums_step,
            first.totals == nullptr ? nullptr : first.totals + slot * sums_step, first.clean + slot * clean_step};
  }
};

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec, const Memory& memory)
      : t_(table), p_(params), exec_(exec), memory_(memory), floats_(params.math == LinearMath::w2_float) {}

  // Matrices with the same columns share the staged activations.
  Status run() {
    for (std::size_t begin = 0; begin < p_.count;) {
      std::size_t end = begin + 1;
      while (end < p_.count && tile(end).same_columns(tile(begin))) ++end;
      if (!stage(tile(begin)))
        return activation_quantize::non_finite_error("linear", p_.x, p_.x_dtype, p_.x_stride, p_.m, p_.k);
      multiply(begin, end);
      begin = end;
    }
    return {};
  }

 private:
  [[nodiscard]] const Tile4& tile(std::size_t i) const { return p_.matrices[i].weights->tile; }

  // False: an activation is not finite.
  bool stage(const Tile4& shape) {
    std::atomic<bool> finite{true};
    const std::int64_t slots = std::min(p_.m, p_.m * p_.k / (64 * 1024));
    WorkQueue queue(p_.m, 1);
    exec_.threads.run(static_cast<int>(std::clamp<std::int64_t>(slots, 1, exec_.threads.count())), [&](int slot) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        if (!stage_token(shape, begin, memory_.of(slot).clean)) finite = false;
    });
    return finite;
  }

  bool stage_token(const Tile4& shape, std::int64_t m, float* clean) {
    const std::int64_t panel = m / kPanelTokens,
                       tokens = std::min<std::int64_t>(kPanelTokens, p_.m - panel * kPanelTokens);
    const std::int64_t base = panel * kPanelTokens * shape.tile_bytes, t = m % kPanelTokens;
    const void* x = activation_quantize::element(p_.x, p_.x_dtype, m * p_.x_stride);
    DType dtype = p_.x_dtype;
    float s = 0;
    if (dtype != DType::i8) {
      const auto token = activation_quantize::finite_token(t_.tokens, x, dtype, p_.k, p_.non_finite, clean);
      if (!token) return false;
      x = token->x;
      dtype = token->dtype;
      s = token->s;
    } else if (p_.x_scales != nullptr) {
      s = activation_quantize::read(p_.x_scales, DType::f32, m);
    }
    memory_.staged.scales[m] = s;
    const int source = activation_quantize::source_of(dtype);
    for (std::int64_t g = 0; g < shape.segments; ++g) {
      const std::int64_t elems = shape.elems_of(g), first = g * shape.segment_elems;
      const void* from = activation_quantize::element(x, dtype, first);
      // The segment's lines, of every token of the panel in turn; the last one ends in zeros.
      const std::int64_t at = base + g * shape.segment_bytes * tokens;
      if (floats_) {
        float* out = memory_.staged.floats + at + t * kFloats;
        for (std::int64_t i = elems / kFloats; i < shape.bytes_of(g) / kFloats; ++i)
          std::fill_n(out + i * tokens * kFloats, kFloats, 0.0F);
        t_.widen[source](from, elems, out, tokens * kFloats);
        continue;
      }
      std::int8_t* out = memory_.staged.bytes + at + t * kLine;
      if (elems % kLine != 0) std::memset(out + elems / kLine * tokens * kLine, 0, kLine);
      memory_.staged.sums[m * shape.segments + g] =
          dtype == DType::i8 ? t_.copy(static_cast<const std::int8_t*>(from), elems, out, tokens * kLine)
                             : t_.tokens.quantize[source](from, elems, s, out, tokens * kLine);
    }
    return true;
  }

  void multiply(std::size_t begin, std::size_t end) {
    std::int64_t units = 0, n = 0;
    for (std::size_t i = begin; i < end; ++i) {
      units += ceil_div(p_.matrices[i].spec.n, kUnitRows);
      n += p_.matrices[i].spec.n;
    }
    const std::int64_t products = n * std::max<std::int64_t>(p_.k, 1) * std::max<std::int64_t>(p_.m / 4, 1);
    const std::int64_t wanted = std::min(units, products / kMinProducts);
    const int slots = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count()));
    // Few tokens wait for memory: each thread reads one stretch, the one it packed. Many are work, shared as it comes.
    const bool few = p_.m <= kPanelTokens;
    const std::int64_t blocks = few ? slots : ceil_div(units, kBlockRows / kUnitRows);
    WorkQueue queue(blocks, 1);
    exec_.threads.run(slots, [&](int slot) {
      const Scratch scratch = memory_.of(slot);
      for (std::int64_t i = 0, next = 0; queue.next(i, next);) {
        Rows rows(*this, begin, units * i / blocks, units * (i + 1) / blocks);
        if (few) {
          stream_rows(rows, scratch);
          continue;
        }
        for (Piece piece; rows.next(kBlockRows, piece);) block(*piece.matrix, piece.row, piece.end, scratch);
      }
    });
  }

  struct Piece {
    const Matrix* matrix = nullptr;
    std::int64_t row = 0, end = 0;
  };

  // Rows of several matrices as one stretch, counted in units.
  class Rows {
   public:
    Rows(const Driver& driver, std::size_t matrix, std::int64_t first, std::int64_t last)
        : driver_(driver), matrix_(matrix), row_(first * kUnitRows), last_(last * kUnitRows) {}

    // The next rows of one matrix, at most `most`; false when there are none.
    bool next(std::int64_t most, Piece& piece) {
      for (; row_ < last_; ++matrix_) {
        const std::int64_t n = driver_.p_.matrices[matrix_].spec.n, padded = ceil_div(n, kUnitRows) * kUnitRows;
        if (row_ < n) {
          piece = {&driver_.p_.matrices[matrix_], row_, std::min({row_ + most, n, last_})};
          row_ = piece.end == n ? padded : piece.end;
          return true;
        }
        row_ -= padded;
        last_ -= padded;
      }
      return false;
    }
    // Takes the second half off.
    Rows split() {
      Rows second = *this;
      const std::int64_t middle = (row_ + last_) / 2 / kUnitRows * kUnitRows;
      last_ = second.row_ = middle;
      return second;
    }

   private:
    const Driver& driver_;
    std::size_t matrix_;
    std::int64_t row_, last_;  // counted from the matrix's first row on
  };

  // A stretch as two streams, the halves of it side by side.
  void stream_rows(Rows first, const Scratch& scratch) {
    Rows second = first.split();
    Scratch other = scratch;
    other.sums += kBlockRows / 2;
    for (Piece a, b; first.next(kBlockRows / 2, a);) {
      const bool two = second.next(kBlockRows / 2, b);
      if (!two || !exact(p_.math, a.matrix->spec.granularity) || !exact(p_.math, b.matrix->spec.granularity)) {
        block(*a.matrix, a.row, a.end, scratch);
        if (two) block(*b.matrix, b.row, b.end, scratch);
        continue;
      }
      const Block one_block{*a.matrix, a.matrix->weights->tile, a.row, a.end, 0, p_.m, scratch};
      const Block other_block{*b.matrix, b.matrix->weights->tile, b.row, b.end, 0, p_.m, other};
      begin_sums(one_block, 0);
      begin_sums(other_block, 0);
      if (one_block.tile.segments > 0)
        packed_streams(one_block, one_block.tiles(), &other_block, other_block.tiles(), 0);
      write_exact(one_block);
      write_exact(other_block);
    }
    for (Piece b; second.next(kBlockRows, b);) block(*b.matrix, b.row, b.end, scratch);
  }

  void block(const Matrix& matrix, std::int64_t row, std::int64_t end, const Scratch& scratch) {
    const std::int64_t step = block_tokens(p_.m);
    for (std::int64_t m = 0; m < p_.m; m += step) {
      const Block b{matrix, matrix.weights->tile, row, end, m, std::min(step, p_.m - m), scratch};
      if (exact(p_.math, matrix.spec.granularity))
        exact_block(b);
      else
        float_block(b);
    }
  }

  // Some rows of a matrix with some tokens.
  struct Block {
    const Matrix& matrix;
    const Tile4& tile;
    std::int64_t row, end;  // rows
    std::int64_t m, tokens;
    Scratch scratch;
    [[nodiscard]] std::int64_t tiles() const { return ceil_div(end - row, Tile4::kRows); }
  };

  // The lines of y that the block will write, on their way while it computes.
  void fetch_y(const Block& b) const {
    const auto bytes = (b.end - b.row) * static_cast<std::int64_t>(size_of(b.matrix.spec.y_dtype));
    for (std::int64_t t = 0; t < b.tokens; ++t)
      for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(y_at(b, t) + at, 1, 2);
  }

  void exact_block(const Block& b) {
    fetch_y(b);
    integer_sums(b, 0);
    write_exact(b);
  }

  void write_exact(const Block& b) {
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      const std::int32_t* sums = b.scratch.sums + t * kBlockRows;
      if (b.matrix.spec.y_dtype == DType::i32)
        std::memcpy(y_at(b, t), sums, static_cast<std::size_t>(b.end - b.row) * sizeof *sums);
      else
        t_.epilogue[out_of(b)](sums, epilogue_row(b, t));
    }
  }

  // Codes are one more than trits, so the sum of x is taken off beforehand.
  void begin_sums(const Block& b, std::int64_t g) {
    const std::int64_t segments = b.tile.segments;
    for (std::int64_t t = 0; t < b.tokens; ++t)
      std::fill_n(b.scratch.sums + t * kBlockRows, b.tiles() * Tile4::kRows,
                  segments == 0 ? 0 : -memory_.staged.sums[(b.m + t) * segments + g]);
  }

  // scratch.sums = the exact sums of one segment.
  void integer_sums(const Block& b, std::int64_t g) {
    begin_sums(b, g);
    if (b.tile.segments == 0) return;
    const std::uint8_t* w = codes_at(b, g);
    const std::int64_t lines = b.tile.bytes_of(g) / kLine;
    if (p_.m <= kPanelTokens) {
      packed_streams(b, b.tiles(), nullptr, 0, g);
      return;
    }
    const std::int64_t pieces = ceil_div(lines, kChunkLines);
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t from = lines * piece / pieces, count = lines * (piece + 1) / pieces - from;
      for (std::int64_t tile = 0; tile < b.tiles(); tile += kTilePair) {
        const std::int64_t pair = std::min(kTilePair, b.tiles() - tile);
        const std::int64_t codes_bytes = Tile4::kRows * count * kLine;
        each_panel(b, g * b.tile.segment_bytes + from * kLine, [&](std::int64_t t, int tokens, std::int64_t column) {
          const std::int8_t* x = memory_.staged.bytes + column;
          for (std::int64_t i = 0; i < pair; ++i) {
            std::uint8_t* codes = b.scratch.codes + i * codes_bytes;
            std::int32_t* sums = b.scratch.sums + t * kBlockRows + (tile + i) * Tile4::kRows;
            const std::int64_t next = kPanelTokens * b.tile.tile_bytes;
            if (t == 0)
              t_.decode[tokens](w + (tile + i) * b.tile.tile_bytes + from * kLine, kTilePair * b.tile.tile_bytes, codes,
                                count, x, next, sums, kBlockRows);
            else
              t_.decoded[tokens](codes, count, x, next, sums, kBlockRows);
          }
        });
      }
    }
  }

  // Adds the sums of a segment for the first tiles of one block and, beside it, of another.
  void packed_streams(const Block& a, std::int64_t a_tiles, const Block* b, std::int64_t b_tiles, std::int64_t g) {
    const std::int64_t lines = a.tile.bytes_of(g) / kLine, step = a.tile.tile_bytes;
    const std::int8_t* x = memory_.staged.bytes + g * a.tile.segment_bytes * p_.m;
    const std::int64_t both = std::min(a_tiles, b_tiles);
    const std::uint8_t* wa = codes_at(a, g);
    const std::uint8_t* wb = b == nullptr ? nullptr : codes_at(*b, g);
    if (both > 0) t_.packed[p_.m]({{wa, wb}, {a.scratch.sums, b->scratch.sums}, both, step}, lines, x, kBlockRows);
    const auto rest = [&](const std::uint8_t* w, std::int32_t* sums, std::int64_t tiles) {
      if (tiles > both)
        t_.packed[p_.m]({{w + both * step, nullptr}, {sums + both * Tile4::kRows, nullptr}, tiles - both, step}, lines,
                        x, kBlockRows);
    };
    rest(wa, a.scratch.sums, a_tiles);
    if (b != nullptr) rest(wb, b->scratch.sums, b_tiles);
  }

  // f(token of the block, tokens of the panel, where the panel's columns begin that lie at `column` of each token).
  template <class F>
  void each_panel(const Block& b, std::int64_t column, F f) {
    for (std::int64_t t = 0; t < b.tokens; t += kPanelTokens) {
      const std::int64_t m = b.m + t, tokens = std::min<std::int64_t>(kPanelTokens, p_.m - m);
      f(t, static_cast<int>(tokens), m * b.tile.tile_bytes + column * tokens);
    }
  }

  // Group scales and float activations: sums of pieces, scaled where a group has its own, added up in f64.
  void float_block(const Block& b) {
    const bool grouped = b.matrix.spec.granularity.kind == Granularity::Kind::group;
    const std::int64_t rows = b.end - b.row, segments = b.tile.segments;
    double* totals = b.scratch.totals;
    auto* sums = reinterpret_cast<float*>(b.scratch.sums);
    std::fill_n(totals, b.tokens * kBlockRows, 0.0);
    const auto add = [&](std::int64_t g, auto sum_of) {
      const float* scales = b.matrix.weights->scales + g * b.matrix.weights->scale_stride + b.row;
      for (std::int64_t t = 0; t < b.tokens; ++t)
        for (std::int64_t r = 0; r < rows; ++r) {
          const float sum = sum_of(t * kBlockRows + r);
          totals[t * kBlockRows + r] += static_cast<double>(grouped ? sum * scales[r] : sum);
        }
    };
    for (std::int64_t g = 0; g < segments; ++g) {
      if (!floats_) {
        integer_sums(b, g);
        add(g, [&](std::int64_t i) { return static_cast<float>(b.scratch.sums[i]); });
        continue;
      }
      const std::int64_t lines = b.tile.bytes_of(g) / kLine;
      for (std::int64_t from = 0; from < lines; from += t_.float_lines) {
        std::fill_n(sums, b.tokens * kBlockRows, 0.0F);
        float_sums(b, g, from, std::min(t_.float_lines, lines - from), sums);
        add(g, [&](std::int64_t i) { return sums[i]; });
      }
    }
    for (std::int64_t t = 0; t < b.tokens; ++t) {
      for (std::int64_t r = 0; r < rows; ++r) sums[t * kBlockRows + r] = static_cast<float>(totals[t * kBlockRows + r]);
      EpilogueRow row = epilogue_row(b, t);
      if (grouped) row.w_scales = nullptr;
      t_.float_epilogue[out_of(b)](sums + t * kBlockRows, row);
    }
  }

  void float_sums(const Block& b, std::int64_t g, std::int64_t from, std::int64_t lines, float* sums) {
    const std::uint8_t* w = codes_at(b, g) + from * kLine;
    const std::int64_t column = g * b.tile.segment_bytes + from * kLine;
    if (p_.m <= kPanelTokens) {
      t_.float_packed[p_.m](w, b.tile.tile_bytes, b.tiles(), lines, memory_.staged.floats + column * p_.m, sums,
                            kBlockRows);
      return;
    }
    auto* trits = reinterpret_cast<float*>(b.scratch.codes);
    for (std::int64_t tile = 0; tile < b.tiles(); ++tile) {
      t_.float_decode(w + tile * b.tile.tile_bytes, lines, trits);
      each_panel(b, column, [&](std::int64_t t, int tokens, std::int64_t x) {
        t_.float_decoded[tokens](trits, lines, memory_.staged.floats + x, sums + t * kBlockRows + tile * Tile4::kRows,
                                 kBlockRows);
      });
    }
  }

  static const std::uint8_t* codes_at(const Block& b, std::int64_t g) {
    return b.matrix.weights->codes + b.row / Tile4::kRows * b.tile.tile_bytes + g * b.tile.segment_bytes;
  }
  static int out_of(const Block& b) {
    const DType t = b.matrix.spec.y_dtype;
    return t == DType::f16 ? kOutF16 : t == DType::bf16 ? kOutBf16 : kOutF32;
  }
  [[nodiscard]] static std::byte* y_at(const Block& b, std::int64_t t) {
    const auto size = static_cast<std::int64_t>(size_of(b.matrix.spec.y_dtype));
    return b.matrix.y + ((b.m + t) * b.matrix.y_stride + b.row) * size;
  }
  [[nodiscard]] EpilogueRow epilogue_row(const Block& b, std::int64_t t) const {
    const Matrix& matrix = b.matrix;
    const bool tensor = matrix.spec.granularity.kind == Granularity::Kind::tensor;
    const auto size = static_cast<std::int64_t>(size_of(matrix.spec.y_dtype));
    return {.n = b.end - b.row,
            .s = floats_ ? 0 : memory_.staged.scales[b.m + t],
            .w_scales = matrix.weights->scales + (tensor ? 0 : b.row),
            .one_w_scale = tensor,
            .bias = matrix.bias == nullptr ? nullptr : matrix.bias + b.row,
            .squared_relu = matrix.spec.activation == Activation::squared_relu,
            .residual = matrix.residual == nullptr
                            ? nullptr
                            : matrix.residual + ((b.m + t) * matrix.residual_stride + b.row) * size,
            .y = y_at(b, t)};
  }

  const SimdTable& t_;
  const Params& p_;
  const Exec& exec_;
  const Memory& memory_;
  bool floats_;
};

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const Linear::Problem& p, int threads) {
  WorkspaceLedger ledger(nullptr);
  const Shape shape = shape_of(p.m_max, p.k, p.math, p.matrices.size(), [&](std::size_t i) { return p.matrices[i]; });
  const Memory memory(ledger, shape, p.k, p.non_finite == NonFinite::saturate, threads);
  return ledger.bytes();
}

Status cpu_run(const SimdTable& table, const Params& p, const Exec& exec) {
  // The plan's m_max sized the workspace; this run's m books no more.
  WorkspaceLedger ledger(exec.workspace.data());
  const Shape shape = shape_of(p.m, p.k, p.math, p.count, [&](std::size_t i) { return p.matrices[i].spec; });
  const Memory memory(ledger, shape, p.k, p.non_finite == NonFinite::saturate, exec.threads.count());
  return Driver(table, p, exec, memory).run();
}

}  // namespace tern::linear
