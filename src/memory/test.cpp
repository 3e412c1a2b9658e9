// One contract for every memory resource, then what each adaptor adds, tensors, and the workspace ledger.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

#include "memory/workspace.h"
#include "tern/memory.h"
#include "tern/tensor.h"

namespace tern {
namespace {

struct NamedResource {
  const char* name;
  std::function<std::shared_ptr<MemoryResource>()> make;
};

// preallocate() takes the memory and gives it back at once. If there is no room, it fails and leaves nothing in use.
TEST(Preallocation, TakesAndGivesBack) {
  const auto counted = with_statistics(host_memory());
  ASSERT_TRUE(preallocate(*counted, 5000).ok());
  EXPECT_EQ(counted->statistics().peak_bytes, 5000U);
  EXPECT_EQ(counted->statistics().bytes_in_use, 0U);
  EXPECT_EQ(counted->statistics().allocations, 1U);
  ASSERT_TRUE(preallocate(*counted, 0).ok());
  EXPECT_EQ(counted->statistics().allocations, 1U);
  const auto small = with_limit(host_memory(), 100);
  EXPECT_EQ(preallocate(*small, 101).code(), Code::insufficient_memory);
  EXPECT_TRUE(preallocate(*small, 100).ok());
}

class ResourceContract : public ::testing::TestWithParam<NamedResource> {};

TEST_P(ResourceContract, BlocksAreAlignedDistinctAndWritable) {
  const auto memory = GetParam().make();
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (const std::size_t bytes : {1, 63, 64, 65, 4096, 1'000'003})
    for (const std::size_t alignment : {1, 8, 64, 256, 4096}) {
      auto block = memory->allocate({.bytes = bytes, .alignment = alignment, .tag = "test"});
      ASSERT_TRUE(block.ok()) << block.error().str();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % std::max<std::size_t>(alignment, 64), 0U);
      std::memset(*block, 0xAB, bytes);
      blocks.emplace_back(*block, bytes);
    }
  for (const auto& [data, bytes] : blocks) EXPECT_TRUE(memory->deallocate(data, bytes).ok());
}

TEST_P(ResourceContract, NothingIsNull) {
  const auto memory = GetParam().make();
  auto none = memory->allocate({.bytes = 0});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_TRUE(memory->deallocate(nullptr, 0).ok());
}

TEST_P(ResourceContract, RefusalsAreErrors) {
  const auto memory = GetParam().make();
  EXPECT_EQ(memory->allocate({.bytes = 8, .alignment = 48}).code(), Code::invalid_argument);
  auto huge = memory->allocate({.bytes = std::numeric_limits<std::size_t>::max() / 2, .tag = "huge"});
  ASSERT_EQ(huge.code(), Code::memory_allocation);
  EXPECT_NE(huge.error().message.find("'huge'"), std::string::npos);
}

TEST_P(ResourceContract, SaysItsDevice) { EXPECT_EQ(GetParam().make()->device(), (DeviceId{DeviceKind::cpu, 0})); }

INSTANTIATE_TEST_SUITE_P(All, ResourceContract,
                         ::testing::Values(NamedResource{"host", host_memory},
                                           NamedResource{"statistics", [] { return with_statistics(host_memory()); }},
                                           NamedResource{"retry", [] { return with_retry(host_memory()); }}),
                         [](const auto& resource) { return std::string(resource.param.name); });

TEST(Statistics, CountsAndReportsWhatIsLive) {
  const auto memory = with_statistics(host_memory());
  auto a = memory->allocate({.bytes = 100, .tag = "a"});
  auto b = memory->allocate({.bytes = 50, .tag = "b"});
  EXPECT_TRUE(memory->deallocate(*a, 100).ok());
  auto c = memory->allocate({.bytes = 10, .tag = "c"});
  EXPECT_FALSE(memory->allocate({.bytes = std::numeric_limits<std::size_t>::max() / 2}).ok());
  const auto s = memory->statistics();
  EXPECT_EQ(s.bytes_in_use, 60U);
  EXPECT_EQ(s.peak_bytes, 150U);
  EXPECT_EQ(s.allocations, 3U);
  EXPECT_EQ(s.deallocations, 1U);
  EXPECT_EQ(s.failures, 1U);
  const auto live = memory->live();
  ASSERT_EQ(live.size(), 2U);
  EXPECT_EQ(live[0].tag, "b");
  EXPECT_EQ(live[1].tag, "c");
  memory->reset_peak();
  EXPECT_EQ(memory->statistics().peak_bytes, 60U);
  EXPECT_TRUE(memory->deallocate(*b, 50).ok());
  EXPECT_TRUE(memory->deallocate(*c, 10).ok());
  EXPECT_TRUE(memory->live().empty());
}

TEST(Statistics, RefusesForeignAndDoubleFrees) {
  const auto memory = with_statistics(host_memory());
  auto block = memory->allocate({.bytes = 8});
  int foreign = 0;
  EXPECT_EQ(memory->deallocate(&foreign, 4).code(), Code::invalid_argument);
  EXPECT_EQ(memory->deallocate(*block, 9).code(), Code::invalid_argument);
  EXPECT_TRUE(memory->deallocate(*block, 8).ok());
  EXPECT_EQ(memory->deallocate(*block, 8).code(), Code::invalid_argument);
}

TEST(Statistics, CountsFromSeveralThreads) {
  const auto memory = with_statistics(host_memory());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto block = memory->allocate({.bytes = 64});
        EXPECT_TRUE(memory->deallocate(*block, 64).ok());
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(memory->statistics().allocations, 800U);
  EXPECT_EQ(memory->statistics().bytes_in_use, 0U);
}

TEST(Limit, StopsAtItsBytesAndCountsWhatComesBack) {
  const auto memory = with_limit(host_memory(), 1000);
  auto a = memory->allocate({.bytes = 600});
  ASSERT_TRUE(a.ok());
  const auto more = memory->allocate({.bytes = 401, .tag = "more"});
  ASSERT_EQ(more.code(), Code::insufficient_memory);
  EXPECT_EQ(more.error().message, "401 bytes for 'more' were asked for, 400 of the limit of 1000 are left");
  ASSERT_NE(more.error().as<MemoryShortage>(), nullptr);
  EXPECT_EQ(more.error().as<MemoryShortage>()->needed_bytes, 401U);
  EXPECT_EQ(more.error().as<MemoryShortage>()->free_bytes, 400U);
  EXPECT_TRUE(memory->deallocate(nullptr, 5).ok());
  auto b = memory->allocate({.bytes = 400});
  ASSERT_TRUE(b.ok());
  EXPECT_FALSE(memory->allocate({.bytes = 1}).ok());
  EXPECT_TRUE(memory->deallocate(*a, 600).ok());
  EXPECT_FALSE(memory->allocate({.bytes = 601}).ok());
  EXPECT_TRUE(memory->deallocate(*b, 400).ok());
  auto all = memory->allocate({.bytes = 1000});
  EXPECT_TRUE(memory->deallocate(*all, 1000).ok());
  EXPECT_EQ(memory->upstream(), host_memory().get());
}

TEST(Retry, MakesRoomAsOftenAsItMay) {
  const auto limit = with_limit(host_memory(), 100);
  auto held = limit->allocate({.bytes = 100});
  int calls = 0;
  const auto memory = with_retry(
      limit,
      [&] {
        ++calls;
        EXPECT_TRUE(calls != 2 || limit->deallocate(*held, 100).ok());
      },
      2);
  auto block = memory->allocate({.bytes = 80});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(memory->allocate({.bytes = 80}).code(), Code::insufficient_memory);  // two more, in vain
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(memory->allocate({.bytes = 8, .alignment = 3}).code(), Code::invalid_argument);  // no room would help
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(memory->deallocate(*block, 80).ok());
}

TEST(Tensors, OwnTheirMemoryAndGiveItBack) {
  const auto memory = with_statistics(host_memory());
  {
    auto t = Tensor::allocate(memory, DType::f32, {3, 5}, "weights");
    ASSERT_TRUE(t.ok());
    EXPECT_EQ(t->bytes(), 60U);
    EXPECT_EQ(t->elements(), 15);
    EXPECT_EQ(memory->live()[0].tag, "weights");
    Tensor moved = *std::move(t);
    Tensor again;
    again = std::move(moved);
    EXPECT_EQ(again.view().shape, (Shape{3, 5}));
    EXPECT_EQ(again.view().strides, (Shape{5, 1}));
  }
  EXPECT_TRUE(memory->live().empty());
}

// Whether huge pages were requested for the mapping that contains an address: flag "hg" in /proc/self/smaps.
bool huge_pages_asked_for(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= address && address < end;
    if (here && line.starts_with("VmFlags:")) return line.find(" hg") != line.npos;
  }
  return false;
}

TEST(HostMemory, LargeBlocksAskForHugePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "the system has none";
  const std::size_t bytes = (std::size_t{64} << 20) + 1;
  auto block = host_memory()->allocate({.bytes = bytes});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % (std::size_t{2} << 20), 0U);
  EXPECT_TRUE(huge_pages_asked_for(*block));
  std::memset(*block, 1, bytes);
  EXPECT_TRUE(host_memory()->deallocate(*block, bytes).ok());
}

TEST(Tensors, RefuseSizesThatOverflow) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ(Tensor::allocate(host_memory(), DType::u8, {big, big}).code(), Code::invalid_argument);
  EXPECT_EQ(Tensor::allocate(host_memory(), DType::f64, {std::int64_t{1} << 60}).code(), Code::invalid_argument);
  EXPECT_EQ(Tensor::allocate(host_memory(), DType::u8, {-1}).code(), Code::invalid_argument);
  EXPECT_EQ(*element_count({0, big, big}), 0);
  EXPECT_EQ(*element_count(Shape{}), 1);
  const std::vector<std::int64_t> nine(9, 1);
  EXPECT_EQ(element_count(Shape(nine)).code(), Code::invalid_argument);
}

TEST(Workspace, BookingTwiceGivesTheSamePlaces) {
  WorkspaceLedger count(nullptr);
  count.book<float>(3);
  count.book<double>(9);
  EXPECT_EQ(count.bytes(), 64U + 128U);
  alignas(64) std::byte memory[192];
  WorkspaceLedger take(memory);
  EXPECT_EQ(static_cast<void*>(take.book<float>(3)), memory);
  EXPECT_EQ(static_cast<void*>(take.book<double>(9)), memory + 64);
}

}  // namespace
}  // namespace tern
