// Converts matrices that are larger than the memory allowed for it: RLIMIT_DATA limits the writable memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "base/half.h"
#include "tern/checkpoint.h"
#include "tern/model.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

constexpr std::int64_t kN = 16384, kK = 4096;                 // 16 MiB of codes
constexpr std::size_t kAllowedBytes = std::size_t{14} << 20;  // less than the codes alone

// Private writable memory of this process.
std::size_t data_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages[6] = {};
  for (std::size_t& p : pages) statm >> p;
  return pages[5] * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t more_bytes) {
    ::getrlimit(RLIMIT_DATA, &before_);
    rlimit limit = before_;
    limit.rlim_cur = data_bytes() + more_bytes;
    set_ = ::setrlimit(RLIMIT_DATA, &limit) == 0;
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_DATA, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  [[nodiscard]] bool set() const { return set_; }

 private:
  rlimit before_{};
  bool set_ = false;
};

Status write_matrix(const std::string& path) {
  auto writer = CheckpointWriter::create(path, Container::safetensors, {},
                                         {{"model.layers.0.mlp.up_proj.weight", StoredType::bf16, {kN, kK}}});
  if (!writer.ok()) return std::move(writer).error();
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(16 * kK) * 2);
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    const std::uint16_t half = half::to_bf16(normal(random));
    std::memcpy(rows.data() + i, &half, 2);
  }
  for (std::int64_t row = 0; row < kN; row += 16)
    if (Status status = writer->write(rows); !status.ok()) return status;
  return writer->finish();
}

TEST(Memory, OfAMatrixIsThatOfAFewPieces) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const TempFolder folder;
  ASSERT_TRUE(write_matrix(folder / "in.safetensors").ok());
  const Context context = *Context::open(DeviceId{}, {.threads = 2});
  const auto convert = [&](const std::string& in, const std::string& out, Layout layout, bool match) {
    const auto model = Model::open(folder / in);
    ASSERT_TRUE(model.ok()) << model.error().str();
    WriteOptions options;
    options.layout = layout;
    options.match_bitnet = match;
    options.architecture = "bitnet-b1.58";
    const auto plan = plan_model(*model, folder / out, options);
    ASSERT_TRUE(plan.ok()) << plan.error().str();
    const MemoryLimit limit(kAllowedBytes);
    if (!limit.set()) GTEST_SKIP() << "the limit cannot be set here";
    const auto report = write_model(context, *model, *plan, folder / out);
    ASSERT_TRUE(report.ok()) << out << ": " << report.error().str();
  };
  {  // starts the threads before the limit is set, because they need stacks
    std::vector<std::uint8_t> x(1 << 20);
    ASSERT_TRUE(quantize(context, {x.data(), DType::bf16, {64, 4096}}).ok());
  }
  convert("in.safetensors", "i2_s.gguf", Layout::i2_s_x86_128, false);
  convert("in.safetensors", "match.gguf", Layout::tq2_0, true);
  convert("in.safetensors", "hf.safetensors", Layout::hf_packed, false);
  convert("hf.safetensors", "back.gguf", Layout::i2_s_x86_128, false);
  const auto a = Model::open(folder / "i2_s.gguf"), b = Model::open(folder / "back.gguf");
  ASSERT_TRUE(a.ok() && b.ok());
  const auto difference = compare_models(context, *a, *b);
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->equal());
}

}  // namespace
}  // namespace tern
