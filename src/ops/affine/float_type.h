// The float types that the affine ops' SIMD loops compute in f32, as indices into the loop tables.
#pragma once

namespace tern::affine {

enum FloatType : int { kF32, kF16, kBf16, kFloatTypes };

}  // namespace tern::affine
