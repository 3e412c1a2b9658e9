// Exchanges files with numpy, if a Python with numpy is installed.
#include <array>
#include <cstring>
#include <vector>

#include "format/format.h"
#include "tern/io.h"
#include "tests/support/python.h"

namespace tern {
namespace {

TEST(Numpy, ReadsAndRewritesEveryNpyToTheSameBytes) {
  if (const std::string why = python_lacks("numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const std::vector<std::uint8_t> data(24 * 8, 0x3C);
  std::vector<std::string> names;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i8, DType::u8, DType::i32})
    for (const Shape& shape : {Shape(), Shape{24}, Shape{2, 3, 4}, Shape{0, 7}, Shape{1, 1, 1, 1, 1, 1, 1, 1}}) {
      names.push_back(std::to_string(names.size()) + ".npy");
      ASSERT_TRUE(save_npy(folder / names.back(), ConstTensorView(data.data(), dtype, shape)).ok());
    }
  ASSERT_TRUE(run_python(folder,
                         "import glob, numpy\n"
                         "for name in glob.glob('*.npy'):\n"
                         "    numpy.save(name[:-4] + '.again', numpy.load(name))\n"));
  for (const std::string& name : names)
    EXPECT_EQ(read_text(folder / name), read_text(folder / (name.substr(0, name.size() - 4) + ".again.npy"))) << name;
}

TEST(Numpy, ReadsAndRewritesAQuantizedTensor) {
  if (const std::string why = python_lacks("numpy"); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  QuantizedTensor tensor;
  tensor.shape = {2, 3};
  tensor.scheme = Scheme::int2;
  tensor.format = Format::s2;
  tensor.granularity = Granularity::row();
  tensor.codes = *Tensor::allocate(host_memory(), DType::u8, {2, 1});
  tensor.scales = *Tensor::allocate(host_memory(), DType::f32, {2, 1});
  const std::array<std::array<std::int8_t, 3>, 2> codes = {{{-2, 1, 0}, {-1, -1, 1}}};
  for (std::size_t row = 0; row < 2; ++row) {
    pack_row(Format::s2, codes[row].data(), 3, tensor.codes.as<std::uint8_t>().data() + row);
    tensor.scales.as<float>()[row] = 0.5F + static_cast<float>(row);
  }
  ASSERT_TRUE(save_quantized(folder / "w.npz", tensor).ok());
  ASSERT_TRUE(run_python(folder,
                         "import json, numpy\n"
                         "f = numpy.load('w.npz')\n"
                         "meta = json.loads(bytes(f['meta']))\n"
                         "assert meta['shape'] == [2, 3] and meta['scheme'] == 'int2' and meta['version'] == 1, meta\n"
                         "assert meta['granularity'] == 'row' and meta['format'] == 's2', meta\n"
                         "assert json.loads(f['meta'].item()) == meta\n"
                         "assert f['codes'].tolist() == [[0b00000110], [0b00011111]], f['codes']\n"
                         "assert f['scales'].tolist() == [[0.5], [1.5]], f['scales']\n"
                         "numpy.savez('again.npz', **f)\n"
                         "numpy.savez_compressed('deflated.npz', **f)\n"));
  const auto again = load_quantized(folder / "again.npz");
  ASSERT_TRUE(again.ok()) << again.error().str();
  EXPECT_EQ(again->shape, tensor.shape);
  EXPECT_TRUE(std::ranges::equal(again->quantized_data(), tensor.quantized_data()));
  EXPECT_TRUE(std::ranges::equal(again->scale_values(), tensor.scale_values()));
  expect_error(load_quantized(folder / "deflated.npz"), Code::unsupported,
               "'codes.npy' is compressed; save it with numpy.savez, not savez_compressed");
}

}  // namespace
}  // namespace tern
