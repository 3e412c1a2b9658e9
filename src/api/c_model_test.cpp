// Tests of the C ABI of models: the same answers as in C++, and what it refuses.
#include <filesystem>
#include <map>

#include "api/c_test.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/test_files.h"

namespace tern::c_test {
namespace {

using ModelHandle = std::unique_ptr<tern_model, Destroy<tern_model_close>>;
using PlanHandle = std::unique_ptr<tern_model_plan, Destroy<tern_model_plan_destroy>>;
using ReportHandle = std::unique_ptr<tern_model_report, Destroy<tern_model_report_destroy>>;
using DifferenceHandle = std::unique_ptr<tern_model_difference, Destroy<tern_model_difference_destroy>>;

constexpr const char* kUp = "model.layers.0.mlp.up_proj.weight";

class CModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    std::filesystem::create_directory(path("model"));
    const Status written = write_bitnet_folder(path("model"), {.layers = 1});
    ASSERT_TRUE(written.ok()) << written.error().str();
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static inline std::unique_ptr<TempFolder> folder_;
  static std::string path(const std::string& name) { return *folder_ / name; }

  static ModelHandle open(const std::string& name, const tern_read_options* options = nullptr) {
    tern_model* model = nullptr;
    EXPECT_EQ(tern_model_open(path(name).c_str(), options, &model), TERN_OK) << tern_last_error()->text;
    return ModelHandle(model);
  }
  static PlanHandle plan(const ModelHandle& model, const std::string& output, const tern_write_options* options) {
    tern_model_plan* made = nullptr;
    EXPECT_EQ(tern_model_plan_create(model.get(), path(output).c_str(), options, &made), TERN_OK)
        << tern_last_error()->text;
    return PlanHandle(made);
  }
  ReportHandle write(const ModelHandle& model, const std::string& output,
                     const tern_write_options* options = nullptr) const {
    const PlanHandle made = plan(model, output, options);
    tern_model_report* report = nullptr;
    EXPECT_EQ(
        tern_write_model(context_.get(), model.get(), made.get(), path(output).c_str(), nullptr, nullptr, &report),
        TERN_OK)
        << tern_last_error()->text;
    return ReportHandle(report);
  }
  static std::size_t place(const ModelHandle& model, const char* name) {
    std::int64_t index = -1;
    EXPECT_EQ(tern_model_find(model.get(), name, &index), TERN_OK);
    EXPECT_GE(index, 0) << name;
    return static_cast<std::size_t>(index);
  }

  ContextHandle context_ = open_context();
};

TEST_F(CModel, QuantizesAsCppDoes) {
  const ModelHandle model = open("model");
  tern_write_options options = TERN_WRITE_OPTIONS_INIT;
  options.embeddings = "f16";
  options.exclude = "k_proj";
  options.histograms = 1;
  const PlanHandle made = plan(model, "c.gguf", &options);
  const tern_model_plan_info* info = nullptr;
  ASSERT_EQ(tern_model_plan_get_info(made.get(), &info), TERN_OK);
  EXPECT_EQ(info->container, TERN_CONTAINER_GGUF);
  EXPECT_EQ(info->layout, TERN_LAYOUT_I2_S_X86_128);
  EXPECT_EQ(info->actions[TERN_ACTION_QUANTIZE], 6U);

  const auto cpp_model = Model::open(path("model"));
  ASSERT_TRUE(cpp_model.ok());
  const auto cpp_plan = plan_model(*cpp_model, path("cpp.gguf"),
                                   {.exclude = "k_proj", .embeddings = StoredType::f16, .histograms = true});
  ASSERT_TRUE(cpp_plan.ok());
  const auto cpp_report = write_model(*Context::open(DeviceId{}), *cpp_model, *cpp_plan, path("cpp.gguf"));
  ASSERT_TRUE(cpp_report.ok());
  ASSERT_EQ(info->tensor_count, cpp_plan->tensors.size());
  EXPECT_EQ(info->out_bytes, cpp_plan->out_bytes());
  for (std::size_t i = 0; i < std::size(info->actions); ++i)
    EXPECT_EQ(info->actions[i], cpp_plan->count(static_cast<Action>(i))) << i;

  struct Calls {
    std::size_t count = 0, done = 0, total = 0;
  } calls;
  const auto progress = [](void* user, const char* tensor, std::size_t done, std::size_t total) -> std::int32_t {
    auto& last = *static_cast<Calls*>(user);
    last = {last.count + 1, done, total};
    return tensor[0] != '\0';
  };
  tern_model_report* report = nullptr;
  ASSERT_EQ(
      tern_write_model(context_.get(), model.get(), made.get(), path("c.gguf").c_str(), progress, &calls, &report),
      TERN_OK)
      << tern_last_error()->text;
  const ReportHandle owner(report);
  EXPECT_GT(calls.count, 0U);
  EXPECT_EQ(calls.done, calls.total);
  const tern_model_report_info* summary = nullptr;
  ASSERT_EQ(tern_model_report_get_info(report, &summary), TERN_OK);
  EXPECT_EQ(summary->file_bytes, std::filesystem::file_size(path("c.gguf")));
  EXPECT_STRNE(summary->kernel, "");
  const std::map<std::string_view, double> stages = {{"reading", summary->reading_seconds},
                                                     {"computing", summary->computing_seconds},
                                                     {"bus", summary->bus_seconds},
                                                     {"gpu", summary->gpu_seconds},
                                                     {"writing", summary->writing_seconds}};
  double sum = summary->idle_seconds;
  for (const auto& [stage, seconds] : stages) {
    sum += seconds;
    EXPECT_LE(seconds, stages.at(summary->limited_by)) << stage;
  }
  EXPECT_GE(sum, 0.999 * summary->seconds);
  EXPECT_GE(summary->writing_seconds, summary->flush_seconds);
  EXPECT_GT(summary->limit_gb_per_s, 0);
  for (std::size_t i = 0; i < info->tensor_count; ++i) {
    const tern_tensor_plan* tensor = nullptr;
    const tern_tensor_report* result = nullptr;
    ASSERT_EQ(tern_model_plan_tensor(made.get(), i, &tensor), TERN_OK);
    ASSERT_EQ(tern_model_report_tensor(report, i, &result), TERN_OK);
    const TensorPlan& want = cpp_plan->tensors[i];
    const TensorReport& was = cpp_report->tensors[i];
    SCOPED_TRACE(tensor->name);
    EXPECT_EQ(tensor->name, want.name);
    EXPECT_EQ(tensor->type, name(want.type));
    EXPECT_EQ(tensor->why, want.why);
    EXPECT_EQ(static_cast<int>(tensor->action), static_cast<int>(want.action));
    EXPECT_EQ(tensor->out_bytes, want.out_bytes);
    EXPECT_EQ(tensor->layout != nullptr, want.action == Action::quantize);
    EXPECT_EQ(result->scale_loss->changed, was.scale_loss.changed);
    EXPECT_EQ(result->has_checksum != 0, was.checksum.has_value());
    EXPECT_EQ(result->checksum, was.checksum.value_or(0));
    EXPECT_EQ(result->quality != nullptr, was.quality.has_value());
    if (was.quality) {
      EXPECT_EQ(result->quality->zero_fraction, was.quality->zero_fraction);
    }
    for (std::size_t t = 0; t < 3; ++t) EXPECT_EQ(result->trits[t], was.trits[t]);
    ASSERT_EQ(result->histogram_count, was.histogram.size());
    EXPECT_EQ(std::vector(result->histogram, result->histogram + result->histogram_count), was.histogram);
  }

  tern_model_difference* found = nullptr;
  const ModelHandle a = open("c.gguf"), b = open("cpp.gguf");
  ASSERT_EQ(tern_compare_models(context_.get(), a.get(), b.get(), nullptr, nullptr, &found), TERN_OK);
  const DifferenceHandle difference(found);
  std::int32_t equal = 0;
  EXPECT_EQ(tern_model_difference_equal(found, &equal), TERN_OK);
  EXPECT_EQ(equal, 1);
}

TEST_F(CModel, ReadsWeightsOfALayer) {
  const ModelHandle model = open("model");
  (void)write(model, "w.safetensors");
  const ModelHandle packed = open("w.safetensors");
  const tern_model_tensor* tensor = nullptr;
  const std::size_t index = place(packed, "blk.0.ffn_up.weight");  // by the other container's name
  ASSERT_EQ(tern_model_tensor_get(packed.get(), index, &tensor), TERN_OK);
  EXPECT_STREQ(tensor->name, kUp);
  ASSERT_EQ(tensor->rank, 2);
  EXPECT_EQ(tensor->shape[0], 768);
  EXPECT_EQ(tensor->shape[1], 256);
  EXPECT_EQ(tensor->ternary, 1);
  ASSERT_NE(tensor->layout, nullptr) << tensor->unreadable;
  EXPECT_EQ(tensor->layout->layout, TERN_LAYOUT_I2);
  EXPECT_GE(tensor->scales_index, 0);
  EXPECT_EQ(tensor->has_checksum, 1);

  tern_quantized* read = nullptr;
  ASSERT_EQ(tern_model_read(context_.get(), packed.get(), index, &read), TERN_OK) << tern_last_error()->text;
  const QuantizedHandle quantized(read);
  std::uint64_t checksum = 0;
  EXPECT_EQ(tern_quantized_checksum(read, &checksum), TERN_OK);
  EXPECT_EQ(checksum, tensor->checksum);
  tern_packed_weights* loaded = nullptr;
  ASSERT_EQ(tern_packed_weights_load(context_.get(), packed.get(), kUp, &loaded), TERN_OK) << tern_last_error()->text;
  const WeightsHandle weights(loaded);
  const tern_packed_weights_info* info = nullptr;
  ASSERT_EQ(tern_packed_weights_get_info(loaded, &info), TERN_OK);
  EXPECT_EQ(info->n, 768);
  EXPECT_EQ(info->k, 256);
  EXPECT_EQ(info->checksum, checksum);

  tern_model_report* seen = nullptr;
  ASSERT_EQ(tern_inspect_tensor(context_.get(), packed.get(), index, &seen), TERN_OK);
  const ReportHandle report(seen);
  const tern_tensor_report* shares = nullptr;
  ASSERT_EQ(tern_model_report_tensor(seen, 0, &shares), TERN_OK);
  EXPECT_EQ(shares->trits[0] + shares->trits[1] + shares->trits[2], 768 * 256);
  EXPECT_EQ(shares->checksum, checksum);

  EXPECT_FAILS(tern_packed_weights_load(context_.get(), packed.get(), "none", &loaded), TERN_INVALID_ARGUMENT,
               "'none'");
  EXPECT_FAILS(tern_packed_weights_load(context_.get(), model.get(), kUp, &loaded), TERN_INVALID_ARGUMENT, kUp);
  EXPECT_FAILS(tern_model_read(context_.get(), packed.get(), 99, &read), TERN_INVALID_ARGUMENT, "99");
  EXPECT_FAILS(tern_inspect_tensor(context_.get(), packed.get(), 99, &seen), TERN_INVALID_ARGUMENT, "99");
  const char* config = nullptr;
  const tern_checkpoint* checkpoint = nullptr;
  const tern_checkpoint_info* about = nullptr;
  EXPECT_EQ(tern_model_config_json(model.get(), &config), TERN_OK);
  EXPECT_EQ(config[0], '{');
  ASSERT_EQ(tern_model_checkpoint(packed.get(), &checkpoint), TERN_OK);
  ASSERT_EQ(tern_checkpoint_get_info(checkpoint, &about), TERN_OK);
  EXPECT_EQ(about->container, TERN_CONTAINER_SAFETENSORS);
  char name[100];
  std::size_t length = 0;
  EXPECT_EQ(tern_gguf_name(kUp, name, sizeof(name), &length), TERN_OK);
  EXPECT_STREQ(name, "blk.0.ffn_up.weight");
  EXPECT_EQ(tern_hf_name("blk.0.ffn_up.weight", name, sizeof(name), &length), TERN_OK);
  EXPECT_STREQ(name, kUp);
  EXPECT_EQ(tern_hf_name("other", name, sizeof(name), &length), TERN_OK);
  EXPECT_EQ(length, 0U);
}

TEST_F(CModel, ConvertsAndTellsWhatDiffers) {
  const ModelHandle model = open("model");
  (void)write(model, "from.safetensors");
  const ModelHandle from = open("from.safetensors");
  tern_write_options options = TERN_WRITE_OPTIONS_INIT;
  options.quantize = 0;
  options.layout = TERN_LAYOUT_TQ2_0;
  options.lossy = 1;
  options.architecture = "bitnet";
  options.drop = "o_proj";
  const ReportHandle report = write(from, "to.gguf", &options);
  const ModelHandle to = open("to.gguf");
  tern_model_difference* found = nullptr;
  ASSERT_EQ(tern_compare_models(context_.get(), from.get(), to.get(), nullptr, nullptr, &found), TERN_OK);
  const DifferenceHandle difference(found);
  std::int32_t equal = 1;
  std::size_t count = 0, dropped = 0, rounded = 0;
  EXPECT_EQ(tern_model_difference_equal(found, &equal), TERN_OK);
  EXPECT_EQ(equal, 0);
  ASSERT_EQ(tern_model_difference_count(found, &count), TERN_OK);
  for (std::size_t i = 0; i < count; ++i) {
    const tern_tensor_difference* tensor = nullptr;
    ASSERT_EQ(tern_model_difference_tensor(found, i, &tensor), TERN_OK);
    EXPECT_EQ(tensor->differing_trits, 0) << tensor->name;
    dropped += tensor->kind == TERN_DIFFERENCE_ONLY_IN_A ? 1 : 0;
    rounded += tensor->kind == TERN_DIFFERENCE_DIFFERS ? 1 : 0;
    EXPECT_STRNE(tern_difference_name(tensor->kind), "unknown");
  }
  EXPECT_EQ(dropped, 1U);
  EXPECT_GT(rounded, 0U) << "scales are f16 in tq2_0";
}

TEST_F(CModel, StopsAndRefuses) {
  const ModelHandle model = open("model");
  tern_write_options options = TERN_WRITE_OPTIONS_INIT;
  const PlanHandle made = plan(model, "no.gguf", &options);
  tern_model_report* report = nullptr;
  const auto stop = [](void*, const char*, std::size_t, std::size_t) -> std::int32_t { return 0; };
  const std::string output = path("no.gguf");
  EXPECT_FAILS(tern_write_model(context_.get(), model.get(), made.get(), output.c_str(), stop, nullptr, &report),
               TERN_INVALID_ARGUMENT, "stopped by the caller");
  EXPECT_EQ(report, nullptr);
  // A parallel-for that leaves slots out must not leave a file behind.
  tern_context_config config = TERN_CONTEXT_CONFIG_INIT;
  config.threads = 2;
  config.parallel_for = [](void*, std::int32_t slots, tern_task_fn task, void* user) {
    for (std::int32_t slot = 0; slot + 1 < slots; ++slot) task(user, slot);
  };
  const ContextHandle lazy = open_context(&config);
  EXPECT_FAILS(tern_write_model(lazy.get(), model.get(), made.get(), output.c_str(), nullptr, nullptr, &report),
               TERN_INVALID_ARGUMENT, "parallel-for");
  EXPECT_FALSE(std::filesystem::exists(output));

  tern_model_plan* none = nullptr;
  const auto refused = [&] { return tern_model_plan_create(model.get(), output.c_str(), &options, &none); };
  options.include = "(";
  EXPECT_FAILS(refused(), TERN_INVALID_ARGUMENT, "regular expression");
  options.include = nullptr;
  options.layout = static_cast<tern_layout>(99);
  EXPECT_FAILS(refused(), TERN_INVALID_ARGUMENT, "options->layout is 99");
  options.layout = TERN_LAYOUT_DEFAULT;
  options.container = static_cast<tern_container>(2);
  EXPECT_FAILS(refused(), TERN_INVALID_ARGUMENT, "options->container is 2");
  options.container = TERN_CONTAINER_DEFAULT;
  options.embeddings = "i8";
  EXPECT_FAILS(refused(), TERN_INVALID_ARGUMENT, "embeddings become F16, BF16, Q8_0 or Q4_0, not I8");
  options.embeddings = nullptr;
  options.struct_size = 16;
  EXPECT_FAILS(refused(), TERN_INVALID_ARGUMENT, "struct_size is 16");
  tern_model* never = nullptr;
  tern_read_options read = TERN_READ_OPTIONS_INIT;
  read.kernel_config = "nonsense";
  EXPECT_FAILS(tern_model_open(path("model").c_str(), &read, &never), TERN_CORRUPT_FILE, "nonsense");
  read.kernel_config = nullptr;
  read.weight_scale = static_cast<tern_weight_scale>(7);
  EXPECT_FAILS(tern_model_open(path("model").c_str(), &read, &never), TERN_INVALID_ARGUMENT, "weight_scale is 7");
  EXPECT_EQ(never, nullptr);
}

TEST_F(CModel, NullIsRefusedByName) {
  const ModelHandle owner = open("model");
  const PlanHandle plan_owner = plan(owner, "null.gguf", nullptr);
  const tern_context* c = context_.get();
  const tern_model* model = owner.get();
  const tern_model_plan* made = plan_owner.get();
  tern_model* opened = nullptr;
  tern_model_plan* planned = nullptr;
  tern_model_report* report = nullptr;
  tern_model_difference* difference = nullptr;
  tern_quantized* quantized = nullptr;
  tern_packed_weights* weights = nullptr;
  const tern_checkpoint* checkpoint = nullptr;
  const tern_model_tensor* tensor = nullptr;
  const tern_model_plan_info* info = nullptr;
  const tern_tensor_plan* tensor_plan = nullptr;
  const tern_model_report_info* report_info = nullptr;
  const tern_tensor_report* tensor_report = nullptr;
  const tern_tensor_difference* tensor_difference = nullptr;
  const tern_metadata* metadata = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
  std::int64_t index = 0;
  std::int32_t equal = 0;
  tern_model_close(nullptr);
  tern_model_plan_destroy(nullptr);
  tern_model_report_destroy(nullptr);
  tern_model_difference_destroy(nullptr);
#define EXPECT_NULL(call, parameter) EXPECT_FAILS(call, TERN_INVALID_ARGUMENT, parameter " is NULL")
  EXPECT_NULL(tern_model_open(nullptr, nullptr, &opened), "path");
  EXPECT_NULL(tern_model_open("x", nullptr, nullptr), "out");
  EXPECT_NULL(tern_model_checkpoint(nullptr, &checkpoint), "model");
  EXPECT_NULL(tern_model_config_json(nullptr, &text), "model");
  EXPECT_NULL(tern_model_config_json(model, nullptr), "out");
  EXPECT_NULL(tern_model_tensor_count(nullptr, &size), "model");
  EXPECT_NULL(tern_model_tensor_get(nullptr, 0, &tensor), "model");
  EXPECT_NULL(tern_model_find(model, nullptr, &index), "name");
  EXPECT_NULL(tern_model_find(model, "w", nullptr), "index");
  EXPECT_NULL(tern_model_read(nullptr, model, 0, &quantized), "context");
  EXPECT_NULL(tern_model_read(c, nullptr, 0, &quantized), "model");
  EXPECT_NULL(tern_model_read(c, model, 0, nullptr), "out");
  EXPECT_NULL(tern_packed_weights_load(nullptr, model, "w", &weights), "context");
  EXPECT_NULL(tern_packed_weights_load(c, nullptr, "w", &weights), "model");
  EXPECT_NULL(tern_packed_weights_load(c, model, nullptr, &weights), "tensor");
  EXPECT_NULL(tern_packed_weights_load(c, model, "w", nullptr), "out");
  EXPECT_NULL(tern_gguf_name(nullptr, nullptr, 0, &size), "hf_name");
  EXPECT_NULL(tern_hf_name("x", nullptr, 0, nullptr), "length");
  EXPECT_NULL(tern_inspect_tensor(nullptr, model, 0, &report), "context");
  EXPECT_NULL(tern_inspect_tensor(c, nullptr, 0, &report), "model");
  EXPECT_NULL(tern_inspect_tensor(c, model, 0, nullptr), "out");
  EXPECT_NULL(tern_model_report_get_info(nullptr, &report_info), "report");
  EXPECT_NULL(tern_model_report_tensor(nullptr, 0, &tensor_report), "report");
  EXPECT_NULL(tern_model_plan_create(nullptr, "x", nullptr, &planned), "model");
  EXPECT_NULL(tern_model_plan_create(model, nullptr, nullptr, &planned), "output");
  EXPECT_NULL(tern_model_plan_create(model, "x", nullptr, nullptr), "out");
  EXPECT_NULL(tern_model_plan_get_info(nullptr, &info), "plan");
  EXPECT_NULL(tern_model_plan_tensor(nullptr, 0, &tensor_plan), "plan");
  EXPECT_NULL(tern_model_plan_note(nullptr, 0, &text), "plan");
  EXPECT_NULL(tern_model_plan_metadata(nullptr, &metadata), "plan");
  EXPECT_NULL(tern_write_model(nullptr, model, made, "x", nullptr, nullptr, &report), "context");
  EXPECT_NULL(tern_write_model(c, nullptr, made, "x", nullptr, nullptr, &report), "model");
  EXPECT_NULL(tern_write_model(c, model, nullptr, "x", nullptr, nullptr, &report), "plan");
  EXPECT_NULL(tern_write_model(c, model, made, nullptr, nullptr, nullptr, &report), "output");
  EXPECT_NULL(tern_write_model(c, model, made, "x", nullptr, nullptr, nullptr), "out");
  EXPECT_NULL(tern_compare_models(nullptr, model, model, nullptr, nullptr, &difference), "context");
  EXPECT_NULL(tern_compare_models(c, nullptr, model, nullptr, nullptr, &difference), "a");
  EXPECT_NULL(tern_compare_models(c, model, nullptr, nullptr, nullptr, &difference), "b");
  EXPECT_NULL(tern_compare_models(c, model, model, nullptr, nullptr, nullptr), "out");
  EXPECT_NULL(tern_model_difference_equal(nullptr, &equal), "difference");
  EXPECT_NULL(tern_model_difference_count(nullptr, &size), "difference");
  EXPECT_NULL(tern_model_difference_tensor(nullptr, 0, &tensor_difference), "difference");
#undef EXPECT_NULL
  ASSERT_EQ(tern_model_plan_metadata(made, &metadata), TERN_OK);
  EXPECT_EQ(tern_metadata_get_text(metadata, "tern.format", &text, &size), TERN_OK);
  EXPECT_STREQ(text, "i2_s.x86_128");
  ASSERT_EQ(tern_model_plan_note(made, 0, &text), TERN_OK);
  EXPECT_STREQ(text, "the tokenizer is not converted");
}

}  // namespace
}  // namespace tern::c_test
