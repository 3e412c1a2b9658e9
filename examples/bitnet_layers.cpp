// Runs tokens through layers of BitNet-b1.58-2B's shapes with random ternary weights; prints tokens/s and a checksum.
//
//   bitnet_layers [--layers 30] [--tokens 16] [--scale-down 1] [--kernel linear.i2.reference]
//
// All sizes are divided by --scale-down (1, 2, 4 .. 64). The checksum is the same for every kernel and thread count,
// because sums are exact and the contract defines each rounding after them.
#include <tern/tern.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;

// Exits on an error, which an example may do and a library may not.
void check(const char* what, const tern::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s: %s\n", what, status.error().str().c_str());
  std::exit(1);
}
template <class T>
T must(const char* what, tern::Result<T> result) {
  if (!result) check(what, result.error());
  return *std::move(result);
}

// Trits with as many +1 as -1. Their single scale 1 / sqrt(k) keeps a sum of k products about as large as x.
tern::PackedWeights random_weights(const tern::Context& context, std::int64_t n, std::int64_t k) {
  static std::mt19937_64 random;
  std::vector<std::uint64_t> codes(static_cast<std::size_t>(n * k / 32 + 1));
  for (std::uint64_t& word : codes) {
    word = random();
    word &= ~((word << 1) & 0xAAAAAAAAAAAAAAAAU);  // code 3 is no trit: turn it into 1, which is trit 0
  }
  const float scale = 1 / std::sqrt(static_cast<float>(k));
  return must("pack", tern::PackedWeights::pack(context, {codes.data(), tern::DType::u8, {n, k / 4}},
                                                {&scale, tern::DType::f32, {1}}, n, k, tern::Granularity::tensor()));
}

struct Layer {
  tern::PackedWeights q, k, v, o, gate, up, down;
};

tern::TensorView view(Floats& x) { return {x.data(), tern::DType::f32, {1, static_cast<std::int64_t>(x.size())}}; }

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--layers", "30"}, {"--tokens", "16"}, {"--scale-down", "1"}, {"--kernel", ""}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name) { return std::atoi(options[name].c_str()); };
  const int layer_count = number("--layers"), tokens = number("--tokens"), scale_down = number("--scale-down");
  if (argc % 2 == 0 || options.size() != 4 || layer_count < 1 || tokens < 1 || scale_down < 1 || 64 % scale_down != 0) {
    std::fprintf(stderr, "%s [--layers N] [--tokens N] [--scale-down 1, 2, 4 .. 64] [--kernel NAME]\n", argv[0]);
    return 1;
  }
  const int hidden = 2560 / scale_down, kv = hidden / 4, ffn = 6912 / scale_down;  // four heads share a k and a v
  const tern::Context context = must("open", tern::Context::open());

  // Four problems, whatever the number of layers: a plan is made once for each. f32 goes in and out; in between, the
  // activations of a token become int8 and the sums are exact.
  const auto plan = [&](std::int64_t k, std::vector<tern::Linear::Matrix> matrices) {
    tern::Linear::Problem problem{.m_max = 1, .k = k, .x_dtype = tern::DType::f32};
    problem.matrices = std::move(matrices);
    return must("plan", tern::LinearPlan::select(context, problem, {.kernel = options["--kernel"], .strict = true}));
  };
  const auto qkv_plan = plan(hidden, {{.n = hidden}, {.n = kv}, {.n = kv}});
  const auto o_plan = plan(hidden, {{.n = hidden, .residual = true}});
  const auto gate_up_plan = plan(hidden, {{.n = ffn, .activation = tern::Activation::squared_relu}, {.n = ffn}});
  const auto down_plan = plan(ffn, {{.n = hidden, .residual = true}});

  // One workspace serves every plan of every layer, because they run one after the other.
  const auto bytes = std::max({qkv_plan.workspace_bytes(), o_plan.workspace_bytes(), gate_up_plan.workspace_bytes(),
                               down_plan.workspace_bytes()});
  const auto workspace = must("workspace", tern::Tensor::allocate(context.memory(), tern::DType::u8,
                                                                  {static_cast<std::int64_t>(bytes)}, "workspace"));
  const auto run = [&](const tern::LinearPlan& p, Floats& x, std::initializer_list<tern::Linear::Output> outputs) {
    check("run", p.run(context.stream(), workspace.as<std::byte>(),
                       {.x = view(x), .outputs = {outputs.begin(), outputs.size()}}));
  };

  std::vector<Layer> layers(static_cast<std::size_t>(layer_count));
  const auto random = [&](std::int64_t n, std::int64_t k) { return random_weights(context, n, k); };
  for (Layer& w : layers)
    w = {random(hidden, hidden), random(kv, hidden),  random(kv, hidden), random(hidden, hidden),
         random(ffn, hidden),    random(ffn, hidden), random(hidden, ffn)};
  std::printf("kernel:   %s, %d threads\n", gate_up_plan.id().kernel.c_str(), context.threads());

  Floats x(static_cast<std::size_t>(hidden)), q(x.size()), k(static_cast<std::size_t>(kv)), v(k.size());
  Floats gate(static_cast<std::size_t>(ffn)), up(gate.size());
  std::uint64_t checksum = 0xCBF29CE484222325U;  // FNV-1a
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t token = 0; token < static_cast<std::size_t>(tokens); ++token) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37 + token * 101) % 201) / 100 - 1;
    for (const Layer& w : layers) {
      run(qkv_plan, x, {{w.q, view(q)}, {w.k, view(k)}, {w.v, view(v)}});
      for (std::size_t i = 0; i < q.size(); ++i) q[i] *= k[i / 4] * v[i / 4];  // in place of attention; uses q, k and v
      run(o_plan, q, {{.weights = w.o, .y = view(x), .residual = view(x)}});
      run(gate_up_plan, x, {{w.gate, view(gate)}, {w.up, view(up)}});
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i];
      run(down_plan, gate, {{.weights = w.down, .y = view(x), .residual = view(x)}});
      // In place of the model's RMS norm: scales the largest magnitude to 1, so that many layers do not overflow.
      const float top = std::fabs(*std::ranges::max_element(x, {}, [](float value) { return std::fabs(value); }));
      for (float& value : x) value /= std::max(top, 1e-5F);
    }
    for (const std::byte byte : std::as_bytes(std::span(x)))
      checksum = (checksum ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3U;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("tokens/s: %.2f\nchecksum: %016" PRIx64 "\n", tokens / seconds.count(), checksum);
  return 0;
}
