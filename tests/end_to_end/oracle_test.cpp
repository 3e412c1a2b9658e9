// PyPI's gguf and safetensors with NumPy read the same weights from our files as we do, and we from theirs.
#include <gtest/gtest.h>

#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/python.h"

namespace tern {
namespace {

class Oracle : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = python_lacks("gguf, safetensors, numpy"); !why.empty()) GTEST_SKIP() << why;
    context_.emplace(*Context::open(DeviceId{}, {.threads = 2}));
    ASSERT_TRUE(write_bitnet_folder(folder_.path().string(), {.layers = 1}).ok());
    ASSERT_NO_FATAL_FAILURE(write("model.safetensors", "i2.safetensors", {.layout = Layout::i2}));
  }
  void write(const std::string& in, const std::string& out, const WriteOptions& options) {
    const auto model = Model::open(folder_ / in);
    ASSERT_TRUE(model.ok()) << model.error().str();
    const auto plan = plan_model(*model, folder_ / out, options);
    ASSERT_TRUE(plan.ok()) << plan.error().str();
    const auto report = write_model(*context_, *model, *plan, folder_ / out);
    ASSERT_TRUE(report.ok()) << report.error().str();
  }
  TempFolder folder_;
  std::optional<Context> context_;
};

// Reads trits and scales of our i2, following docs/formats.md.
constexpr const char* kOwn = R"py(
import json, numpy as np
from safetensors import safe_open
def own(path):
    values = {}
    with safe_open(path, "np") as file:
        meta = file.metadata()
        assert meta["tern.format"] == "i2", meta
        for name in file.keys():
            if "tern.shape." + name not in meta: continue
            n, k = map(int, meta["tern.shape." + name].split("x"))
            codes = file.get_tensor(name)
            bits = (codes[:, :, None] >> np.arange(0, 8, 2, dtype=np.uint8)) & 3
            trits = bits.reshape(n, -1)[:, :k].astype(np.int8) - 1
            values[name] = (trits, file.get_tensor(name + ".scales").astype(np.float32))
    return values
hf = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
      "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
)py";

TEST_F(Oracle, ReadsI2s) {
  ASSERT_NO_FATAL_FAILURE(write("i2.safetensors", "m.gguf", {.quantize = false, .architecture = "bitnet-b1.58"}));
  EXPECT_TRUE(run_python(folder_, std::string(kOwn) + R"py(
import struct
# Microsoft's types are not known to the package, so the header is walked by its own words.
from gguf import GGUFReader
import gguf.gguf_reader as reader_module
data = open("m.gguf", "rb").read()
assert data[:4] == b"GGUF"
values = own("i2.safetensors")
at = 8
count, keys = struct.unpack_from("<QQ", data, at); at += 16
def text():
    global at
    (size,) = struct.unpack_from("<Q", data, at); at += 8 + size
    return data[at - size:at].decode()
sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
meta = {}
for _ in range(keys):
    key = text()
    (kind,) = struct.unpack_from("<I", data, at); at += 4
    if kind == 8: meta[key] = text()
    else: meta[key] = data[at:at + sizes[kind]]; at += sizes[kind]
assert meta["tern.format"] == "i2_s.x86_128" and struct.unpack("<I", meta["general.file_type"])[0] == 40
tensors = []
for _ in range(count):
    name = text()
    (rank,) = struct.unpack_from("<I", data, at); at += 4
    ne = struct.unpack_from("<%dQ" % rank, data, at); at += 8 * rank
    kind, offset = struct.unpack_from("<IQ", data, at); at += 12
    tensors.append((name, ne, kind, offset))
begin = (at + 31) // 32 * 32
seen = 0
for name, ne, kind, offset in tensors:
    if kind != 36: continue
    seen += 1
    trits, scales = values["model.layers.0." + hf[name.split(".")[2]] + ".weight"]
    k, n = ne
    assert trits.shape == (n, k)
    codes = np.frombuffer(data, np.uint8, n * k // 4, begin + offset).reshape(-1, 32)
    got = np.stack([(codes >> shift) & 3 for shift in (6, 4, 2, 0)], 1).reshape(n, k).astype(np.int8) - 1
    assert (got == trits).all(), name
    assert np.frombuffer(data, np.float32, 1, begin + offset + n * k // 4)[0] == scales[0]
assert seen == 7
)py"));
}

TEST_F(Oracle, DequantizesTqToTheSameValues) {
  for (const auto& [layout, name] : {std::pair{Layout::tq1_0, "TQ1_0"}, {Layout::tq2_0, "TQ2_0"}}) {
    ASSERT_NO_FATAL_FAILURE(write("model.safetensors", "m.gguf", {.layout = layout}));
    ASSERT_NO_FATAL_FAILURE(write("m.gguf", "back.safetensors", {.layout = Layout::i2, .quantize = false}));
    EXPECT_TRUE(run_python(folder_, std::string(kOwn) + "kind = '" + name + R"py('
from gguf import GGUFReader
from gguf.quants import dequantize
values = own("back.safetensors")
seen = 0
reader = GGUFReader("m.gguf")
for tensor in reader.tensors:
    if tensor.tensor_type.name != kind: continue
    seen += 1
    trits, scales = values["model.layers.0." + hf[tensor.name.split(".")[2]] + ".weight"]
    want = trits * np.repeat(scales, 256, axis=1)
    got = dequantize(tensor.data, tensor.tensor_type).reshape(want.shape)
    assert (got == want).all(), tensor.name
assert seen == 7, seen
field = reader.fields["bitnet-b1.58.block_count"]
assert field.parts[field.data[0]][0] == 1
)py")) << name;
  }
}

TEST_F(Oracle, ReadsHfPacked) {
  ASSERT_NO_FATAL_FAILURE(write("i2.safetensors", "p.safetensors", {.layout = Layout::hf_packed, .quantize = false}));
  EXPECT_TRUE(run_python(folder_, std::string(kOwn) + R"py(
values = own("i2.safetensors")
with safe_open("p.safetensors", "np") as file:
    for name, (trits, scales) in values.items():
        packed = file.get_tensor(name)
        got = np.concatenate([(packed >> shift) & 3 for shift in (0, 2, 4, 6)]).astype(np.int8) - 1
        assert (got == trits).all(), name
        assert file.get_tensor(name + "_scale") == scales
)py"));
}

// A packed checkpoint as Hugging Face's tools make it, with weight_scale as factor and as divisor.
TEST_F(Oracle, ItsPackedFilesAreRead) {
  ASSERT_TRUE(run_python(folder_, R"py(
import json, os
import numpy as np
from safetensors.numpy import save_file
random = np.random.default_rng(5)
trits = random.integers(-1, 2, (64, 40)).astype(np.int8)
np.save("trits.npy", trits)
quarters = (trits + 1).astype(np.uint8).reshape(4, 16, 40)
packed = quarters[0] | quarters[1] << 2 | quarters[2] << 4 | quarters[3] << 6
for word, scale in (("autobitlinear", 0.25), ("bitlinear", 4.0)):
    os.mkdir(word)
    save_file({"model.layers.0.mlp.up_proj.weight": packed,
               "model.layers.0.mlp.up_proj.weight_scale": np.array([scale], np.float32)}, word + "/model.safetensors")
    json.dump({"model_type": "bitnet", "quantization_config": {"linear_class": word}}, open(word + "/config.json", "w"))
)py"));
  const std::string trits = read_text(folder_ / "trits.npy");
  for (const char* word : {"autobitlinear", "bitlinear"}) {
    const auto model = Model::open(folder_ / word);
    ASSERT_TRUE(model.ok()) << model.error().str();
    ASSERT_EQ(model->tensors().size(), 1U) << "the scale belongs to the weights";
    const auto q = model->read(*context_, 0);
    ASSERT_TRUE(q.ok()) << q.error().str();
    EXPECT_EQ(q->scale_values()[0], 0.25F) << word;
    const std::string_view want = std::string_view(trits).substr(trits.size() - 64 * 40);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ((q->quantized_data()[i / 40 * 10 + i % 40 / 4] >> (2 * (i % 4)) & 3) - 1,
                static_cast<signed char>(want[i]))
          << i;
  }
}

}  // namespace
}  // namespace tern
