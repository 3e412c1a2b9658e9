// Threads and forks in a program that links the library, through all layers below, AMX tiles included.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

constexpr std::int64_t kN = 200, kK = 1000, kTokens = 40;  // work for several threads, and whole panels of tokens

// A layer with its input and what it must give.
struct Fixture {
  Weights w = make_weights(kN, kK);
  std::vector<float> x = whole_numbers(kTokens, kK);
  std::vector<float> want = expected(w, x, {}, false);
  PackedWeights packed;
  Fixture() { packed = *w.pack(); }
  [[nodiscard]] BitLinear layer(const Context& context) const {
    return *BitLinear::make(context, packed, {.m_max = kTokens});
  }
  // Whether one more call gives the same bits, with one token and with many.
  [[nodiscard]] bool right(const BitLinear& layer) const {
    const Memory memory(layer.workspace_bytes());
    for (const std::int64_t m : {std::int64_t{1}, kTokens}) {
      std::vector<float> input(x.begin(), x.begin() + m * kK);
      std::vector<float> y(static_cast<std::size_t>(m * kN), NAN);
      if (!layer.forward(rows(input, kK), rows(y, kN), memory.span()).ok()) return false;
      if (!std::equal(y.begin(), y.end(), want.begin())) return false;
    }
    return true;
  }
};

TEST(Threading, EightThreadsShareOneLayer) {
  const Fixture f;
  const BitLinear layer = f.layer(open({.threads = 4}));
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) right += f.right(layer) ? 1 : 0;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 80);
}

TEST(Threading, AChildForkedAfterTheFirstUseGoesOn) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a child may inherit a lock of the sanitizer's allocator that a starting thread holds";
#endif
  const Fixture f;
  const Context context = open({.threads = 4});
  const BitLinear layer = f.layer(context);
  ASSERT_TRUE(f.right(layer));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(f.right(layer) && f.right(f.layer(open({.threads = 3}))) ? 0 : 1);
  EXPECT_TRUE(f.right(layer));  // the parent meanwhile
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Threading, MoreThreadsThanProcessors) {
  const Fixture f;
  ASSERT_EQ(setenv("TERN_THREADS", "50", 1), 0);
  const Context context = open();
  ASSERT_EQ(unsetenv("TERN_THREADS"), 0);
  EXPECT_EQ(context.threads(), 50);
  EXPECT_TRUE(f.right(f.layer(context)));
}

TEST(Threading, TheCallersParallelForMayRunSlotsInAnyOrderOnAnyThread) {
  const Fixture f;
  std::atomic<int> calls{0};
  const Context context = open({.threads = 6, .parallel_for = [&](int slots, const std::function<void(int)>& task) {
                                  ++calls;
                                  std::thread odd([&] {
                                    for (int i = slots - 1; i >= 0; --i)
                                      if (i % 2 == 1) task(i);
                                  });
                                  for (int i = slots - 1; i >= 0; --i)
                                    if (i % 2 == 0) task(i);
                                  odd.join();
                                }});
  EXPECT_TRUE(f.right(f.layer(context)));
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace tern::test
