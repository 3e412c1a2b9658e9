// The loops of inner products, written once for any set of vector words. format/tile16.h has the picture of the
// weights. It is long because few tokens, many tokens and floats go through the same tiles with the same words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation_quantize/generic.h"
#include "ops/dot/epilogue.h"
#include "ops/dot/planes.h"

namespace tern::dot {
namespace {

// The loops over tiles. Planes decodes the bytes of a line.
template <class S, class Planes>
struct Tiles {
  using F = typename S::F;
  using I = typename S::I;
  using U = typename S::U;
  using Sums = typename Planes::Sums;
  using A = typename Sums::A;

  static constexpr bool kDecoded = requires { Planes::kDecoded; };  // the bytes of a line are codes already
  static constexpr bool kFloats = requires { typename Planes::Columns; };
  static constexpr std::int64_t kLineColumns = Planes::kPlanes * kPlaneColumns;
  static constexpr std::int64_t kDecodedBytes = Planes::kPlanes * kLineBytes;  // of a line, one byte per code
  static constexpr int kVectors = static_cast<int>(kLineBytes / S::kBytes);    // vectors of a tile
  // Sums of a register tile: 12 with 16 registers, 16 with 32, or as many as the words say.
  static constexpr int tile_sums() {
    if constexpr (requires { S::kTileSums; })
      return S::kTileSums;
    else
      return kVectors == 1 ? 16 : 12;
  }
  static constexpr int kTiles = kVectors == 1 ? 2 : 1;
  static constexpr int kPanel = tile_sums() / kTiles / kVectors;
  // The most streams whose sums fit the registers. cpu_tuning.h chooses among 1, 2 and 4, by the processor.
  static constexpr int kStreams = kVectors == 1 ? 4 : 2;
  static constexpr int kAtOnce = kVectors < 2 ? kVectors : 2;  // vectors of a tile handled together, with few tokens
  static constexpr std::int64_t kCodesBytes = 20480;           // of decoded codes that stay in L1

  // An address to prefetch, which may be beyond the end of what p points into.
  static const void* behind(const void* p, std::int64_t bytes) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes));
  }

  // Few tokens, with scaled codes: sums over `lines` lines of some streams, for kAtOnce vectors of a tile from `first`
  // on.
  template <int kTokens, int kStreams>
  using StreamSums = I[kStreams][kAtOnce][kTokens];
  template <int kTokens, int kStreams>
  static void sum_lines(const std::uint8_t* const (&w)[kStreams], int first, std::int64_t lines, std::int64_t ahead,
                        Tokens<std::int8_t> x, StreamSums<kTokens, kStreams>& sums) {
    constexpr std::int64_t kFlushLines =
        static_cast<std::int64_t>(Sums::kFlushSteps) / Planes::kPlanesOfSum / Planes::kScale;
    static_assert(kFlushLines > 0);
    for (auto& stream : sums)
      for (auto& vector : stream)
        for (I& sum : vector) sum = S::zero_i();
    for (std::int64_t line = 0; line < lines; line += kFlushLines) {
      const std::int64_t end = lines - line < kFlushLines ? lines : line + kFlushLines;
      A part[kStreams][kAtOnce][kTokens][Planes::kSums];
      for (auto& stream : part)
        for (auto& vector : stream)
          for (auto& token : vector)
            for (A& a : token) a = Sums::zero();
      for (std::int64_t i = line; i < end; ++i)
        for (int s = 0; s < kStreams; s += kLinesAtOnce<kStreams>) {
          typename Planes::Line v[kLinesAtOnce<kStreams>][kAtOnce];
          for (int l = 0; l < kLinesAtOnce<kStreams>; ++l) {
            const std::uint8_t* at = w[s + l] + i * kLineBytes;
            S::prefetch_l1(behind(at, ahead));
            for (int p = 0; p < kAtOnce; ++p)
              v[l][p] = Planes::line(S::load_bytes(at + (first + p) * static_cast<int>(S::kBytes)));
          }
          each_plane([&]<int kPlane>() { dot_scaled<kPlane, kLinesAtOnce<kStreams>>(part + s, v, x, i); });
        }
      for (int s = 0; s < kStreams; ++s)
        for (int p = 0; p < kAtOnce; ++p)
          for (int t = 0; t < kTokens; ++t) sums[s][p][t] = S::add(sums[s][p][t], total<0>(part[s][p][t]));
    }
  }
  template <int kSum>
  static I total(const A (&part)[Planes::kSums]) {
    const I sum = Sums::template total<Planes::shift(kSum)>(part[kSum]);
    if constexpr (kSum + 1 < Planes::kSums)
      return S::add(sum, total<kSum + 1>(part));
    else
      return sum;
  }
  template <int kTokens, int kStreams>
  static void tiles_at_once(const std::uint8_t* const (&w)[kStreams], std::int64_t lines, std::int64_t ahead,
                            Tokens<std::int8_t> x, std::int32_t* const (&sums)[kStreams], std::int64_t ld) {
    for (int first = 0; first < kVectors; first += kAtOnce) {
      StreamSums<kTokens, kStreams> now;
      sum_lines<kTokens, kStreams>(w, first, lines, ahead, x, now);
      for (int s = 0; s < kStreams; ++s)
        for (int p = 0; p < kAtOnce; ++p)
          for (int t = 0; t < kTokens; ++t)
            add_to(now[s][p][t], sums[s] + t * ld + (first + p) * static_cast<int>(S::kF));
    }
  }
  static void add_to(I sums, std::int32_t* to) { S::store_i32(to, S::add(S::load_i32(to), sums)); }

  // Lines of this many streams share the activations in registers, if there are 32 registers: a third less time when
  // weights are in a cache.
  template <int kStreams>
  static constexpr int kLinesAtOnce = kVectors == 1 ? kStreams : 1;
  template <int kPlane, int kLines, int kTokens>
  static void dot_scaled(A (*part)[kAtOnce][kTokens][Planes::kSums], const typename Planes::Line (&v)[kLines][kAtOnce],
                         Tokens<std::int8_t> x, std::int64_t line) {
    U code[kLines][kAtOnce];
    for (int l = 0; l < kLines; ++l)
      for (int p = 0; p < kAtOnce; ++p) code[l][p] = Planes::template scaled<kPlane>(v[l][p]);
    for (int t = 0; t < kTokens; ++t) {
      const U with = Sums::template activations<kPlane>(x.x + t * x.stride + line * kLineColumns);
      for (int l = 0; l < kLines; ++l)
        for (int p = 0; p < kAtOnce; ++p) {
          A& sum = part[l][p][t][Planes::sum(kPlane)];
          sum = Sums::template dot<kPlane>(sum, code[l][p], with);
        }
    }
  }
  template <class Body>
  static void each_plane(Body body) {
    with_plane<0>(body);
  }
  template <int kPlane, class Body>
  static void with_plane(Body& body) {
    body.template operator()<kPlane>();
    if constexpr (kPlane + 1 < Planes::kPlanes) with_plane<kPlane + 1>(body);
  }

  // Calls body<streams>(first stream). One token keeps the tiles of all streams in registers; more tokens take one
  // stream at a time.
  template <int kTokens, class Body>
  static void each_stream(int streams, Body body) {
    if constexpr (kTokens == 1) {
      if constexpr (kStreams >= 4)
        if (streams == 4) return body.template operator()<4>(0);
      if constexpr (kStreams >= 2)
        if (streams == 2) return body.template operator()<2>(0);
    }
    for (int s = 0; s < streams; ++s) body.template operator()<1>(s);
  }
  template <int kTokens>
  static void packed(const PackedTiles& tiles, std::int64_t lines, Tokens<std::int8_t> x, std::int64_t ld) {
    for (std::int64_t i = 0; i < tiles.count; ++i)
      each_stream<kTokens>(tiles.streams, [&]<int kNow>(int first) {
        const std::uint8_t* w[kNow];
        std::int32_t* sums[kNow];
        for (int s = 0; s < kNow; ++s) {
          w[s] = tiles.w[first + s] + i * tiles.tile_bytes;
          sums[s] = tiles.sums[first + s] + i * kTileRows;
        }
        tiles_at_once<kTokens, kNow>(w, lines, tiles.ahead, x, sums, ld);
      });
  }

  template <int kTokens>
  static void grouped(const GroupedTiles& tiles, Tokens<std::int8_t> x) {
    for (std::int64_t i = 0; i < tiles.count; ++i)
      each_stream<kTokens>(tiles.streams, [&]<int kNow>(int first) {
        for (int vector = 0; vector < kVectors; vector += kAtOnce)
          grouped_tiles<kTokens, kNow>(tiles, i, first, vector, x);
      });
  }
  // All groups of one tile of each of some streams, in chains of kChainGroups.
  template <int kTokens, int kNow>
  static void grouped_tiles(const GroupedTiles& tiles, std::int64_t tile, int stream, int first,
                            Tokens<std::int8_t> x) {
    const std::int64_t scales_ahead = tiles.segment_lines > 0 ? tiles.ahead / tiles.segment_lines : 0;
    const std::uint8_t* w[kNow];
    const float* scales[kNow];
    for (int s = 0; s < kNow; ++s) {
      w[s] = tiles.w[stream + s] + tile * tiles.tile_bytes;
      scales[s] = tiles.scales[stream + s] + tile * tiles.segments * kTileRows;
    }
    F chain[kNow][kAtOnce][kTokens], total[kNow][kAtOnce][kTokens];
    const auto each = [&](auto f) {
      for (int s = 0; s < kNow; ++s)
        for (int p = 0; p < kAtOnce; ++p)
          for (int t = 0; t < kTokens; ++t) f(s, p, t);
    };
    each([&](int s, int p, int t) { chain[s][p][t] = total[s][p][t] = S::zero_f(); });
    for (std::int64_t g = 0; g < tiles.segments; ++g) {
      if (g > 0 && g % kChainGroups == 0)
        each([&](int s, int p, int t) {
          total[s][p][t] = g == kChainGroups ? chain[s][p][t] : S::add(total[s][p][t], chain[s][p][t]);
          chain[s][p][t] = S::zero_f();
        });
      StreamSums<kTokens, kNow> sums;
      sum_lines<kTokens, kNow>(w, first, g + 1 < tiles.segments ? tiles.segment_lines : tiles.last_lines, tiles.ahead,
                               x, sums);
      for (int s = 0; s < kNow; ++s) {
        S::prefetch_l1(behind(scales[s], scales_ahead));
        for (int t = 0; t < kTokens; ++t) {
          const I less = Epilogue<S>::minus(tiles.x_sums[t * tiles.segments + g]);
          for (int p = 0; p < kAtOnce; ++p)
            chain[s][p][t] = Epilogue<S>::add_group(chain[s][p][t], S::add(sums[s][p][t], less),
                                                    scales[s] + (first + p) * static_cast<int>(S::kF));
        }
        scales[s] += kTileRows;
        w[s] += tiles.segment_lines * kLineBytes;
      }
      x.x += tiles.segment_lines * kLineColumns;
    }
    each([&](int s, int p, int t) {
      const F all = tiles.segments > kChainGroups ? S::add(total[s][p][t], chain[s][p][t]) : chain[s][p][t];
      S::store(tiles.totals[stream + s] + t * tiles.ld + tile * kTileRows + (first + p) * static_cast<int>(S::kF), all);
    });
  }

  // Where a register tile gets its codes: vector() returns vector v of four columns of a line. The first panel decodes
  // the weights (PackedCodes) and stores the codes, which the other panels read (DecodedCodes).
  struct DecodedCodes {
    const std::uint8_t* codes;
    std::int64_t tile_bytes;
    void fetch(std::int64_t) const {}
    template <int kFour>
    [[nodiscard]] U vector(std::int64_t line, int v) const {
      return S::load_bytes(codes + v / kVectors * tile_bytes + line * kDecodedBytes + kFour * kLineBytes +
                           v % kVectors * static_cast<int>(S::kBytes));
    }
  };
  struct PackedCodes {
    const std::uint8_t* w;
    std::int64_t w_tile_bytes;
    std::int64_t next;  // bytes to what comes after these tiles, to prefetch it
    std::uint8_t* codes;
    std::int64_t tile_bytes;
    void fetch(std::int64_t line) const { S::prefetch_l2(behind(w + line * kLineBytes, next)); }
    template <int kFour>
    [[nodiscard]] U vector(std::int64_t line, int v) const {
      const std::int64_t at = v % kVectors * static_cast<int>(S::kBytes);
      const U packed = S::load_bytes(w + v / kVectors * w_tile_bytes + line * kLineBytes + at);
      const U code = Planes::template codes<kFour>(Planes::line(packed));
      if constexpr (!kDecoded)
        S::store_bytes(codes + v / kVectors * tile_bytes + line * kDecodedBytes + kFour * kLineBytes + at, code);
      return code;
    }
  };

  using Many = ManyTokens<std::int8_t, std::int32_t>;
  static void many(const Many& p) {
    if (p.tiles == 1)
      many_tiles<1>(p);
    else
      many_tiles<kTiles>(p);
  }
  template <int kTilesNow>
  static void many_tiles(const Many& p) {
    const std::int64_t tile_bytes = p.lines * kDecodedBytes;
    if (p.fresh)
      for (std::int64_t t = 0; t < p.tokens; ++t)
        for (std::int64_t r = 0; r < kTilesNow * kTileRows; ++r) p.sums[t * p.ld + r] = 0;
    each_panel<kPanel>(p.tokens, [&]<int kTokens>(std::int64_t t) {
      const Tokens<std::int8_t> x{p.x.x + t * p.x.stride, p.x.stride};
      if (t == 0)
        register_tile<kTilesNow * kVectors, kTokens>(
            PackedCodes{p.w, p.tile_bytes, kTilesNow * p.tile_bytes, p.codes, tile_bytes}, p.lines, x, p.sums, p.ld);
      else
        register_tile<kTilesNow * kVectors, kTokens>(
            kDecoded ? DecodedCodes{p.w, p.tile_bytes} : DecodedCodes{p.codes, tile_bytes}, p.lines, x,
            p.sums + t * p.ld, p.ld);
    });
  }

  // Calls body<tokens>(first token) for panels of at most kMost tokens and about equal size.
  template <int kMost, class Body>
  static void each_panel(std::int64_t tokens, Body body) {
    const std::int64_t panels = (tokens + kMost - 1) / kMost;
    const std::int64_t size = tokens / panels, larger = tokens % panels;
    for (std::int64_t i = 0, t = 0; i < panels; ++i) {
      const std::int64_t now = i < larger ? size + 1 : size;
      with_tokens<kMost>(now, [&]<int kTokens>() { body.template operator()<kTokens>(t); });
      t += now;
    }
  }
  template <int kTokens, class Body>
  static void with_tokens(std::int64_t tokens, Body body) {
    if (tokens == kTokens) return body.template operator()<kTokens>();
    if constexpr (kTokens > 1) with_tokens<kTokens - 1>(tokens, body);
  }

  template <int kRows, int kTokens, class Codes>
  static void register_tile(Codes codes, std::int64_t lines, Tokens<std::int8_t> x, std::int32_t* sums,
                            std::int64_t ld) {
    constexpr auto kFlushLines = static_cast<std::int64_t>(Sums::kFlushSteps / Planes::kPlanes / Planes::kCodeScale);
    const std::int8_t* tokens[kTokens];
    for (int t = 0; t < kTokens; ++t) tokens[t] = hidden(x.x + t * x.stride);
    for (std::int64_t line = 0; line < lines; line += kFlushLines) {
      const std::int64_t end = lines - line < kFlushLines ? lines : line + kFlushLines;
      A part[kTokens][kRows];
      for (auto& token : part)
        for (A& a : token) a = Sums::zero();
      for (std::int64_t i = line; i < end; ++i) {
        codes.fetch(i);
        each_plane([&]<int kPlane>() {
          dot_columns<kPlane>(part, codes, i, [&](int t) { return tokens[t] + i * kLineColumns; });
        });
      }
      for (int t = 0; t < kTokens; ++t)
        for (int v = 0; v < kRows; ++v)
          add_to(Sums::template total<0>(part[t][v]), sums + t * ld + v * static_cast<int>(S::kF));
    }
  }
  // x(t) is where a token's columns of the line are.
  template <int kFour, class Codes, int kTokens, int kRows, class X>
  static void dot_columns(A (&part)[kTokens][kRows], const Codes& codes, std::int64_t line, X x) {
    U code[kRows];
    for (int v = 0; v < kRows; ++v) code[v] = codes.template vector<kFour>(line, v);
    for (int t = 0; t < kTokens; ++t) {
      const U with = Sums::template activations<kFour>(x(t));
      for (int v = 0; v < kRows; ++v) part[t][v] = Sums::template dot<kFour>(part[t][v], code[v], with);
    }
  }
  // Hides where a pointer comes from, so that the compiler keeps it in a register and does not compute it from others.
  template <class T>
  static T* hidden(T* p) {
    asm volatile("" : "+r"(p));
    return p;
  }

  static constexpr std::int64_t kFloatAhead = 1024;  // 1 to 4 KiB are alike on a Xeon (model 207)
  // Floats: one chain of additions per row, in the order of the columns, whatever the vector width and the path.
  template <int kTokens>
  static void float_packed(const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t tiles, std::int64_t lines,
                           Tokens<float> x, float* sums, std::int64_t ld) {
    constexpr int kTogether = kTokens == 1 ? 4 : 2;  // enough chains to hide the latency of an addition
    std::int64_t i = 0;
    for (; i + kTogether <= tiles; i += kTogether)
      float_tiles<kTokens, kTogether>(w + i * tile_bytes, tile_bytes, lines, x, sums + i * kTileRows, ld);
    for (; i < tiles; ++i) float_tiles<kTokens, 1>(w + i * tile_bytes, tile_bytes, lines, x, sums + i * kTileRows, ld);
  }
  template <int kTokens, int kTogether>
  static void float_tiles(const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t lines, Tokens<float> x,
                          float* sums, std::int64_t ld) {
    constexpr int kStep = kAtOnce;
    for (int first = 0; first < kVectors; first += kStep) {
      F part[kTogether][kStep][kTokens];
      for (auto& tile : part)
        for (auto& vector : tile)
          for (F& f : vector) f = S::zero_f();
      for (std::int64_t line = 0; line < lines; ++line) {
        typename Planes::Line v[kTogether][kStep];
        for (int i = 0; i < kTogether; ++i) {
          const std::uint8_t* at = w + i * tile_bytes + line * kLineBytes;
          S::prefetch_l1(behind(at, kFloatAhead));
          for (int p = 0; p < kStep; ++p)
            v[i][p] = Planes::line(S::load_bytes(at + (first + p) * static_cast<int>(S::kBytes)));
        }
        each_column([&]<int kColumn>() {
          for (int i = 0; i < kTogether; ++i)
            for (int p = 0; p < kStep; ++p) {
              const F trits = Planes::template trits<kColumn>(v[i][p]);
              for (int t = 0; t < kTokens; ++t)
                part[i][p][t] =
                    S::mul_add(S::set1(x.x[t * x.stride + line * kLineColumns + kColumn]), trits, part[i][p][t]);
            }
        });
      }
      for (int i = 0; i < kTogether; ++i)
        for (int p = 0; p < kStep; ++p)
          for (int t = 0; t < kTokens; ++t)
            S::store(sums + t * ld + i * kTileRows + (first + p) * static_cast<int>(S::kF), part[i][p][t]);
    }
  }
  template <class Body>
  static void each_column(Body body) {
    [&]<int... kColumn>(Sequence<kColumn...>) __attribute__((always_inline)) {
      (body.template operator()<kColumn>(), ...);
    }
    (typename Planes::Columns());
  }

  static void float_decode(const std::uint8_t* w, std::int64_t lines, float* trits) {
    for (std::int64_t line = 0; line < lines; ++line, w += kLineBytes, trits += kLineColumns * kTileRows)
      for (int p = 0; p < kVectors; ++p) {
        const typename Planes::Line v = Planes::line(S::load_bytes(w + p * static_cast<int>(S::kBytes)));
        each_column([&]<int kColumn>() __attribute__((always_inline)) {
          S::store(trits + kColumn * kTileRows + p * static_cast<int>(S::kF), Planes::template trits<kColumn>(v));
        });
      }
  }

  static void float_many(const ManyTokens<float, float>& p) {
    if (p.tiles == 1)
      float_many_tiles<1>(p);
    else
      float_many_tiles<kTiles>(p);
  }
  template <int kTilesNow>
  static void float_many_tiles(const ManyTokens<float, float>& p) {
    auto* trits = reinterpret_cast<float*>(p.codes);
    for (int i = 0; i < kTilesNow; ++i)
      float_decode(p.w + i * p.tile_bytes, p.lines, trits + i * p.lines * kLineColumns * kTileRows);
    each_panel<kPanel>(p.tokens, [&]<int kTokens>(std::int64_t t) {
      float_decoded<kTilesNow, kTokens>(trits, p.lines, {p.x.x + t * p.x.stride, p.x.stride}, p.sums + t * p.ld, p.ld);
    });
  }
  // Not inlined: panels in one function would spill their sums.
  template <int kTilesNow, int kTokens>
  [[gnu::noinline]] static void float_decoded(const float* trits, std::int64_t lines, Tokens<float> x, float* sums,
                                              std::int64_t ld) {
    constexpr int kRows = kTilesNow * kVectors;
    const std::int64_t columns = lines * kLineColumns;
    F part[kTokens][kRows];
    for (auto& token : part)
      for (F& f : token) f = S::zero_f();
    for (std::int64_t k = 0; k < columns; ++k) {
      F w[kRows];
      for (int v = 0; v < kRows; ++v)
        w[v] = S::load(trits + (v / kVectors * columns + k) * kTileRows + v % kVectors * static_cast<int>(S::kF));
      for (int t = 0; t < kTokens; ++t) {
        const F with = S::set1(x.x[t * x.stride + k]);
        for (int v = 0; v < kRows; ++v) part[t][v] = S::mul_add(with, w[v], part[t][v]);
      }
    }
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < kRows; ++v) S::store(sums + t * ld + v * static_cast<int>(S::kF), part[t][v]);
  }

  // Rows of tokens whose activations lie apart. All codes are decoded first, because rows may meet different lines.
  using Rows = ManyRows<std::int8_t, std::int32_t>;
  static void rows(const Rows& p) {
    if (p.tiles == 1)
      tiles_with_rows<1>(p);
    else
      tiles_with_rows<kTiles>(p);
  }
  template <int kTilesNow>
  static void tiles_with_rows(const Rows& p) {
    DecodedCodes codes{p.w, p.tile_bytes};
    if constexpr (!kDecoded) {
      codes = {p.codes, p.lines * kDecodedBytes};
      for (int i = 0; i < kTilesNow; ++i) decode(p.w + i * p.tile_bytes, p.lines, p.codes + i * codes.tile_bytes);
    }
    for (std::int64_t r = 0; r < p.row_count; ++r)
      each_panel<kPanel>(p.rows[r].tokens, [&]<int kTokens>(std::int64_t t) {
        panel_of_row<kTilesNow * kVectors, kTokens>(codes, p, p.rows[r], t);
      });
  }
  static void decode(const std::uint8_t* w, std::int64_t lines, std::uint8_t* codes) {
    for (std::int64_t line = 0; line < lines; ++line, w += kLineBytes, codes += kDecodedBytes)
      for (int p = 0; p < kVectors; ++p) {
        const typename Planes::Line v = Planes::line(S::load_bytes(w + p * static_cast<int>(S::kBytes)));
        each_plane([&]<int kPlane>() {
          S::store_bytes(codes + kPlane * kLineBytes + p * static_cast<int>(S::kBytes),
                         Planes::template codes<kPlane>(v));
        });
      }
  }
  template <int kRows, int kTokens>
  static void panel_of_row(DecodedCodes codes, const Rows& p, const RowOfTokens<std::int8_t, std::int32_t>& row,
                           std::int64_t first) {
    constexpr auto kFlushLines = static_cast<std::int64_t>(Sums::kFlushSteps / Planes::kPlanes / Planes::kCodeScale);
    const std::int8_t* tokens[kTokens];
    for (int t = 0; t < kTokens; ++t) tokens[t] = hidden(row.x.x + (first + t) * row.x.stride);
    bool fresh = p.fresh;
    for (std::int64_t line = row.first; fresh || line < row.last; line += kFlushLines) {
      const std::int64_t end = row.last - line < kFlushLines ? row.last : line + kFlushLines;
      A part[kTokens][kRows];
      for (auto& token : part)
        for (A& a : token) a = Sums::zero();
      for (std::int64_t i = line; i < end; ++i) {
        const std::int64_t at = p.offsets[i];
        each_plane([&]<int kPlane>() { dot_columns<kPlane>(part, codes, i, [&](int t) { return tokens[t] + at; }); });
      }
      for (int t = 0; t < kTokens; ++t)
        for (int v = 0; v < kRows; ++v) {
          std::int32_t* to = row.sums + (first + t) * p.ld + v * static_cast<int>(S::kF);
          const I sum = Sums::template total<0>(part[t][v]);
          S::store_i32(to, fresh ? sum : S::add(S::load_i32(to), sum));
        }
      fresh = false;
    }
  }

  static void float_rows(const ManyRows<float, float>& p) {
    if (p.tiles == 1)
      tiles_with_float_rows<1>(p);
    else
      tiles_with_float_rows<kTiles>(p);
  }
  template <int kTilesNow>
  static void tiles_with_float_rows(const ManyRows<float, float>& p) {
    auto* trits = reinterpret_cast<float*>(p.codes);
    for (int i = 0; i < kTilesNow; ++i)
      float_decode(p.w + i * p.tile_bytes, p.lines, trits + i * p.lines * kLineColumns * kTileRows);
    for (std::int64_t r = 0; r < p.row_count; ++r)
      each_panel<kPanel>(p.rows[r].tokens, [&]<int kTokens>(std::int64_t t) {
        float_panel_of_row<kTilesNow, kTokens>(trits, p, p.rows[r], t);
      });
  }
  template <int kTilesNow, int kTokens>
  [[gnu::noinline]] static void float_panel_of_row(const float* trits, const ManyRows<float, float>& p,
                                                   const RowOfTokens<float, float>& row, std::int64_t first) {
    constexpr int kRows = kTilesNow * kVectors;
    const std::int64_t columns = p.lines * kLineColumns;
    F part[kTokens][kRows];
    for (auto& token : part)
      for (F& f : token) f = S::zero_f();
    for (std::int64_t line = row.first; line < row.last; ++line) {
      const float* x = row.x.x + first * row.x.stride + p.offsets[line];
      for (std::int64_t k = 0; k < kLineColumns; ++k) {
        F w[kRows];
        for (int v = 0; v < kRows; ++v)
          w[v] = S::load(trits + (v / kVectors * columns + line * kLineColumns + k) * kTileRows +
                         v % kVectors * static_cast<int>(S::kF));
        for (int t = 0; t < kTokens; ++t) {
          const F with = S::set1(x[t * row.x.stride + k]);
          for (int v = 0; v < kRows; ++v) part[t][v] = S::mul_add(with, w[v], part[t][v]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < kRows; ++v) S::store(row.sums + (first + t) * p.ld + v * static_cast<int>(S::kF), part[t][v]);
  }

  static constexpr TileLoops loops() {
    static_assert(kTiles <= kMaxTiles && kStreams <= kMaxStreams);
    TileLoops loops{.zero = Planes::kZero,
                    .max_streams = kStreams,
                    .packed = {nullptr, packed<1>, packed<2>, packed<3>},
                    .grouped = {nullptr, grouped<1>, grouped<2>, grouped<3>},
                    .max_tiles = kTiles,
                    .codes_bytes = kCodesBytes,
                    .begin = nullptr,
                    .end = nullptr,
                    .many = many,
                    .float_packed = {},
                    .float_many = nullptr,
                    .rows = rows,
                    .float_rows = nullptr};
    if constexpr (kFloats) {
      loops.float_packed[1] = float_packed<1>;
      loops.float_packed[2] = float_packed<2>;
      loops.float_packed[3] = float_packed<3>;
      loops.float_many = float_many;
      loops.float_rows = float_rows;
    }
    return loops;
  }
};

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;
  using U = typename S::U;
  using A = typename S::A;
  using Quantize = activation_quantize::Loops<S>;

  static std::int32_t copy(const std::int8_t* x, std::int64_t elems, std::int8_t* out) {
    const auto n = static_cast<std::size_t>(elems);
    std::uint8_t ones[S::kBytes];
    for (std::uint8_t& byte : ones) byte = 1;
    const U one = S::load_bytes(ones);
    std::int32_t lanes[S::kF] = {};
    std::size_t at = 0;
    while (at + S::kBytes <= n) {
      A sums = S::zero_a();
      for (std::size_t step = 0; step < S::kFlushSteps && at + S::kBytes <= n; ++step, at += S::kBytes) {
        const U v = S::load_bytes(x + at);
        S::store_bytes(out + at, v);
        sums = S::dot(sums, one, v);
      }
      S::store_i32(lanes, S::add(S::load_i32(lanes), S::template total<0>(sums)));
    }
    std::int32_t sum = S::sum_lanes(S::load_i32(lanes));
    for (; at < n; ++at) {
      out[at] = x[at];
      sum += x[at];
    }
    return sum;
  }

  static void sums(const std::int8_t* x, std::int64_t stride, std::int64_t elems, std::int64_t count,
                   std::int32_t* to) {
    const auto n = static_cast<std::size_t>(elems);
    std::uint8_t ones[S::kBytes];
    for (std::uint8_t& byte : ones) byte = 1;
    const U one = S::load_bytes(ones);
    for (std::int64_t i = 0; i < count; ++i, x += stride) {
      std::int32_t sum = 0;
      std::size_t at = 0;
      while (at + S::kBytes <= n) {
        A part = S::zero_a();
        for (std::size_t step = 0; step < S::kFlushSteps && at + S::kBytes <= n; ++step, at += S::kBytes)
          part = S::dot(part, one, S::load_bytes(x + at));
        sum += S::sum_lanes(S::template total<0>(part));
      }
      for (; at < n; ++at) sum += x[at];
      to[i] = sum;
    }
  }

  template <int kSource>
  static void widen(const void* x, std::int64_t elems, float* out) {
    const auto n = static_cast<std::size_t>(elems);
    std::size_t at = 0;
    for (; at + S::kF <= n; at += S::kF) S::store(out + at, Quantize::template load<kSource>(x, at));
    for (; at < n; ++at) out[at] = Quantize::template load1<kSource>(x, at);
  }

  static constexpr SimdTable table() {
    static_assert(static_cast<int>(kOutF16) == activation_quantize::kF16 &&
                  kOutBf16 == static_cast<Out>(activation_quantize::kBf16));
    SimdTable table{.tokens = Quantize::table(),
                    .copy = copy,
                    .widen = {widen<0>, widen<1>, widen<2>},
                    .sums = sums,
                    .i2 = Tiles<S, I2Planes<S>>::loops(),
                    .b3 = {},
                    .s8 = Tiles<S, S8Planes<S>>::loops(),
                    .s4 = Tiles<S, S4Planes<S>>::loops(),
                    .add_group = Epilogue<S>::add_group_to_tiles,
                    .epilogue = {Epilogue<S>::template run<0, std::int32_t>, Epilogue<S>::template run<1, std::int32_t>,
                                 Epilogue<S>::template run<2, std::int32_t>},
                    .float_epilogue = {Epilogue<S>::template run<0, float>, Epilogue<S>::template run<1, float>,
                                       Epilogue<S>::template run<2, float>}};
    if constexpr (requires(U u) { S::template lookup64<0>(kB3.first, u); }) table.b3 = Tiles<S, B3Planes<S>>::loops();
    return table;
  }
};

}  // namespace
}  // namespace tern::dot
