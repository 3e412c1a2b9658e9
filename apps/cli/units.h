// Sizes, times and rates as people read them.
#pragma once

#include <cstddef>
#include <string>

namespace tern::cli {

std::string human_bytes(std::size_t bytes);              // "64 B", "1.5 KiB", "4.0 GiB"
std::string counted(long long count, const char* what);  // "1 core", "2 cores"
std::string human_seconds(double seconds);               // "850 ns", "12.3 us", "4.56 ms", "1.20 s"
std::string gigabytes_per_second(double rate);           // "10.4 GB/s"

}  // namespace tern::cli
