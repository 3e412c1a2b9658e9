// Chooses the number of streams and the prefetch distance by processor.
#include "ops/dot/cpu_tuning.h"

#include <algorithm>

namespace tern::dot {
namespace {

// The best streams and prefetch distance of a processor, by the number of streams that the kernel supports. The figures
// below were measured with one token of BitNet-2B's layers and cold caches: shares of a streaming read, with 1 / 2
// threads.
struct Row {
  std::string_view vendor;
  int family;
  int max_streams;  // that the kernel supports: 4 with vectors of 64 bytes, else 2
  int streams;
  int ahead_bytes;  // of all streams together
};
constexpr Row kRows[] = {
    // Zen 4: one stream 78 to 83 % / 99 %, four 60 to 66 % / 81 to 89 %. AVX2 has 73 to 78 % / 87 to 96 % with two.
    {"AuthenticAMD", 25, 4, 1, 4096},
    // Zen 5: one stream 96 % / 92 %, with 4 KiB ahead 86 % / 77 %, with 32 KiB 95 % / 87 %; four 81 % / 73 % at best.
    {"AuthenticAMD", 26, 4, 1, 16384},
};
// Other processors, as a Xeon (model 207) with 16 cores: two streams 82 to 84 % / 74 to 78 %, four 75 to 80 % / 69 to
// 70 %, one 77 % / 74 % of one matrix. 1 to 4 KiB ahead are alike there.
constexpr int kStreams = 2, kAheadBytes = 4096;

Row row_of(const CpuModel& cpu, int max_streams) {
  for (const Row& row : kRows)
    if (row.vendor == cpu.vendor && row.family == cpu.family && row.max_streams == max_streams) return row;
  return {{}, 0, max_streams, std::min(kStreams, max_streams), kAheadBytes};
}

}  // namespace

Tuning cpu_tuning(const CpuModel& cpu, const Tuning& asked, int max_streams) {
  const Row row = row_of(cpu, max_streams);
  int streams = asked.streams == 0 ? row.streams : std::min(asked.streams, max_streams);
  if (streams == 3) streams = 2;  // blocks of rows divide by powers of two
  return {.streams = streams, .ahead_bytes = asked.ahead_bytes.value_or(row.ahead_bytes / streams)};
}

Reading reading_of(const Tuning* tuning, int max_streams) {
  const Tuning all = tuning == nullptr ? cpu_tuning({}, {}, max_streams) : cpu_tuning({}, *tuning, max_streams);
  return {all.streams, *all.ahead_bytes};
}

}  // namespace tern::dot
