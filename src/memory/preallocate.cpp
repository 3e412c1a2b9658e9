// Makes a pool reserve memory before the first allocation needs it.
#include "tern/memory.h"

#include "base/errors.h"

namespace tern {

Status preallocate(MemoryResource& memory, std::size_t bytes) {
  if (bytes == 0) return {};
  TERN_ASSIGN(block, memory.allocate({.bytes = bytes, .tag = "preallocation"}));
  return memory.deallocate(block, bytes);
}

}  // namespace tern
