// What an observer costs: nanoseconds that a run of a small plan takes longer with observers attached than with none.
//
//   cmake --build build/release --target observer_cost && build/release/bin/observer_cost
#include <tern/tern.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

constexpr int kRounds = 301, kRuns = 2000;
constexpr std::int64_t kSize = 64;

template <class T>
T must(tern::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().str().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

struct Counter : tern::Observer {
  std::int64_t bytes = 0;
  void run_finished(const tern::RunEvent& event, const tern::Status&) override { bytes += event.bytes; }
};

// One token by 64 x 64 weights, about 0.3 us: the smallest work that a plan has.
class Run {
 public:
  explicit Run(int observers) : context_(open(observers)), plan_(select(context_)), weights_(pack(context_)) {}

  double nanoseconds() {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) once();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / kRuns;
  }

 private:
  static tern::Context open(int observers) {
    tern::ContextConfig config{.threads = 1};
    for (int i = 0; i < observers; ++i) config.observers.push_back(std::make_shared<Counter>());
    return must(tern::Context::open(tern::DeviceId{}, config));
  }
  static tern::LinearPlan select(const tern::Context& context) {
    tern::Linear::Problem problem{.m_max = 1, .k = kSize, .x_dtype = tern::DType::i8};
    problem.matrices = {{.n = kSize}};
    return must(tern::LinearPlan::select(context, problem));
  }
  static tern::PackedWeights pack(const tern::Context& context) {
    const std::vector<std::uint8_t> codes(kSize * kSize / 4, 0x64);  // trits -1, 0, 1, 0
    const float scale = 1;
    return must(tern::PackedWeights::pack(context, {codes.data(), tern::DType::u8, {kSize, kSize / 4}},
                                          {&scale, tern::DType::f32, {1}}, kSize, kSize, tern::Granularity::tensor()));
  }
  void once() {
    const tern::Linear::Output output{weights_, {y_.data(), tern::DType::f32, {1, kSize}}};
    const tern::Status status = plan_.run(context_.stream(), workspace_,
                                          {.x = {x_.data(), tern::DType::i8, {1, kSize}},
                                           .x_scales = {&scale_, tern::DType::f32, {1}},
                                           .outputs = {&output, 1}});
    if (!status) {
      std::fprintf(stderr, "%s\n", status.error().str().c_str());
      std::exit(1);
    }
  }

  tern::Context context_;
  tern::LinearPlan plan_;
  tern::PackedWeights weights_;
  std::array<std::int8_t, kSize> x_ = {1, 2, 3};
  std::array<float, kSize> y_ = {};
  float scale_ = 1;
  alignas(64) std::array<std::byte, 4096> workspace_ = {};
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

}  // namespace

int main() {
  Run none(0), one(1), two(2);
  std::vector<double> alone, with_one, with_two;
  for (int round = 0; round < kRounds; ++round) {  // in turns, so that a change of clock meets all three
    const double base = none.nanoseconds();
    alone.push_back(base);
    with_one.push_back(one.nanoseconds() - base);
    with_two.push_back(two.nanoseconds() - base);
  }
  std::printf("a run without observer %.1f ns, one observer %+.1f ns, two %+.1f ns (medians of %d rounds of %d runs)\n",
              median(alone), median(with_one), median(with_two), kRounds, kRuns);
  return 0;
}
