// Writes and reads .npy files by hand, so that tests of the command do not depend on the reader they test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::cli_test {

// Magic, version 1.0, length and dictionary, padded to 64 bytes. `shape` is Python's, as in "(2, 3)".
std::string npy_header(const std::string& descr, bool fortran_order, const std::string& shape);

void write_bytes(const std::string& path, const std::string& bytes);
void write_npy(const std::string& path, const std::string& shape, const std::vector<float>& values);

// The data of a version 1.0 file of '<f4'; empty for any other file.
std::vector<float> read_npy(const std::string& path);

// Values like a layer's weights: normal with standard deviation 0.02, the same for the same seed.
std::vector<float> random_weights(std::size_t count, std::uint32_t seed);

}  // namespace tern::cli_test
