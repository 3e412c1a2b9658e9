// Converts matrices in small pieces and whole, and compares bytes, scales, checksums, reports and errors.
#include "model/convert_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>

#include "base/elements.h"
#include "model/quantized_rows.h"
#include "ops/kernel.h"
#include "plan/quality.h"
#include "tests/support/layout_cases.h"

namespace tern {
namespace {

using test::layout_cases;
using test::LayoutCase;

const Context& cpu(int threads) {
  static const Context one = *Context::open(DeviceId{}, {.threads = 1}),
                       three = *Context::open(DeviceId{}, {.threads = 3});
  return threads == 1 ? one : three;
}

BufferPool& pool() {
  static BufferPool pool;
  return pool;
}

std::vector<std::uint8_t> weights(DType dtype, std::int64_t n, std::int64_t k) {
  lab::Random random(static_cast<std::uint64_t>(n * 31 + k));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n * k) * size_of(dtype));
  for (std::int64_t i = 0; i < n * k; ++i)
    write_element(bytes.data(), dtype, i, static_cast<double>(random.gaussian()) * 0.02);
  return bytes;
}

struct Converted {
  std::vector<std::uint8_t> bytes;
  Result<ConvertedMatrix> made = Error{};
  std::int64_t rows_done = 0, serial_tasks = 0;
};

Converted convert(const Context& context, const RowsSource& source, const TensorPlan& plan, std::int64_t piece_elems,
                  const ConstTensorView* x, NonFinite policy = NonFinite::reject) {
  const auto* quantized = dynamic_cast<const QuantizedRows*>(&source);
  Converted out;
  MatrixJob job{.source = source,
                .plan = plan,
                .lossy = Lossy::allow,
                .piece_elems = piece_elems,
                .x = x,
                .non_finite = policy,
                .instructions = quantized != nullptr ? quantized->instructions() : Capabilities{},
                .write = [&](std::span<const std::uint8_t> some) -> Status {
                  out.bytes.insert(out.bytes.end(), some.begin(), some.end());
                  return {};
                },
                .done = [&](RowRange rows) { out.rows_done = rows.first + rows.count; },
                .serial_tasks = 5,
                .serial_task = [&]() -> Status {
                  ++out.serial_tasks;
                  return {};
                }};
  out.made = convert_matrix(context, pool(), job);
  return out;
}

std::vector<Granularity> granularities(const LayoutCase& c) {
  if (const auto inside = scales_in(c.spec.layout))
    return *inside == Granularity::tensor() ? std::vector{*inside}
                                            : std::vector{*inside, Granularity::row(), Granularity::tensor()};
  if (c.spec.layout == Layout::hf_packed) return {Granularity::tensor()};
  return {Granularity::tensor(), Granularity::row(), Granularity::group(48)};
}

TEST(ConvertMatrix, PiecesAreTheWholeInEveryLayout) {
  for (const LayoutCase& c : layout_cases()) {
    if (c.n * c.k > 400'000) continue;
    const auto data = weights(DType::bf16, c.n, c.k);
    const ConstTensorView x{data.data(), DType::bf16, {c.n, c.k}};
    for (const Granularity& granularity : granularities(c)) {
      QuantizeOptions how;
      how.granularity = granularity;
      how.measure_quality = true;
      const auto whole = quantize(cpu(1), x, how);
      ASSERT_TRUE(whole.ok()) << c.text();
      std::vector<std::uint8_t> want(*layout_bytes(c.spec, c.n, c.k));
      FittedScales fitted{{whole->scale_values().begin(), whole->scale_values().end()}, {}};
      if (scales_in(c.spec.layout))
        fitted =
            *fit_scales(c.spec.layout, whole->codes.view(), c.n, c.k, whole->scale_values(), granularity, Lossy::allow);
      ASSERT_TRUE(
          export_rows(c.spec, whole->codes.view(), c.n, c.k, {0, c.n},
                      scales_in(c.spec.layout) ? std::span<const float>(fitted.scales) : std::span<const float>(), want)
              .ok());
      TensorPlan plan;
      plan.layout = c.spec;
      plan.granularity = scales_in(c.spec.layout).value_or(granularity);
      for (const int threads : {1, 3})
        for (const std::int64_t piece : {std::int64_t{1}, c.k * 7, std::int64_t{1} << 30}) {
          const auto source = QuantizedRows::make(cpu(threads), pool(), x, how, false);
          ASSERT_TRUE(source.ok()) << source.error().str();
          const Converted got = convert(cpu(threads), **source, plan, piece, &x);
          ASSERT_TRUE(got.made.ok()) << c.text() << got.made.error().str();
          EXPECT_EQ(got.bytes, want) << c.text() << name(granularity) << " pieces of " << piece;
          EXPECT_EQ(got.made->stored, fitted.scales) << c.text();
          EXPECT_EQ(got.made->report.scale_loss.changed, fitted.loss.changed) << c.text() << name(granularity);
          EXPECT_EQ(got.made->report.scale_loss.index, fitted.loss.index) << c.text() << name(granularity);
          EXPECT_EQ(got.rows_done, c.n);
          EXPECT_EQ(got.serial_tasks, 5);
          const auto& trits = got.made->report.trits;
          EXPECT_EQ(trits[0] + trits[1] + trits[2], c.n * c.k);
          ASSERT_TRUE(got.made->report.quality);
          if (got.made->report.quality->sqnr_db && fitted.loss.changed == 0 &&
              std::isfinite(*whole->quality->sqnr_db)) {
            EXPECT_NEAR(*got.made->report.quality->sqnr_db, *whole->quality->sqnr_db, 5e-5) << c.text();
          }
        }
    }
  }
}

TEST(ConvertMatrix, QualityDoesNotDependOnTheNumberOfThreads) {
  const auto data = weights(DType::f32, 301, 512);
  const ConstTensorView x{data.data(), DType::f32, {301, 512}};
  TensorPlan plan;
  plan.layout = Layout::i2;
  for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate}) {  // fast sums, and exact ones
    std::vector<double> found;
    for (const int threads : {1, 3, 3, 3}) {
      const auto source = QuantizedRows::make(cpu(threads), pool(), x, {}, false);
      const Converted got = convert(cpu(threads), **source, plan, 2048, &x, policy);
      ASSERT_TRUE(got.made.ok());
      found.push_back(*got.made->report.quality->sqnr_db);
    }
    EXPECT_EQ(found, std::vector(4, found[0]));
  }
}

// Records the calls that an observer gets, from any thread.
class Watcher : public Observer {
 public:
  struct Run {
    std::string kernel;
    int threads = 0;
    std::optional<Error> failed;
  };
  void plan_selected(std::string_view kernel, std::string_view) override {
    const std::lock_guard lock(mutex_);
    selected.emplace_back(kernel);
  }
  void run_started(const RunEvent&) override {
    const std::lock_guard lock(mutex_);
    ++started;
  }
  void run_finished(const RunEvent& event, const Status& status) override {
    const std::lock_guard lock(mutex_);
    runs.push_back({std::string(event.kernel), event.threads, {}});
    if (!status.ok()) runs.back().failed = status.error();
  }
  std::vector<std::string> selected;
  std::int64_t started = 0;
  std::vector<Run> runs;

 private:
  std::mutex mutex_;
};

TEST(ConvertMatrix, AnObserverAndTheProfileSeeEveryPiece) {
  const auto data = weights(DType::bf16, 64, 256);
  const ConstTensorView x{data.data(), DType::bf16, {64, 256}};
  for (const char* wanted : {"", "ternary_quantize.i2.scalar", "ternary_quantize.i2.reference"})
    for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(128)}) {
      const auto watcher = std::make_shared<Watcher>();
      const Context context = *Context::open(DeviceId{}, {.threads = 3, .observer = watcher, .profiling = true});
      TensorPlan plan;
      plan.layout = Layout::i2;
      plan.granularity = granularity;
      QuantizeOptions how;
      how.granularity = granularity;
      how.preference = {.kernel = wanted, .strict = true};
      const auto source = QuantizedRows::make(context, pool(), x, how, false);
      ASSERT_TRUE(source.ok()) << source.error().str();
      const std::string& kernel = (*source)->kernel();
      EXPECT_TRUE(*wanted == '\0' || kernel == wanted);
      EXPECT_EQ(watcher->selected, std::vector{kernel});
      const bool by_tensor = granularity == Granularity::tensor();
      EXPECT_EQ(watcher->runs.size(), by_tensor ? 1U : 0U) << "the scale of all rows";
      ASSERT_TRUE(convert(context, **source, plan, 4 * 256, &x).made.ok());
      EXPECT_EQ(watcher->runs.size(), by_tensor ? 17U : 16U) << "pieces of four rows";
      EXPECT_EQ(watcher->started, static_cast<std::int64_t>(watcher->runs.size()));
      for (std::size_t i = 0; i < watcher->runs.size(); ++i) {
        EXPECT_EQ(watcher->runs[i].kernel, kernel);
        EXPECT_EQ(watcher->runs[i].threads, by_tensor && i == 0 ? 3 : 1);
        EXPECT_FALSE(watcher->runs[i].failed);
      }
      const auto profile = context.profile();
      ASSERT_TRUE(profile.ok());
      ASSERT_EQ(profile->size(), 1U);
      EXPECT_EQ(profile->front().kernel, kernel);
      EXPECT_EQ(profile->front().runs, watcher->started);
      EXPECT_GT(profile->front().milliseconds, 0);
    }
}

TEST(ConvertMatrix, AnObserverSeesTheRowThatFails) {
  auto data = weights(DType::bf16, 64, 256);
  write_element(data.data(), DType::bf16, 40 * 256 + 17, std::numeric_limits<double>::infinity());
  const ConstTensorView x{data.data(), DType::bf16, {64, 256}};
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::row()}) {
    const auto watcher = std::make_shared<Watcher>();
    const Context context = *Context::open(DeviceId{}, {.threads = 3, .observer = watcher});
    TensorPlan plan;
    plan.layout = Layout::i2;
    plan.granularity = granularity;
    QuantizeOptions how;
    how.granularity = granularity;
    const auto source = QuantizedRows::make(context, pool(), x, how, false);
    EXPECT_EQ(source.ok(), granularity == Granularity::row());
    if (source.ok()) {
      EXPECT_FALSE(convert(context, **source, plan, 4 * 256, &x).made.ok());
    }
    std::int64_t failed = 0;
    for (const Watcher::Run& run : watcher->runs) {
      if (!run.failed) continue;
      ++failed;
      EXPECT_EQ(run.failed->code, Code::non_finite);
      EXPECT_EQ(run.failed->index, 40 * 256 + 17);
    }
    EXPECT_EQ(failed, 1);
  }
}

// Quality is measured with the instructions of the kernel that quantized.
TEST(ConvertMatrix, QualityTakesNoInstructionThatTheKernelDoesNot) {
  const auto data = weights(DType::f32, 8, 256);
  const ConstTensorView x{data.data(), DType::f32, {8, 256}};
  const auto instructions = [&](const Preference& preference) {
    QuantizeOptions how;
    how.preference = preference;
    return (*QuantizedRows::make(cpu(1), pool(), x, how, false))->instructions();
  };
  const void* scalar = nullptr;
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.name == "ternary_quantize.i2.scalar") scalar = kernel.entry.table;
  ASSERT_NE(scalar, nullptr);
  for (const char* wanted : {"ternary_quantize.i2.scalar", "ternary_quantize.i2.reference"})
    EXPECT_EQ(QualityLoops::of(instructions({.kernel = wanted, .strict = true})).sums, scalar);
  setenv("TERN_MAX_ISA", "scalar", 1);
  const Capabilities limited = instructions({});
  unsetenv("TERN_MAX_ISA");
  EXPECT_EQ(QualityLoops::of(limited).sums, scalar);
  const auto plan = TernaryQuantizePlan::select(cpu(1), {.rows = 8, .k = 256});
  ASSERT_TRUE(plan.ok());
  for (const Kernel& kernel : kernel_list())
    if (kernel.info.name == plan->id().kernel) {
      EXPECT_EQ(QualityLoops::of(instructions({})).sums, kernel.entry.table);
    }
}

TEST(ConvertMatrix, ErrorsNameTheElementOfTheMatrix) {
  auto data = weights(DType::bf16, 64, 256);
  write_element(data.data(), DType::bf16, 40 * 256 + 17, std::numeric_limits<double>::infinity());
  const ConstTensorView x{data.data(), DType::bf16, {64, 256}};
  TensorPlan plan;
  plan.layout = Layout::i2;
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(128)}) {
    plan.granularity = granularity;
    QuantizeOptions how;
    how.granularity = granularity;
    const auto want = quantize(cpu(1), x, how);
    ASSERT_FALSE(want.ok());
    const auto source = QuantizedRows::make(cpu(3), pool(), x, how, false);
    const auto got =
        source.ok() ? convert(cpu(3), **source, plan, 1, &x).made : Result<ConvertedMatrix>(Error(source.error()));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().str(), want.error().str());
    EXPECT_EQ(got.error().index, want.error().index);
  }
  auto wide = weights(DType::f64, 8, 4);
  write_element(wide.data(), DType::f64, 5 * 4 + 1, 1e300);
  const ConstTensorView y{wide.data(), DType::f64, {8, 4}};
  QuantizeOptions how;
  how.granularity = plan.granularity = Granularity::row();
  const auto source = QuantizedRows::make(cpu(3), pool(), y, how, false);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(convert(cpu(3), **source, plan, 1, &y).made.error().str(), quantize(cpu(1), y, how).error().str());
}

}  // namespace
}  // namespace tern
