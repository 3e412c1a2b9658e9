// Fuzz target: any bytes as a safetensors file and as an index of shards. What parses must survive being written again.
#include "io/safetensors.h"

#include <cstdlib>

#include "io/allocation_peak.h"
#include "io/little_endian.h"

namespace {

using namespace tern;

void check(bool holds) {
  if (!holds) std::abort();
}

void check_message(const Error& error) {
  check(!error.message.empty() && error.message.size() < 1000);
  for (const char c : error.message) check(c >= ' ' && c <= '~');
}

void check_again(const ParsedContainer& parsed, std::size_t size) {
  std::vector<StoredTensor> tensors = parsed.tensors;
  const auto planned = safetensors::plan(parsed.metadata, tensors);
  check(planned.ok() && planned->file_bytes - planned->header.size() <= size);
  std::string file = planned->header;
  file.resize(planned->file_bytes);
  const auto again = safetensors::parse(bytes_of(file));
  check(again.ok() && again->metadata == parsed.metadata && again->tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(again->tensors[i] == tensors[i]);
    check(again->offsets[i] == planned->offsets[i]);
  }
}

void check_index(std::string_view text) {
  const auto index = safetensors::parse_index(text);
  if (!index.ok()) return check_message(index.error());
  for (const auto& entry : index->weight_map) {
    check(!entry.file.empty() && entry.file[0] != '/');
    check(("/" + entry.file + "/").find("/../") == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> file(data, size);
  std::optional<Result<ParsedContainer>> parsed;
  // Seven bytes of JSON make an entry of 96 bytes in a list that grows by doubling; kMaxKeys limits its length.
  const std::size_t peak = AllocationPeak::of([&] { parsed.emplace(safetensors::parse(file)); });
  check(peak <= 64 * size + 65536);
  check_index(text_of(file));
  if (!parsed->ok()) {
    check_message(parsed->error());
    return 0;
  }
  const ParsedContainer& container = **parsed;
  std::size_t expected = size;
  for (std::size_t i = container.tensors.size(); i-- > 0;) {  // they cover the file without gaps, seen from its end
    check(container.offsets[i] + container.tensors[i].bytes == expected);
    expected = container.offsets[i];
  }
  check_again(container, size);
  return 0;
}
