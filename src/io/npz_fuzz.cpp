// Fuzz target: any bytes as an .npz file of a quantized tensor, with its sums verified and with them ignored.
#include <cstdlib>

#include "io/quantized.h"

namespace {

void load(std::span<const std::uint8_t> archive, tern::Sums sums) {
  const auto memory = tern::with_statistics(tern::host_memory());
  {
    const auto tensor = tern::parse_quantized(archive, memory, sums);
    if (!tensor.ok() && (tensor.error().message.empty() || tensor.error().message.size() > 1000)) std::abort();
    // Codes and scales are copies of two members, so together they cannot be larger than the file.
    if (memory->statistics().peak_bytes > archive.size()) std::abort();
  }
  if (memory->statistics().bytes_in_use != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  load({data, size}, tern::Sums::verify);
  load({data, size}, tern::Sums::ignore);
  return 0;
}
