// The words of the library as types: element types, schemes, granularities, formats and policies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tern/export.h"
#include "tern/status.h"

namespace tern {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, u8, i32 };

// How floats become codes and scales. docs/numerics.md has every operation.
enum class Scheme : std::uint8_t {
  absmean,  // BitNet's, the default for weights: s = max(mean abs, 1e-5)
  absmax,   // s = max(max abs, 1e-8)
  mse,      // error-minimising, from absmean until the scale stands
  int2,     // q = rne(clamp(x/s, -2, 1)); s given or computed
};

// What the bytes of the codes mean. docs/formats.md has the bit pictures.
enum class Format : std::uint8_t {
  i2,  // trits, four a byte, code = trit + 1
  s2,  // -2..1, four a byte, two's complement
  i8,  // one code a byte
  b3,  // trits, five a byte, a number in base 3
  // Of affine quantization, which also packs to s2:
  s8,  // -128..127, one a byte
  u8,  // 0..255, one a byte
  s4,  // -8..7, two a byte, two's complement
  u4,  // 0..15, two a byte
  u2,  // 0..3, four a byte
};

// What to do with NaN and infinities in the input.
enum class NonFinite : std::uint8_t {
  reject,    // fail the call and name the first one
  saturate,  // NaN becomes +0, an infinity the largest finite value of its sign
};

// Who shares a scale. A property of the data, never of the hardware.
struct Granularity {
  enum class Kind : std::uint8_t { tensor, row, group };
  Kind kind = Kind::tensor;
  std::int64_t group_size = 0;  // elements along the last axis, only for Kind::group

  static constexpr Granularity tensor() { return {Kind::tensor, 0}; }
  static constexpr Granularity row() { return {Kind::row, 0}; }
  static constexpr Granularity group(std::int64_t size = 128) { return {Kind::group, size}; }
  friend bool operator==(const Granularity&, const Granularity&) = default;
};

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct DeviceId {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
};

TERN_API std::string_view name(DType);
TERN_API std::string_view name(Scheme);
TERN_API std::string_view name(Format);
TERN_API std::string_view name(NonFinite);
TERN_API std::string name(const Granularity&);  // "tensor", "row", "group:128"
TERN_API std::string name(DeviceId);            // "cpu", "cuda:0"

// The reverse of name(); an unknown word is an error that lists the known ones.
TERN_API Result<DType> parse_dtype(std::string_view);
TERN_API Result<Scheme> parse_scheme(std::string_view);
TERN_API Result<Format> parse_format(std::string_view);
TERN_API Result<NonFinite> parse_non_finite(std::string_view);
TERN_API Result<Granularity> parse_granularity(std::string_view);
TERN_API Result<DeviceId> parse_device(std::string_view);

TERN_API std::size_t size_of(DType);

// The format a scheme packs to when none is asked for: trits to i2, int2 to s2.
constexpr Format default_format(Scheme scheme) { return scheme == Scheme::int2 ? Format::s2 : Format::i2; }

}  // namespace tern
