// Runs tokens through layers of BitNet-b1.58-2B's shapes with random ternary weights; prints tokens/s and a checksum.
//
//   bitnet_layers [--layers 30] [--tokens 16] [--scale-down 1] [--kernel linear.i2.reference]
//
// All sizes are divided by --scale-down (1, 2, 4 .. 64). The checksum is the same for every kernel and thread count:
// sums are exact, and each rounding after them is part of the contract.
#include <tern/tern.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;

constexpr int kHeads = 20, kKvHeads = 5;  // four heads share a k and a v
constexpr int kHidden = 2560, kFfn = 6912;

// An example may end where a library must not.
[[noreturn]] void fail(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::exit(1);
}
template <class T>
T must(const char* what, tern::Result<T> result) {
  if (!result) fail(what, result.error().str());
  return *std::move(result);
}

struct Options {
  int layers = 30, tokens = 16, scale_down = 1;
  std::string kernel = {};
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (value.empty()) fail(argv[i], "a value is missing");
    const int number = static_cast<int>(std::clamp(std::strtol(value.c_str(), nullptr, 10), 0L, 1'000'000L));
    if (word == "--kernel")
      o.kernel = value;
    else if (word != "--layers" && word != "--tokens" && word != "--scale-down")
      fail(argv[i], "no such option; there are --layers, --tokens, --scale-down and --kernel");
    else if (number < 1)
      fail(argv[i], "must be a number from 1 on, not " + value);
    else
      (word == "--layers" ? o.layers : word == "--tokens" ? o.tokens : o.scale_down) = number;
  }
  if (64 % o.scale_down != 0) fail("--scale-down", "must be 1, 2, 4, 8, 16, 32 or 64");
  return o;
}

// splitmix64: a few instructions for 32 codes.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// Trits with as many +1 as -1, one scale for all of them that keeps sums of k products at the size of x.
tern::PackedWeights random_weights(const tern::Context& context, std::int64_t n, std::int64_t k, std::uint64_t& seed) {
  std::vector<std::uint64_t> codes(static_cast<std::size_t>(n * k / 32 + 1));
  for (std::uint64_t& word : codes) {
    word = next_random(seed);
    word &= ~((word << 1) & 0xAAAAAAAAAAAAAAAAU);  // high bit off where the low one is on: 3 is no trit, 1 is a zero
  }
  const float scale = 1 / std::sqrt(static_cast<float>(k));
  return must("pack", tern::PackedWeights::pack(context, {codes.data(), tern::DType::u8, {n, k / 4}},
                                                {&scale, tern::DType::f32, {1}}, n, k, tern::Granularity::tensor()));
}

struct Layer {
  tern::PackedWeights q, k, v, o, gate, up, down;
};

tern::TensorView view(Floats& x) { return {x.data(), tern::DType::f32, {1, static_cast<std::int64_t>(x.size())}}; }

// Not attention: a head sees its own token only, weighed by q.k squashed to -1 .. 1, so that q, k and v all count.
void attend(const Floats& q, const Floats& k, const Floats& v, Floats& heads) {
  const std::size_t size = q.size() / kHeads;
  for (std::size_t h = 0; h < kHeads; ++h) {
    const std::size_t from = h * size, kv_from = h * kKvHeads / kHeads * size;
    float score = 0;
    for (std::size_t i = 0; i < size; ++i) score += q[from + i] * k[kv_from + i];
    const float weight = score / (1 + std::fabs(score));
    for (std::size_t i = 0; i < size; ++i) heads[from + i] = weight * v[kv_from + i];
  }
}

// In place of the model's RMS norm: the largest becomes 1, so that no number of layers overflows.
void normalise(Floats& x) {
  float top = 1e-5F;
  for (const float value : x) top = std::max(top, std::fabs(value));
  for (float& value : x) value /= top;
}

std::uint64_t fnv1a(std::uint64_t hash, const Floats& x) {
  for (const float value : x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ ((bits >> shift) & 0xFFU)) * 0x100000001B3U;
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const tern::Context context = must("open", tern::Context::open());
  const int hidden = kHidden / options.scale_down, kv = hidden * kKvHeads / kHeads, ffn = kFfn / options.scale_down;

  // Four problems, whatever the number of layers: a plan is made once for each. f32 goes in and out; in between, the
  // activations of a token become int8 and the sums are exact.
  const auto plan = [&](std::int64_t k, std::vector<tern::Linear::Matrix> matrices) {
    tern::Linear::Problem problem{.m_max = 1, .k = k, .x_dtype = tern::DType::f32};
    problem.matrices = std::move(matrices);
    return must("plan", tern::LinearPlan::select(context, problem, {.kernel = options.kernel, .strict = true}));
  };
  const auto qkv_plan = plan(hidden, {{.n = hidden}, {.n = kv}, {.n = kv}});
  const auto o_plan = plan(hidden, {{.n = hidden, .residual = true}});
  const auto gate_up_plan = plan(hidden, {{.n = ffn, .activation = tern::Activation::squared_relu}, {.n = ffn}});
  const auto down_plan = plan(ffn, {{.n = hidden, .residual = true}});

  // One workspace serves every plan of every layer, because they run one after the other.
  std::size_t workspace_bytes = 0;
  for (const auto* p : {&qkv_plan, &o_plan, &gate_up_plan, &down_plan})
    workspace_bytes = std::max(workspace_bytes, p->workspace_bytes());
  const tern::Tensor workspace =
      must("workspace", tern::Tensor::allocate(context.memory(), tern::DType::u8,
                                               {static_cast<std::int64_t>(workspace_bytes)}, "workspace"));

  std::uint64_t seed = 1;
  std::size_t weight_bytes = 0;
  const auto random = [&](std::int64_t n, std::int64_t k) {
    tern::PackedWeights weights = random_weights(context, n, k, seed);
    weight_bytes += weights.bytes();
    return weights;
  };
  std::vector<Layer> layers(static_cast<std::size_t>(options.layers));
  for (Layer& w : layers)
    w = {.q = random(hidden, hidden),
         .k = random(kv, hidden),
         .v = random(kv, hidden),
         .o = random(hidden, hidden),
         .gate = random(ffn, hidden),
         .up = random(ffn, hidden),
         .down = random(hidden, ffn)};
  std::printf("%d layers, %.1f MB of weights\n", options.layers, static_cast<double>(weight_bytes) / 1e6);
  std::printf("kernel:   %s, %d threads\n", gate_up_plan.id().kernel.c_str(), context.threads());

  const auto run = [&](const tern::LinearPlan& p, Floats& x, std::initializer_list<tern::Linear::Output> outputs) {
    const tern::Status status = p.run(context.stream(), workspace.as<std::byte>(),
                                      {.x = view(x), .outputs = {outputs.begin(), outputs.size()}});
    if (!status) fail("run", status.error().str());
  };
  Floats x(static_cast<std::size_t>(hidden)), q(x.size()), heads(x.size());
  Floats k(static_cast<std::size_t>(kv)), v(k.size()), gate(static_cast<std::size_t>(ffn)), up(gate.size());
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t token = 0; token < static_cast<std::size_t>(options.tokens); ++token) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37 + token * 101) % 201) / 100 - 1;
    for (const Layer& w : layers) {
      run(qkv_plan, x, {{w.q, view(q)}, {w.k, view(k)}, {w.v, view(v)}});
      attend(q, k, v, heads);
      run(o_plan, heads, {{.weights = w.o, .y = view(x), .residual = view(x)}});
      run(gate_up_plan, x, {{w.gate, view(gate)}, {w.up, view(up)}});
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i];
      run(down_plan, gate, {{.weights = w.down, .y = view(x), .residual = view(x)}});
      normalise(x);
    }
    hash = fnv1a(hash, x);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("tokens/s: %.2f\n", options.tokens / seconds.count());
  std::printf("checksum: %016" PRIx64 "\n", hash);
  return 0;
}
