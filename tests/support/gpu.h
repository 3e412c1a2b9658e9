// Runs CUDA kernels in tests written for the host: copies a kernel's inputs and outputs to a GPU, between guard bytes,
// and the results back. Without a GPU these kernels are left out, and one test says so.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "format/format.h"
#include "ops/ops.h"
#include "plan/context_state.h"
#include "tests/support/no_gpu.h"

namespace tern::test {

// The first GPU, or null if there is none. If it cannot be used, the calling test fails.
inline const Context* gpu() {
  static const auto context = Context::open(DeviceId{DeviceKind::cuda, 0});
  if (!context.ok() && !no_gpu(context.error())) ADD_FAILURE() << "the GPU cannot be used: " << context.error().str();
  return context.ok() ? &*context : nullptr;
}

// The tuning of kernels that run through the GPU; null for the default.
inline const Tuning* asked_tuning = nullptr;

// A copy of host bytes on the GPU with the same alignment, between poisoned bytes.
class OnGpu {
 public:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::uint8_t kPoison = 0xA7;

  // The copy begins at a multiple of `element`, because a GPU needs aligned elements.
  OnGpu(const void* host, std::int64_t bytes, std::size_t element = 1)
      : host_(host), bytes_(static_cast<std::size_t>(bytes)) {
    image_.assign(bytes_ + 3 * kGuard, kPoison);
    begin_ = kGuard + reinterpret_cast<std::uintptr_t>(host) % kGuard / element * element;
    if (bytes_ > 0) std::memcpy(image_.data() + begin_, host, bytes_);
    memory_ = *Tensor::allocate(gpu()->memory(), DType::u8, {static_cast<std::int64_t>(image_.size())}, "test");
    EXPECT_TRUE(gpu()->copy(memory_.view(), {image_.data(), DType::u8, memory_.shape()}, gpu()->stream()).ok());
  }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(memory_.as<std::uint8_t>().data() + begin_);
  }
  // The current bytes; fails the test if a guard byte changed.
  const std::vector<std::uint8_t>& read() {
    std::vector<std::uint8_t> now(image_.size());
    EXPECT_TRUE(gpu()->copy({now.data(), DType::u8, memory_.shape()}, memory_.view(), gpu()->stream()).ok());
    EXPECT_TRUE(cuda::synchronize(static_cast<cuda::Stream*>(gpu()->stream().cuda_stream())).ok());
    for (std::size_t i = 0; i < now.size(); ++i)
      if (i < begin_ || i >= begin_ + bytes_)
        if (now[i] != kPoison) {
          ADD_FAILURE() << "a kernel wrote " << static_cast<std::int64_t>(i - begin_) << " of " << bytes_ << " bytes";
          break;
        }
    bytes_now_.assign(now.begin() + static_cast<std::ptrdiff_t>(begin_),
                      now.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_));
    return bytes_now_;
  }
  // Copies the result to the host.
  void bring(void* to) {
    if (bytes_ > 0) std::memcpy(to, read().data(), bytes_);
  }
  // Fails the test if the kernel changed its input.
  void expect_unchanged() {
    EXPECT_TRUE(bytes_ == 0 || std::memcmp(read().data(), host_, bytes_) == 0) << "a kernel wrote its input";
  }

 private:
  const void* host_;
  std::size_t bytes_, begin_ = 0;
  std::vector<std::uint8_t> image_, bytes_now_;
  Tensor memory_;
};

// Weights in the GPU's layout, converted from the CPU's element by element.
class WeightsOnGpu {
 public:
  explicit WeightsOnGpu(const PackedWeights::State& w)
      : tiles_(tiles_of(w)),
        codes_(tiles_.data(), static_cast<std::int64_t>(tiles_.size())),
        arranged_(scales_of(w)),
        scales_(arranged_.data(), static_cast<std::int64_t>(arranged_.size()) * 4, 16),
        state_{.n = w.n, .k = w.k, .format = w.format, .granularity = w.granularity, .device = gpu()->device().id} {
    state_.codes = codes_.as<std::uint8_t>();
    state_.scales = scales_.as<float>();
  }
  [[nodiscard]] const PackedWeights::State* state() const { return &state_; }
  void expect_unchanged() {
    codes_.expect_unchanged();
    scales_.expect_unchanged();
  }

 private:
  // On an address that a GPU's allocation would have.
  static std::vector<std::uint8_t> tiles_of(const PackedWeights::State& w) {
    const TileMma tile = TileMma::of(w.n, w.k, mma_bits(w.format));
    std::vector<std::uint8_t> tiles(static_cast<std::size_t>(tile.bytes()));
    for (std::int64_t n = 0; n < w.n; ++n)
      for (std::int64_t k = 0; k < w.k; ++k) {
        const TileMma::Place at = tile.place(n, k);
        tiles[static_cast<std::size_t>(at.byte)] |=
            static_cast<std::uint8_t>((w.tile.value(w.codes, n, k) & ((1 << tile.bits) - 1)) << at.bit);
      }
    return tiles;
  }
  static std::vector<float> scales_of(const PackedWeights::State& w) {
    return {w.scales, w.scales + PackedScales::of(w.n, w.k, w.granularity).count};
  }
  std::vector<std::uint8_t> tiles_;
  OnGpu codes_;
  std::vector<float> arranged_;
  OnGpu scales_;
  PackedWeights::State state_;
};

// Replaces each pointer to a run's memory by one to a copy on the GPU, and brings back what the run wrote.
class Staging {
 public:
  template <class T>
  void operator()(T*& pointer, const Area& area) {
    if (pointer == nullptr) return;
    pointer = copy<T>(pointer, area.reach(), area.element_bytes);
  }
  // All bytes that a strided view spans.
  template <class Void>
  void operator()(BasicTensorView<Void>& view) {
    if (view.data == nullptr) return;
    const ByteSpan span = bytes_of(view);
    auto* begin = reinterpret_cast<std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>*>(span.begin);
    view.data = copy(begin, static_cast<std::int64_t>(span.end - span.begin), size_of(view.dtype)) +
                (reinterpret_cast<std::uintptr_t>(view.data) - span.begin);
  }
  void operator()(const PackedWeights::State*& weights) {
    const auto there = std::make_shared<WeightsOnGpu>(*weights);
    afterwards_.emplace_back([there] { there->expect_unchanged(); });
    weights = there->state();
  }
  // Copies the results to the host; fails the test where a run wrote its input, or beyond an output.
  void finish() {
    for (const auto& step : afterwards_) step();
  }

 private:
  template <class T>
  T* copy(T* host, std::int64_t bytes, std::size_t element) {
    const auto there = std::make_shared<OnGpu>(host, bytes, element);
    if constexpr (std::is_const_v<T>)
      afterwards_.emplace_back([there] { there->expect_unchanged(); });
    else
      afterwards_.emplace_back([there, host] { there->bring(host); });
    return there->template as<T>();
  }
  std::vector<std::function<void()>> afterwards_;
};

// Wraps the entry of a CUDA kernel: copies to the GPU, launches and copies back.
template <class Op>
KernelEntry through_gpu(const Kernel& kernel) {
  using Params = typename OpTraits<Op>::Params;
  static thread_local typename Op::Problem problem;  // a run's workspace is asked for just before the run
  return {&kernel,
          [](const void*, const void* asked, int) -> std::size_t {
            problem = *static_cast<const typename Op::Problem*>(asked);
            return 0;
          },
          [](const void* table, const void* params, const Exec&) -> Status {
            const auto& of = *static_cast<const Kernel*>(table);
            Params there = *static_cast<const Params*>(params);
            Staging staging;
            OpTraits<Op>::memory(there, staging);
            detail::Gpu& device = *gpu()->state().gpu;
            const std::size_t bytes = of.entry.workspace_bytes(of.entry.table, &problem, 1);
            const std::vector<std::uint8_t> poison(bytes + 256, 0xEE);  // aligned, as is its copy
            const auto skip = (256 - reinterpret_cast<std::uintptr_t>(poison.data()) % 256) % 256;
            OnGpu workspace(poison.data() + skip, static_cast<std::int64_t>(bytes));
            auto run = device.start(0, of.info.op, OpTraits<Op>::facts(problem)->k);
            if (!run.ok()) return std::move(run).error();
            run->launch.tuning = asked_tuning;
            Status launched = of.entry.run(of.entry.table, &there,
                                           {gpu()->state().threads, {workspace.as<std::byte>(), bytes}, &run->launch});
            workspace.read();  // its guards
            Status done = launched.ok() ? gpu()->stream().synchronize() : std::move(launched);
            staging.finish();
            return done;
          }};
}

inline KernelEntry through_gpu(const Kernel& kernel) {
#define OP(name, Op) \
  if (kernel.info.op == #name) return through_gpu<Op>(kernel);
  TERN_OPS(OP)
#undef OP
  return {};
}

}  // namespace tern::test
