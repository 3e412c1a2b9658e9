// The loops of linear, once, over any set of vector words. format/tile4.h has the picture of the weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/activation_quantize/generic.h"
#include "ops/linear/simd_table.h"
#include "simd/half.h"

namespace tern::linear {
namespace {

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;
  using U = typename S::U;
  using A = typename S::A;
  using Tokens = activation_quantize::Loops<S>;

  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::size_t kSteps = kLineBytes / S::kBytes;  // vectors of bytes a line holds
  static constexpr std::size_t kFloatSteps = kLineBytes / 4 / S::kF;
  // Bytes of a stream fetched ahead. A prototype with two streams had 1 to 4 KiB within its noise (Xeon, model 207).
  static constexpr std::int64_t kAhead = 4096;

  // An address to fetch from, which may lie behind the end of what p points into.
  static const void* behind(const void* p, std::int64_t bytes) {
    return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes));
  }

  static std::int32_t copy(const std::int8_t* x, std::int64_t elems, std::int8_t* out, std::int64_t line_step) {
    const auto n = static_cast<std::size_t>(elems);
    std::uint8_t ones[S::kBytes];
    for (std::uint8_t& byte : ones) byte = 1;
    const U one = S::load_bytes(ones);
    I total = S::zero_i();
    std::size_t at = 0;
    while (at + S::kBytes <= n) {
      A sums = S::zero_a();
      for (std::size_t step = 0; step < S::kFlushSteps && at + S::kBytes <= n; ++step, at += S::kBytes) {
        const U v = S::load_bytes(x + at);
        S::store_bytes(out + static_cast<std::int64_t>(at / kLineBytes) * line_step + at % kLineBytes, v);
        sums = S::dot(sums, one, v);
      }
      total = S::template flush<0>(total, sums);
    }
    std::int32_t sum = S::sum_lanes(total);
    std::int8_t* line = out + static_cast<std::int64_t>(at / kLineBytes) * line_step;
    for (; at < n; ++at) {
      line[at % kLineBytes] = x[at];
      sum += x[at];
    }
    return sum;
  }

  template <int kSource>
  static void widen(const void* x, std::int64_t elems, float* out, std::int64_t line_step) {
    const auto n = static_cast<std::size_t>(elems);
    std::size_t at = 0;
    const auto place = [&](std::size_t i) {
      return out + static_cast<std::int64_t>(i / kFloats) * line_step + i % kFloats;
    };
    for (; at + S::kF <= n; at += S::kF) S::store(place(at), Tokens::template load<kSource>(x, at));
    for (; at < n; ++at) *place(at) = Tokens::template load1<kSource>(x, at);
  }

  // Codes of rows 1 and 3 stay where they are, four times too large: that saves two shifts of five, and their sums are
  // divided when they are flushed, four times as often.
  template <int kTokens, int kStreams>
  static void tiles_at_once(const std::uint8_t* const (&w)[kStreams], std::int64_t lines, const std::int8_t* x,
                            std::int32_t* const (&sums)[kStreams], std::int64_t ld) {
    constexpr std::int64_t kFlushLines = S::kFlushSteps / 4 / kSteps;
    I total[kStreams][kTokens][4];
    for (auto& stream : total)
      for (auto& token : stream)
        for (I& t : token) t = S::zero_i();
    std::int64_t at = 0;  // in bytes of a stream
    for (std::int64_t line = 0; line < lines; line += kFlushLines) {
      const std::int64_t count = lines - line < kFlushLines ? lines - line : kFlushLines;
      A part[kStreams][kTokens][4];
      for (auto& stream : part)
        for (auto& token : stream)
          for (A& a : token) a = S::zero_a();
      for (std::int64_t i = 0; i < count; ++i, at += kLineBytes, x += kTokens * kLineBytes) {
        for (int stream = 0; stream < kStreams; ++stream) S::prefetch_l1(behind(w[stream] + at, kAhead));
        for (std::size_t step = 0; step < kSteps; ++step)
          for (int stream = 0; stream < kStreams; ++stream) {
            const U v = S::load_bytes(w[stream] + at + step * S::kBytes);
            const U code[4] = {S::template codes<0>(v, 0x03), S::template codes<0>(v, 0x0C),
                               S::template codes<4>(v, 0x03), S::template codes<4>(v, 0x0C)};
            for (int t = 0; t < kTokens; ++t) {
              const U xt = S::load_bytes(x + static_cast<std::size_t>(t) * kLineBytes + step * S::kBytes);
              for (int r = 0; r < 4; ++r) part[stream][t][r] = S::dot(part[stream][t][r], code[r], xt);
            }
          }
      }
      for (int stream = 0; stream < kStreams; ++stream)
        for (int t = 0; t < kTokens; ++t) {
          I(&to)[4] = total[stream][t];
          const A(&from)[4] = part[stream][t];
          to[0] = S::template flush<0>(to[0], from[0]);
          to[1] = S::template flush<2>(to[1], from[1]);
          to[2] = S::template flush<0>(to[2], from[2]);
          to[3] = S::template flush<2>(to[3], from[3]);
        }
    }
    for (int stream = 0; stream < kStreams; ++stream)
      for (int t = 0; t < kTokens; ++t) S::add_lanes(total[stream][t], sums[stream] + t * ld);
  }

  // One token keeps two tiles in its registers; more of them take the streams in turn.
  template <int kTokens>
  static void packed(const PackedTiles& tiles, std::int64_t lines, const std::int8_t* x, std::int64_t ld) {
    for (std::int64_t i = 0; tiles.w[1] == nullptr && i < tiles.count; ++i)
      tiles_at_once<kTokens, 1>({tiles.w[0] + i * tiles.tile_bytes}, lines, x, {tiles.sums[0] + 4 * i}, ld);
    for (std::int64_t i = 0; tiles.w[1] != nullptr && i < tiles.count; ++i) {
      const std::uint8_t* const w[2] = {tiles.w[0] + i * tiles.tile_bytes, tiles.w[1] + i * tiles.tile_bytes};
      std::int32_t* const sums[2] = {tiles.sums[0] + 4 * i, tiles.sums[1] + 4 * i};
      if constexpr (kTokens == 1) {
        tiles_at_once<1, 2>(w, lines, x, sums, ld);
      } else {
        tiles_at_once<kTokens, 1>({w[0]}, lines, x, {sums[0]}, ld);
        tiles_at_once<kTokens, 1>({w[1]}, lines, x, {sums[1]}, ld);
      }
    }
  }

  // Codes that an earlier panel left, a line of each row in turn; they and two tokens fit the registers.
  struct DecodedCodes {
    static constexpr std::size_t kTokensKept = 2;
    const std::uint8_t* codes;
    template <int kRow>
    [[nodiscard]] U row(std::int64_t column, std::size_t at) const {
      return S::load_bytes(codes + 4 * column + kRow * kLineBytes + at);
    }
    void fetch(std::int64_t) const {}
  };
  // Codes decoded here, and left for the panels that follow.
  struct PackedCodes {
    static constexpr std::size_t kTokensKept = 0;
    const std::uint8_t* w;
    std::uint8_t* codes;
    std::int64_t next;
    template <int kRow>
    [[nodiscard]] U row(std::int64_t column, std::size_t at) const {
      const U code = S::template codes<2 * kRow>(S::load_bytes(w + column + at), 3);
      S::store_bytes(codes + 4 * column + kRow * kLineBytes + at, code);
      return code;
    }
    void fetch(std::int64_t column) const { S::prefetch_l2(behind(w + column, next)); }
  };

  template <int kTokens>
  static void decode(const std::uint8_t* w, std::int64_t next_w, std::uint8_t* codes, std::int64_t lines,
                     const std::int8_t* x, std::int64_t next, std::int32_t* sums, std::int64_t ld) {
    tile<kTokens>(PackedCodes{w, codes, next_w}, lines, x, next, sums, ld);
  }
  template <int kTokens>
  static void decoded(const std::uint8_t* codes, std::int64_t lines, const std::int8_t* x, std::int64_t next,
                      std::int32_t* sums, std::int64_t ld) {
    tile<kTokens>(DecodedCodes{codes}, lines, x, next, sums, ld);
  }

  // Four rows with the tokens of a panel.
  template <int kTokens, class Codes>
  static void tile(Codes codes, std::int64_t lines, const std::int8_t* x, std::int64_t next, std::int32_t* sums,
                   std::int64_t ld) {
    constexpr std::int64_t kFlushLines = S::kFlushSteps / kSteps;
    I total[kTokens][4];
    for (auto& token : total)
      for (I& t : token) t = S::zero_i();
    for (std::int64_t line = 0; line < lines; line += kFlushLines) {
      const std::int64_t end = lines - line < kFlushLines ? lines : line + kFlushLines;
      asm volatile("" : : "r"(&total) : "memory");  // in memory: the sums below take all registers
      A part[4][kTokens];
      for (auto& row : part)
        for (A& a : row) a = S::zero_a();
      for (std::int64_t i = line; i < end; ++i, x += kTokens * kLineBytes) {
        const std::int64_t column = i * static_cast<std::int64_t>(kLineBytes);
        codes.fetch(column);
        for (std::size_t t = 0; t < kTokens; ++t) S::prefetch_l1(behind(x + t * kLineBytes, next));
        for (std::size_t at = 0; at < kLineBytes; at += S::kBytes) {
          dot_row<Codes, 0>(part[0], codes, column, at, x);
          dot_row<Codes, 1>(part[1], codes, column, at, x);
          dot_row<Codes, 2>(part[2], codes, column, at, x);
          dot_row<Codes, 3>(part[3], codes, column, at, x);
        }
      }
      for (int t = 0; t < kTokens; ++t)
        for (int r = 0; r < 4; ++r) total[t][r] = S::template flush<0>(total[t][r], part[r][t]);
    }
    for (int t = 0; t < kTokens; ++t) S::add_lanes(total[t], sums + t * ld);
  }
  template <class Codes, int kRow, int kTokens>
  static void dot_row(A (&part)[kTokens], const Codes& codes, std::int64_t column, std::size_t at,
                      const std::int8_t* x) {
    const U code = codes.template row<kRow>(column, at);
    const std::int8_t* fresh = hidden(x);
    for (std::size_t t = 0; t < kTokens; ++t)
      part[t] = S::dot(part[t], code, S::load_bytes((t < Codes::kTokensKept ? x : fresh) + t * kLineBytes + at));
  }

  // The same pointer, of which the compiler knows nothing: what is loaded through it is an operand from memory in each
  // row. Twelve sums, two tokens, a code and a product fill sixteen registers.
  template <class T>
  static T* hidden(T* p) {
    asm volatile("" : "+r"(p));
    return p;
  }

  template <int kTokens>
  static void float_packed(const std::uint8_t* w, std::int64_t tile_bytes, std::int64_t tiles, std::int64_t lines,
                           const float* x, float* sums, std::int64_t ld) {
    for (std::int64_t tile = 0; tile < tiles; ++tile, w += tile_bytes, sums += 4) {
      F part[kTokens][4];
      for (auto& token : part)
        for (F& f : token) f = S::zero_f();
      const std::uint8_t* from = w;
      const float* with = x;
      for (std::int64_t line = 0; line < lines * 4; ++line, from += kFloats, with += kTokens * kFloats) {
        if (line % 4 == 0) S::prefetch_l1(behind(from, kAhead));
        for (std::size_t step = 0; step < kFloatSteps; ++step) {
          const std::uint8_t* at = from + step * S::kF;
          const F trits[4] = {S::template trit_floats<0>(at), S::template trit_floats<1>(at),
                              S::template trit_floats<2>(at), S::template trit_floats<3>(at)};
          for (int t = 0; t < kTokens; ++t) {
            const F xt = S::load(with + static_cast<std::size_t>(t) * kFloats + step * S::kF);
            for (int r = 0; r < 4; ++r) part[t][r] = S::mul_add(xt, trits[r], part[t][r]);
          }
        }
      }
      for (int t = 0; t < kTokens; ++t)
        for (int r = 0; r < 4; ++r) sums[t * ld + r] += S::sum_lanes(part[t][r]);
    }
  }

  static void float_decode(const std::uint8_t* w, std::int64_t lines, float* trits) {
    for (std::int64_t line = 0; line < lines * 4; ++line, w += kFloats, trits += 4 * kFloats)
      for (std::size_t at = 0; at < kFloats; at += S::kF) {
        S::store(trits + at, S::template trit_floats<0>(w + at));
        S::store(trits + kFloats + at, S::template trit_floats<1>(w + at));
        S::store(trits + 2 * kFloats + at, S::template trit_floats<2>(w + at));
        S::store(trits + 3 * kFloats + at, S::template trit_floats<3>(w + at));
      }
  }

  template <int kTokens>
  static void float_decoded(const float* trits, std::int64_t lines, const float* x, float* sums, std::int64_t ld) {
    F part[4][kTokens];
    for (auto& row : part)
      for (F& f : row) f = S::zero_f();
    for (std::int64_t line = 0; line < lines * 4; ++line, trits += 4 * kFloats, x += kTokens * kFloats)
      for (std::size_t at = 0; at < kFloats; at += S::kF)
        for (std::size_t r = 0; r < 4; ++r) {
          const F w = S::load(trits + r * kFloats + at);
          for (std::size_t t = 0; t < kTokens; ++t)
            part[r][t] = S::mul_add(S::load(x + t * kFloats + at), w, part[r][t]);
        }
    for (int t = 0; t < kTokens; ++t)
      for (int r = 0; r < 4; ++r) sums[t * ld + r] += S::sum_lanes(part[r][t]);
  }

  template <int kOut>
  static F load_out(const void* p, std::size_t at) {
    if constexpr (kOut == kOutF16)
      return S::load_f16(static_cast<const std::uint16_t*>(p) + at);
    else if constexpr (kOut == kOutBf16)
      return S::load_bf16(static_cast<const std::uint16_t*>(p) + at);
    else
      return S::load(static_cast<const float*>(p) + at);
  }
  template <int kOut>
  static void store_out(void* p, std::size_t at, F v) {
    if constexpr (kOut == kOutF16)
      S::store_f16(static_cast<std::uint16_t*>(p) + at, v);
    else if constexpr (kOut == kOutBf16)
      S::store_bf16(static_cast<std::uint16_t*>(p) + at, v);
    else
      S::store(static_cast<float*>(p) + at, v);
  }
  template <int kOut>
  static void store_out1(void* p, std::size_t at, float v) {
    if constexpr (kOut == kOutF32) {
      __builtin_memcpy(static_cast<float*>(p) + at, &v, sizeof v);
    } else {
      const std::uint16_t half = kOut == kOutF16 ? simd::to_f16(v) : simd::to_bf16(v);
      __builtin_memcpy(static_cast<std::uint16_t*>(p) + at, &half, sizeof half);
    }
  }
  static F sum_floats(const std::int32_t* sums) { return S::to_float(S::load_i32(sums)); }
  static F sum_floats(const float* sums) { return S::load(sums); }

  template <int kOut, class Sum>
  static void epilogue(const Sum* sums, const EpilogueRow& row) {
    const auto n = static_cast<std::size_t>(row.n);
    const F s = S::set1(row.s), one_scale = S::set1(row.one_w_scale ? *row.w_scales : 1.0F);
    std::size_t at = 0;
    for (; at + S::kF <= n; at += S::kF) {
      F t = sum_floats(sums + at);
      if (row.s != 0) t = S::div(t, s);
      if (row.w_scales != nullptr) t = S::mul(t, row.one_w_scale ? one_scale : S::load(row.w_scales + at));
      if (row.bias != nullptr) t = S::add(t, S::load(row.bias + at));
      if (row.squared_relu) {
        const F positive = S::relu(t);
        t = S::mul(positive, positive);
      }
      if (row.residual != nullptr) t = S::add(t, load_out<kOut>(row.residual, at));
      store_out<kOut>(row.y, at, t);
    }
    for (; at < n; ++at) {
      float t = static_cast<float>(sums[at]);
      if (row.s != 0) t = t / row.s;
      if (row.w_scales != nullptr) t = t * row.w_scales[row.one_w_scale ? 0 : at];
      if (row.bias != nullptr) t = t + Tokens::template load1<0>(row.bias, at);
      if (row.squared_relu) {
        t = t < 0 ? 0.0F : t;
        t = t * t;
      }
      if (row.residual != nullptr) t = t + Tokens::template load1<kOut>(row.residual, at);
      store_out1<kOut>(row.y, at, t);
    }
  }

  static constexpr SimdTable table() {
    static_assert(static_cast<int>(kOutF16) == activation_quantize::kF16 &&
                  kOutBf16 == static_cast<Out>(activation_quantize::kBf16));
    return {.tokens = Tokens::table(),
            .copy = copy,
            .widen = {widen<0>, widen<1>, widen<2>},
            .packed = {nullptr, packed<1>, packed<2>, packed<3>},
            .decode = {nullptr, decode<1>, decode<2>, decode<3>},
            .decoded = {nullptr, decoded<1>, decoded<2>, decoded<3>},
            .float_lines = 128 * S::kF / kLineBytes < kMaxFloatLines ? 128 * S::kF / kLineBytes : kMaxFloatLines,
            .float_packed = {nullptr, float_packed<1>, float_packed<2>, float_packed<3>},
            .float_decode = float_decode,
            .float_decoded = {nullptr, float_decoded<1>, float_decoded<2>, float_decoded<3>},
            .epilogue = {epilogue<0, std::int32_t>, epilogue<1, std::int32_t>, epilogue<2, std::int32_t>},
            .float_epilogue = {epilogue<0, float>, epilogue<1, float>, epilogue<2, float>}};
  }
};

}  // namespace
}  // namespace tern::linear
