// tern quantize, inspect, convert and verify on whole checkpoints: their output and the files they leave behind.
#include <fstream>
#include <sstream>

#include "command.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/no_gpu.h"

namespace tern::cli_test {
namespace {

using nlohmann::json;

class ModelCommandTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(path("model"));
    const Status written = write_bitnet_folder(path("model"), {});
    ASSERT_TRUE(written.ok()) << written.error().str();
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  void expect_error(const Arguments& arguments, std::initializer_list<const char*> words) const {
    const Outcome outcome = tern(arguments);
    const bool asked_wrongly = outcome.err.starts_with("tern: invalid_argument");
    EXPECT_EQ(outcome.exit_code, asked_wrongly || arguments.front() == "verify" ? 2 : 1) << outcome.err;
    EXPECT_EQ(outcome.out, "") << "nothing is shown before what can be known to fail";
    for (const char* word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
  }
};

TEST_F(ModelCommandTest, QuantizeConvertVerify) {
  const json made = tern_json({"quantize", "model", "-o", "a.gguf"});
  EXPECT_EQ(made["format"], "i2_s.x86_128");
  EXPECT_EQ(made["output"]["file_bytes"], std::filesystem::file_size(path("a.gguf")));
  EXPECT_EQ(made["plan"]["tensors"].size(), 24u);
  EXPECT_GT(made["quality"]["worst_sqnr_db"].get<double>(), 5);
  EXPECT_EQ(made["plan"]["notes"][0], "the tokenizer is not converted");
  (void)tern_json({"convert", "a.gguf", "-o", "b.safetensors", "--format", "hf_packed"});
  (void)tern_json(
      {"convert", "b.safetensors", "-o", "c.gguf", "--format", "tq2_0", "--allow-loss", "--architecture", "bitnet"});
  EXPECT_EQ(tern_json({"verify", "a.gguf", "b.safetensors"})["equal"], true);
  const json rounded = tern_json({"verify", "a.gguf", "c.gguf"}, 1);
  EXPECT_EQ(rounded["equal"], false) << "scales are f16 there";
  for (const json& tensor : rounded["tensors"]) EXPECT_EQ(tensor["differing_trits"], 0);
  EXPECT_EQ(tern({"verify", "a.gguf", "b.safetensors"}).out.substr(0, 6), "equal:");
  EXPECT_EQ(tern({"verify", "a.gguf", "model"}).exit_code, 1);
}

TEST_F(ModelCommandTest, WhereTheTimeWentIsReported) {
  for (const Arguments& command : {Arguments{"quantize", "model", "-o", "t.gguf", "--device", "cpu"},
                                   Arguments{"quantize", "model", "-o", "t.safetensors", "--granularity", "row",
                                             "--format", "i2", "--device", "cpu"},
                                   Arguments{"convert", "t.gguf", "-o", "u.safetensors", "--format", "hf_packed"}}) {
    const json made = tern_json(command), seconds = made["seconds"];
    double sum = seconds["idle"];
    for (const char* stage : {"reading", "computing", "bus", "gpu", "writing"}) {
      const double spent = seconds[stage];
      const bool of_a_gpu = std::string(stage) == "bus" || std::string(stage) == "gpu";
      EXPECT_EQ(spent > 0, !of_a_gpu) << stage << " took " << spent;
      EXPECT_LE(spent, seconds[made["limited_by"]["stage"].get<std::string>()].get<double>()) << stage;
      sum += spent;
    }
    EXPECT_NEAR(sum, seconds["all"].get<double>(), 1e-6 + 0.05 * seconds["all"].get<double>()) << made["seconds"];
    EXPECT_GE(seconds["writing"].get<double>(), seconds["flushing"].get<double>() + seconds["waiting"].get<double>());
    EXPECT_GT(made["limited_by"]["gb_per_s"], 0);
  }
}

// Two matrices are in flight at a time, so 24 tensors reuse the buffers of each many times.
TEST_F(ModelCommandTest, AGpuWritesTheSameFile) {
  const Outcome first = tern({"quantize", "model", "-o", "gpu.gguf", "--device", "cuda:0"});
  if (first.exit_code != 0) {
    ASSERT_TRUE(test::says_no_gpu(first.err)) << first.err;
    EXPECT_FALSE(std::filesystem::exists(path("gpu.gguf")));
    GTEST_SKIP() << "no CUDA device: " << first.err;
  }
  const std::vector<Arguments> ways = {
      {}, {"--match", "bitnet"}, {"--format", "tq1_0"}, {"--format", "i2_s.arm_64", "--scheme", "mse"}};
  for (const Arguments& way : ways) {
    for (const char* device : {"cpu", "cuda:0"}) {
      Arguments command = {"quantize", "model", "-o", std::string(device) + ".gguf", "--device", device};
      command.insert(command.end(), way.begin(), way.end());
      const json made = tern_json(command);
      EXPECT_EQ(made["device"], device);
    }
    EXPECT_TRUE(text_of("cpu.gguf") == text_of("cuda:0.gguf")) << (way.empty() ? "" : way[1]);
  }
}

TEST_F(ModelCommandTest, OneOfVerifySaysThatTheyDiffer) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const Outcome full = start("/bin/sh", {"-c", "exec \"$0\" verify model model >/dev/full", command_path()}, folder());
  EXPECT_EQ(full.exit_code, 2) << "equal, but nobody could read it";
  EXPECT_NE(full.err.find("standard output"), std::string::npos) << full.err;
}

// Runs commands with a stream that is closed, or one that accepts no bytes.
class StreamsTest : public ModelCommandTest {
 protected:
  void SetUp() override {
    ModelCommandTest::SetUp();
    if (!IsSkipped() && !std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  }
  [[nodiscard]] Outcome with(const std::string& redirection, const std::string& command) const {
    return start("/bin/sh", {"-c", "exec \"$0\" " + command + " " + redirection, command_path()}, folder());
  }
};

TEST_F(StreamsTest, NobodyNeedsToReadStandardError) {
  for (const char* redirection : {"2>&-", "2>/dev/full"}) {
    SCOPED_TRACE(redirection);
    for (const char* command :
         {"devices", "kernels --verbose", "explain ternary_quantize --shape 3x4", "inspect model", "verify model model",
          "quantize model -o a.gguf --verbose", "convert a.gguf -o b.safetensors", "--version", ""}) {
      const Outcome outcome = with(redirection, command);
      EXPECT_EQ(outcome.exit_code, 0) << command;
      EXPECT_NE(outcome.out, "") << command;
    }
    EXPECT_EQ(with(redirection, "verify a.gguf b.safetensors").exit_code, 0);
    for (const char* command : {"quantize none -o a.gguf", "quantize none -o a.gguf --json", "inspect model/none"})
      EXPECT_EQ(with(redirection, command).exit_code, 1) << command;
    for (const char* command : {"quantize", "paint", "devices --colour --json"})
      EXPECT_EQ(with(redirection, command).exit_code, 2) << command;
  }
}

TEST_F(StreamsTest, AnAnswerThatNobodyCanReadIsAFailure) {
  (void)tern_json({"quantize", "model", "-o", "right.gguf"});
  for (const char* redirection : {">&-", ">/dev/full"}) {
    SCOPED_TRACE(redirection);
    for (const char* command :
         {"devices", "kernels", "kernels --json", "explain ternary_quantize --shape 3x4", "inspect model",
          "inspect model --json", "quantize model -o a.gguf", "convert right.gguf -o b.safetensors --json", "--version",
          "--help", "quantize --help", ""}) {
      const Outcome outcome = with(redirection, command);
      EXPECT_EQ(outcome.exit_code, 1) << command;
      EXPECT_NE(outcome.err.find("io_error"), std::string::npos) << command << outcome.err;
      EXPECT_NE(outcome.err.find("standard output could not be written"), std::string::npos) << command;
    }
    EXPECT_EQ(with(redirection, "verify model model").exit_code, 2);
    EXPECT_EQ(with(std::string(redirection) + " 2>&-", "quantize model -o a.gguf --format tq2_0").exit_code, 1);
    // The next file to be opened gets the number of a closed stream, but must not receive its messages.
    std::filesystem::remove(path("a.gguf"));
    (void)with(std::string(redirection) + " 2>&-", "quantize model -o a.gguf");
    EXPECT_EQ(text_of("a.gguf"), text_of("right.gguf"));
  }
}

// The mean is weighted by elements. Tensors without loss, and tensors of zeros, have no figure and are left out.
TEST_F(ModelCommandTest, TheMeanIsOfWhatWasMeasured) {
  const std::vector<std::pair<std::string, std::int64_t>> rows = {
      {"q_proj", 8}, {"k_proj", 40}, {"v_proj", 16}, {"o_proj", 24}};
  std::vector<StoredTensor> tensors;
  for (const auto& [name, n] : rows)
    tensors.push_back(
        {.name = "model.layers.0.self_attn." + name + ".weight", .type = StoredType::f32, .shape = {n, 64}});
  auto writer = CheckpointWriter::create(path("m.safetensors"), Container::safetensors, {}, tensors);
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  for (const StoredTensor& tensor : writer->tensors()) {
    std::vector<float> w(tensor.bytes / 4);
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (tensor.name.find("q_proj") != std::string::npos) w[i] = i % 2 == 0 ? 0.5F : -0.5F;  // mean abs 0.5: exact
      if (tensor.name.find("k_proj") != std::string::npos) w[i] = static_cast<float>(i % 7) - 3;
      if (tensor.name.find("o_proj") != std::string::npos) w[i] = static_cast<float>(i % 101) * 0.01F;
    }
    ASSERT_TRUE(writer->write({reinterpret_cast<const std::uint8_t*>(w.data()), tensor.bytes}).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  const json made = tern_json({"quantize", "m.safetensors", "-o", "q.safetensors"});
  double measured = 0, sqnr = 0, cosine = 0, zeros = 0, all = 0;
  for (const json& tensor : made["tensors"]) {
    const double count =
        tensor["trits"][0].get<double>() + tensor["trits"][1].get<double>() + tensor["trits"][2].get<double>();
    zeros += tensor["trits"][1].get<double>();
    all += count;
    const json& quality = tensor["quality"];
    const bool exact_or_zeros = count == 8 * 64 || count == 16 * 64;
    EXPECT_EQ(quality["sqnr_db"].is_null(), exact_or_zeros) << tensor;
    if (exact_or_zeros) continue;
    measured += count;
    sqnr += count * quality["sqnr_db"].get<double>();
    cosine += count * quality["cosine"].get<double>();
  }
  EXPECT_EQ(measured, 64 * 64);
  EXPECT_DOUBLE_EQ(made["quality"]["mean_sqnr_db"].get<double>(), sqnr / measured);
  EXPECT_DOUBLE_EQ(made["quality"]["mean_cosine"].get<double>(), cosine / measured);
  EXPECT_DOUBLE_EQ(made["quality"]["zero_fraction"].get<double>(), zeros / all) << "of all that was quantized";
}

TEST_F(ModelCommandTest, EveryOptionOfQuantizeIsTaken) {
  (void)tern_json(
      {"quantize", "model", "-o", "m.safetensors", "--format", "hf_packed", "--match", "bitnet", "--threads", "1"});
  EXPECT_EQ(tern_json({"inspect", "m.safetensors", "--quick"})["metadata"]["tern.match"], "bitnet");
  const json rows = tern_json({"quantize", "model", "-o", "r.safetensors", "--scheme", "mse", "--granularity",
                               "group:64", "--format", "b3", "--include", "q_proj", "--exclude", "layers.1"});
  int quantized = 0;
  for (const json& tensor : rows["plan"]["tensors"]) quantized += tensor["action"] == "quantize" ? 1 : 0;
  EXPECT_EQ(quantized, 1);
  const json seen = tern_json({"inspect", "r.safetensors", "--tensor", "blk.0.attn_q.weight"});
  ASSERT_EQ(seen["tensors"].size(), 1u);
  EXPECT_EQ(seen["tensors"][0]["format"], "b3");
  EXPECT_EQ(seen["tensors"][0]["granularity"], "group:64");
  EXPECT_EQ(seen["metadata"]["tern.scheme"], "mse");
  const json half =
      tern_json({"quantize", "model", "-o", "h.gguf", "--keep-embeddings", "f16", "--drop", "model.norm"});
  EXPECT_EQ(half["plan"]["tensors"].back()["action"], "drop");
  EXPECT_EQ(tern_json({"inspect", "h.gguf"})["tensors"][0]["type"], "F16");
}

TEST_F(ModelCommandTest, TheContainerIsTheOneThatWasAsked) {
  (void)tern_json({"quantize", "model", "-o", "a.bin", "--container", "gguf"});
  EXPECT_EQ(text_of("a.bin").substr(0, 4), "GGUF");
  (void)tern_json({"convert", "a.bin", "-o", "b.bin", "--container", "safetensors"});
  EXPECT_EQ(tern_json({"inspect", "b.bin", "--quick"})["container"], "safetensors");
  EXPECT_EQ(tern_json({"verify", "a.bin", "b.bin"})["equal"], true);
  expect_error({"convert", "a.bin", "-o", "c.bin", "--container", "zip"}, {"'zip'", "gguf"});
}

TEST_F(ModelCommandTest, WhatIsTernaryAlreadyIsSaid) {
  (void)tern_json({"quantize", "model", "-o", "a.gguf"});
  const Outcome again = tern({"quantize", "a.gguf", "-o", "b.gguf"});
  EXPECT_NE(again.out.find("note: 14 matrices are already ternary"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("about the same"), std::string::npos) << again.out;
  const json none = tern_json({"quantize", "model", "-o", "a.gguf", "--exclude", "proj", "--dry-run"});
  EXPECT_NE(none["plan"]["notes"].back().get<std::string>().find("nothing is quantized"), std::string::npos) << none;
}

TEST_F(ModelCommandTest, VerifyNamesTheFileThatIsBroken) {
  (void)tern_json({"quantize", "model", "-o", "good.gguf"});
  const std::string bytes = text_of("good.gguf");
  std::ofstream(path("cut.gguf"), std::ios::binary) << bytes.substr(0, bytes.size() - 2000);
  expect_error({"verify", "good.gguf", "cut.gguf"},
               {"'cut.gguf'", "truncated", std::to_string(bytes.size() - 2000).c_str()});
  std::string bad = bytes;
  bad[bad.size() - 5000] = '\xff';  // code 3 is no trit
  std::ofstream(path("bad.gguf"), std::ios::binary) << bad;
  expect_error({"verify", "good.gguf", "bad.gguf"}, {"'bad.gguf': 'blk.", "is no trit"});
  expect_error({"verify", "bad.gguf", "good.gguf"}, {"'bad.gguf': 'blk.", "is no trit"});
}

TEST_F(ModelCommandTest, ABrokenConfigIsNamed) {
  std::ofstream(path("model/config.json")) << "[";
  expect_error({"quantize", "model", "-o", "a.gguf"}, {"'model/config.json' is no JSON object"});
}

TEST_F(ModelCommandTest, ADryRunWritesNothing) {
  const json plan = tern_json({"quantize", "model", "-o", "a.gguf", "--dry-run"});
  EXPECT_EQ(plan["dry_run"], true);
  EXPECT_EQ(plan["plan"]["tensors"].size(), 24u);
  const Outcome text = tern({"quantize", "model", "-o", "a.gguf", "--dry-run"});
  EXPECT_NE(text.out.find("layers.*.mlp.up_proj "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("x2"), std::string::npos);
  EXPECT_EQ(files(), std::vector<std::string>{"model"});
}

TEST_F(ModelCommandTest, TextFitsThePageAndSaysWhatMatters) {
  for (const Arguments& arguments :
       {Arguments{"quantize", "model", "-o", "a.gguf"}, Arguments{"inspect", "a.gguf"},
        Arguments{"inspect", "a.gguf", "--all"}, Arguments{"inspect", "a.gguf", "--tensor", "blk.1.ffn_up.weight"},
        Arguments{"verify", "a.gguf", "model"}}) {
    const Outcome outcome = tern(arguments);
    EXPECT_EQ(outcome.err, "") << arguments.front();
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
  const std::string summary = tern({"quantize", "model", "-o", "a.gguf"}).out;
  for (const char* word :
       {"times smaller", "SQNR", "cosine", "worst first", "GB/s", "blk.", "a projection", "norms stay float"})
    EXPECT_NE(summary.find(word), std::string::npos) << word << " in " << summary;
}

TEST_F(ModelCommandTest, TheReportIsOnePageWithPlots) {
  ASSERT_EQ(tern({"quantize", "model", "-o", "a.gguf", "--report", "r.html"}).exit_code, 0);
  const std::string page = text_of("r.html");
  EXPECT_EQ(page.find("<!doctype html>"), 0u);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("blk.1.attn_q.weight"), std::string::npos);
  for (const char* outside : {"http:", "https:", "<script", "src="})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_EQ(files(), (std::vector<std::string>{"a.gguf", "model", "r.html"}));
}

TEST_F(ModelCommandTest, TheReportTakesNoOtherFilesPlace) {
  std::filesystem::create_symlink(path("model/config.json"), path("link.html"));
  for (const char* page :
       {"a.gguf", "./model/../a.gguf", "model/model.safetensors", "model/config.json", "link.html"}) {
    expect_error({"quantize", "model", "-o", "a.gguf", "--report", page}, {"--report", "put; name another file"});
    EXPECT_FALSE(std::filesystem::exists(path("a.gguf"))) << page;
  }
  // An existing file with the name of a temporary file is left alone.
  std::filesystem::create_symlink(path("model/config.json"), path("r.html.tmp"));
  const std::string config = text_of("model/config.json");
  EXPECT_EQ(tern({"quantize", "model", "-o", "a.gguf", "--report", "r.html"}).exit_code, 0);
  EXPECT_EQ(text_of("model/config.json"), config);
  EXPECT_EQ(text_of("r.html").find("<!doctype html>"), 0u);
}

TEST_F(ModelCommandTest, MistakesAreNamedWithTheirRemedy) {
  expect_error({"quantize", "model", "-o", "a.gguf", "--format", "hf_packed"}, {"gguf", "hf_packed", "tq2_0"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--format", "q4"}, {"q4", "tq2_0"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--include", "("}, {"--include", "regular expression"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--exclude", "zzz"}, {"zzz", "occurs in no name"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--match", "gptq"}, {"gptq", "bitnet"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--scale", "1"}, {"--scale", "single tensors"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--keep-embeddings", "f8"}, {"f8", "bf16"});
  expect_error({"quantize", "model", "-o", "none/a.gguf"}, {"none", "not a folder that exists"});
  expect_error({"quantize", "model", "-o", "model/model.safetensors"}, {"is an input"});
  expect_error({"quantize", "model", "-o", "a.npz"}, {"a.npz", ".gguf"});
  expect_error({"convert", "model", "-o", "a.npz"}, {"a.npz", ".gguf", ".safetensors"});
  expect_error({"convert", "model", "-o", ""}, {"--output: the value is empty"});
  expect_error({"convert", "model", "-o", "a.gguf", "--container", "safetensors"}, {"a.gguf", "safetensors"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--drop", "."}, {"--drop", "all 24 tensors"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--dry-run", "--report", "r.html"}, {"--report", "--dry-run"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--kernel", "abacus"}, {"abacus", "tern kernels"});
  expect_error({"quantize", "gone.gguf", "-o", "a.gguf"}, {"gone.gguf", "No such file"});
  expect_error({"convert", "model", "-o", "a.gguf", "--variant", "x64"}, {"x64", "arm_64", "(--variant)"});
  expect_error({"verify", "model", "model", "--variant-b", "x64"}, {"x64", "arm_64", "(--variant-b)"});
  expect_error({"convert", "model", "-o", "a.gguf", "--format", "tl1", "--kernel-config", "none.ini"},
               {"'none.ini': No such file"});
  expect_error({"convert", "model", "-o", "a.gguf", "--format", "tl1", "--kernel-config", "model"},
               {"'model': Is a directory"});
  expect_error({"convert", "model", "-o", "a.gguf", "--format", "tl1", "--kernel-config", "model/config.json"},
               {"'model/config.json': line 1"});
  expect_error({"inspect", "model", "--gguf-type", "F32"}, {"--gguf-type", "'F32' is not TL2"});
  expect_error({"quantize", "model", "-o", "a.npz", "--dtype", "f32", "--shape", "2x2"}, {"--dtype", "checkpoint"});
  expect_error({"quantize", "model", "-o", "a.safetensors", "--architecture", "bitnet"}, {"--architecture", "GGUF"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--later-tl2"}, {"--later-tl2", "i2_s"});
  expect_error({"quantize", "model", "-o", "a.gguf", "--architecture", "llama"}, {"llama", "order"});
  for (const Arguments& option :
       {Arguments{"--variant", "1x4"}, Arguments{"--weight-scale", "divides"}, Arguments{"--kernel-config", "k.ini"},
        Arguments{"--gguf-type", "TL2"}, Arguments{"--architecture", "x"}, Arguments{"--later-tl2"}}) {
    Arguments all = {"quantize", "model/config.json", "-o", "w.npz"};
    all.insert(all.end(), option.begin(), option.end());
    expect_error(all, {option.front().c_str(), "is for checkpoints"});
  }
  expect_error({"inspect", "model", "--tensor", "nope"}, {"nope"});
  expect_error({"verify", "model", "gone.gguf"}, {"gone.gguf"});
  EXPECT_EQ(files(), std::vector<std::string>{"model"});
}

TEST_F(ModelCommandTest, WhatCannotBeSearchedIsNotQuantizedInSpiteOfExclude) {
  const std::string name = "model.layers.0." + std::string(600, 'q') + "_proj.weight";
  auto writer = CheckpointWriter::create(path("long.safetensors"), Container::safetensors, {},
                                         {{.name = name, .type = StoredType::f32, .shape = {4, 128}}});
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  ASSERT_TRUE(writer->write(std::vector<std::uint8_t>(4 * 128 * 4, 0x3f)).ok());
  ASSERT_TRUE(writer->finish().ok());
  for (const char* option : {"--include", "--exclude", "--drop"})
    expect_error({"quantize", "long.safetensors", "-o", "a.safetensors", option, "q_proj"},
                 {option, "'q_proj'", "at most 512"});
  EXPECT_EQ(files(), (std::vector<std::string>{"long.safetensors", "model"}));
}

TEST_F(ModelCommandTest, HostileNamesCannotSpeakToTheTerminal) {
  auto writer = CheckpointWriter::create(path("evil.safetensors"), Container::safetensors,
                                         {{"k\x1b[2J", MetaValue("v\x1b]0;x\x07")}},
                                         {{.name = "a\x1b[31mred\n.weight", .type = StoredType::u8, .shape = {4}}});
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  const std::uint8_t bytes[4] = {1, 2, 3, 4};
  ASSERT_TRUE(writer->write(bytes).ok());
  ASSERT_TRUE(writer->finish().ok());
  for (const Arguments& arguments :
       {Arguments{"inspect", "evil.safetensors"}, Arguments{"inspect", "evil.safetensors", "--json"},
        Arguments{"verify", "evil.safetensors", "evil.safetensors"}, Arguments{"verify", "evil.safetensors", "model"},
        Arguments{"convert", "evil.safetensors", "-o", "o.safetensors"},
        Arguments{"quantize", "evil.safetensors", "-o", "o.gguf", "--architecture", "x"}}) {
    const Outcome outcome = tern(arguments);
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << arguments.front();
    EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << arguments.front() << outcome.err;
  }
  EXPECT_NE(tern({"inspect", "evil.safetensors"}).out.find("\\x1b"), std::string::npos);
}

// Writes beyond the file-size limit fail, as on a full disk.
TEST_F(ModelCommandTest, AFullDiskIsSaidAndLeavesNothing) {
  for (const char* output : {"a.gguf", "a.safetensors"}) {
    for (const char* blocks : {"16", "200", "600"}) {  // of 512 bytes
      const Outcome outcome = start(
          "/bin/sh",
          {"-c", std::string("ulimit -f ") + blocks + "; exec \"$0\" quantize model -o " + output, command_path()},
          folder());
      if (outcome.exit_code == 0) continue;  // a shell that counts in larger blocks
      EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
      EXPECT_NE(outcome.err.find(output), std::string::npos) << outcome.err;
      EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
    }
    EXPECT_EQ(files(), std::vector<std::string>{"model"}) << output;
  }
}

}  // namespace
}  // namespace tern::cli_test
