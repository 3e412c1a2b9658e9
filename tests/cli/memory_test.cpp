// The memory that tern inspect needs for a header with very many tensors.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "command.h"
#include "io/little_endian.h"

namespace tern::cli_test {
namespace {

constexpr std::size_t kManyTensors = 200'000;

class MemoryTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }

  // The peak memory of a run.
  [[nodiscard]] std::size_t peak_bytes(const Arguments& words) const {
    const pid_t child = launch(command_path(), words, folder());
    EXPECT_GT(child, 0);
    if (child == 0) return 0;
    int status = -1;
    rusage usage{};
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << words[0];
    return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
  }

  void write_safetensors(const std::string& name, std::size_t tensors) const {
    std::string header = "{";
    for (std::size_t i = 0; i < tensors; ++i)
      header += (i == 0 ? "\"" : ",\"") + std::string("model.layers.") + std::to_string(100'000 + i) +
                R"(.part.weight":{"dtype":"U8","shape":[1,1],"data_offsets":[)" + std::to_string(i) + "," +
                std::to_string(i + 1) + "]}";
    header += "}";
    std::string length;
    append_le(length, std::uint64_t{header.size()});
    std::ofstream(path(name), std::ios::binary) << length << header << std::string(tensors, '\0');
  }

  void write_gguf(const std::string& name, std::size_t tensors) const {
    std::string file = "GGUF";
    append_le(file, std::uint32_t{3});
    append_le(file, std::uint64_t{tensors});
    append_le(file, std::uint64_t{0});
    for (std::size_t i = 0; i < tensors; ++i) {
      const std::string tensor = "blk." + std::to_string(100'000 + i) + ".part.weight";
      append_le(file, std::uint64_t{tensor.size()});
      file += tensor;
      append_le(file, std::uint32_t{2});
      append_le(file, std::uint64_t{1});
      append_le(file, std::uint64_t{8});
      append_le(file, std::uint32_t{0});
      append_le(file, std::uint64_t{32 * i});
    }
    file.resize((file.size() + 31) / 32 * 32 + 32 * tensors);
    std::ofstream(path(name), std::ios::binary) << file;
  }
};

// A tensor needs about 650 bytes: a name in two spellings, two shapes and the fields of Checkpoint and Model. A map of
// names, a report or a JSON tree for each tensor would add hundreds or thousands.
TEST_F(MemoryTest, AMillionTensorsTakeHundredsOfMegabytes) {
  write_safetensors("many.safetensors", kManyTensors);
  write_safetensors("one.safetensors", 1);
  write_gguf("many.gguf", kManyTensors);
  write_gguf("one.gguf", 1);
  for (const std::string container : {"safetensors", "gguf"})
    for (const Arguments& options : {Arguments{}, Arguments{"--quick"}, Arguments{"--json"}}) {
      Arguments few = {"inspect", "one." + container}, many = {"inspect", "many." + container};
      few.insert(few.end(), options.begin(), options.end());
      many.insert(many.end(), options.begin(), options.end());
      const std::size_t least = peak_bytes(few), most = peak_bytes(many);
      EXPECT_GT(most, least) << "or it was not measured";
      EXPECT_LT(most, least + kManyTensors * 750) << container << ' ' << (options.empty() ? "" : options[0]);
    }
}

}  // namespace
}  // namespace tern::cli_test
