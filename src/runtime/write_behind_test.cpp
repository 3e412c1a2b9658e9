// What goes wrong on the thread that writes, memory included, is the answer of the one that computes.
#include "runtime/write_behind.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "io/test_files.h"

namespace {

std::atomic<int> failures{0};  // allocations that are still to fail, on every thread but those that are spared
thread_local bool is_spared = false;

}  // namespace

// Not inlined, or the compiler sees new meet free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (failures.load() > 0 && !is_spared && failures.fetch_sub(1) > 0) throw std::bad_alloc();
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace tern {
namespace {

class WriteBehindTest : public testing::Test {
 protected:
  void SetUp() override {
    is_spared = true;
    auto made = CheckpointWriter::create(folder_ / "a.safetensors", Container::safetensors, {},
                                         {{.name = "w", .type = StoredType::i8, .shape = {8}}});
    ASSERT_TRUE(made.ok()) << made.error().str();
    writer_.emplace(*std::move(made));
  }
  TempFolder folder_;
  std::optional<CheckpointWriter> writer_;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(9, 1);
};

TEST_F(WriteBehindTest, BytesArriveInOrder) {
  for (std::size_t i = 0; i < 8; ++i) bytes_[i] = static_cast<std::uint8_t>(i);
  std::atomic<int> done{0};
  WriteBehind behind(*writer_);
  for (std::size_t i = 0; i < 8; ++i) ASSERT_TRUE(behind.push(std::span(bytes_).subspan(i, 1), [&] { ++done; }).ok());
  ASSERT_TRUE(behind.finish().ok());
  EXPECT_EQ(done, 8);
  ASSERT_TRUE(writer_->finish().ok());
  EXPECT_TRUE(read_text(folder_ / "a.safetensors").ends_with(std::string_view("\0\1\2\3\4\5\6\7", 8)));
}

TEST_F(WriteBehindTest, AnErrorIsToldAndPiecesAreGivenBack) {
  std::atomic<int> done{0};
  WriteBehind behind(*writer_);
  (void)behind.push(bytes_, [&] { ++done; });  // one byte too many
  (void)behind.push(std::span(bytes_).first(1), [&] { ++done; });
  expect_error(behind.finish(), Code::invalid_argument, "");
  EXPECT_EQ(done, 2) << "whoever waits for its buffer must not wait for ever";
}

// The text of that error needs memory, and there is none: an exception on that thread would end the process.
TEST_F(WriteBehindTest, NoMemoryThereIsAnErrorHere) {
  std::atomic<int> done{0};
  WriteBehind behind(*writer_);
  ASSERT_TRUE(behind.push(std::span(bytes_).first(8), [&] { ++done; }).ok());
  failures = 1;
  (void)behind.push(std::span(bytes_).first(1), [&] { ++done; });
  const Status status = behind.finish();
  EXPECT_LE(failures.exchange(0), 0) << "nothing was allocated there, so nothing was tested";
  expect_error(status, Code::memory_allocation, "no memory");
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace tern
