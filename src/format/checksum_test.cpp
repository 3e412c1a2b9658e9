// The checksum against published XXH64 values, however the bytes are split over the two buffers.
#include "format/checksum.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tern {
namespace {

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(Checksum, OfNothing) { EXPECT_EQ(checksum({}, {}), 0xEF46DB3751D8E999U); }

TEST(Checksum, OfKnownTextsAtEverySplit) {
  struct Known {
    std::string_view text;
    std::uint64_t sum;
  };
  for (const Known& known :
       {Known{"abc", 0x44BC2CF5AD770999U},
        Known{"Call me Ishmael. Some years ago--never mind how long precisely-", 0x02A2E85470D6FD96U}})
    for (std::size_t split = 0; split <= known.text.size(); ++split)
      EXPECT_EQ(checksum(bytes(known.text.substr(0, split)), bytes(known.text.substr(split))), known.sum) << split;
}

TEST(Checksum, OfBytesAsTheyCome) {
  RunningChecksum sum;
  EXPECT_EQ(sum.value(), 0xEF46DB3751D8E999U);
  for (const char c : std::string_view("abc")) sum.add(bytes({&c, 1}));
  sum.add({});
  EXPECT_EQ(sum.value(), 0x44BC2CF5AD770999U);
}

}  // namespace
}  // namespace tern
