// make_bitnet_checkpoint FOLDER [SCALE_DOWN [LAYERS]]: writes a synthetic BitNet-b1.58-2B as Hugging Face would have
// it, whole (4.8 GB) or with every size divided by SCALE_DOWN.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tests/support/bitnet_checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: make_bitnet_checkpoint FOLDER [SCALE_DOWN [LAYERS]]\n");
    return 2;
  }
  const std::int64_t divisor = argc > 2 ? std::atoll(argv[2]) : 1;
  tern::BitnetSizes sizes = tern::BitnetSizes::b1_58_2b();
  if (divisor > 1) {
    sizes.hidden = sizes.hidden / divisor / 128 * 128;
    sizes.kv = sizes.kv / divisor / 128 * 128;
    sizes.ffn = sizes.ffn / divisor / 128 * 128;
    sizes.vocab /= divisor;
  }
  if (argc > 3) sizes.layers = std::atoll(argv[3]);
  if (sizes.kv == 0) sizes.kv = 128;
  std::filesystem::create_directories(argv[1]);
  const tern::Status written = tern::write_bitnet_folder(argv[1], sizes);
  if (written.ok()) return 0;
  std::fprintf(stderr, "%s\n", written.error().str().c_str());
  return 1;
}
