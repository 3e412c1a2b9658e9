// Finds cuBLAS with dlopen, so that Tern does not link to it, and calls its plain C functions.
#include "lab/cublas_baselines.h"

#include <dlfcn.h>

#include <array>

#include "base/errors.h"
#include "lab/rotation.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

using Create = int(void** handle);
using Destroy = int(void* handle);
using SetStream = int(void* handle, void* stream);
using SetWorkspace = int(void* handle, void* workspace, std::size_t bytes);
using GemmEx = int(void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha, const void* a,
                   int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type,
                   int ldc, int compute, int algorithm);

// One kind of product, with cuBLAS's numbers for its types.
struct Kind {
  const char* name;
  int type, y_type, compute;
  std::size_t bytes, y_bytes;
};
constexpr Kind kBf16 = {"cublas bf16", 14, 14, 68, 2, 2};
constexpr Kind kInt8 = {"cublas int8", 3, 10, 72, 1, 4};

struct Library {
  Create* create = nullptr;
  Destroy* destroy = nullptr;
  SetStream* set_stream = nullptr;
  SetWorkspace* set_workspace = nullptr;
  GemmEx* gemm = nullptr;
};

Result<Library> load() {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return error(Code::unsupported, "bench", "libcublas is not installed, or not on LD_LIBRARY_PATH");
  const auto symbol = [library]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
  };
  Library found;
  if (!symbol(found.create, "cublasCreate_v2") || !symbol(found.destroy, "cublasDestroy_v2") ||
      !symbol(found.set_stream, "cublasSetStream_v2") || !symbol(found.set_workspace, "cublasSetWorkspace_v2") ||
      !symbol(found.gemm, "cublasGemmEx"))
    return error(Code::unsupported, "bench", "libcublas lacks cublasGemmEx");
  return found;
}

// Everything that a run uses and keeps alive.
struct Product {
  Library library;
  void* handle = nullptr;
  Rotation weights;
  Tensor x, y, workspace;
  Product() = default;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    if (handle != nullptr) (void)library.destroy(handle);
  }
};

// Bytes of random values: any int8, or bf16 between 1 and 2 of either sign.
Result<Tensor> random_bytes(const Kind& kind, std::size_t bytes) {
  TERN_ASSIGN(host, Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(bytes)}, "baseline"));
  std::uint64_t state = 88172645463325252U;
  for (std::size_t i = 0; i + kind.bytes <= bytes; i += kind.bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    host.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(state);
    if (kind.bytes == 2) host.as<std::uint8_t>()[i + 1] = static_cast<std::uint8_t>(0x3F | (state >> 8 & 0x80));
  }
  return host;
}

using Run = std::function<Status(std::int64_t turn)>;

Result<Run> product(const Kind& kind, const BenchRequest& request, const Context& context, const Linear::Problem& p) {
  constexpr int kTransposed = 1, kPlain = 0, kDefault = -1;
  TERN_ASSIGN(library, load());
  TERN_ON_GPU(context.device().id.index);
  std::int64_t n = 0;
  for (const Linear::Matrix& matrix : p.matrices) n += matrix.n;
  const auto made = std::make_shared<Product>();
  made->library = library;
  const std::array part = {static_cast<std::size_t>(n * p.k) * kind.bytes};
  TERN_ASSIGN(weights, Rotation::make(request, context, part));
  made->weights = std::move(weights);
  TERN_ASSIGN(w, random_bytes(kind, part[0]));
  for (std::int64_t copy = 0; copy < made->weights.copies(); ++copy)
    TERN_RETURN_IF_ERROR(context.copy({made->weights.part(0, copy), DType::u8, w.shape(), context.device().id},
                                      w.view(), context.stream()));
  TERN_ASSIGN(x_host, random_bytes(kind, static_cast<std::size_t>(p.m_max * p.k) * kind.bytes));
  TERN_ASSIGN(x, x_host.to(context));
  TERN_ASSIGN(y, context.allocate(DType::u8, {p.m_max * n * static_cast<std::int64_t>(kind.y_bytes)}, "baseline"));
  TERN_ASSIGN(workspace, context.allocate(DType::u8, {std::int64_t{32} << 20}, "baseline"));
  made->x = std::move(x);
  made->y = std::move(y);
  made->workspace = std::move(workspace);
  TERN_RETURN_IF_ERROR(context.stream().synchronize());
  if (library.create(&made->handle) != 0 || library.set_stream(made->handle, context.stream().cuda_stream()) != 0 ||
      library.set_workspace(made->handle, made->workspace.data(), made->workspace.bytes()) != 0)
    return error(Code::unsupported, "bench", "cublasCreate failed");
  const int m = static_cast<int>(p.m_max), rows = static_cast<int>(n), k = static_cast<int>(p.k);
  Run run = [=](std::int64_t turn) -> Status {
    // cuBLAS is column-major: there our row-major x and w are transposed, and it computes y^T = w * x^T.
    const float one = 1, zero = 0;
    const std::int32_t one_i = 1, zero_i = 0;
    const bool ints = kind.y_type == kInt8.y_type;
    const int status = made->library.gemm(
        made->handle, kTransposed, kPlain, rows, m, k, ints ? static_cast<const void*>(&one_i) : &one,
        made->weights.part(0, turn % made->weights.copies()), kind.type, k, made->x.data(), kind.type, k,
        ints ? static_cast<const void*>(&zero_i) : &zero, made->y.data(), kind.y_type, rows, kind.compute, kDefault);
    if (status != 0) return error(Code::unsupported, "bench", "cublasGemmEx refused it ({})", status);
    return {};
  };
  TERN_RETURN_IF_ERROR(run(0));
  return run;
}

}  // namespace

std::vector<BaselineCase> cublas_baselines(const BenchRequest& request, const Context& context,
                                           const Linear::Problem& problem) {
  std::vector<BaselineCase> cases;
  for (const Kind& kind : {kBf16, kInt8})
    cases.push_back({kind.name, [=](int) { return product(kind, request, context, problem); }});
  return cases;
}

}  // namespace tern::lab
