// THE FORMATS: the headers of their codes, and a row for each in TERN_FORMAT_ROWS. Sizes, slow loops, words and what an
// op may pack to are made from it.
#pragma once

#include "format/b3.h"
#include "format/bytes.h"
#include "format/i2.h"
#include "format/s2.h"
#include "format/s4.h"
#include "format/u2.h"
#include "format/u4.h"
#include "tern/types.h"

namespace tern {

struct FormatFacts {
  int codes_per_byte = 1;
  DType dtype = DType::u8;  // of tensors of its codes
  bool trits = false;       // whether it holds -1, 0 and 1 as the library stores them
  bool int2 = false;        // and -2 to 1
  bool affine = false;      // whether affine quantization packs to it
  bool is_unsigned = false;
};

}  // namespace tern

// FORMAT(its name, the namespace of its pack() and read(), its facts), in the order of the enum.
#define TERN_FORMAT_ROWS(FORMAT)                                           \
  FORMAT(i2, i2, .codes_per_byte = 4, .trits = true)                       \
  FORMAT(s2, s2, .codes_per_byte = 4, .int2 = true, .affine = true)        \
  FORMAT(i8, signed_byte, .dtype = DType::i8, .trits = true, .int2 = true) \
  FORMAT(b3, b3, .codes_per_byte = 5, .trits = true)                       \
  FORMAT(s8, signed_byte, .dtype = DType::i8, .affine = true)              \
  FORMAT(u8, unsigned_byte, .affine = true, .is_unsigned = true)           \
  FORMAT(s4, s4, .codes_per_byte = 2, .affine = true)                      \
  FORMAT(u4, u4, .codes_per_byte = 2, .affine = true, .is_unsigned = true) \
  FORMAT(u2, u2, .codes_per_byte = 4, .affine = true, .is_unsigned = true)
