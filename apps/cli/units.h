// Sizes, times and rates as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace tern::cli {

std::string human_bytes(std::size_t bytes);                      // "64 B", "1.5 KiB", "4.0 GiB"
std::string size_change(std::size_t before, std::size_t after);  // "8.0 MiB -> 576.0 KiB, 14.2 times smaller"
std::string counted(long long count, const char* what);          // "1 core", "2 cores"
std::string human_seconds(double seconds);                       // "850 ns", "12.3 us", "4.56 ms", "1.20 s"
std::string gigabytes_per_second(double rate);                   // "10.4 GB/s"

}  // namespace tern::cli
