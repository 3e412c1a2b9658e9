// The thread pool. One atomic word hands out the slots, so a slow thread takes fewer of them, and a job does not wait
// for a thread that took none. docs/decisions/0002 says why Tern has a pool of its own.
#include "device/threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <new>
#include <vector>

#include "base/fp_env.h"
#include "device/topology.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tern {
namespace {

// The number of forks between the first process and this one. A child process has none of its parent's threads.
std::atomic<int> fork_generation{0};

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });
  (void)registered;
}

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// About 50 to 100 us: longer than the gap between the layers of a model, short enough to free the core for others.
constexpr int kSpins = 2000;

// Waits until the value is no longer `old`; spins first, then sleeps.
template <class T>
T wait_for_change(const std::atomic<T>& value, T old, int spins) {
  for (int i = 0; i < spins; ++i, pause())
    if (const T now = value.load(std::memory_order_acquire); now != old) return now;
  while (true) {
    if (const T now = value.load(std::memory_order_acquire); now != old) return now;
    value.wait(old, std::memory_order_acquire);
  }
}

void run_slot(Threads::Task task, void* context, int slot) {
  const FpEnvGuard modes;
  task(context, slot);
}

}  // namespace

struct Threads::Pool {
  explicit Pool(int count) : generation(fork_generation.load()), spins(count <= usable_threads() ? kSpins : 0) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals go to the application's threads only
    const std::vector<int> processors = allowed_processors();
    for (int i = 1; i < count; ++i) {
      pthread_t thread{};
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      // A pool as large as the machine pins each worker to a processor. Otherwise the system sometimes puts two workers
      // on one processor, and the job waits for them. The caller's thread is not pinned.
      if (static_cast<std::size_t>(count) == processors.size()) {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(processors[static_cast<std::size_t>(i)], &own);
        pthread_attr_setaffinity_np(&attributes, sizeof own, &own);
      }
      const bool made = pthread_create(&thread, &attributes, work, this) == 0 ||
                        pthread_create(&thread, nullptr, work, this) == 0;  // the mask may have changed meanwhile
      pthread_attr_destroy(&attributes);
      if (!made) break;  // fewer threads compute the same results, only later
      workers.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Pool() {
    if (generation != fork_generation.load()) return;
    stopping.store(true);
    announce();
    for (const pthread_t thread : workers) pthread_join(thread, nullptr);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(int slots, Task new_task, void* new_context) {
    task = new_task;
    context = new_context;
    unfinished.store(slots, std::memory_order_relaxed);
    // From here on slots can be claimed, also by a worker that is still awake from the job before.
    claims.store(static_cast<std::uint64_t>(slots) << 32, std::memory_order_release);
    announce();
    take_slots();
    for (int left = unfinished.load(std::memory_order_acquire); left != 0;)
      left = wait_for_change(unfinished, left, spins);
  }

  // Claims and runs slots until none is left.
  void take_slots() {
    while (true) {
      // Limit and next slot are in one word, so a claim below the limit belongs to the job that set the limit. That
      // job, with its task, lives until the claimed slot is finished.
      const std::uint64_t claim = claims.fetch_add(1, std::memory_order_acq_rel);
      const auto slot = static_cast<std::uint32_t>(claim), limit = static_cast<std::uint32_t>(claim >> 32);
      if (slot >= limit) return;
      run_slot(task, context, static_cast<int>(slot));
      if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
    }
  }

  void announce() {
    jobs.fetch_add(1, std::memory_order_release);
    jobs.notify_all();
  }

  static void* work(void* p) {
    auto& pool = *static_cast<Pool*>(p);
    std::uint32_t seen = 0;
    while (true) {
      seen = wait_for_change(pool.jobs, seen, pool.spins);
      if (pool.stopping.load()) return nullptr;
      pool.take_slots();
    }
  }

  int generation;
  int spins;
  std::vector<pthread_t> workers;
  Task task = nullptr;
  void* context = nullptr;
  std::atomic<bool> stopping{false};
  std::atomic_flag busy;  // one job at a time
  alignas(64) std::atomic<std::uint32_t> jobs{0};
  alignas(64) std::atomic<std::uint64_t> claims{0};  // number of slots << 32 | next slot
  alignas(64) std::atomic<int> unfinished{0};
};

Threads::Threads(int count, ParallelFor parallel_for)
    : count_(std::max(1, count)), parallel_for_(std::move(parallel_for)) {
  watch_forks();
}

Threads::~Threads() { delete pool_.load(); }

Threads::Pool* Threads::pool() const {
  Pool* current = pool_.load(std::memory_order_acquire);
  if (current != nullptr && current->generation == fork_generation.load(std::memory_order_relaxed)) return current;
  auto* made = new (std::nothrow) Pool(count_);
  if (made == nullptr) return nullptr;
  // A pool from before a fork is never deleted: its threads do not exist in this process and cannot be joined.
  if (pool_.compare_exchange_strong(current, made, std::memory_order_acq_rel)) return made;
  delete made;  // another thread was first
  return current;
}

void Threads::run(int slots, Task task, void* context) const {
  if (slots > 1 && count_ > 1) {
    if (parallel_for_) return parallel_for_(slots, [=](int slot) { run_slot(task, context, slot); });
    Pool* shared = pool();
    // If the pool works for another caller, this thread does not wait for it: it runs all of its slots itself.
    if (shared != nullptr && !shared->busy.test_and_set(std::memory_order_acquire)) {
      shared->run(slots, task, context);
      shared->busy.clear(std::memory_order_release);
      return;
    }
  }
  for (int slot = 0; slot < slots; ++slot) run_slot(task, context, slot);
}

}  // namespace tern
