// The types of floats that the loops of the affine ops compute in f32, as indices of their tables.
#pragma once

namespace tern::affine {

enum FloatType : int { kF32, kF16, kBf16, kFloatTypes };

}  // namespace tern::affine
