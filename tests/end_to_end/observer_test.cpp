// The observer of a context sees every kernel run when a checkpoint is quantized, and the run that fails.
#include "tern/observer.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

class RunList : public Observer {
 public:
  void plan_selected(std::string_view kernel, std::string_view) override {
    const std::lock_guard lock(mutex_);
    selected.emplace_back(kernel);
  }
  void run_finished(const RunEvent& event, const Status& status) override {
    const std::lock_guard lock(mutex_);
    kernels.emplace_back(event.kernel);
    if (!status.ok()) errors.push_back(status.error());
  }
  std::vector<std::string> selected, kernels;
  std::vector<Error> errors;

 private:
  std::mutex mutex_;
};

struct Observed {
  std::shared_ptr<RunList> runs = std::make_shared<RunList>();
  Result<ModelReport> report = Error{};
  std::vector<KernelTime> profile;
};

Observed quantize_observed(const std::string& in, const std::string& out, WriteOptions options) {
  Observed seen;
  const Context context = *Context::open(DeviceId{}, {.threads = 3, .observer = seen.runs, .profiling = true});
  const auto model = Model::open(in);
  EXPECT_TRUE(model.ok()) << model.error().str();
  const auto plan = plan_model(*model, out, options);
  EXPECT_TRUE(plan.ok()) << plan.error().str();
  seen.report = write_model(context, *model, *plan, out);
  seen.profile = *context.profile();
  return seen;
}

TEST(ObservedModel, IsSeenMatrixByMatrix) {
  const TempFolder folder;
  ASSERT_TRUE(write_bitnet_folder(folder.path().string(), {}).ok());
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::group(128)})
    for (const char* kernel : {"", "ternary_quantize.i2.scalar"}) {
      WriteOptions options{.layout = Layout::i2, .granularity = granularity};
      options.preference.kernel = kernel;
      const Observed seen = quantize_observed(folder / "model.safetensors", folder / "out.safetensors", options);
      ASSERT_TRUE(seen.report.ok()) << seen.report.error().str();
      if (*kernel != '\0') {
        EXPECT_EQ(seen.report->kernel, kernel);
      }
      const std::size_t matrices = 14;  // seven in each of two layers
      EXPECT_EQ(seen.runs->selected, std::vector(matrices, seen.report->kernel));
      EXPECT_GE(seen.runs->kernels.size(), granularity == Granularity::tensor() ? 2 * matrices : matrices);
      EXPECT_EQ(seen.runs->kernels, std::vector(seen.runs->kernels.size(), seen.report->kernel));
      EXPECT_TRUE(seen.runs->errors.empty());
      ASSERT_EQ(seen.profile.size(), 1U);
      EXPECT_EQ(seen.profile[0].runs, static_cast<std::int64_t>(seen.runs->kernels.size()));
    }
}

TEST(ObservedModel, NamesTheElementThatFails) {
  const TempFolder folder;
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  constexpr std::int64_t kRows = 2000, kColumns = 512, kBad = 1761 * kColumns + 5;  // far from the first piece
  std::vector<std::uint16_t> weights(kRows * kColumns, 0x3C00);
  weights[kBad] = 0x7F80;
  auto writer =
      CheckpointWriter::create(folder / "in.safetensors", Container::safetensors, {{"format", MetaValue("pt")}},
                               {{.name = name, .type = StoredType::bf16, .shape = {kRows, kColumns}}});
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  ASSERT_TRUE(writer->write({reinterpret_cast<const std::uint8_t*>(weights.data()), weights.size() * 2}).ok());
  ASSERT_TRUE(writer->finish().ok());
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(128)}) {
    const Observed seen = quantize_observed(folder / "in.safetensors", folder / "out.safetensors",
                                            {.layout = Layout::i2, .granularity = granularity});
    ASSERT_FALSE(seen.report.ok());
    EXPECT_NE(seen.report.error().message.find("x[1761, 5]"), std::string::npos) << seen.report.error().message;
    ASSERT_EQ(seen.runs->errors.size(), 1U);
    EXPECT_EQ(seen.runs->errors[0].index, kBad);
    EXPECT_EQ(seen.runs->errors[0].code, Code::non_finite);
  }
}

}  // namespace
}  // namespace tern
