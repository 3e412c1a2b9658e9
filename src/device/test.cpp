// The devices that are detected, and thread pools that run every slot once.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "build_config.h"
#include "device/isa.h"
#include "device/threads.h"
#include "device/topology.h"

namespace tern {
namespace {

TEST(Devices, TheCpuIsThereAndMakesSense) {
  auto inventory = devices();
  ASSERT_TRUE(inventory.ok());
  ASSERT_FALSE(inventory->devices.empty());
  const Device& cpu = inventory->devices[0];
  EXPECT_EQ(cpu.id, (DeviceId{DeviceKind::cpu, 0}));
  EXPECT_FALSE(cpu.name.empty());
  EXPECT_GE(cpu.hardware_threads, cpu.cores);
  EXPECT_GE(cpu.usable_threads, 1);
  EXPECT_GT(cpu.memory_total_bytes, 0U);
  EXPECT_GE(cpu.memory_total_bytes, cpu.memory_available_bytes);
}

// A cache as Linux describes it: level, type, KiB.
using SysCache = std::tuple<int, std::string, std::size_t>;
std::set<SysCache> caches_of_linux(int processor) {
  std::set<SysCache> caches;
  for (int i = 0;; ++i) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/cache/index" + std::to_string(i) + "/";
    int level = 0;
    std::size_t kib = 0;  // before the K of "48K"
    std::string type;
    if (!(std::ifstream(folder + "level") >> level) || !(std::ifstream(folder + "type") >> type) ||
        !(std::ifstream(folder + "size") >> kib))
      return caches;
    type[0] = static_cast<char>(std::tolower(type[0]));
    if (level <= 3) caches.emplace(level, type, kib);
  }
}

// Every cache of the first processor is reported, and every cache that is reported is one that some processor has.
TEST(Devices, CachesAreThoseThatLinuxTellsOf) {
  const auto inventory = devices();
  ASSERT_TRUE(inventory.ok());
  const Device& cpu = inventory->devices[0];
  if (!TERN_HAVE_HWLOC) {
    EXPECT_TRUE(cpu.caches.empty());
    GTEST_SKIP() << "skipped: this build has no hwloc";
  }
  const std::vector<int> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  std::set<SysCache> of_any;
  for (const int processor : allowed) of_any.merge(caches_of_linux(processor));
  if (of_any.empty()) GTEST_SKIP() << "skipped: Linux tells of no caches here";
  std::set<std::pair<int, std::string>> kinds;
  for (const Cache& cache : cpu.caches) {
    EXPECT_TRUE(of_any.contains({cache.level, cache.type, cache.bytes / 1024}))
        << 'L' << cache.level << ' ' << cache.type << ' ' << cache.bytes;
    EXPECT_GT(cache.line_bytes, 0U);
    EXPECT_GE(cache.shared_by, 1);
    EXPECT_GE(cache.count, 1);
    kinds.emplace(cache.level, cache.type);
  }
  for (const auto& [level, type, kib] : caches_of_linux(allowed.front()))
    EXPECT_TRUE(kinds.contains({level, type})) << 'L' << level << ' ' << type << " of " << kib << " KiB is missing";
}

#if defined(__x86_64__)
TEST(Devices, CapabilitiesAgreeWithTheCompilersOwnCheck) {
  const Capabilities c = detect_cpu_capabilities();
  EXPECT_EQ(c.has(Capability::x86_sse41), __builtin_cpu_supports("sse4.1") != 0);
  EXPECT_EQ(c.has(Capability::x86_avx2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(c.has(Capability::x86_avx512), __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(c.has(Capability::x86_avx512vnni), __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(c.has(Capability::x86_avx512vbmi),
            __builtin_cpu_supports("avx512vbmi") != 0 && __builtin_cpu_supports("avx512vnni") != 0);
}
#elif defined(__aarch64__)
TEST(Devices, CapabilitiesAgreeWithTheProcessorsOwnRegisters) {
  constexpr unsigned long kReadable = 1UL << 11;  // HWCAP_CPUID: Linux answers for these registers
  if ((getauxval(AT_HWCAP) & kReadable) == 0) GTEST_SKIP() << "skipped: the registers cannot be read here";
  std::uint64_t isar0 = 0, isar1 = 0;
  asm("mrs %0, id_aa64isar0_el1" : "=r"(isar0));
  asm("mrs %0, id_aa64isar1_el1" : "=r"(isar1));
  const Capabilities c = detect_cpu_capabilities();
  EXPECT_TRUE(c.has(Capability::arm_neon));
  EXPECT_EQ(c.has(Capability::arm_dotprod), ((isar0 >> 44) & 15) != 0);
  EXPECT_EQ(c.has(Capability::arm_i8mm), ((isar1 >> 52) & 15) != 0);
}
#endif

TEST(Devices, CapabilityNamesGoBothWays) {
  for (int i = 0; i < kCapabilityCount; ++i) {
    const auto c = static_cast<Capability>(i);
    auto parsed = parse_capability(name(c));
    ASSERT_TRUE(parsed.ok()) << name(c);
    EXPECT_EQ(*parsed, c);
  }
  EXPECT_FALSE(parse_capability("x86_avx9").ok());
}

TEST(Threads, EverySlotRunsOnce) {
  for (const int count : {1, 2, 3, 9}) {
    const Threads threads(count);
    for (const int slots : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(slots));
      threads.run(slots, [&](int slot) { ++runs[static_cast<std::size_t>(slot)]; });
      for (const auto& r : runs) EXPECT_EQ(r, 1);
    }
  }
}

TEST(Threads, SeveralCallersAtOnce) {
  const Threads threads(3);
  std::vector<std::thread> callers;
  std::vector<std::int64_t> sums(8);
  for (std::size_t c = 0; c < sums.size(); ++c)
    callers.emplace_back([&, c] {
      for (int repetition = 0; repetition < 50; ++repetition) {
        std::vector<std::int64_t> parts(16);
        threads.run(16, [&](int slot) { parts[static_cast<std::size_t>(slot)] = slot; });
        sums[c] += std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
      }
    });
  for (auto& caller : callers) caller.join();
  for (const auto sum : sums) EXPECT_EQ(sum, 50 * 120);
}

TEST(Threads, AForkedChildHasAPoolOfItsOwn) {
  const Threads threads(3);
  std::atomic<int> before{0};
  threads.run(6, [&](int) { ++before; });
  EXPECT_EQ(before, 6);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> ran{0};
    threads.run(6, [&](int) { ++ran; });
    _exit(ran == 6 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// A pool as large as the machine pins each worker to a processor of its own. A larger pool leaves placement to the
// system.
TEST(Threads, AFullPoolHasAProcessorForEachWorker) {
  const std::vector<int> processors = allowed_processors();
  const auto count = static_cast<int>(processors.size());
  if (count < 2) GTEST_SKIP() << "one processor only";
  for (const int threads : {count, count + 1}) {
    const Threads pool(threads);
    const pthread_t caller = pthread_self();
    std::mutex mutex;
    std::vector<int> own;  // of workers that may run on one processor only
    std::atomic<int> begun{0};
    pool.run(threads, [&](int) {
      ++begun;
      for (int i = 0; i < 1000 && begun < threads; ++i) usleep(1000);  // so that each thread has one slot
      cpu_set_t set;
      if (pthread_equal(pthread_self(), caller) != 0 || sched_getaffinity(0, sizeof set, &set) != 0) return;
      const std::lock_guard lock(mutex);
      for (const int processor : processors)
        if (CPU_COUNT(&set) == 1 && CPU_ISSET(processor, &set)) own.push_back(processor);
    });
    std::ranges::sort(own);
    if (threads == count)
      EXPECT_EQ(own, std::vector<int>(processors.begin() + 1, processors.end()));
    else
      EXPECT_TRUE(own.empty());
  }
}

// A process that may start no thread still computes. RLIMIT_NPROC does not apply to root, so the child changes its
// user.
TEST(Threads, NoThreadCanBeStarted) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(2);
    const Threads threads(4);
    std::atomic<int> ran{0};
    threads.run(8, [&](int) { ++ran; });
    _exit(ran == 8 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "the limit on processes could not be set";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(WorkQueue, HandsOutEverythingOnce) {
  for (const std::int64_t items : {0, 1, 10, 11})
    for (const std::int64_t grain : {1, 3, 20}) {
      WorkQueue queue(items, grain);
      std::int64_t total = 0, begin = 0, end = 0;
      while (queue.next(begin, end)) total += end - begin;
      EXPECT_EQ(total, items);
    }
}

// One slot asks more often than the others. Each item is handed out once, a slot's own share first, in whole grains
// except for the last.
TEST(SharedWork, HandsOutEverythingOnceAndASlotsOwnFirst) {
  for (const std::int64_t items : {0, 1, 4, 10, 100, 1001})
    for (const std::int64_t grain : {1, 4})
      for (const std::size_t slots : {1U, 2U, 5U})
        for (std::size_t quick = 0; quick < slots; ++quick) {
          std::vector<SharedWork::Share> shares(slots);
          SharedWork work(shares, items, grain);
          const std::int64_t own_begin = shares[quick].next, own_end = shares[quick].end;
          std::vector<int> taken(static_cast<std::size_t>(items));
          std::int64_t begin = 0, end = 0, expected = own_begin;
          for (int call = 0; work.next(static_cast<int>(call % 7 == 6 ? (quick + 1) % slots : quick), begin, end);
               ++call) {
            EXPECT_LT(begin, end);
            EXPECT_TRUE(begin % grain == 0 && (end % grain == 0 || end == items));
            if (call < 6 && expected < own_end) {
              EXPECT_EQ(begin, expected);
              expected = end;
            }
            for (std::int64_t i = begin; i < end; ++i) ++taken[static_cast<std::size_t>(i)];
          }
          EXPECT_EQ(taken, std::vector<int>(taken.size(), 1)) << items << " " << grain << " " << slots;
        }
}

}  // namespace
}  // namespace tern
