// Fuzz target: any bytes as a .npy file. What parses must be in bounds, and survive being written and parsed again.
#include <cstdlib>
#include <string>

#include "io/little_endian.h"
#include "io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern;
  const std::span<const std::uint8_t> file(data, size);
  const auto header = npy::parse(file);
  if (!header.ok()) {
    if (header.error().message.empty() || header.error().message.size() > 1000) std::abort();
    return 0;
  }
  if (header->data_offset > size || header->data_bytes != size - header->data_offset) std::abort();
  std::uint64_t sum = 0;
  for (const std::uint8_t byte : file.subspan(header->data_offset)) sum += byte;  // every byte can be read
  if (sum > 255 * size || header->text_bytes) return 0;

  const auto text = npy::make_header(header->dtype, header->shape);
  if (!text.ok()) std::abort();
  std::string again = *text;
  again += text_of(file.subspan(header->data_offset));
  const auto reread = npy::parse(bytes_of(again));
  if (!reread.ok() || reread->dtype != header->dtype || reread->shape != header->shape) std::abort();
  return 0;
}
