// The .npy format: its header, read strictly from untrusted bytes and written as numpy writes it.
//
//   byte 0       6  7  8       10                                                         a multiple of 64
//   [\x93 NUMPY][1][0][n: u16][{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n][elements ...]
//
// n counts the bytes between itself and the elements. Versions 2.0 and 3.0 have a u32 there. Old and foreign writers
// do not pad, so elements may begin anywhere; every kernel takes unaligned pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tern/status.h"
#include "tern/tensor.h"

namespace tern::npy {

inline constexpr std::size_t kMaxHeaderBytes = 64 * 1024;  // eight axes need 300; numpy distrusts more than 10,000

struct Header {
  DType dtype = DType::f32;
  std::optional<std::size_t> text_bytes;  // descr is '|S<N>': elements are texts of N bytes and dtype is u8
  Shape shape;                            // () is a scalar: rank 0, one element
  std::size_t data_offset = 0;
  std::size_t data_bytes = 0;
};

// Whether a file begins with the magic of .npy.
bool has_magic(std::span<const std::uint8_t> file);

// Parses the header of a whole file, and checks that exactly its elements follow.
Result<Header> parse(std::span<const std::uint8_t> file);

// The bytes before the elements. bf16 has no name in .npy and is refused; save it raw.
Result<std::string> make_header(DType dtype, const Shape& shape);
std::string make_text_header(std::size_t text_bytes);  // of one '|S<N>' scalar

}  // namespace tern::npy
