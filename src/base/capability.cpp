// Names of capabilities.
#include "base/words.h"
#include "tern/device.h"

namespace tern {
namespace {

constexpr WordTable<Capability, kCapabilityCount> kNames = {{
    {Capability::x86_sse41, "x86_sse41"},
    {Capability::x86_avx2, "x86_avx2"},
    {Capability::x86_avx_vnni, "x86_avx_vnni"},
    {Capability::x86_avx512, "x86_avx512"},
    {Capability::x86_avx512vnni, "x86_avx512vnni"},
    {Capability::x86_amx_int8, "x86_amx_int8"},
    {Capability::arm_neon, "arm_neon"},
    {Capability::arm_dotprod, "arm_dotprod"},
    {Capability::arm_i8mm, "arm_i8mm"},
    {Capability::sm_75, "sm_75"},
    {Capability::sm_80, "sm_80"},
    {Capability::sm_90, "sm_90"},
    {Capability::sm_90a, "sm_90a"},
    {Capability::sm_100, "sm_100"},
    {Capability::sm_120, "sm_120"},
    {Capability::x86_avx512vbmi, "x86_avx512vbmi"},
}};

}  // namespace

std::string_view name(Capability c) { return word_of(kNames, c); }
Result<Capability> parse_capability(std::string_view text) { return parse_word(kNames, "capability", text); }

}  // namespace tern
