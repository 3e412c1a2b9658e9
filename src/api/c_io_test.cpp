// Tests of the C ABI's files.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/c_test.h"

namespace tern::c_test {
namespace {

class CFiles : public testing::Test {
 protected:
  CFiles() : folder_(std::filesystem::path(testing::TempDir()) / unique_name()) {
    std::filesystem::create_directories(folder_);
  }
  ~CFiles() override { std::filesystem::remove_all(folder_); }

  static std::string unique_name() {
    return std::string("tern_c_files_") + testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  [[nodiscard]] std::string path(const char* file) const { return (folder_ / file).string(); }

  std::filesystem::path folder_;
  ContextHandle context_ = open_context();
  std::vector<float> weights_ = make_weights(6 * 50);
  tern_tensor_view x_ = view_of(weights_.data(), TERN_DTYPE_F32, {2, 3, 50});
};

struct Steps {
  int calls = 0;
  std::size_t done = 0, total = 1;
  static void count(void* user, std::size_t done_bytes, std::size_t total_bytes) {
    auto& steps = *static_cast<Steps*>(user);
    ++steps.calls;
    steps.done = done_bytes;
    steps.total = total_bytes;
  }
};

TEST_F(CFiles, KeepQuantizedTensors) {
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.granularity = {TERN_GRANULARITY_GROUP, 32};
  const QuantizedHandle quantized = quantize(context_.get(), x_, &options);
  Steps steps;
  ASSERT_EQ(tern_save_quantized(path("q.npz").c_str(), quantized.get(), &Steps::count, &steps), TERN_OK);
  EXPECT_GE(steps.calls, 1);
  EXPECT_EQ(steps.done, steps.total);
  tern_quantized* made = nullptr;
  ASSERT_EQ(tern_load_quantized(context_.get(), path("q.npz").c_str(), &made), TERN_OK) << tern_last_error()->text;
  const QuantizedHandle loaded(made);
  const tern_quantized_info &a = info_of(quantized), &b = info_of(loaded);
  ASSERT_EQ(a.codes_bytes, b.codes_bytes);
  ASSERT_EQ(a.scale_count, b.scale_count);
  EXPECT_TRUE(same_bytes(a.codes.data, b.codes.data, a.codes_bytes));
  EXPECT_TRUE(same_bytes(a.scales.data, b.scales.data, a.scale_count * sizeof(float)));
  EXPECT_EQ(b.rank, 3);
  EXPECT_EQ(b.shape[2], 50);
  EXPECT_EQ(b.granularity.group_size, 32);
  EXPECT_STREQ(b.kernel, "");
}

TEST_F(CFiles, KeepTensors) {
  Steps steps;
  ASSERT_EQ(tern_save_npy(path("x.npy").c_str(), &x_, &Steps::count, &steps), TERN_OK);
  EXPECT_GE(steps.calls, 1);
  tern_npy* npy = nullptr;
  ASSERT_EQ(tern_npy_open(path("x.npy").c_str(), &npy), TERN_OK);
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  EXPECT_EQ(tern_npy_get_view(npy, &view), TERN_OK);
  EXPECT_EQ(view.dtype, TERN_DTYPE_F32);
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.shape[1], 3);
  EXPECT_EQ(view.strides[0], 150);
  EXPECT_TRUE(same_bytes(view.data, weights_.data(), weights_.size() * sizeof(float)));
  tern_npy_close(npy);
}

TEST_F(CFiles, KeepRawTensors) {
  std::vector<std::uint16_t> halves(60, 0x3F80);
  halves[7] = 0xBF80;
  const tern_tensor_view x = view_of(halves.data(), TERN_DTYPE_BF16, {6, 10});
  Steps steps;
  ASSERT_EQ(tern_save_raw(path("x.bin").c_str(), &x, &Steps::count, &steps), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(steps.done, 120U);
  const int64_t shape[] = {6, 10}, other[] = {6, 11};
  tern_npy* raw = nullptr;
  ASSERT_EQ(tern_npy_open_raw(path("x.bin").c_str(), TERN_DTYPE_BF16, shape, 2, &raw), TERN_OK);
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  EXPECT_EQ(tern_npy_get_view(raw, &view), TERN_OK);
  EXPECT_EQ(view.dtype, TERN_DTYPE_BF16);
  EXPECT_TRUE(same_bytes(view.data, halves.data(), 120));

  // Quantized and back, in bf16.
  const QuantizedHandle quantized = quantize(context_.get(), view, nullptr);
  tern_tensor* y = nullptr;
  ASSERT_EQ(tern_dequantize(context_.get(), quantized.get(), TERN_DTYPE_BF16, &y), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(tern_tensor_get_view(y, &view), TERN_OK);
  EXPECT_TRUE(same_bytes(view.data, halves.data(), 120));
  tern_tensor_destroy(y);
  tern_npy_close(raw);

  EXPECT_FAILS(tern_npy_open_raw(path("x.bin").c_str(), TERN_DTYPE_BF16, other, 2, &raw), TERN_INVALID_ARGUMENT,
               "has 120 bytes, but [6, 11] of bf16 needs 132");
  EXPECT_FAILS(tern_npy_open_raw(path("x.bin").c_str(), static_cast<tern_dtype>(99), shape, 2, &raw),
               TERN_INVALID_ARGUMENT, "dtype");
  EXPECT_EQ(raw, nullptr);
}

// Takes bytes until `room` is full, then fails like a pipe whose reader is gone.
struct Pipe {
  std::string bytes;
  std::size_t room = SIZE_MAX;
  static int32_t take(void* user, const void* bytes, std::size_t byte_count) {
    auto& pipe = *static_cast<Pipe*>(user);
    if (byte_count > pipe.room - pipe.bytes.size()) return EPIPE;
    pipe.bytes.append(static_cast<const char*>(bytes), byte_count);
    return 0;
  }
};

TEST_F(CFiles, StreamsHaveTheBytesOfFiles) {
  const QuantizedHandle quantized = quantize(context_.get(), x_, nullptr);
  ASSERT_EQ(tern_save_npy(path("x.npy").c_str(), &x_, nullptr, nullptr), TERN_OK);
  ASSERT_EQ(tern_save_raw(path("x.bin").c_str(), &x_, nullptr, nullptr), TERN_OK);
  ASSERT_EQ(tern_save_quantized(path("x.npz").c_str(), quantized.get(), nullptr, nullptr), TERN_OK);
  const auto text = [this](const char* file) {
    std::ostringstream out;
    out << std::ifstream(path(file), std::ios::binary).rdbuf();
    return out.str();
  };
  Pipe npy, raw, npz, narrow{.room = 100};
  Steps steps;
  EXPECT_EQ(tern_write_npy(&Pipe::take, &npy, &x_, &Steps::count, &steps), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(steps.done, npy.bytes.size());
  EXPECT_EQ(tern_write_raw(&Pipe::take, &raw, &x_, nullptr, nullptr), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(tern_write_quantized(&Pipe::take, &npz, quantized.get(), nullptr, nullptr), TERN_OK);
  EXPECT_EQ(npy.bytes, text("x.npy"));
  EXPECT_EQ(raw.bytes, text("x.bin"));
  EXPECT_EQ(npz.bytes, text("x.npz"));
  EXPECT_FAILS(tern_write_quantized(&Pipe::take, &narrow, quantized.get(), nullptr, nullptr), TERN_IO_ERROR,
               "the writer took no more: Broken pipe");
}

TEST_F(CFiles, RefuseWhatCannotBeReadOrWritten) {
  tern_npy* npy = nullptr;
  tern_quantized* quantized = nullptr;
  EXPECT_FAILS(tern_npy_open(path("no.npy").c_str(), &npy), TERN_IO_ERROR, "no.npy");
  EXPECT_FAILS(tern_load_quantized(context_.get(), path("no.npz").c_str(), &quantized), TERN_IO_ERROR, "no.npz");
  std::ofstream(path("bad.npy")) << "this is not an array, nor an archive, but it is long enough to be looked at";
  EXPECT_FAILS(tern_npy_open(path("bad.npy").c_str(), &npy), TERN_CORRUPT_FILE, "bad.npy");
  EXPECT_FAILS(tern_load_quantized(context_.get(), path("bad.npy").c_str(), &quantized), TERN_CORRUPT_FILE, "bad.npy");
  EXPECT_EQ(npy, nullptr);
  EXPECT_EQ(quantized, nullptr);
  EXPECT_FAILS(tern_save_npy(path("no_folder/x.npy").c_str(), &x_, nullptr, nullptr), TERN_IO_ERROR, "x.npy");
  x_.rank = 9;
  EXPECT_FAILS(tern_save_npy(path("x.npy").c_str(), &x_, nullptr, nullptr), TERN_INVALID_ARGUMENT,
               "rank of tensor is 9");
}

}  // namespace
}  // namespace tern::c_test
