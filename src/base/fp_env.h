// Sets the floating-point modes that the numerics contract needs, and restores the caller's modes.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tern {

// While it lives, its thread rounds to nearest even, keeps denormals and does not trap.
class FpEnvGuard {
 public:
  FpEnvGuard() : saved_(read()) {
    if (saved_ != kContract) write(kContract);
  }
  ~FpEnvGuard() {
    if (saved_ != kContract) write(saved_);
  }
  FpEnvGuard(const FpEnvGuard&) = delete;
  FpEnvGuard& operator=(const FpEnvGuard&) = delete;

 private:
#if defined(__x86_64__)
  using Word = unsigned;
  static constexpr Word kContract = 0x1F80;  // all exceptions masked, round to nearest, no FTZ, no DAZ
  static constexpr Word kStickyFlags = 0x3F;
  static Word read() { return _mm_getcsr() & ~kStickyFlags; }
  static void write(Word w) { _mm_setcsr(w); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;
  static constexpr Word kContract = 0;  // FPCR: round to nearest, no flush, no traps
  static Word read() {
    Word w = 0;
    asm volatile("mrs %0, fpcr" : "=r"(w));
    return w;
  }
  static void write(Word w) { asm volatile("msr fpcr, %0" ::"r"(w)); }
#else
#error "say how this processor sets its rounding and flush modes"
#endif
  Word saved_;
};

}  // namespace tern
