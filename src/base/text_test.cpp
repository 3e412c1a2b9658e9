// Escaping of text that contains terminal commands.
#include "tern/text.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(OneLine, KeepsTextAndDisarmsCommands) {
  for (const char* text :
       {"", "weights.npz", "a b'\\", "mod\xC3\xA8le.gguf", "\xE6\xA8\xA1\xE5\x9E\x8B", "\xF0\x9F\x90\xA6~"})
    EXPECT_EQ(one_line(text), text);
  EXPECT_EQ(one_line("a\x1b[31m\nb\tc\x7f"), "a\\x1b[31m\\x0ab\\x09c\\x7f");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(one_line("\xC2\x9B[2J"), "\\xc2\\x9b[2J") << "a control character of two bytes";
  EXPECT_EQ(one_line("gpj.\xE2\x80\xAE"), "gpj.\\xe2\\x80\\xae") << "what follows would be read backwards";
  EXPECT_EQ(one_line("\xE2\x80\xA8"), "\\xe2\\x80\\xa8") << "a line separator";
}

TEST(OneLine, BytesThatAreNotUtf8AreShown) {
  EXPECT_EQ(one_line("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(one_line("\xC3(\xC3\xA8"), "\\xc3(\xC3\xA8");
  EXPECT_EQ(one_line("\xC0\x8A"), "\\xc0\\x8a") << "a newline in too many bytes";
  EXPECT_EQ(one_line("\xE0\x80\x8A"), "\\xe0\\x80\\x8a");
  EXPECT_EQ(one_line("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(one_line("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last character";
  EXPECT_EQ(one_line("\xF0\x9F\x90"), "\\xf0\\x9f\\x90") << "cut off";
}

}  // namespace
}  // namespace tern
