// Converts a small BitNet through every format and container: trits and scales stay equal; planted changes are found.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "plan/context_state.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

const Context& cpu() {
  static const Context context = *Context::open(DeviceId{}, {.threads = 2});
  return context;
}

class Models : public testing::Test {
 protected:
  void SetUp() override {
    const Status written = write_bitnet_folder(folder_.path().string(), {});
    ASSERT_TRUE(written.ok()) << written.error().str();
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string input() const { return path("model.safetensors"); }

  Result<ModelReport> write(const std::string& in, const std::string& out, const WriteOptions& options,
                            const ReadOptions& read = {}) const {
    auto model = Model::open(in, read);
    if (!model.ok()) return std::move(model).error();
    auto plan = plan_model(*model, out, options);
    if (!plan.ok()) return std::move(plan).error();
    return write_model(cpu(), *model, *plan, out);
  }
  static ModelDifference compare(const std::string& a, const std::string& b) {
    const auto first = Model::open(a), second = Model::open(b);
    EXPECT_TRUE(first.ok()) << first.error().str();
    EXPECT_TRUE(second.ok()) << second.error().str();
    if (!first.ok() || !second.ok()) return {{{.kind = TensorDifference::Kind::differs}}};
    auto difference = compare_models(cpu(), *first, *second);
    EXPECT_TRUE(difference.ok()) << difference.error().str();
    return difference.ok() ? *std::move(difference) : ModelDifference{{{.kind = TensorDifference::Kind::differs}}};
  }
  static void expect_equal(const std::string& a, const std::string& b) {
    const ModelDifference found = compare(a, b);
    EXPECT_EQ(found.tensors.size(), 24U);
    for (const TensorDifference& t : found.tensors)
      EXPECT_EQ(t.kind, TensorDifference::Kind::equal) << t.name << ": " << t.what;
  }

  TempFolder folder_;
};

std::vector<KernelTiles> tiles(Layout layout) {
  std::vector<KernelTiles> out;
  for (const auto& [n, k] : {std::pair{256, 256}, {128, 256}, {768, 256}, {256, 768}})
    out.push_back({n, k, layout == Layout::tl1 ? LutTiles{64, 64, 32} : LutTiles{64, 96, 32}});
  return out;
}

TEST_F(Models, GoThroughEveryFormatAndComeBackEqual) {
  const WriteOptions quantize;
  const auto first = write(input(), path("a.gguf"), quantize);
  ASSERT_TRUE(first.ok()) << first.error().str();
  EXPECT_EQ(first->file_bytes, std::filesystem::file_size(path("a.gguf")));

  std::string before = path("a.gguf");
  const std::vector<std::pair<Layout, std::string>> chain = {
      {Layout::hf_packed, "b.safetensors"}, {Layout::i2_s_arm_64, "c.gguf"}, {Layout::i2, "d.safetensors"},
      {Layout::i2_s_1x4, "e.gguf"},         {Layout::b3, "f.safetensors"},   {Layout::tl1, "g.gguf"},
      {Layout::ms_gpu, "h.safetensors"},    {Layout::tl2, "i.gguf"},         {Layout::i2_s_x86_128, "j.gguf"}};
  for (const auto& [layout, name] : chain) {
    SCOPED_TRACE(name);
    WriteOptions convert{.layout = layout, .tiles = tiles(layout), .quantize = false, .architecture = "bitnet-b1.58"};
    const auto report = write(before, path(name), convert);
    ASSERT_TRUE(report.ok()) << report.error().str();
    expect_equal(path("a.gguf"), path(name));
    before = path(name);
  }
  // The checksums of trits and scales are the same in both files.
  const auto a = Model::open(path("a.gguf"));
  const auto b = Model::open(path("b.safetensors"));
  for (const ModelTensor& t : a->tensors())
    if (t.ternary) {
      EXPECT_EQ(t.checksum, b->tensors()[*b->find(t.hf_name)].checksum) << t.name;
    }
}

TEST_F(Models, TheTritsAreThoseOfQuantize) {
  for (const WriteOptions& options :
       {WriteOptions{}, WriteOptions{.scheme = Scheme::mse, .granularity = Granularity::row()},
        WriteOptions{.scheme = Scheme::absmax, .granularity = Granularity::group(100)}}) {
    ASSERT_TRUE(write(input(), path("q.safetensors"), options).ok());
    const auto original = Model::open(path("model.safetensors")), made = Model::open(path("q.safetensors"));
    ASSERT_TRUE(made.ok()) << made.error().str();
    for (std::size_t i = 0; i < made->tensors().size(); ++i) {
      const ModelTensor& t = made->tensors()[i];
      if (!t.ternary) continue;
      const auto bytes = original->checkpoint().data(*original->checkpoint().find(t.name));
      QuantizeOptions how;
      how.scheme = options.scheme;
      how.granularity = options.granularity.value_or(Granularity::tensor());
      const auto want = quantize(cpu(), {bytes.data(), DType::bf16, {t.n(), t.k()}}, how);
      const auto got = made->read(cpu(), i);
      ASSERT_TRUE(want.ok() && got.ok()) << (got.ok() ? "" : got.error().str());
      EXPECT_EQ(got->checksum(), want->checksum()) << t.name;
    }
  }
}

TEST_F(Models, TqHoldsHalfFloatScales) {
  // tq2_0 stores f16 scales; these convert exactly between formats. Scales of absmean are not exact in f16.
  auto report = write(input(), path("t.gguf"), {.layout = Layout::tq2_0});
  ASSERT_TRUE(report.ok()) << report.error().str();
  ASSERT_TRUE(write(path("t.gguf"), path("u.gguf"), {.layout = Layout::tq1_0, .quantize = false}).ok());
  expect_equal(path("t.gguf"), path("u.gguf"));
  ASSERT_TRUE(write(path("u.gguf"), path("v.safetensors"), {.layout = Layout::i2, .quantize = false}).ok());
  expect_equal(path("t.gguf"), path("v.safetensors"));
  const auto refused = write(path("t.gguf"), path("w.gguf"), {.quantize = false});
  ASSERT_FALSE(refused.ok()) << "many scales do not become one";
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_FALSE(std::filesystem::exists(path("w.gguf")));

  ASSERT_TRUE(write(input(), path("a.gguf"), {}).ok());
  const auto rounded = write(path("a.gguf"), path("x.gguf"), {.layout = Layout::tq2_0, .quantize = false});
  ASSERT_FALSE(rounded.ok());
  WriteOptions lossy{.layout = Layout::tq2_0, .quantize = false, .lossy = Lossy::allow};
  const auto allowed = write(path("a.gguf"), path("x.gguf"), lossy);
  ASSERT_TRUE(allowed.ok()) << allowed.error().str();
  const ModelDifference found = compare(path("a.gguf"), path("x.gguf"));
  EXPECT_FALSE(found.equal());
  for (const TensorDifference& t : found.tensors) {
    EXPECT_EQ(t.differing_trits, 0) << t.name;
    EXPECT_LT(t.largest_difference, 1e-4) << t.name;
  }
}

// 0.375 is exact in f16, but tq1_0 and tq2_0 keep no scale for a block of zeros: it is read back as 1.
TEST_F(Models, TqReadsBackBlocksOfZeros) {
  const std::string from = path("z.safetensors");
  auto writer = CheckpointWriter::create(
      from, Container::safetensors, {},
      {{.name = "model.layers.0.mlp.up_proj.weight", .type = StoredType::bf16, .shape = {2, 512}}});
  ASSERT_TRUE(writer.ok());
  std::vector<std::uint16_t> weights(1024, half::to_bf16(0.5F));
  std::fill_n(weights.begin() + 256, 256, std::uint16_t{0});  // the mean of all is 0.375
  ASSERT_TRUE(writer->write({reinterpret_cast<const std::uint8_t*>(weights.data()), weights.size() * 2}).ok());
  ASSERT_TRUE(writer->finish().ok());
  for (const Layout layout : {Layout::tq1_0, Layout::tq2_0}) {
    WriteOptions options{.layout = layout, .match_bitnet = true, .architecture = "bitnet-b1.58"};
    const auto report = write(from, path("z.gguf"), options);
    ASSERT_TRUE(report.ok()) << report.error().str();
    const auto made = Model::open(path("z.gguf"));
    ASSERT_TRUE(made.ok()) << made.error().str();
    const auto read = made->read(cpu(), 0);
    ASSERT_TRUE(read.ok()) << read.error().str();
    const std::span<const float> scales = read->scale_values();
    EXPECT_EQ(std::vector<float>(scales.begin(), scales.end()), (std::vector<float>{0.375F, 1, 0.375F, 0.375F}));
  }
}

TEST_F(Models, MatchingBitnetIsBF16All) {
  ASSERT_TRUE(write(input(), path("m.safetensors"), {.layout = Layout::hf_packed, .match_bitnet = true}).ok());
  const auto model = Model::open(path("m.safetensors"));
  ASSERT_TRUE(model.ok());
  const auto q = model->tensors()[*model->find("blk.0.attn_q.weight")];
  EXPECT_EQ(q.name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(q.scale_type, StoredType::bf16);
  EXPECT_TRUE(model->read(cpu(), *model->find(q.name)).ok());
}

TEST_F(Models, QualityIsReported) {
  const auto model = Model::open(input());
  const auto plan = plan_model(*model, path("o.gguf"), {.histograms = true});
  ASSERT_TRUE(plan.ok());
  std::size_t last = 0;
  const auto report =
      write_model(cpu(), *model, *plan, path("o.gguf"), [&](std::string_view, std::size_t done, std::size_t total) {
        EXPECT_GE(done, last);
        EXPECT_LE(done, total);
        last = done;
        return true;
      });
  ASSERT_TRUE(report.ok()) << report.error().str();
  EXPECT_EQ(last, plan->in_bytes());
  EXPECT_TRUE(report->kernel.starts_with("ternary_quantize.i2."));
  for (std::size_t i = 0; i < plan->tensors.size(); ++i) {
    const TensorReport& t = report->tensors[i];
    if (plan->tensors[i].action != Action::quantize) continue;
    EXPECT_NEAR(*t.quality->sqnr_db, 6.5, 1.5);
    EXPECT_NEAR(*t.quality->cosine, 0.88, 0.05);
    EXPECT_NEAR(static_cast<double>(t.trits[0]), static_cast<double>(t.trits[2]), 3000);
    EXPECT_EQ(t.histogram.size(), 128U);
    EXPECT_EQ(t.smallest_scale, t.largest_scale);
  }
}

TEST_F(Models, AStoppedRunLeavesNothing) {
  const auto model = Model::open(input());
  const auto plan = plan_model(*model, path("o.gguf"), {});
  const auto stopped =
      write_model(cpu(), *model, *plan, path("o.gguf"),
                  [](std::string_view, std::size_t done, std::size_t total) { return done * 2 < total; });
  EXPECT_FALSE(stopped.ok());
  EXPECT_EQ(folder_.count(), 2U) << "config.json and model.safetensors";
}

TEST_F(Models, TheInputIsNotOverwritten) {
  const auto refused = write(input(), path("model.safetensors"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("is the input"), std::string::npos);
  const auto config = write(input(), path("config.json"), {.container = Container::safetensors});
  ASSERT_FALSE(config.ok()) << "it was read, too";
  EXPECT_NE(config.error().message.find("is the input"), std::string::npos);
}

TEST_F(Models, APlanOfAnotherModelIsRefused) {
  const auto model = Model::open(input());
  auto plan = plan_model(*model, path("o.gguf"), {});
  ASSERT_TRUE(plan.ok());
  ModelPlan other = *plan;
  other.tensors[3].input_name = "another.weight";
  auto refused = write_model(cpu(), *model, other, path("o.gguf"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("another.weight"), std::string::npos) << refused.error().message;
  other = *plan;
  other.tensors[3].input = 24;
  refused = write_model(cpu(), *model, other, path("o.gguf"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path("o.gguf")));
}

// Writing follows the plan; scheme and granularity are not given again.
TEST_F(Models, WhatIsPlannedIsWritten) {
  const auto model = Model::open(input());
  const auto plan =
      plan_model(*model, path("o.safetensors"), {.scheme = Scheme::mse, .granularity = Granularity::row()});
  ASSERT_TRUE(plan.ok());
  ASSERT_TRUE(write_model(cpu(), *model, *plan, path("o.safetensors")).ok());
  const auto made = Model::open(path("o.safetensors"));
  const std::size_t i = *made->find("blk.0.attn_q.weight");
  const ModelTensor& t = made->tensors()[i];
  EXPECT_EQ(t.granularity, Granularity::row());
  QuantizeOptions how;
  how.scheme = Scheme::mse;
  how.granularity = Granularity::row();
  const auto bytes = model->checkpoint().data(*model->checkpoint().find(t.name));
  const auto want = quantize(cpu(), {bytes.data(), DType::bf16, {t.n(), t.k()}}, how);
  ASSERT_TRUE(want.ok());
  EXPECT_EQ(made->read(cpu(), i)->checksum(), want->checksum());
}

TEST_F(Models, NonFiniteWeightsAreNamed) {
  std::string bytes = read_text(path("model.safetensors"));
  const auto model = Model::open(input());
  const auto index = *model->checkpoint().find("model.layers.1.mlp.up_proj.weight");
  const std::size_t offset =
      static_cast<std::size_t>(model->checkpoint().data(index).data() - model->checkpoint().data(0).data()) +
      (bytes.size() - model->checkpoint().total_bytes()) + 2 * 1000;
  bytes[offset] = '\x80';
  bytes[offset + 1] = '\x7f';
  write_text(path("model.safetensors"), bytes);
  const auto failed = write(input(), path("o.gguf"), {});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::non_finite);
  EXPECT_NE(failed.error().message.find("up_proj"), std::string::npos) << failed.error().message;
  EXPECT_FALSE(std::filesystem::exists(path("o.gguf")));
  EXPECT_TRUE(write(input(), path("o.gguf"), {.non_finite = NonFinite::saturate}).ok());
}

// Changes one trit of one tensor in the file.
TEST_F(Models, APlantedTritIsFoundAndNamed) {
  ASSERT_TRUE(write(input(), path("a.gguf"), {}).ok());
  ASSERT_TRUE(write(path("a.gguf"), path("b.safetensors"), {.layout = Layout::i2, .quantize = false}).ok());
  std::string bytes = read_text(path("b.safetensors"));
  {
    const auto model = Model::open(path("b.safetensors"));
    const ModelTensor& t = model->tensors()[*model->find("model.layers.1.self_attn.k_proj.weight")];
    const auto q = model->read(cpu(), *model->find(t.name));
    ASSERT_TRUE(q.ok());
    const std::size_t data = bytes.size() - model->checkpoint().total_bytes();
    const std::size_t begin =
        static_cast<std::size_t>(model->checkpoint().data(t.index).data() - model->checkpoint().data(0).data());
    char& byte = bytes[data + begin + 3 * 64 + 10];  // row 3, columns 40 to 43
    byte = static_cast<char>((byte & 0xFC) | ((byte & 3) + 1) % 3);
    // The checksum catches the change, so the test removes the checksum, as a forger would.
    const std::string key = "tern.checksum." + t.name + "\":\"";
    const std::size_t at = bytes.find(key);
    ASSERT_NE(at, std::string::npos);
    write_text(path("c.safetensors"), bytes);
    EXPECT_EQ(Model::open(path("c.safetensors"))->read(cpu(), *model->find(t.name)).error().code, Code::corrupt_file);
    bytes.replace(bytes.find("tern.checksum." + t.name), 13, "tern.chekksum");
    write_text(path("c.safetensors"), bytes);
  }
  const ModelDifference found = compare(path("a.gguf"), path("c.safetensors"));
  EXPECT_FALSE(found.equal());
  int differing = 0;
  for (const TensorDifference& t : found.tensors) {
    if (t.kind == TensorDifference::Kind::equal) continue;
    ++differing;
    EXPECT_EQ(t.name, "model.layers.1.self_attn.k_proj.weight");
    EXPECT_EQ(t.differing_trits, 1);
    EXPECT_EQ(t.first_index, 3 * 256 + 40);
    EXPECT_GT(t.largest_difference, 0);
    EXPECT_NE(t.what.find("[3, 40]"), std::string::npos) << t.what;
  }
  EXPECT_EQ(differing, 1);
}

// Two spellings of one name in one file: each tensor is compared with the one of the same spelling.
TEST_F(Models, NamesThatBecomeOneAreAllCompared) {
  const auto save = [&](const char* file, std::uint32_t second) {
    const std::string layer = "model.layers.0.self_attn.";
    auto writer =
        CheckpointWriter::create(path(file), Container::safetensors, {},
                                 {{.name = layer + "attn_sub_norm.weight", .type = StoredType::f32, .shape = {1}},
                                  {.name = layer + "inner_attn_ln.weight", .type = StoredType::f32, .shape = {1}}});
    ASSERT_TRUE(writer.ok());
    for (const std::uint32_t bits : {0x3F80'0000U, second}) {
      std::uint8_t bytes[4];
      std::memcpy(bytes, &bits, 4);
      ASSERT_TRUE(writer->write(bytes).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  };
  save("one.safetensors", 0x4000'0000U);
  save("two.safetensors", 0x4040'0000U);
  EXPECT_TRUE(compare(path("one.safetensors"), path("one.safetensors")).equal());
  const ModelDifference found = compare(path("one.safetensors"), path("two.safetensors"));
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_FALSE(found.equal());
  EXPECT_EQ(found.tensors[0].kind, TensorDifference::Kind::equal);
  EXPECT_EQ(found.tensors[1].name, "model.layers.0.self_attn.inner_attn_ln.weight");
  EXPECT_EQ(found.tensors[1].largest_difference, 1);
}

// A changed byte of a norm or of embeddings, in files that Tern wrote, is reported by every reader.
TEST_F(Models, FloatsHaveChecksumsToo) {
  ASSERT_TRUE(write(input(), path("a.gguf"), {.embeddings = StoredType::f16}).ok());
  ASSERT_TRUE(write(path("a.gguf"), path("b.safetensors"), {.quantize = false}).ok());
  ASSERT_TRUE(write(input(), path("f.safetensors"), {.quantize = false}).ok());
  for (const auto& [file, tensor] : {std::pair{"a.gguf", "model.norm.weight"},
                                     {"a.gguf", "model.embed_tokens.weight"},
                                     {"b.safetensors", "model.norm.weight"},
                                     {"f.safetensors", "model.embed_tokens.weight"},
                                     {"f.safetensors", "model.layers.0.mlp.up_proj.weight"}}) {
    SCOPED_TRACE(std::string(file) + " " + tensor);
    std::string bytes = read_text(path(file));
    const std::string broken = path(std::string("broken.") + file);
    {
      const auto model = Model::open(path(file));
      ASSERT_TRUE(model.ok()) << model.error().str();
      const ModelTensor& t = model->tensors()[*model->find(tensor)];
      ASSERT_TRUE(t.checksum.has_value());
      EXPECT_EQ(inspect_tensor(cpu(), *model, *model->find(tensor))->checksum, t.checksum);
      const auto data = model->checkpoint().data(t.index);
      const std::size_t at = bytes.find(std::string(data.begin(), data.end()));
      ASSERT_NE(at, std::string::npos);
      bytes[at + 100] = static_cast<char>(bytes[at + 100] ^ 1);
      write_text(broken, bytes);
    }
    const auto model = Model::open(broken), whole = Model::open(path(file));
    ASSERT_TRUE(model.ok()) << model.error().str();
    const auto seen = inspect_tensor(cpu(), *model, *model->find(tensor));
    ASSERT_FALSE(seen.ok());
    EXPECT_EQ(seen.error().code, Code::corrupt_file);
    EXPECT_NE(seen.error().message.find("checksum"), std::string::npos) << seen.error().message;
    EXPECT_EQ(compare_models(cpu(), *model, *whole).code(), Code::corrupt_file);
    EXPECT_EQ(compare_models(cpu(), *whole, *model).code(), Code::corrupt_file);
    for (const WriteOptions& options :
         {WriteOptions{}, WriteOptions{.quantize = false, .embeddings = StoredType::bf16}}) {
      EXPECT_EQ(write(broken, path("o.safetensors"), options).code(), Code::corrupt_file);
      EXPECT_FALSE(std::filesystem::exists(path("o.safetensors")));
    }
  }
}

TEST_F(Models, FloatsAndMissingTensorsAreCompared) {
  ASSERT_TRUE(write(input(), path("a.safetensors"), {.quantize = false, .drop = "model.norm"}).ok());
  ASSERT_TRUE(write(input(), path("b.safetensors"), {.quantize = false, .embeddings = StoredType::f16}).ok());
  const ModelDifference found = compare(path("a.safetensors"), path("b.safetensors"));
  ASSERT_EQ(found.tensors.size(), 24U);
  EXPECT_EQ(found.tensors.back().name, "model.norm.weight");
  EXPECT_EQ(found.tensors.back().kind, TensorDifference::Kind::only_in_b);
  ASSERT_TRUE(write(input(), path("q.gguf"), {}).ok());
  const ModelDifference quantized = compare(input(), path("q.gguf"));
  for (const TensorDifference& t : quantized.tensors) {
    const bool projection = t.name.ends_with("_proj.weight");
    EXPECT_EQ(t.kind, projection ? TensorDifference::Kind::differs : TensorDifference::Kind::equal) << t.name << t.what;
    if (projection) {
      EXPECT_GT(t.largest_difference, 0.01);
    }
  }
}

// Stacked experts have three axes: GGUF keeps them, Tern's safetensors cannot.
TEST_F(Models, AxesAreNotLost) {
  const auto save = [&](const char* file, std::vector<std::int64_t> shape) {
    auto writer = CheckpointWriter::create(
        path(file), Container::gguf, {},
        {{.name = "blk.0.ffn_up_exps.weight", .type = StoredType::tq2_0, .shape = std::move(shape)}});
    ASSERT_TRUE(writer.ok()) << writer.error().str();
    ASSERT_TRUE(writer->write(std::vector<std::uint8_t>(8 * 66, 0x55)).ok());  // zeros
    ASSERT_TRUE(writer->finish().ok());
  };
  save("a.gguf", {2, 4, 256});
  save("b.gguf", {4, 2, 256});
  const auto refused = write(path("a.gguf"), path("c.safetensors"), {.quantize = false});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("3 axes"), std::string::npos) << refused.error().message;
  ASSERT_TRUE(write(path("a.gguf"), path("c.gguf"), {.layout = Layout::tq1_0, .quantize = false}).ok());
  EXPECT_TRUE(compare(path("a.gguf"), path("c.gguf")).equal());
  const ModelDifference found = compare(path("a.gguf"), path("b.gguf"));
  EXPECT_FALSE(found.equal());
  EXPECT_EQ(found.tensors[0].what, "[2, 4, 256] here, [4, 2, 256] there");
}

TEST_F(Models, WordsOfHostileFilesAreEscaped) {
  ASSERT_TRUE(write(input(), path("a.safetensors"), {}).ok());
  const std::string whole = read_text(path("a.safetensors"));
  for (const char* key : {"\"tern.format\":\"i2\"", "\"tern.granularity\":\"tensor\""}) {
    const std::string word = key;
    std::string bytes = whole;
    const std::size_t at = bytes.find(word);
    ASSERT_NE(at, std::string::npos) << word;
    const std::string evil = "\\u001b[2J" + std::string(5000, 'x');
    const std::size_t quote = word.rfind('"', word.size() - 2);
    bytes.replace(at + quote + 1, word.size() - quote - 2, evil);
    // Update the length of the header, and keep it a multiple of 8.
    const std::size_t grown = bytes.size() - whole.size();
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    bytes.insert(8 + header + grown, (8 - grown % 8) % 8, ' ');
    header += grown + (8 - grown % 8) % 8;
    std::memcpy(bytes.data(), &header, 8);
    write_text(path("b.safetensors"), bytes);
    const auto model = Model::open(path("b.safetensors"));
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, Code::corrupt_file) << model.error().str();
    EXPECT_NE(model.error().message.find("\\x1b[2J"), std::string::npos) << model.error().message;
    EXPECT_EQ(model.error().message.find('\x1b'), std::string::npos);
    EXPECT_LT(model.error().message.size(), 400U);
  }
}

TEST_F(Models, WhatTheFileDoesNotSayMustBeGiven) {
  ASSERT_TRUE(write(input(), path("a.gguf"), {}).ok());
  std::string bytes = read_text(path("a.gguf"));
  for (std::size_t at = 0; (at = bytes.find("tern.format", at)) != std::string::npos;)
    bytes.replace(at, 11, "nern.format");
  write_text(path("b.gguf"), bytes);
  const auto plain = Model::open(path("b.gguf"));
  ASSERT_TRUE(plain.ok()) << plain.error().str();
  const std::size_t q = *plain->find("blk.0.attn_q.weight");
  EXPECT_FALSE(plain->tensors()[q].layout.has_value());
  EXPECT_NE(plain->tensors()[q].unreadable.find("x86_128"), std::string::npos) << plain->tensors()[q].unreadable;
  EXPECT_FALSE(plain->read(cpu(), q).ok());
  const auto with_layout = Model::open(path("b.gguf"), {.i2_s = Layout::i2_s_x86_128});
  EXPECT_TRUE(with_layout->read(cpu(), q).ok());
  EXPECT_FALSE(Model::open(path("b.gguf"), {.i2_s = Layout::i2_s_arm_64})->read(cpu(), q).ok()) << "the checksum tells";
}

}  // namespace
}  // namespace tern
