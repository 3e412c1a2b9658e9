// Embeddings and heads of 8 and 4 bits: the bytes of ggml's own quantizer, and layers loaded from the files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/little_endian.h"
#include "tern/linear.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/python.h"

namespace tern {
namespace {

constexpr std::string_view kEmbeddings = "model.embed_tokens.weight";

class Coded : public testing::Test {
 protected:
  void SetUp() override {
    context_.emplace(*Context::open(DeviceId{}, {.threads = 2}));
    ASSERT_TRUE(write_bitnet_folder(folder_.path().string(), {.layers = 1}).ok());
  }
  Status write(const std::string& in, const std::string& out, const WriteOptions& options) {
    auto model = Model::open(folder_ / in);
    if (!model.ok()) return std::move(model).error();
    auto plan = plan_model(*model, folder_ / out, options);
    if (!plan.ok()) return std::move(plan).error();
    auto report = write_model(*context_, *model, *plan, folder_ / out);
    if (!report.ok()) return std::move(report).error();
    report_ = *std::move(report);
    return {};
  }
  static std::string text(const Status& status) { return status.ok() ? "ok" : status.error().str(); }
  TensorDifference embeddings_apart(const std::string& a, const std::string& b) {
    const auto first = Model::open(folder_ / a), second = Model::open(folder_ / b);
    EXPECT_TRUE(first.ok() && second.ok());
    const auto found = compare_models(*context_, *first, *second);
    EXPECT_TRUE(found.ok()) << found.error().str();
    for (const TensorDifference& t : found->tensors)
      if (t.name == kEmbeddings) return t;
    return {};
  }
  static std::optional<std::uint64_t> checksum_of(const Model& model) {
    return model.tensors()[*model.find(kEmbeddings)].checksum;
  }
  TempFolder folder_;
  std::optional<Context> context_;
  ModelReport report_;
};

// With a scale for 32 columns, both containers hold the same weights and load as the same layer.
TEST_F(Coded, BothContainersHaveTheSameWeights) {
  for (const auto& [type, format, limit] :
       {std::tuple{StoredType::q8_0, Format::s8, 0.01}, {StoredType::q4_0, Format::s4, 0.15}}) {
    SCOPED_TRACE(name(type));
    ASSERT_EQ(text(write("model.safetensors", "m.gguf", {.embeddings = type})), "ok");
    ASSERT_EQ(text(write("model.safetensors", "m2.safetensors", {.embeddings = type})), "ok");
    ASSERT_EQ(text(write("m2.safetensors", "copy.safetensors", {.quantize = false})), "ok");
    EXPECT_EQ(embeddings_apart("m.gguf", "m2.safetensors").kind, TensorDifference::Kind::equal);
    EXPECT_EQ(embeddings_apart("m2.safetensors", "copy.safetensors").kind, TensorDifference::Kind::equal);
    const TensorDifference lost = embeddings_apart("model.safetensors", "m.gguf");
    EXPECT_EQ(lost.kind, TensorDifference::Kind::differs);
    EXPECT_GT(lost.largest_difference, 0);

    const auto model = Model::open(folder_ / "m.gguf");
    ASSERT_TRUE(model.ok());
    const std::size_t index = *model->find(kEmbeddings);
    const ModelTensor& tensor = model->tensors()[index];
    EXPECT_EQ(tensor.codes, format);
    const auto seen = inspect_tensor(*context_, *model, index);
    ASSERT_TRUE(seen.ok()) << seen.error().str();
    EXPECT_EQ(seen->checksum, tensor.checksum);
    EXPECT_GT(seen->largest_scale, 0);
    const std::int64_t n = tensor.n(), k = tensor.k();
    std::vector<float> x(static_cast<std::size_t>(k)), y(static_cast<std::size_t>(n)), other(y);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    const auto layer = BitLinear::load(*context_, folder_ / "m.gguf", "token_embd.weight");
    ASSERT_TRUE(layer.ok()) << layer.error().str();
    EXPECT_EQ(layer->weights().format(), format);
    EXPECT_EQ(layer->weights().granularity(), Granularity::group(32));
    ASSERT_TRUE(layer->forward({x.data(), DType::f32, {1, k}}, {y.data(), DType::f32, {1, n}}).ok());
    for (const char* file : {"m2.safetensors", "copy.safetensors"}) {
      const auto same = BitLinear::load(*context_, folder_ / file, kEmbeddings);
      ASSERT_TRUE(same.ok()) << same.error().str();
      EXPECT_EQ(same->weights().checksum(), layer->weights().checksum());
      ASSERT_TRUE(same->forward({x.data(), DType::f32, {1, k}}, {other.data(), DType::f32, {1, n}}).ok());
      EXPECT_EQ(y, other);
    }
    // Close to the product with the original floats; both x and weights were rounded.
    const auto floats = Model::open(folder_ / "model.safetensors");
    const auto bytes = floats->checkpoint().data(*floats->checkpoint().find(kEmbeddings));
    for (std::int64_t row = 0; row < n; row += 7) {
      double want = 0, size = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + (row * k + i) * 2, 2);
        const auto w = static_cast<double>(__builtin_bit_cast(float, std::uint32_t{bits} << 16));
        want += w * static_cast<double>(x[static_cast<std::size_t>(i)]);
        size += std::fabs(w * static_cast<double>(x[static_cast<std::size_t>(i)]));
      }
      ASSERT_NEAR(static_cast<double>(y[static_cast<std::size_t>(row)]), want, limit * size) << row;
    }
  }
}

// From one container to the other and back: codes and scales stay the same and, in GGUF, the bytes.
TEST_F(Coded, GoFromContainerToContainer) {
  for (const StoredType type : {StoredType::q8_0, StoredType::q4_0}) {
    SCOPED_TRACE(name(type));
    ASSERT_EQ(text(write("model.safetensors", "m.gguf", {.embeddings = type})), "ok");
    ASSERT_EQ(text(write("m.gguf", "apart.safetensors", {.quantize = false})), "ok");
    ASSERT_EQ(text(write("apart.safetensors", "back.gguf", {.quantize = false, .architecture = "bitnet-b1.58"})), "ok");
    EXPECT_EQ(embeddings_apart("m.gguf", "apart.safetensors").kind, TensorDifference::Kind::equal);
    EXPECT_EQ(embeddings_apart("apart.safetensors", "back.gguf").kind, TensorDifference::Kind::equal);
    const auto first = Model::open(folder_ / "m.gguf"), back = Model::open(folder_ / "back.gguf");
    ASSERT_TRUE(first.ok() && back.ok());
    const ModelTensor& tensor = back->tensors()[*back->find(kEmbeddings)];
    EXPECT_EQ(tensor.type, type);
    const auto was = first->checkpoint().data(first->tensors()[*first->find(kEmbeddings)].index);
    const auto is = back->checkpoint().data(tensor.index);
    EXPECT_TRUE(std::equal(was.begin(), was.end(), is.begin(), is.end()));
    EXPECT_EQ(checksum_of(*first), checksum_of(*back));
  }
}

// Large ones are cast and put into another order in pieces, on all threads; neither changes the bytes.
TEST_F(Coded, AreConvertedInPieces) {
  ASSERT_TRUE(write_bitnet_folder(folder_.path().string(), {.layers = 1, .vocab = 10'000}).ok());
  const auto bytes = [&](const std::string& file) {
    const auto model = Model::open(folder_ / file);
    const auto data = model->checkpoint().data(model->tensors()[*model->find(kEmbeddings)].index);
    return std::vector<std::uint8_t>(data.begin(), data.end());
  };
  const auto converted = [&](int threads, const std::string& in, const std::string& out, const WriteOptions& options) {
    context_.emplace(*Context::open(DeviceId{}, {.threads = threads}));
    const auto model = Model::open(folder_ / in);
    const auto plan = plan_model(*model, folder_ / out, options);
    std::size_t calls = 0, last = 0;
    const auto report = write_model(*context_, *model, *plan, folder_ / out,
                                    [&](std::string_view tensor, std::size_t done, std::size_t) {
                                      if (hf_name(tensor) == kEmbeddings || tensor == kEmbeddings) ++calls;
                                      EXPECT_LE(last, done);
                                      last = done;
                                      return true;
                                    });
    EXPECT_TRUE(report.ok()) << report.error().str();
    EXPECT_EQ(last, plan->in_bytes());
    EXPECT_GT(calls, 2U);
    for (const TensorReport& tensor : report->tensors)
      if (tensor.cast_sqnr_db) return *tensor.cast_sqnr_db;
    return 0.0;
  };
  for (const StoredType type : {StoredType::q8_0, StoredType::q4_0}) {
    SCOPED_TRACE(name(type));
    const double sqnr = converted(1, "model.safetensors", "one.gguf", {.embeddings = type});
    EXPECT_EQ(converted(3, "model.safetensors", "three.gguf", {.embeddings = type}), sqnr);
    EXPECT_EQ(bytes("one.gguf"), bytes("three.gguf"));
    converted(1, "one.gguf", "one.safetensors", {.quantize = false});
    converted(3, "one.gguf", "three.safetensors", {.quantize = false});
    EXPECT_EQ(bytes("one.safetensors"), bytes("three.safetensors"));
    converted(3, "one.safetensors", "back.gguf", {.quantize = false, .architecture = "bitnet-b1.58"});
    EXPECT_EQ(bytes("one.gguf"), bytes("back.gguf"));
  }
}

// Codes of other tools: a scale of a row or tensor is copied to every block, if it is exact in f16.
TEST_F(Coded, OtherScalesBecomeBlocksWhereTheyAre) {
  const auto file = [&](const char* granularity, std::vector<float> scales, std::int64_t k) {
    const auto per_row = static_cast<std::int64_t>(scales.size()) / 2;
    const std::vector<std::uint8_t> codes(static_cast<std::size_t>(2 * k), 0x80);
    Metadata keys{{"tern.codes.w", MetaValue(std::string("s8"))},
                  {"tern.granularity.w", MetaValue(std::string(granularity))},
                  {"tern.shape.w", MetaValue("2x" + std::to_string(k))}};
    std::vector<std::int64_t> shape{2, per_row};
    if (per_row == 0) shape = {1};
    auto writer = CheckpointWriter::create(folder_ / "w.safetensors", Container::safetensors, keys,
                                           {{.name = "w", .type = StoredType::i8, .shape = {2, k}},
                                            {.name = "w.scales", .type = StoredType::f32, .shape = shape}});
    for (const StoredTensor& tensor : writer->tensors())
      EXPECT_TRUE(writer->write(tensor.name == "w" ? std::span(codes) : bytes_of(scales)).ok());
    EXPECT_TRUE(writer->finish().ok());
    return text(write("w.safetensors", "w.gguf", {.quantize = false, .architecture = "bitnet-b1.58"}));
  };
  for (const auto& [granularity, scales] :
       {std::pair{"row", std::vector<float>{0.5F, -2.0F}}, {"tensor", {0.25F}}, {"group:64", {1, 2, 3, 4}}}) {
    SCOPED_TRACE(granularity);
    ASSERT_EQ(file(granularity, scales, 128), "ok");
    const auto apart = Model::open(folder_ / "w.safetensors"), blocks = Model::open(folder_ / "w.gguf");
    ASSERT_TRUE(apart.ok() && blocks.ok());
    const auto found = compare_models(*context_, *apart, *blocks);
    ASSERT_TRUE(found.ok()) << found.error().str();
    EXPECT_EQ(found->tensors[0].kind, TensorDifference::Kind::equal);
  }
  EXPECT_NE(file("row", {0.5F, 0.1F}, 128).find("row 1 at column 0 is 0.1, which the f16 scales of Q8_0"),
            std::string::npos);
  EXPECT_NE(file("group:16", {1, 1, 1, 1}, 32).find("32 columns and scales by group:16; Q8_0 is blocks of 32"),
            std::string::npos);
  EXPECT_NE(file("row", {1, 1}, 48).find("48 columns and scales by row"), std::string::npos);
}

TEST_F(Coded, WhatDoesNotFitIsRefused) {
  ASSERT_EQ(text(write("model.safetensors", "m.gguf", {.embeddings = StoredType::q8_0})), "ok");
  ASSERT_EQ(text(write("m.gguf", "again.gguf", {.quantize = false})), "ok");
  EXPECT_EQ(embeddings_apart("m.gguf", "again.gguf").kind, TensorDifference::Kind::equal);
  // A file with an infinite scale and no checksum.
  std::vector<std::uint8_t> block(34, 1);
  block[1] = 0x7C;
  block[0] = 0;
  auto writer = CheckpointWriter::create(folder_ / "inf.gguf", Container::gguf, {},
                                         {{.name = "output.weight", .type = StoredType::q8_0, .shape = {1, 32}}});
  ASSERT_TRUE(writer.ok() && writer->write(block).ok() && writer->finish().ok());
  const auto infinite = BitLinear::load(*context_, folder_ / "inf.gguf", "output.weight");
  ASSERT_FALSE(infinite.ok());
  EXPECT_EQ(infinite.error().code, Code::invalid_scale) << infinite.error().str();
}

// PyPI's gguf makes the same bytes from the same floats: ties, and blocks of zeros, of one sign and of tiny values.
TEST_F(Coded, GgufsOwnQuantizerMakesTheSameBytes) {
  if (const std::string why = python_lacks("gguf, safetensors, numpy"); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(run_python(folder_, R"py(
import numpy as np
from safetensors.numpy import save_file
random = np.random.default_rng(7)
x = random.standard_normal((300, 64)).astype(np.float32)
x[0] = 0
x[1] = np.arange(64) - 31.5          # ties, where 127 is the largest
x[2, :32] = np.arange(32) * 4 + 3; x[2, 31] = 127; x[2, :31] += 0.5
x[3] = -np.abs(x[3])
x[4] = np.abs(x[4])
x[5] *= 1e-7
x[6] = 1e-30
x[7, ::2] = 8; x[7, 1::2] = -8       # equal sizes: the first decides
x[8] = (np.arange(64) % 17 - 8) / 2  # ties of q4_0
x[9:] *= np.exp(random.standard_normal((291, 1)) * 2).astype(np.float32)
save_file({"model.embed_tokens.weight": x}, "x.safetensors")
x[290, 33] = 1e8  # no f16 is a 127th of it
save_file({"model.embed_tokens.weight": x}, "large.safetensors")
)py"));
  const Status large = write("large.safetensors", "large.gguf",
                             {.quantize = false, .embeddings = StoredType::q8_0, .architecture = "bitnet-b1.58"});
  EXPECT_EQ(large.code(), Code::non_finite) << text(large);
  EXPECT_EQ(large.error().index, 290 * 64 + 32);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "large.gguf"));
  for (const StoredType type : {StoredType::q8_0, StoredType::q4_0}) {
    ASSERT_EQ(
        text(write("x.safetensors", "x.gguf", {.quantize = false, .embeddings = type, .architecture = "bitnet-b1.58"})),
        "ok");
    EXPECT_TRUE(run_python(folder_, "kind = '" + std::string(name(type)) + R"py('
import numpy as np
from gguf import GGUFReader, GGMLQuantizationType
from gguf.quants import quantize, dequantize
from safetensors.numpy import load_file
x = load_file("x.safetensors")["model.embed_tokens.weight"]
(tensor,) = GGUFReader("x.gguf").tensors
assert tensor.tensor_type.name == kind
want = quantize(x, GGMLQuantizationType[kind])
got = np.asarray(tensor.data).reshape(want.shape)
assert (got == want).all(), np.argwhere(got != want)[:5]
np.save("values.npy", dequantize(got, GGMLQuantizationType[kind]).astype(np.float32))
from safetensors.numpy import save_file
save_file({"model.embed_tokens.weight": np.load("values.npy")}, "values.safetensors")
)py")) << name(type);
    EXPECT_EQ(embeddings_apart("x.gguf", "values.safetensors").kind, TensorDifference::Kind::equal);
    EXPECT_TRUE(report_.tensors[0].cast_sqnr_db.has_value());
  }
}

}  // namespace
}  // namespace tern
