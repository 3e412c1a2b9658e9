// Drives an instruction set's loops over the matrices: stages activations, hands rows to threads, blocks for the
// caches, applies group scales. The file is long because all paths work on the same blocks and share one state.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>

#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/cpu_memory.h"
#include "ops/linear/cpu_rows.h"

namespace tern::linear {
namespace {

constexpr std::int64_t kWorkRows = 64;             // rows of a work item, with many tokens
constexpr std::int64_t kFetchBytes = 1024;         // prefetched at the start of each stream
constexpr std::int64_t kMinStaged = 16 * 1024;     // fewest activations worth another slot
constexpr std::int64_t kMinProducts = 256 * 1024;  // fewest products worth another slot: some microseconds
static_assert(kTileRows == Tile16::kRows && kLineBytes == Tile16::kLineBytes);
static_assert(kBlockRows % (kMaxStreams * kTileRows) == 0 && kWorkRows % (kMaxTiles * kTileRows) == 0);

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec, const Shape& shape, const Memory& memory)
      : t_(table),
        loops_(*shape.loops),
        reading_(reading_of(exec.tuning, loops_.max_streams)),
        p_(params),
        exec_(exec),
        memory_(memory),
        floats_(shape.floats),
        panels_(shape.panels),
        ld_(shape.block_rows) {}

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
  [[nodiscard]] const Tile16& tile(std::size_t i) const { return p_.matrices[i].weights->tile; }

  // Returns false if an activation is not finite.
  bool stage(const Tile16& shape) {
    std::atomic<bool> finite{true};
    const std::int64_t slots = std::min(p_.m, p_.m * p_.k / kMinStaged);
    WorkQueue queue(p_.m, 1);
    exec_.threads.run(static_cast<int>(std::clamp<std::int64_t>(slots, 1, exec_.threads.count())), [&](int slot) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        if (!stage_token(shape, begin, memory_.of(slot))) finite = false;
    });
    return finite;
  }

  bool stage_token(const Tile16& shape, std::int64_t m, const Scratch& scratch) {
    const void* x = activation_quantize::element(p_.x, p_.x_dtype, m * p_.x_stride);
    DType dtype = p_.x_dtype;
    float s = 0;
    if (dtype != DType::i8) {
      const auto token = activation_quantize::finite_token(t_.tokens, x, dtype, p_.k, p_.non_finite, scratch.clean);
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
      const std::int64_t at = m * token_stride(shape) + g * shape.segment_lines * shape.line_columns;
      const std::int64_t lines = shape.lines_of(g);
      const std::int64_t padded = panels_ ? panels_of(shape, lines) * kPanelColumns : lines * shape.line_columns;
      if (floats_) {
        float* out = memory_.staged.floats + at;
        std::fill(out + elems, out + padded, 0.0F);
        t_.widen[source](from, elems, out);
        continue;
      }
      std::int8_t* out = panels_ ? scratch.row : memory_.staged.bytes + at;
      std::fill(out + elems, out + padded, std::int8_t{0});
      const std::int32_t sum = dtype == DType::i8 ? t_.copy(static_cast<const std::int8_t*>(from), elems, out)
                                                  : t_.tokens.quantize[source](from, elems, s, out);
      memory_.staged.sums[m * shape.segments + g] = times(sum, loops_.zero);
      if (panels_) to_panel(shape, m, g, padded, out);
    }
    return true;
  }

  void to_panel(const Tile16& shape, std::int64_t m, std::int64_t g, std::int64_t padded, const std::int8_t* row) {
    std::int8_t* out = memory_.staged.bytes + m / kPanelTokens * panel_stride(shape) +
                       g * segment_tiles(shape) * kPanelBytes + m % kPanelTokens * kPanelColumns;
    for (std::int64_t at = 0; at < padded; at += kPanelColumns, out += kPanelBytes)
      std::memcpy(out, row + at, static_cast<std::size_t>(kPanelColumns));
  }

  void multiply(std::size_t begin, std::size_t end) {
    std::int64_t units = 0, n = 0;
    for (std::size_t i = begin; i < end; ++i) {
      units += ceil_div(p_.matrices[i].spec.n, kTileRows);
      n += p_.matrices[i].spec.n;
    }
    const std::int64_t products = n * std::max<std::int64_t>(p_.k, 1) * std::max<std::int64_t>(p_.m / 4, 1);
    const std::int64_t wanted = std::min(units, products / kMinProducts);
    const int slots = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count()));
    if (p_.m <= kFewTokens)
      stream(begin, units, slots);
    else
      share(begin, units, slots);
  }

  // Few tokens: memory is the limit. A thread first reads the rows that it packed, then takes rows from slower threads.
  void stream(std::size_t matrix, std::int64_t units, int slots) {
    std::uninitialized_default_construct_n(memory_.shares, slots);
    SharedWork work({memory_.shares, static_cast<std::size_t>(slots)}, units, reading_.streams);
    exec_.threads.run(slots, [&](int slot) {
      const Scratch scratch = memory_.of(slot);
      std::int64_t first = 0, last = 0;
      for (bool some = work.next(slot, first, last); some;) {
        const Rows rows(p_, matrix, first, last);
        some = work.next(slot, first, last);
        if (some) fetch(Rows(p_, matrix, first, last));
        stream_rows(rows, scratch);
      }
    });
  }

  // Many tokens: arithmetic is the limit, and threads take work items from a queue. All rows are multiplied with one
  // block of tokens, which stays in a cache, before the next block of tokens.
  void share(std::size_t matrix, std::int64_t units, int slots) {
    const std::int64_t rows_each = panels_ ? kPanelRows : kWorkRows;
    const std::int64_t blocks = ceil_div(units, rows_each / kTileRows), tokens = block_tokens(p_.m, ld_);
    WorkQueue queue(blocks * ceil_div(p_.m, tokens), 1);
    exec_.threads.run(slots, [&](int slot) {
      const Scratch scratch = memory_.of(slot);
      if (panels_) loops_.begin(p_.m);
      for (std::int64_t i = 0, next = 0; queue.next(i, next);) {
        const std::int64_t m = i / blocks * tokens, row = i % blocks;
        Rows rows(p_, matrix, units * row / blocks, units * (row + 1) / blocks);
        for (Piece piece; rows.next(rows_each, piece);)
          block({*piece.matrix, piece.matrix->weights->tile, piece.row, piece.end, m, std::min(tokens, p_.m - m),
                 scratch});
      }
      if (panels_) loops_.end();
    });
  }

  // Divides a stretch of rows into one part per stream and reads the parts side by side.
  void stream_rows(const Rows& all, const Scratch& scratch) {
    const int streams = reading_.streams;  // later parts are not used
    Rows parts[kMaxStreams] = {all.part(0, streams), all.part(1, streams), all.part(2, streams), all.part(3, streams)};
    const std::int64_t most = ld_ / streams;
    while (true) {
      std::array<Piece, kMaxStreams> pieces;
      std::size_t count = 0;
      for (int i = 0; i < streams; ++i)
        if (parts[i].next(most, pieces[count])) ++count;
      if (count == 0) return;
      stream_pieces({pieces.data(), count}, most, scratch);
    }
  }

  // Prefetches the first lines of each stream of a stretch.
  void fetch(const Rows& all) const {
    for (int i = 0; i < reading_.streams; ++i) {
      Piece piece;
      if (!all.part(i, reading_.streams).next(kTileRows, piece)) continue;
      const Tile16& tile = piece.matrix->weights->tile;
      const std::uint8_t* w = piece.matrix->weights->codes + piece.row / kTileRows * tile.tile_bytes();
      for (std::int64_t at = 0; at < std::min(kFetchBytes, tile.tile_bytes()); at += kLineBytes)
        __builtin_prefetch(w + at, 0, 2);
    }
  }

  void stream_pieces(std::span<const Piece> pieces, std::int64_t most, const Scratch& scratch) {
    const auto block_of = [&](std::size_t i) {
      Scratch own = scratch;
      own.sums += static_cast<std::int64_t>(i) * most;
      own.totals += scratch.totals == nullptr ? 0 : static_cast<std::int64_t>(i) * most;
      own.chains += scratch.chains == nullptr ? 0 : static_cast<std::int64_t>(i) * most;
      return Block{*pieces[i].matrix, pieces[i].matrix->weights->tile, pieces[i].row, pieces[i].end, 0, p_.m, own};
    };
    const auto all = [&](auto is) { return std::ranges::all_of(pieces, is); };
    if (all([&](const Piece& piece) { return int8_groups(*piece.matrix); })) {
      GroupedTiles tiles{.streams = static_cast<int>(pieces.size()), .count = most / kTileRows};
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const Block b = block_of(i);
        add_stream(tiles, i, b, 0);
        tiles.count = std::min(tiles.count, b.tiles());
      }
      grouped(block_of(0), tiles);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const Block b = block_of(i);
        grouped_tiles(b, tiles.count);
        write_floats(b, b.scratch.chains);
      }
      return;
    }
    if (!all([&](const Piece& piece) {
          return exact(p_.math, piece.matrix->spec.granularity) && piece.matrix->weights->tile.segments > 0;
        })) {
      for (std::size_t i = 0; i < pieces.size(); ++i) block(block_of(i));
      return;
    }
    PackedTiles tiles{
        .streams = static_cast<int>(pieces.size()), .ahead = reading_.ahead_bytes, .count = most / kTileRows};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Block b = block_of(i);
      clear_sums(b);
      tiles.w[i] = codes_at(b, 0);
      tiles.sums[i] = b.scratch.sums;
      tiles.tile_bytes = b.tile.tile_bytes();
      tiles.count = std::min(tiles.count, b.tiles());
    }
    packed(block_of(0), tiles, 0);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Block b = block_of(i);
      packed_tiles(b, tiles.count, 0);
      write_exact(b);
    }
  }

  // Some rows of a matrix with some tokens.
  struct Block {
    const Matrix& matrix;
    const Tile16& tile;
    std::int64_t row, end;  // rows
    std::int64_t m, tokens;
    Scratch scratch;
    [[nodiscard]] std::int64_t tiles() const { return ceil_div(end - row, kTileRows); }
  };

  void block(const Block& b) {
    if (floats_)
      float_block(b);
    else if (has_groups(b.matrix))
      grouped_block(b);
    else
      exact_block(b);
  }

  // Prefetches the lines of y that the block will write.
  void fetch_y(const Block& b) const {
    const auto bytes = (b.end - b.row) * static_cast<std::int64_t>(size_of(b.matrix.spec.y_dtype));
    for (std::int64_t t = 0; t < b.tokens; ++t)
      for (std::int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(y_at(b, t) + at, 1, 2);
  }

  void exact_block(const Block& b) {
    fetch_y(b);
    integer_sums(b, 0);
    write_exact(b);
  }

  void write_exact(const Block& b) {
    if (b.matrix.spec.y_dtype != DType::i32) {
      t_.epilogue[out_of(b)](b.scratch.sums, epilogue_block(b));
      return;
    }
    for (std::int64_t t = 0; t < b.tokens; ++t)
      write_sums(b.scratch.sums + t * ld_, x_sum(b, t, 0), b.end - b.row, y_at(b, t));
  }
  static void write_sums(const std::int32_t* sums, std::int32_t x_sum, std::int64_t n, std::byte* y) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t sum = take_off(sums[i], x_sum);
      std::memcpy(y + i * static_cast<std::int64_t>(sizeof sum), &sum, sizeof sum);
    }
  }
  // Codes are unsigned (weight + code of 0), so every sum is too large by (code of 0) * sum(x), which this returns.
  [[nodiscard]] std::int32_t x_sum(const Block& b, std::int64_t t, std::int64_t g) const {
    return b.tile.segments == 0 ? 0 : memory_.staged.sums[(b.m + t) * b.tile.segments + g];
  }

  void clear_sums(const Block& b) const {
    for (std::int64_t t = 0; t < b.tokens; ++t) std::fill_n(b.scratch.sums + t * ld_, b.tiles() * kTileRows, 0);
  }

  // scratch.sums = sums of code * x over one segment.
  void integer_sums(const Block& b, std::int64_t g) {
    if (p_.m <= kFewTokens || b.tile.segments == 0) clear_sums(b);
    if (b.tile.segments == 0) return;
    if (p_.m <= kFewTokens) {
      packed_tiles(b, 0, g);
      return;
    }
    const std::int64_t lines = b.tile.lines_of(g),
                       most = loops_.codes_bytes / (loops_.max_tiles * decoded_bytes(b.tile));
    const std::int64_t pieces = ceil_div(lines, most),
                       step = ceil_div(ceil_div(lines, pieces), panel_lines(b.tile)) * panel_lines(b.tile);
    for (std::int64_t from = 0; from < lines; from += step)
      each_tile(b, [&](std::int64_t tile, int tiles) {
        loops_.many({.w = codes_at(b, g) + from * kLineBytes + tile * b.tile.tile_bytes(),
                     .tile_bytes = b.tile.tile_bytes(),
                     .tiles = tiles,
                     .lines = std::min(step, lines - from),
                     .x = panels_ ? panels(b, g, from) : staged(memory_.staged.bytes, b, g, from),
                     .tokens = b.tokens,
                     .codes = b.scratch.codes,
                     .sums = b.scratch.sums + tile * kTileRows,
                     .ld = ld_,
                     .fresh = from == 0});
      });
  }

  static std::int64_t decoded_bytes(const Tile16& tile) { return tile.line_columns / kPlaneColumns * kLineBytes; }

  void packed(const Block& b, const PackedTiles& tiles, std::int64_t g) {
    loops_.packed[p_.m](tiles, b.tile.lines_of(g), staged(memory_.staged.bytes, b, g, 0), ld_);
  }
  // Adds a segment's sums for the block's tiles from `first` on.
  void packed_tiles(const Block& b, std::int64_t first, std::int64_t g) {
    const std::int64_t step = b.tile.tile_bytes();
    packed(b,
           {.w = {codes_at(b, g) + first * step},
            .sums = {b.scratch.sums + first * kTileRows},
            .streams = 1,
            .ahead = reading_.ahead_bytes,
            .count = b.tiles() - first,
            .tile_bytes = step},
           g);
  }

  // Calls f(first tile, number of tiles) for up to max_tiles tiles of the block at a time.
  template <class F>
  void each_tile(const Block& b, F f) {
    for (std::int64_t tile = 0; tile < b.tiles(); tile += loops_.max_tiles)
      f(tile, static_cast<int>(std::min<std::int64_t>(loops_.max_tiles, b.tiles() - tile)));
  }
  // The block's tokens, from the columns of `line` in segment g on.
  template <class T>
  Tokens<T> staged(const T* all, const Block& b, std::int64_t g, std::int64_t line) const {
    const std::int64_t stride = token_stride(b.tile);
    return {all + b.m * stride + (g * b.tile.segment_lines + line) * b.tile.line_columns, stride};
  }

  [[nodiscard]] Tokens<std::int8_t> panels(const Block& b, std::int64_t g, std::int64_t line) const {
    const std::int64_t stride = panel_stride(b.tile), tiles = g * segment_tiles(b.tile) + panels_of(b.tile, line);
    return {memory_.staged.bytes + b.m / kPanelTokens * stride + tiles * kPanelBytes, stride};
  }

  static const float* scales_at(const Block& b, std::int64_t g) {
    return b.matrix.weights->scales + PackedScales::scale_at(b.row, g, b.tile.segments);
  }
  static bool has_groups(const Matrix& matrix) { return matrix.spec.granularity.kind == Granularity::Kind::group; }
  [[nodiscard]] bool int8_groups(const Matrix& matrix) const { return !floats_ && has_groups(matrix); }

  // Group scales: each chain of fused multiply-adds covers kChainGroups groups; chains are added up in order.
  void grouped_block(const Block& b) {
    fetch_y(b);
    if (p_.m <= kFewTokens) {
      grouped_tiles(b, 0);
      return write_floats(b, b.scratch.chains);
    }
    const std::int64_t width = b.tiles() * kTileRows;
    const auto each_row = [&](auto f) {
      for (std::int64_t t = 0; t < b.tokens; ++t) f(b.scratch.chains + t * ld_, b.scratch.finished + t * ld_);
    };
    const auto finish_chain = [&](std::int64_t chain) {
      each_row([&](const float* sums, float* all) {
        for (std::int64_t r = 0; r < width; ++r) all[r] = chain == 0 ? sums[r] : all[r] + sums[r];
      });
    };
    const auto begin_chain = [&] { each_row([&](float* sums, float*) { std::fill_n(sums, width, 0.0F); }); };
    begin_chain();
    for (std::int64_t g = 0; g < b.tile.segments; ++g) {
      if (g > 0 && g % kChainGroups == 0) {
        finish_chain(g / kChainGroups - 1);
        begin_chain();
      }
      integer_sums(b, g);
      for (std::int64_t t = 0; t < b.tokens; ++t)
        t_.add_group(b.scratch.sums + t * ld_, x_sum(b, t, g), scales_at(b, g), b.tile.segments * kTileRows, b.tiles(),
                     b.scratch.chains + t * ld_);
    }
    if (b.tile.segments > kChainGroups) finish_chain((b.tile.segments - 1) / kChainGroups);
    write_floats(b, b.tile.segments > kChainGroups ? b.scratch.finished : b.scratch.chains);
  }

  // Few tokens: all groups of a tile are done before the next tile.
  void add_stream(GroupedTiles& tiles, std::size_t i, const Block& b, std::int64_t first) const {
    tiles.w[i] = codes_at(b, 0) + first * b.tile.tile_bytes();
    tiles.scales[i] = scales_at(b, 0) + first * b.tile.segments * kTileRows;
    tiles.totals[i] = b.scratch.chains + first * kTileRows;
  }
  void grouped(const Block& b, GroupedTiles& tiles) const {
    tiles.ahead = reading_.ahead_bytes;
    tiles.tile_bytes = b.tile.tile_bytes();
    tiles.segments = b.tile.segments;
    tiles.segment_lines = b.tile.segment_lines;
    tiles.last_lines = b.tile.last_lines;
    tiles.x_sums = memory_.staged.sums + b.m * b.tile.segments;
    tiles.ld = ld_;
    loops_.grouped[p_.m](tiles, staged(memory_.staged.bytes, b, 0, 0));
  }
  void grouped_tiles(const Block& b, std::int64_t first) const {
    GroupedTiles tiles{.streams = 1, .count = b.tiles() - first};
    add_stream(tiles, 0, b, first);
    grouped(b, tiles);
  }

  // Float activations: pieces are summed in f32, scaled if there are group scales, and added up in f64.
  void float_block(const Block& b) {
    for (std::int64_t t = 0; t < b.tokens; ++t) std::fill_n(b.scratch.totals + t * ld_, b.tiles() * kTileRows, 0.0);
    for (std::int64_t g = 0; g < b.tile.segments; ++g) add_floats(b, g);
    auto* sums = reinterpret_cast<float*>(b.scratch.sums);
    for (std::int64_t t = 0; t < b.tokens; ++t)
      for (std::int64_t r = 0; r < b.end - b.row; ++r)
        sums[t * ld_ + r] = static_cast<float>(b.scratch.totals[t * ld_ + r]);
    write_floats(b, sums);
  }
  void add_floats(const Block& b, std::int64_t g) {
    auto* sums = reinterpret_cast<float*>(b.scratch.sums);
    const bool scaled = has_groups(b.matrix);
    const float* scales = scaled ? scales_at(b, g) : nullptr;
    const std::int64_t lines = b.tile.lines_of(g), most = kFloatColumns / b.tile.line_columns;
    for (std::int64_t from = 0; from < lines; from += most) {
      float_sums(b, g, from, std::min(most, lines - from), sums);
      for (std::int64_t t = 0; t < b.tokens; ++t)
        for (std::int64_t r = 0; r < b.end - b.row; ++r) {
          const float sum = sums[t * ld_ + r];
          b.scratch.totals[t * ld_ + r] +=
              static_cast<double>(scaled ? sum * scales[PackedScales::scale_at(r, 0, b.tile.segments)] : sum);
        }
    }
  }
  void write_floats(const Block& b, const float* sums) {
    EpilogueBlock block = epilogue_block(b);
    if (has_groups(b.matrix)) block.w_scales = nullptr;
    t_.float_epilogue[out_of(b)](sums, block);
  }

  void float_sums(const Block& b, std::int64_t g, std::int64_t from, std::int64_t lines, float* sums) {
    const std::uint8_t* w = codes_at(b, g) + from * kLineBytes;
    const std::int64_t step = b.tile.tile_bytes();
    if (p_.m <= kFewTokens) {
      loops_.float_packed[p_.m](w, step, b.tiles(), lines, staged(memory_.staged.floats, b, g, from), sums, ld_);
      return;
    }
    each_tile(b, [&](std::int64_t tile, int tiles) {
      loops_.float_many({.w = w + tile * step,
                         .tile_bytes = step,
                         .tiles = tiles,
                         .lines = lines,
                         .x = staged(memory_.staged.floats, b, g, from),
                         .tokens = b.tokens,
                         .codes = b.scratch.codes,
                         .sums = sums + tile * kTileRows,
                         .ld = ld_});
    });
  }

  static const std::uint8_t* codes_at(const Block& b, std::int64_t g) {
    return b.matrix.weights->codes + b.row / kTileRows * b.tile.tile_bytes() + g * b.tile.segment_lines * kLineBytes;
  }
  static int out_of(const Block& b) {
    const DType t = b.matrix.spec.y_dtype;
    return t == DType::f16 ? kOutF16 : t == DType::bf16 ? kOutBf16 : kOutF32;
  }
  [[nodiscard]] static std::byte* y_at(const Block& b, std::int64_t t) {
    const auto size = static_cast<std::int64_t>(size_of(b.matrix.spec.y_dtype));
    return b.matrix.y + ((b.m + t) * b.matrix.y_stride + b.row) * size;
  }
  [[nodiscard]] EpilogueBlock epilogue_block(const Block& b) const {
    const Matrix& matrix = b.matrix;
    const bool tensor = matrix.spec.granularity.kind == Granularity::Kind::tensor;
    const auto size = static_cast<std::int64_t>(size_of(matrix.spec.y_dtype));
    return {.n = b.end - b.row,
            .tokens = b.tokens,
            .ld = ld_,
            .x_sums = floats_ || b.tile.segments == 0 ? nullptr : memory_.staged.sums + b.m * b.tile.segments,
            .x_sums_stride = b.tile.segments,
            .s = floats_ ? nullptr : memory_.staged.scales + b.m,
            .w_scales = matrix.weights->scales + (tensor ? 0 : b.row),
            .one_w_scale = tensor,
            .bias = matrix.bias == nullptr ? nullptr : matrix.bias + b.row,
            .squared_relu = matrix.spec.activation == Activation::squared_relu,
            .residual =
                matrix.residual == nullptr ? nullptr : matrix.residual + (b.m * matrix.residual_stride + b.row) * size,
            .y = y_at(b, 0),
            .residual_stride = matrix.residual_stride * size,
            .y_stride = matrix.y_stride * size};
  }

  const SimdTable& t_;
  const TileLoops& loops_;
  const Reading reading_;
  const Params& p_;
  const Exec& exec_;
  const Memory& memory_;
  bool floats_, panels_;
  std::int64_t ld_;  // stride of sums: rows of a block
};

}  // namespace

std::size_t cpu_workspace(const SimdTable& table, const Linear::Problem& p, int threads) {
  WorkspaceLedger ledger(nullptr);
  const Shape shape =
      shape_of(table, p.format, p.m_max, p.k, p.math, p.matrices.size(), [&](std::size_t i) { return p.matrices[i]; });
  const Memory memory(ledger, shape, p.k, p.non_finite == NonFinite::saturate, threads);
  return ledger.bytes();
}

Status cpu_run(const SimdTable& table, const Params& p, const Exec& exec) {
  // The workspace was sized for the plan's m_max; this run's m books no more than that.
  WorkspaceLedger ledger(exec.workspace.data());
  const Shape shape =
      shape_of(table, p.format, p.m, p.k, p.math, p.count, [&](std::size_t i) { return p.matrices[i].spec; });
  const Memory memory(ledger, shape, p.k, p.non_finite == NonFinite::saturate, exec.threads.count());
  return Driver(table, p, exec, shape, memory).run();
}

}  // namespace tern::linear
