// Limits and clocks of a GPU.
#include "lab/gpu_bench.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/checked.h"
#include "base/errors.h"
#include "lab/gpu_loops.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

constexpr std::int64_t kMaxNodes = 1024;  // of a graph

cuda::Stream* stream_of(const Context& context) { return static_cast<cuda::Stream*>(context.stream().cuda_stream()); }

}  // namespace

struct GpuLimits::State {
  Context context;
  Tensor buffer, sink, pinned;
  Event begin, end;
  std::map<Limit, std::size_t> fastest;
  std::vector<CalibratedLoop> calibrated;

  static std::span<const GpuLoop> loops(Limit limit) {
    if (limit == Limit::streaming_read) return gpu_read_loops();
    if (limit == Limit::non_temporal_write) return gpu_write_loops();
    if (limit == Limit::copy) return gpu_copy_loops();
    return {};
  }
  // GB/s of the work that `put` puts on the stream; 0 if it failed.
  template <class Put>
  double timed(std::size_t bytes, Put put) {
    const cuda::CurrentDevice current(context.device().id.index);
    if (!begin.record(context.stream()).ok() || !put().ok() || !end.record(context.stream()).ok()) return 0;
    const auto ms = end.milliseconds_since(begin);
    return ms.ok() && *ms > 0 ? static_cast<double>(bytes) / 1e6 / *ms : 0;
  }
  // Several passes in a row, as kernels are timed, so that the latency of the first byte counts once.
  double pass(const GpuLoop& loop) {
    constexpr int kPasses = 6;
    return timed(kPasses * buffer.bytes(), [&]() -> Status {
      for (int i = 0; i < kPasses; ++i)
        TERN_RETURN_IF_ERROR(
            cuda::launched(loop.launch(buffer.data(), buffer.bytes(), static_cast<std::uint64_t*>(sink.data()),
                                       context.device().gpu->multiprocessors, stream_of(context))));
      return {};
    });
  }
  static std::span<const GpuComputeLoop> compute_loops(Limit limit) {
    if (limit == Limit::gpu_int8_peak) return gpu_int8_loops();
    if (limit == Limit::gpu_bf16_peak) return gpu_bf16_loops();
    return {};
  }
  // 10^9 operations a second; 0 where the GPU lacks the instructions.
  double compute(const GpuComputeLoop& loop) {
    const GpuFacts& gpu = *context.device().gpu;
    if (10 * gpu.compute_major + gpu.compute_minor < loop.capability ||
        (loop.capability == 90 && gpu.compute_major != 9))
      return 0;
    constexpr int kPasses = 4;
    // Operations are passed as bytes: the result is in 10^9 per second either way.
    return timed(static_cast<std::size_t>(kPasses * loop.operations * gpu.multiprocessors), [&]() -> Status {
      for (int i = 0; i < kPasses; ++i)
        TERN_RETURN_IF_ERROR(cuda::launched(
            loop.launch(static_cast<std::uint64_t*>(sink.data()), gpu.multiprocessors, stream_of(context))));
      return {};
    });
  }
  double copy_in() {
    if (pinned.bytes() == 0) {
      const auto memory = pinned_memory();
      auto block = memory.ok() ? Tensor::allocate(*memory, DType::u8, {std::int64_t{256} << 20}, "limits")
                               : Result<Tensor>(memory.error());
      if (!block.ok()) return 0;
      pinned = *std::move(block);
      std::memset(pinned.data(), 0x5A, pinned.bytes());
    }
    return timed(pinned.bytes(),
                 [&] { return cuda::copy(buffer.data(), pinned.data(), pinned.bytes(), stream_of(context)); });
  }
};

Result<GpuLimits> GpuLimits::make(const Context& context, std::size_t bytes) {
  // A pass over less memory ends before it is at full speed.
  TERN_ASSIGN(info, context.memory_info());
  bytes = std::max(bytes, std::min(std::size_t{4} << 30, info.free_bytes / 8));
  TERN_ASSIGN(buffer,
              context.allocate(DType::u8, {static_cast<std::int64_t>(round_up(bytes, kGpuPassBytes))}, "limits"));
  TERN_ASSIGN(sink, context.allocate(DType::u8, {64}, "limits"));
  TERN_ASSIGN(begin, context.event());
  TERN_ASSIGN(end, context.event());
  TERN_RETURN_IF_ERROR(cuda::fill(buffer.data(), 0x5A, buffer.bytes(), stream_of(context)));
  return GpuLimits(std::make_shared<State>(
      State{context, std::move(buffer), std::move(sink), {}, std::move(begin), std::move(end), {}, {}}));
}

double GpuLimits::measure(Limit limit) {
  constexpr int kRounds = 4;
  if (limit == Limit::host_to_device) return state_->copy_in();
  const auto fastest_of = [&](auto loops, auto pass) -> double {
    if (loops.empty()) return 0;
    auto found = state_->fastest.find(limit);
    if (found == state_->fastest.end()) {
      std::vector<double> rates(loops.size());
      for (int round = 0; round < kRounds; ++round)
        for (std::size_t i = 0; i < loops.size(); ++i) rates[i] = std::max(rates[i], pass(loops[i]));
      const auto best = static_cast<std::size_t>(std::ranges::max_element(rates) - rates.begin());
      state_->calibrated.push_back({limit, 1, loops[best].name, rates[best]});
      found = state_->fastest.emplace(limit, best).first;
    }
    return pass(loops[found->second]);
  };
  if (counts_operations(limit))
    return fastest_of(State::compute_loops(limit), [&](const GpuComputeLoop& loop) { return state_->compute(loop); });
  return fastest_of(State::loops(limit), [&](const GpuLoop& loop) { return state_->pass(loop); });
}

const std::vector<CalibratedLoop>& GpuLimits::calibrated() const { return state_->calibrated; }

Result<TimedRuns> gpu_clock(const Context& context, const Subject& subject) {
  struct State {
    Context context;
    Subject subject;
    Event begin, end;
    std::map<std::int64_t, cuda::Graph*> graphs;  // by number of nodes
    State(const Context& on, Subject of, Event from, Event to)
        : context(on), subject(std::move(of)), begin(std::move(from)), end(std::move(to)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      for (const auto& [nodes, graph] : graphs) cuda::destroy(graph);
    }
  };
  TERN_ASSIGN(begin, context.event());
  TERN_ASSIGN(end, context.event());
  // A first run outside of a graph loads the kernels.
  TERN_RETURN_IF_ERROR(subject.run(0));
  TERN_RETURN_IF_ERROR(context.stream().synchronize());
  auto state = std::make_shared<State>(context, subject, std::move(begin), std::move(end));
  return TimedRuns([state](std::int64_t runs) -> Result<double> {
    TERN_ON_GPU(state->context.device().id.index);
    cuda::Stream* stream = stream_of(state->context);
    const std::int64_t nodes = std::clamp<std::int64_t>(kMaxNodes / state->subject.launches, 1, runs);
    const std::int64_t replays = ceil_div(runs, nodes);
    cuda::Graph*& graph = state->graphs[nodes];
    if (graph == nullptr) {
      TERN_ASSIGN(captured, cuda::capture(stream, [&]() -> Status {
                    for (std::int64_t i = 0; i < nodes; ++i) TERN_RETURN_IF_ERROR(state->subject.run(i));
                    return {};
                  }));
      graph = captured;
      TERN_RETURN_IF_ERROR(cuda::replay(graph, stream));  // the first replay uploads it to the device
    }
    TERN_RETURN_IF_ERROR(state->begin.record(state->context.stream()));
    for (std::int64_t i = 0; i < replays; ++i) TERN_RETURN_IF_ERROR(cuda::replay(graph, stream));
    TERN_RETURN_IF_ERROR(state->end.record(state->context.stream()));
    TERN_ASSIGN(ms, state->end.milliseconds_since(state->begin));
    return ms / 1e3 * static_cast<double>(runs) / static_cast<double>(replays * nodes);
  });
}

}  // namespace tern::lab
