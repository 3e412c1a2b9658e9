// Outputs through links and to standard output, inputs that are no files, and names with terminal control characters.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "command.h"
#include "npy_bytes.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern::cli_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class FilesTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    write_npy(path("x.npy"), "(8, 64)", random_weights(8 * 64, 5));
    ASSERT_EQ(tern({"quantize", "x.npy", "-o", "x.npz"}).exit_code, 0);
    ASSERT_EQ(tern({"dequantize", "x.npz", "-o", "y.npy"}).exit_code, 0);
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  void make_model() const {
    fs::create_directory(path("model"));
    ASSERT_TRUE(write_bitnet_folder(path("model"), {.layers = 1}).ok());
  }
  // Runs the command by the shell with `words`; stops it after a minute in case it waits for ever.
  [[nodiscard]] Outcome shell(const std::string& words) const {
    return start("/bin/sh", {"-c", "timeout 60 \"$0\" " + words, command_path()}, folder());
  }
  void expect_refused(const Outcome& outcome, std::initializer_list<const char*> words, int exit_code = 1) const {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const char* word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
  }
};

TEST_F(FilesTest, LinksAreFollowedAndStay) {
  make_model();
  fs::create_directory(path("disk"));
  for (const char* name : {"a.npz", "a.npy", "a.gguf", "a.safetensors", "a.html"})
    fs::create_symlink(std::string("disk/") + name, path(name));
  for (int time = 0; time < 2; ++time) {  // the first time, the targets of the links do not exist
    ASSERT_EQ(tern({"quantize", "x.npy", "-o", "a.npz"}).exit_code, 0);
    ASSERT_EQ(tern({"dequantize", "a.npz", "-o", "a.npy"}).exit_code, 0);
    ASSERT_EQ(tern({"quantize", "model", "-o", "a.gguf", "--report", "a.html"}).exit_code, 0);
    ASSERT_EQ(tern({"convert", "a.gguf", "-o", "a.safetensors"}).exit_code, 0);
  }
  for (const char* name : {"a.npz", "a.npy", "a.gguf", "a.safetensors", "a.html"}) {
    EXPECT_TRUE(fs::is_symlink(path(name))) << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path(std::string("disk/") + name)))) << name;
  }
  EXPECT_EQ(text_of("disk/a.npz"), text_of("x.npz"));
  EXPECT_EQ(text_of("disk/a.npy"), text_of("y.npy"));
  // Two links to the same missing file are one output.
  fs::create_symlink("disk/both", path("one.html"));
  fs::create_symlink("disk/both", path("two.gguf"));
  expect_refused(tern({"quantize", "model", "-o", "two.gguf", "--report", "one.html"}), {"--report", "is the output"},
                 2);
  fs::create_symlink("nowhere/a.npz", path("lost.npz"));
  expect_refused(tern({"quantize", "x.npy", "-o", "lost.npz"}), {"nowhere", "not a folder that exists"});
}

// A device node in the test's folder stands in for the machine's /dev/null.
TEST_F(FilesTest, WhatIsNoFileIsNotReplaced) {
  make_model();
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::vector<std::string> names = {"pipe"};
  if (::mknod(path("device").c_str(), S_IFCHR | 0600, ::makedev(1, 3)) == 0) names.emplace_back("device");
  for (const std::string& name : names) {
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat(path(name).c_str(), &before), 0);
    for (const char* ending : {".npz", ".npy", ".gguf", ".html"}) {
      fs::create_symlink(name, path("link" + std::string(ending)));
    }
    expect_refused(tern({"quantize", "x.npy", "-o", "link.npz"}), {"link.npz", name.c_str(), "- for standard output"});
    expect_refused(tern({"dequantize", "x.npz", "-o", "link.npy"}), {"link.npy", name.c_str(), "name a file"});
    expect_refused(tern({"quantize", "model", "-o", "link.gguf"}), {"link.gguf", name.c_str(), "name a file"});
    expect_refused(tern({"convert", "model", "-o", "link.gguf"}), {"link.gguf", name.c_str()});
    expect_refused(tern({"quantize", "model", "-o", "a.gguf", "--report", "link.html"}), {"link.html", name.c_str()});
    ASSERT_EQ(::lstat(path(name).c_str(), &after), 0);
    EXPECT_EQ(before.st_mode, after.st_mode) << name;
    EXPECT_EQ(before.st_ino, after.st_ino) << name;
    for (const char* ending : {".npz", ".npy", ".gguf", ".html"}) {
      EXPECT_TRUE(fs::is_symlink(path("link" + std::string(ending))));
      fs::remove(path("link" + std::string(ending)));
    }
    EXPECT_FALSE(fs::exists(path("a.gguf")));
  }
}

TEST_F(FilesTest, TheFileThatIsPrintedToIsNotReplaced) {
  for (const char* words : {"quantize x.npy -o out.npz >out.npz", "quantize x.npy -o out.npz 2>out.npz",
                            "dequantize x.npz -o out.npy >out.npy"}) {
    const Outcome outcome = shell(words);
    EXPECT_EQ(outcome.exit_code, 2) << words << outcome.err;
    const std::string said = outcome.err + (fs::exists(path("out.npz")) ? text_of("out.npz") : "");
    EXPECT_NE(said.find("what is printed would be lost"), std::string::npos) << words << said;
  }
}

TEST_F(FilesTest, StandardOutputGetsTheBytesOfTheFile) {
  for (const char* words :
       {"quantize x.npy -o - >s.npz", "quantize x.npy -o - | cat >s.npz", "quantize x.npy -o - --json >s.npz",
        "quantize x.npy -o - 2>/dev/null >s.npz", "quantize x.npy -o - 2>&- >s.npz"}) {
    const Outcome outcome = shell(words);
    EXPECT_EQ(outcome.exit_code, 0) << words << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(text_of("s.npz"), text_of("x.npz")) << words;
  }
  for (const char* words : {"dequantize x.npz -o - >s.npy", "dequantize x.npz -o - --json | cat >s.npy"}) {
    EXPECT_EQ(shell(words).exit_code, 0) << words;
    EXPECT_EQ(text_of("s.npy"), text_of("y.npy")) << words;
  }
  ASSERT_EQ(tern({"dequantize", "x.npz", "-o", "y.bin", "--dtype", "bf16"}).exit_code, 0);
  EXPECT_EQ(shell("dequantize x.npz -o - --dtype bf16 >s.bin").exit_code, 0);
  EXPECT_EQ(text_of("s.bin"), text_of("y.bin"));
  EXPECT_FALSE(fs::exists(path("-")));
  // './-' means a file named '-'.
  EXPECT_EQ(tern({"dequantize", "x.npz", "-o", "./-", "--dtype", "bf16"}).exit_code, 0);
  EXPECT_EQ(text_of("-"), text_of("y.bin"));
}

TEST_F(FilesTest, WhatIsPrintedBesideAStreamGoesToStandardError) {
  const Outcome text = tern({"quantize", "x.npy", "-o", "-"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.out, text_of("x.npz"));
  EXPECT_NE(text.err.find("standard output: absmean by tensor to i2"), std::string::npos) << text.err;
  const Outcome document = tern({"quantize", "x.npy", "-o", "-", "--json"});
  EXPECT_EQ(document.out, text_of("x.npz"));
  const json said = json::parse(document.err);
  EXPECT_EQ(said["output"]["path"], "-");
  EXPECT_EQ(said["output"]["file_bytes"], document.out.size());
  EXPECT_EQ(json::parse(tern({"dequantize", "x.npz", "-o", "-", "--json"}).err)["output"]["layout"], "npy");
}

TEST_F(FilesTest, AFailureLeavesAStreamEmpty) {
  expect_refused(tern({"quantize", "x.npy", "-o", "-", "--max-error", "80"}), {"quality_below_limit"});
  expect_refused(tern({"dequantize", "x.npy", "-o", "-"}), {"x.npy"});
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const Outcome full = shell("quantize x.npy -o - >/dev/full");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.err.find("cannot write standard output: No space left"), std::string::npos) << full.err;
}

// A checkpoint cannot be streamed, because the checksums in its header are written last.
TEST_F(FilesTest, ACheckpointIsNoStreamButItsReportIs) {
  make_model();
  for (const char* words : {"quantize model -o -", "convert model -o - --container gguf", "quantize model -o - --json"})
    expect_refused(shell(words), {"'-' is standard output", "name a .gguf or .safetensors file"}, 2);
  ASSERT_EQ(tern({"quantize", "model", "-o", "a.gguf", "--report", "r.html"}).exit_code, 0);
  const Outcome outcome = tern({"quantize", "model", "-o", "a.gguf", "--report", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, text_of("r.html"));
  EXPECT_NE(outcome.err.find("times smaller"), std::string::npos) << outcome.err;
  EXPECT_EQ(shell("quantize model -o a.gguf --report - --json 2>err >r2.html").exit_code, 0);
  EXPECT_EQ(text_of("r2.html"), text_of("r.html"));
  EXPECT_EQ(json::parse(text_of("err"))["output"]["path"], "a.gguf");
}

TEST_F(FilesTest, InputsThatAreNoFilesAreRefusedAtOnce) {
  make_model();
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("pipe.gguf").c_str(), 0600), 0);
  for (const char* words :
       {"quantize pipe -o a.npz", "quantize pipe -o a.npz --dtype f32 --shape 2x2", "quantize pipe.gguf -o a.gguf",
        "dequantize pipe -o a.npy", "inspect pipe", "convert pipe -o a.gguf",
        "quantize model -o a.gguf --format tl1 --kernel-config pipe", "inspect model --kernel-config pipe"})
    expect_refused(shell(words), {"pipe", "is a pipe, not a regular file", "to a file first"});
  EXPECT_EQ(shell("verify pipe model").exit_code, 2);
  expect_refused(shell("quantize /dev/null -o a.npz"), {"is a device"});
}

TEST_F(FilesTest, NamesCannotSpeakToTheTerminal) {
  make_model();
  const std::string evil = "e\x1b]0;x\x07\n\xC2\x9B\x7F\xE2\x80\xAE", plain = "mod\xC3\xA8le.npz";
  fs::copy_file(path("x.npy"), path(evil + ".npy"));
  fs::copy(path("model"), path(evil + ".d"));
  std::ofstream(path(evil + ".gguf")) << "GG";
  std::ofstream(path(evil + ".index.json")) << "{";
  for (const Arguments& arguments : {Arguments{"quantize", evil + ".npy", "-o", evil + ".npz"},
                                     Arguments{"quantize", evil, "-o", "a.npz"},
                                     Arguments{"quantize", "x.npy", "-o", evil + "/a.npz"},
                                     Arguments{"quantize", "x.npy", "-o", evil},
                                     Arguments{"dequantize", evil + ".npz", "-o", evil + "2.npy"},
                                     Arguments{"dequantize", evil, "-o", "a.npy"},
                                     Arguments{"quantize", evil + ".d", "-o", evil + "2.gguf"},
                                     Arguments{"quantize", evil + ".d", "-o", evil},
                                     Arguments{"inspect", evil + "2.gguf"},
                                     Arguments{"inspect", evil + ".gguf"},
                                     Arguments{"inspect", evil},
                                     Arguments{"inspect", evil + ".index.json"},
                                     Arguments{"inspect", evil + "2.gguf", "--tensor", evil},
                                     Arguments{"inspect", "model", "--kernel-config", evil},
                                     Arguments{"verify", evil + ".d", "model"},
                                     Arguments{"verify", evil + "2.gguf", evil + ".gguf"},
                                     Arguments{"quantize", "x.npy", "-o", "a.npz", evil},
                                     Arguments{"convert", evil + "2.gguf", "-o", evil + "3.gguf"},
                                     Arguments{evil},
                                     Arguments{"quantize", "--" + evil},
                                     Arguments{"quantize", "x.npy", "-o", "a.npz", "--kernel", evil},
                                     Arguments{"quantize", "x.npy", "-o", "a.npz", "--shape", evil, "--dtype", "f32"},
                                     Arguments{"quantize", evil + ".d", "-o", "a.gguf", "--report", evil + "/r.html"}})
    for (const bool as_json : {false, true}) {
      Arguments words = arguments;
      if (as_json) words.emplace_back("--json");
      const Outcome outcome = tern(words);
      for (const std::string& said : {outcome.out, outcome.err})
        for (const char* command : {"\x1b", "\x07", "\xE2\x80\xAE", "\xC2\x9B", "\x7F"})
          EXPECT_EQ(said.find(command), std::string::npos) << words[0] << ' ' << said;
    }
  const Outcome kept = tern({"quantize", "x.npy", "-o", plain});
  EXPECT_NE(kept.out.find(plain), std::string::npos) << kept.out;
}

// As write_model does for checkpoints, the next run removes the files of killed processes.
TEST_F(FilesTest, TensorsClearUpWhatKilledRunsLeft) {
  for (const char* name : {"x.npz", "y.npy", "y.bin"}) {
    const std::string dead = path("." + std::string(name) + ".999999999.7.tmp");
    const std::string living = path("." + std::string(name) + "." + std::to_string(::getpid()) + ".7.tmp");
    std::ofstream(dead) << "bytes";
    std::ofstream(living) << "bytes";
    const Outcome outcome = name[0] == 'x'
                                ? tern({"quantize", "x.npy", "-o", name})
                                : tern({"dequantize", "x.npz", "-o", name, "--dtype", name[2] == 'n' ? "f32" : "bf16"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_FALSE(fs::exists(dead)) << name;
    EXPECT_TRUE(fs::exists(living)) << name;
  }
}

}  // namespace
}  // namespace tern::cli_test
