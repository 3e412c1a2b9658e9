// The GPU of a Context: its streams, the status words in which kernels report errors, and the time kernels take.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda.h"
#include "ops/cuda_launch.h"
#include "tern/context.h"

namespace tern::detail {

class Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open(const Device& device, int streams, bool profiling);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int streams() const { return streams_; }
  Result<int> wrap(cuda::Stream* stream);  // returns its lane
  Status release(int lane);
  // Lends a lane to a single call. Its work starts after the work on the first stream, and its findings are separate
  // from those of other calls. give_back() waits for the work; findings that were not read are dropped.
  Result<int> borrow();
  void give_back(int lane);
  [[nodiscard]] cuda::Stream* stream(int lane);
  Status synchronize(int lane);  // waits, then returns the first finding
  Status synchronize_all();

  // One run: what its launcher needs, and the lane that receives its findings. Call finish() after the launch.
  struct Run {
    cuda::Launch launch;
    int lane = 0;
    cuda::Event* begin = nullptr;  // only with profiling
  };
  Result<Run> start(int lane, std::string_view op, std::int64_t k);
  // `event` describes the run to observers; `plan` keeps its texts alive until the run's time is known. Without a plan
  // observers hear nothing of it, and the kernel's name is a literal.
  Status finish(const Run& run, const RunEvent& event, std::shared_ptr<const void> plan);

  Result<std::vector<KernelTime>> profile();
  void report_times_to(std::vector<std::shared_ptr<Observer>> observers) { observers_ = std::move(observers); }

 private:
  // A call by its number, so that an error can name the op whose finding is read.
  struct Call {
    std::uint64_t number = 0;
    std::string_view op;
    std::int64_t k = 0;
  };
  static constexpr std::size_t kCalls = 1024;  // how many calls are remembered
  struct Lane {
    cuda::Stream* stream = nullptr;  // null is the default stream of a caller
    bool live = false, wrapped = false;
    std::uint64_t* status = nullptr;  // on the device
    cuda::Event* front = nullptr;     // of a borrowed lane: its work starts after this event
    std::mutex mutex;                 // guards the members below and reads of *status
    std::uint64_t calls = 0;
    std::array<Call, kCalls> recent{};
  };
  struct Timed {
    RunEvent event;
    std::shared_ptr<const void> plan;
    cuda::Event* begin = nullptr;
    cuda::Event* end = nullptr;
  };

  Gpu(const Device& device, int streams, bool profiling);
  Status make();
  Lane& lane(int index);
  Error describe(Lane& lane, std::uint64_t key);
  Result<cuda::Event*> timer();
  Status collect();  // waits for the timed runs, adds their times to the totals and reports them

  int index_, multiprocessors_, streams_;
  bool profiling_;
  std::mutex mutex_;                // guards lanes_ and borrowed_
  std::deque<Lane> lanes_;          // the context's own streams, then those of callers
  std::deque<Lane> borrowed_;       // numbered from kMaxLanes on; kept for the next borrower
  std::uint64_t* words_ = nullptr;  // one for each lane, on the device
  std::uint64_t* read_ = nullptr;   // pinned copy on the host
  std::mutex timing_mutex_;
  std::vector<Timed> timed_;
  std::vector<cuda::Event*> spare_;
  std::map<std::string, KernelTime> times_;
  std::vector<std::shared_ptr<Observer>> observers_;
};

}  // namespace tern::detail
