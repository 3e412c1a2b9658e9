// A context on a GPU: streams, events, copies, memory, graphs, findings. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/errors.h"
#include "device/cuda.h"
#include "format/format.h"
#include "lab/weights.h"
#include "plan/context_state.h"
#include "plan/own_stream.h"
#include "plan/run_once.h"
#include "tern/io.h"
#include "tern/linear.h"
#include "tern/quantize.h"
#include "tests/support/no_gpu.h"

namespace tern {
namespace {

constexpr DeviceId kGpu{DeviceKind::cuda, 0};

// Every test has a context of its own.
class OnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = Context::open(kGpu, {.streams = 3});
    TERN_SKIP_WITHOUT_GPU(context);
    context_ = *std::move(context);
  }
  [[nodiscard]] const Context& gpu() const { return *context_; }

  static Tensor host(DType dtype, const Shape& shape) { return *Tensor::allocate(host_memory(), dtype, shape); }
  static Tensor random(const Shape& shape) {
    Tensor x = host(DType::f32, shape);
    lab::Random random(1);
    lab::fill_weights(lab::Pattern::gaussian, random, x.as<float>().data(), x.elements());
    return x;
  }
  // Copies a GPU tensor back to the host.
  static Tensor back(const Tensor& tensor) { return *tensor.to(*Context::open(DeviceId{}, {.threads = 1})); }
  static bool same(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
  }

  std::optional<Context> context_;
};

// One quantization by groups, ready to run on any stream.
struct Quantization {
  Tensor x, codes, scales, workspace;
  TernaryQuantizePlan plan;

  static Result<Quantization> make(const Context& context, const Tensor& x, NonFinite policy = NonFinite::reject) {
    const TernaryQuantize::Problem p{.rows = x.shape()[0],
                                     .k = x.shape()[1],
                                     .scheme = Scheme::absmax,
                                     .granularity = Granularity::group(128),
                                     .non_finite = policy};
    TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, p));
    TERN_ASSIGN(x_there, x.to(context));
    TERN_ASSIGN(codes, context.allocate(DType::u8, {p.rows, row_bytes(p.format, p.k)}));
    TERN_ASSIGN(scales, context.allocate(DType::f32, {p.rows, (p.k + 127) / 128}));
    TERN_ASSIGN(workspace, allocate_workspace(context, plan));
    return Quantization{std::move(x_there), std::move(codes), std::move(scales), std::move(workspace), std::move(plan)};
  }
  Status run(const Stream& stream) {
    return plan.run(stream, workspace.as<std::byte>(), {.x = x.view(), .codes = codes.view(), .scales = scales.view()});
  }
};

// Tests of a GPU are skipped where there is none, and for no other reason.
TEST(WithoutAGpu, OnlyItsAbsenceSkipsTests) {
  const auto context = Context::open(kGpu);
  EXPECT_EQ(context.ok(), !test::no_gpu(context.ok() ? Error{} : context.error()))
      << (context.ok() ? "" : context.error().str());
  for (const Error& why : {Error{Code::gpu_not_available, "cuda:0 cannot be used: it does not answer: unknown error"},
                           Error{Code::gpu_not_available, "cuda:0 cannot be used: its compute capability is 7.0"},
                           Error{Code::gpu_not_available, "the NVIDIA driver is for CUDA 12.4, this build needs 13.0"},
                           Error{Code::gpu_not_available, "the driver does not start: unknown error"},
                           Error{Code::gpu_not_available, "there is no cuda:1: this machine has 1 GPU"},
                           Error{Code::insufficient_memory, "4096 bytes for 'words' were asked for"},
                           Error{Code::internal, "no NVIDIA driver is installed"}, Error{}})
    EXPECT_FALSE(test::no_gpu(why)) << why.str();
}

TEST(WithoutAGpu, AnAbsentGpuIsAnError) {
  auto none = Context::open(DeviceId{DeviceKind::cuda, 99});
  ASSERT_EQ(none.code(), Code::gpu_not_available);
  EXPECT_FALSE(none.error().message.empty());
  EXPECT_EQ(gpu_memory(99).code(), Code::gpu_not_available);
  // The inventory lists a GPU or says why there is none.
  const auto inventory = devices();
  ASSERT_TRUE(inventory.ok());
  EXPECT_TRUE(inventory->devices.size() > 1 || !inventory->notes.empty());
}

TEST(WithoutAGpu, WhatCannotBePreallocatedIsAnError) {
  const auto refusal = [](DeviceId device, ContextConfig config) {
    const auto context = Context::open(device, std::move(config));
    EXPECT_EQ(context.code(), Code::invalid_argument);
    return context.ok() ? std::string() : context.error().message;
  };
  EXPECT_EQ(refusal({}, {.preallocate_bytes = 4096}),
            "preallocate_bytes is 4096, and cpu keeps no pool of memory; leave it 0, or open a GPU");
  EXPECT_EQ(refusal(kGpu, {.pool_bytes = 4095, .preallocate_bytes = 4096}),
            "preallocate_bytes is 4096, above the 4095 of pool_bytes that the pool keeps; raise pool_bytes");
  EXPECT_EQ(refusal(kGpu, {.memory = host_memory(), .preallocate_bytes = 4096}),
            "preallocate_bytes is 4096, but the memory is the caller's; call preallocate() on it");
}

TEST(WithoutAGpu, ACpusStreamsAndEvents) {
  auto cpu = Context::open(DeviceId{}, {.threads = 1, .profiling = true});
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ(cpu->streams(), 1);
  EXPECT_EQ(cpu->wrap(&cpu).code(), Code::invalid_argument);
  auto a = cpu->event(), b = cpu->event();
  EXPECT_EQ(a->synchronize().code(), Code::invalid_argument);  // not recorded
  EXPECT_TRUE(a->record(cpu->stream()).ok());
  EXPECT_TRUE(b->record(cpu->stream(7)).ok());
  EXPECT_GE(*b->milliseconds_since(*a), 0.0);
  EXPECT_TRUE(cpu->stream().wait(*a).ok());
  EXPECT_TRUE(cpu->synchronize().ok());
  EXPECT_EQ(Stream().status().code(), Code::invalid_argument);
  const float x[8] = {1, -2, 3, 0, 0.5F, 1, 1, 1};
  ASSERT_TRUE(quantize(*cpu, {x, DType::f32, {2, 4}}).ok());
  const auto times = cpu->profile();
  ASSERT_EQ(times->size(), 1U);
  EXPECT_EQ(times->front().runs, 1);
  EXPECT_TRUE(cpu->profile()->empty());
  EXPECT_TRUE(cpu->ensure_ready(1000).ok());
  const Status none = cpu->ensure_ready(std::size_t{1} << 60);
  ASSERT_EQ(none.code(), Code::insufficient_memory);
  ASSERT_NE(none.error().as<MemoryShortage>(), nullptr);
  EXPECT_EQ(none.error().as<MemoryShortage>()->needed_bytes, (std::uint64_t{1} << 60) + (std::uint64_t{1} << 60) / 5);
  EXPECT_GT(none.error().as<MemoryShortage>()->free_bytes, 0U);
  EXPECT_LE(none.error().as<MemoryShortage>()->free_bytes, cpu->memory_info()->total_bytes);
  const Status most = cpu->ensure_ready(std::numeric_limits<std::size_t>::max());  // adding a fifth would overflow
  EXPECT_EQ(most.error().as<MemoryShortage>()->needed_bytes, std::numeric_limits<std::uint64_t>::max());
}

TEST(WithoutAGpu, AFailedLaunchNamesKernelAndCode) {
  constexpr int kInvalidConfiguration = 9;  // of cudaError_t
  const Error failed = cuda::launch_failed(
      "linear.i2.cuda_sm80", with(CudaFailure{.kernel = {}, .code = kInvalidConfiguration},
                                  error(Code::kernel_launch, "launch", "invalid configuration argument")));
  EXPECT_EQ(failed.str(), "kernel_launch: the launch failed: invalid configuration argument (linear.i2.cuda_sm80)");
  ASSERT_NE(failed.as<CudaFailure>(), nullptr);
  EXPECT_EQ(failed.as<CudaFailure>()->kernel, "linear.i2.cuda_sm80");
  EXPECT_EQ(failed.as<CudaFailure>()->code, kInvalidConfiguration);
}

TEST(WithoutAGpu, CopiesOfAllShapes) {
  auto cpu = Context::open(DeviceId{}, {.threads = 1});
  std::vector<int> from(60), to(60, -1);
  for (int i = 0; i < 60; ++i) from[static_cast<std::size_t>(i)] = i;
  const Stream stream = cpu->stream();
  ASSERT_TRUE(cpu->copy({to.data(), DType::i32, {3, 4}}, {from.data(), DType::i32, {3, 4}, {10, 1}, {}}, stream).ok());
  EXPECT_EQ(to[4], 10);
  EXPECT_EQ(to[11], 23);
  ASSERT_TRUE(cpu->copy({to.data(), DType::i32, {3, 4}, {5, 1}, {}}, {from.data(), DType::i32, {3, 4}}, stream).ok());
  EXPECT_EQ(to[5], 4);
  EXPECT_EQ(cpu->copy({to.data(), DType::i32, {3}}, {from.data(), DType::i32, {4}}, stream).code(),
            Code::invalid_argument);
  EXPECT_EQ(cpu->copy({to.data(), DType::i32, {3}}, {from.data(), DType::i32, {3}, kGpu}, stream).code(),
            Code::invalid_argument);
  EXPECT_EQ(cpu->copy({to.data(), DType::i32, {3}}, {nullptr, DType::i32, {3}}, stream).code(), Code::invalid_argument);
  EXPECT_TRUE(cpu->copy({nullptr, DType::i32, {0}}, {nullptr, DType::i32, {0}}, stream).ok());
}

TEST_F(OnAGpu, IsDescribed) {
  const Device& device = gpu().device();
  ASSERT_TRUE(device.gpu.has_value());
  EXPECT_GE(device.gpu->compute_major * 10 + device.gpu->compute_minor, 75);
  EXPECT_GT(device.gpu->multiprocessors, 0);
  EXPECT_GT(device.gpu->l2_bytes, 0U);
  EXPECT_TRUE(device.capabilities.has(Capability::sm_75));
  const auto info = gpu().memory_info();
  ASSERT_TRUE(info.ok());
  EXPECT_GT(info->total_bytes, info->free_bytes);
  const auto all = devices();
  EXPECT_EQ(all->devices[1].name, device.name);
}

TEST_F(OnAGpu, TensorsGoThereAndBack) {
  const Tensor x = random({37, 129});
  auto there = x.to(gpu());
  ASSERT_TRUE(there.ok()) << there.error().str();
  EXPECT_EQ(there->view().device, kGpu);
  auto again = there->to(gpu());
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(same(back(*again), x));
  // Rows with gaps.
  Tensor part = host(DType::f32, {37, 100});
  ASSERT_TRUE(gpu().copy(part.view(), {there->data(), DType::f32, {37, 100}, {129, 1}, kGpu}, gpu().stream()).ok());
  ASSERT_TRUE(gpu().stream().synchronize().ok());
  EXPECT_EQ(part.as<float>()[100], x.as<float>()[129]);
}

TEST_F(OnAGpu, StreamsAndEventsOrderWork) {
  const Tensor x = random({256, 4096});
  auto a = Quantization::make(gpu(), x), b = Quantization::make(gpu(), x);
  ASSERT_TRUE(a.ok() && b.ok());
  auto begin = gpu().event(), end = gpu().event();
  ASSERT_TRUE(begin->record(gpu().stream(0)).ok());
  for (int i = 0; i < 20; ++i) {  // two streams at once
    ASSERT_TRUE(a->run(gpu().stream(0)).ok());
    ASSERT_TRUE(b->run(gpu().stream(1)).ok());
  }
  ASSERT_TRUE(end->record(gpu().stream(1)).ok());
  ASSERT_TRUE(gpu().stream(2).wait(*end).ok());
  Tensor codes = host(DType::u8, b->codes.shape());
  ASSERT_TRUE(gpu().copy(codes.view(), b->codes.view(), gpu().stream(2)).ok());
  ASSERT_TRUE(gpu().stream(2).synchronize().ok());
  ASSERT_TRUE(gpu().synchronize().ok());
  EXPECT_TRUE(same(codes, back(a->codes)));
  EXPECT_TRUE(same(back(a->scales), back(b->scales)));
  EXPECT_GE(*end->milliseconds_since(*begin), 0.0);
  EXPECT_NE(gpu().stream(0).cuda_stream(), gpu().stream(1).cuda_stream());
  EXPECT_EQ(gpu().stream(0).cuda_stream(), gpu().stream(3).cuda_stream());
}

TEST_F(OnAGpu, TakesACallersStream) {
  auto own = cuda::create_stream();
  ASSERT_TRUE(own.ok());
  auto stream = gpu().wrap(*own);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(stream->cuda_stream(), *own);
  EXPECT_EQ(gpu().wrap(*own)->cuda_stream(), *own);
  auto q = Quantization::make(gpu(), random({8, 256}));
  Tensor bad = random({8, 256});
  bad.as<float>()[5] = std::numeric_limits<float>::infinity();
  auto found = Quantization::make(gpu(), bad);
  const Stream standard = *gpu().wrap(nullptr);  // CUDA's default stream
  ASSERT_TRUE(found->run(standard).ok());
  EXPECT_EQ(gpu().synchronize().error().index, 5);
  EXPECT_TRUE(gpu().release(standard).ok());
  EXPECT_EQ(found->run(standard).code(), Code::invalid_argument);
  ASSERT_TRUE(q->run(*stream).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(gpu().release(*stream).ok());
  EXPECT_EQ(gpu().release(gpu().stream()).code(), Code::invalid_argument);
  cuda::destroy(*own);
  // A stream of another context is refused.
  auto other = Context::open(kGpu);
  EXPECT_EQ(q->run(other->stream()).code(), Code::invalid_argument);
}

TEST_F(OnAGpu, FindingsNameTheFirstCallAndElementAndAreReportedOnce) {
  Tensor good = random({4, 1000}), bad = random({4, 1000});
  bad.as<float>()[2345] = std::numeric_limits<float>::quiet_NaN();
  bad.as<float>()[3999] = std::numeric_limits<float>::infinity();
  Tensor worse = random({4, 1000});
  worse.as<float>()[7] = -std::numeric_limits<float>::infinity();
  auto a = Quantization::make(gpu(), good), b = Quantization::make(gpu(), bad), c = Quantization::make(gpu(), worse);
  ASSERT_TRUE(a->run(gpu().stream()).ok());
  ASSERT_TRUE(b->run(gpu().stream()).ok());
  ASSERT_TRUE(c->run(gpu().stream()).ok());
  const Status found = gpu().stream().status();
  ASSERT_EQ(found.code(), Code::non_finite);
  EXPECT_EQ(found.error().index, 2345);
  EXPECT_EQ(found.error().where, "ternary_quantize");
  EXPECT_NE(found.error().message.find("x[2, 345] (element 2345)"), std::string::npos) << found.error().message;
  EXPECT_TRUE(gpu().stream().status().ok());
  // A saturated value is not a finding, and a stream does not see the findings of another stream.
  auto s = Quantization::make(gpu(), bad, NonFinite::saturate);
  ASSERT_TRUE(s->run(gpu().stream()).ok());
  ASSERT_TRUE(c->run(gpu().stream(1)).ok());
  EXPECT_TRUE(gpu().stream().status().ok());
  EXPECT_EQ(gpu().synchronize().error().index, 7);
}

TEST_F(OnAGpu, MemoryIsTakenWhenTheContextOpens) {
  constexpr std::size_t kBytes = 64 << 20;
  const auto context = Context::open(kGpu, {.preallocate_bytes = kBytes});
  ASSERT_TRUE(context.ok()) << context.error().str();
  const auto before = context->memory_info();
  ASSERT_TRUE(before.ok()) << before.error().str();
  EXPECT_GE(before->reserved_bytes, kBytes);
  EXPECT_EQ(before->in_use_bytes, 0U);
  const auto half = context->allocate(DType::u8, {kBytes / 2});
  ASSERT_TRUE(half.ok()) << half.error().str();
  EXPECT_EQ(context->memory_info()->reserved_bytes, before->reserved_bytes);  // nothing more was taken
  EXPECT_EQ(Context::open(kGpu)->memory_info()->reserved_bytes, 0U);
}

// A call left an unread finding on a borrowed stream: the next borrower must not receive it.
TEST_F(OnAGpu, ABorrowedStreamBeginsWithoutFindings) {
  Tensor bad = random({4, 1000});
  bad.as<float>()[77] = std::numeric_limits<float>::quiet_NaN();
  auto q = Quantization::make(gpu(), bad);
  void* first = nullptr;
  {
    auto own = detail::OwnStream::open(gpu());
    ASSERT_TRUE(own.ok()) << own.error().str();
    first = (*own)->cuda_stream();
    ASSERT_TRUE(q->run(**own).ok());
  }
  const auto again = detail::OwnStream::open(gpu());
  ASSERT_TRUE(again.ok()) << again.error().str();
  EXPECT_EQ((*again)->cuda_stream(), first);  // the same one, lent again
  EXPECT_TRUE((*again)->synchronize().ok());
  EXPECT_TRUE(gpu().synchronize().ok());
}

TEST_F(OnAGpu, GraphsReplayTheSameBits) {
  auto q = Quantization::make(gpu(), random({64, 4096}));
  ASSERT_TRUE(q->run(gpu().stream()).ok());
  ASSERT_TRUE(gpu().stream().synchronize().ok());
  const Tensor codes = back(q->codes), scales = back(q->scales);
  auto* stream = static_cast<cuda::Stream*>(gpu().stream().cuda_stream());
  auto graph = cuda::capture(stream, [&]() -> Status {
    EXPECT_EQ(gpu().stream().status().code(), Code::invalid_argument);  // no waiting inside
    return q->run(gpu().stream());
  });
  ASSERT_TRUE(graph.ok()) << graph.error().str();
  ASSERT_TRUE(cuda::fill(q->codes.data(), 0xEE, q->codes.bytes(), stream).ok());
  ASSERT_TRUE(cuda::fill(q->scales.data(), 0xEE, q->scales.bytes(), stream).ok());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(cuda::replay(*graph, stream).ok());
  ASSERT_TRUE(gpu().stream().synchronize().ok());
  EXPECT_TRUE(same(back(q->codes), codes));
  EXPECT_TRUE(same(back(q->scales), scales));
  cuda::destroy(*graph);
}

TEST_F(OnAGpu, MemoryIsCountedAndGuarded) {
  auto memory = gpu_memory(0, 1 << 20);
  ASSERT_TRUE(memory.ok());
  const auto statistics = with_statistics(*memory);
  auto block = statistics->allocate({.bytes = 1000, .tag = "mine"});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*block) % 256, 0U);
  EXPECT_EQ((*memory)->info()->in_use_bytes > 0, true);
  ASSERT_EQ(statistics->live().size(), 1U);
  EXPECT_EQ(statistics->live()[0].tag, "mine");
  EXPECT_EQ(statistics->live()[0].where.starts_with("gpu_test.cpp:"), true) << statistics->live()[0].where;
  EXPECT_EQ((*memory)->deallocate(*block, 999).code(), Code::invalid_argument);
  EXPECT_EQ((*memory)->deallocate(&memory, 8).code(), Code::invalid_argument);
  EXPECT_TRUE(statistics->deallocate(*block, 1000).ok());
  EXPECT_EQ((*memory)->deallocate(*block, 1000).code(), Code::invalid_argument);
  EXPECT_EQ((*memory)->info()->in_use_bytes, 0U);
  EXPECT_TRUE((*memory)->release_unused().ok());
  EXPECT_EQ((*memory)->info()->reserved_bytes, 0U);
  // Too much is an error with both numbers, and no leak.
  auto huge = (*memory)->allocate({.bytes = std::size_t{1} << 45, .tag = "huge"});
  ASSERT_EQ(huge.code(), Code::insufficient_memory);
  EXPECT_NE(huge.error().message.find("35184372088832 bytes for 'huge'"), std::string::npos) << huge.error().message;
  ASSERT_NE(huge.error().as<MemoryShortage>(), nullptr);
  EXPECT_EQ(huge.error().as<MemoryShortage>()->needed_bytes, std::size_t{1} << 45);
  EXPECT_GT(huge.error().as<MemoryShortage>()->free_bytes, 0U);
  EXPECT_EQ(gpu().ensure_ready(std::size_t{1} << 45).code(), Code::insufficient_memory);
  EXPECT_EQ((*memory)->allocate({.bytes = 8, .alignment = 512}).code(), Code::invalid_argument);
  // A context takes it, and refuses memory of another device.
  EXPECT_TRUE(Context::open(kGpu, {.memory = statistics}).ok());
  EXPECT_EQ(Context::open(kGpu, {.memory = host_memory()}).code(), Code::invalid_argument);
}

TEST_F(OnAGpu, TenThousandQuantizationsLeaveNothing) {
  const auto statistics = with_statistics(*gpu_memory(0));
  auto context = Context::open(kGpu, {.memory = statistics});
  const Tensor x = random({10, 1000});
  auto there = x.to(*context);
  const QuantizeOptions options{.granularity = Granularity::group(128)};
  auto first = quantize(*context, there->view(), options);
  ASSERT_TRUE(first.ok()) << first.error().str();
  const std::size_t before = statistics->statistics().bytes_in_use;
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(quantize(*context, there->view(), options).ok());
  EXPECT_EQ(statistics->statistics().bytes_in_use, before);
  EXPECT_EQ(statistics->live().size(), 3U);  // x, codes, scales
}

TEST_F(OnAGpu, CountsTheTimeOfKernels) {
  auto context = Context::open(kGpu, {.profiling = true});
  auto q = Quantization::make(*context, random({64, 4096}));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(q->run(context->stream(i)).ok());
  const auto times = context->profile();
  ASSERT_EQ(times->size(), 1U);
  EXPECT_EQ(times->front().kernel, q->plan.id().kernel);
  EXPECT_EQ(times->front().runs, 5);
  EXPECT_GT(times->front().milliseconds, 0.0);
}

TEST_F(OnAGpu, ObserversLearnTheTimeOfRunsByEvents) {
  struct Times : Observer {
    std::vector<std::string> plans;
    std::vector<std::int64_t> bytes;
    std::vector<int> streams;
    int finished = 0;
    void run_finished(const RunEvent& e, const Status&) override {
      EXPECT_FALSE(e.milliseconds);
      ++finished;
    }
    void run_timed(const RunEvent& e) override {
      EXPECT_GT(e.milliseconds.value_or(0), 0.0);
      plans.emplace_back(e.plan);
      bytes.push_back(e.bytes);
      streams.push_back(e.stream);
    }
  };
  const auto times = std::make_shared<Times>();
  auto context = Context::open(kGpu, {.streams = 2, .profiling = true, .observers = {times}});
  std::string id;
  {
    auto q = Quantization::make(*context, random({64, 4096}));
    id = q->plan.id().str();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(q->run(context->stream(i)).ok());
    ASSERT_TRUE(context->synchronize().ok());
  }  // the plan has gone before its times are read
  EXPECT_EQ(times->finished, 3);
  ASSERT_TRUE(context->profile().ok());
  EXPECT_EQ(times->plans, std::vector<std::string>(3, id));
  EXPECT_EQ(times->bytes, std::vector<std::int64_t>(3, 64 * 4096 * 4 + 64 * 1024 + 64 * 32 * 4));
  EXPECT_EQ(times->streams, (std::vector<int>{0, 1, 0}));
}

TEST_F(OnAGpu, EightThreadsShareAPlan) {
  const Tensor x = random({64, 1024});
  auto q = Quantization::make(gpu(), x);
  ASSERT_TRUE(q->run(gpu().stream()).ok());
  ASSERT_TRUE(gpu().synchronize().ok());
  const Tensor want = back(q->codes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      auto mine = Quantization::make(gpu(), x);
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(mine->run(gpu().stream(t)).ok());
      EXPECT_TRUE(gpu().stream(t).synchronize().ok());
      EXPECT_TRUE(same(back(mine->codes), want));
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(OnAGpu, RefusesWhatLiesElsewhere) {
  const Tensor x = random({4, 256});
  auto q = Quantization::make(gpu(), x);
  const Status status = q->plan.run(gpu().stream(), q->workspace.as<std::byte>(),
                                    {.x = x.view(), .codes = q->codes.view(), .scales = q->scales.view()});
  ASSERT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.error().message.find("x lies on cpu, this plan runs on cuda:0"), std::string::npos)
      << status.error().message;
  auto cpu = Context::open(DeviceId{}, {.threads = 1});
  EXPECT_EQ(quantize(*cpu, q->x.view()).code(), Code::invalid_argument);
  EXPECT_EQ(validate(*quantize(gpu(), q->x.view())).code(), Code::invalid_argument);
  EXPECT_TRUE(PackedWeights::pack(gpu(), *quantize(*cpu, x.view())).ok());  // weights are copied
  EXPECT_EQ(save_quantized("never.npz", *quantize(gpu(), q->x.view())).code(), Code::invalid_argument);
  EXPECT_EQ(save_npy("never.npy", q->x.view()).code(), Code::invalid_argument);
  EXPECT_EQ(load_quantized("never.npz", gpu().memory()).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tern
