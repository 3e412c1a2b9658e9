// Fuzz target: any bytes as a GGUF file. What parses must be in bounds, and survive being written and parsed again.
#include "io/gguf.h"

#include <cstdlib>

#include "io/allocation_peak.h"
#include "io/little_endian.h"

namespace {

using namespace tern;

void check(bool holds) {
  if (!holds) std::abort();
}

// Whether an id stays ambiguous even if gguf_types names all types of the file: one of its meanings is the type of a
// tensor with another type.
bool ambiguous(const std::vector<StoredTensor>& tensors) {
  for (const StoredTensor& tensor : tensors)
    for (const StoredTensor& other : tensors)
      if (other.type != tensor.type)
        for (const StoredType type : gguf_readings(static_cast<std::uint32_t>(tensor.gguf_id)))
          if (type == other.type) return true;
  return false;
}

// Writes the directory again, with zeros for tensors, and parses it. The types are given, because padding can make the
// room of the last tensor ambiguous.
void check_again(const ParsedContainer& parsed) {
  std::vector<StoredTensor> tensors = parsed.tensors;
  OpenOptions options;
  for (const StoredTensor& tensor : tensors) options.gguf_types.push_back(tensor.type);
  if (tensors.size() > 1000 || ambiguous(tensors)) return;
  const auto planned = gguf::plan(parsed.metadata, tensors);
  if (!planned.ok()) {
    for (const StoredTensor& tensor : tensors)
      if (tensor.name.size() > 63) return;  // we write only what llama.cpp reads
    std::abort();
  }
  if (planned->file_bytes > (1U << 20)) return;
  std::string file = planned->header;
  file.resize(planned->file_bytes);
  const auto again = gguf::parse(bytes_of(file), options);
  check(again.ok() && again->metadata == parsed.metadata && again->tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& a = again->tensors[i];
    const StoredTensor& b = tensors[i];
    if (trailer_bytes(b.type) == 0)
      check(a == b);
    else  // padding may look like the trailer that a tensor lacks
      check(a.name == b.name && a.type == b.type && a.shape == b.shape && a.gguf_id == b.gguf_id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> file(data, size);
  std::optional<Result<ParsedContainer>> parsed;
  const std::size_t peak = AllocationPeak::of([&] { parsed.emplace(gguf::parse(file)); });
  check(peak <= 32 * size + 65536);
  if (!parsed->ok()) {
    check(!parsed->error().message.empty() && parsed->error().message.size() < 1000);
    for (const char c : parsed->error().message) check(c >= ' ' && c <= '~');
    return 0;
  }
  const ParsedContainer& container = **parsed;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < container.tensors.size(); ++i)
    for (const std::uint8_t byte : file.subspan(container.offsets[i], container.tensors[i].bytes)) sum += byte;
  check(sum <= 255 * size);  // also a coarse check that tensors do not overlap
  for (const MetaEntry& entry : container.metadata) check(!entry.value.to_json(8).empty());
  check_again(container);
  return 0;
}
