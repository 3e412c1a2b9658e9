// The bench harness: what is asked, what an op hands over to be timed, and the records that come out.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/limits.h"
#include "tern/context.h"
#include "tern/linear.h"
#include "tern/plan.h"
#include "tern/precision.h"
#include "tern/qparams.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern::lab {

// Whether a run finds its data in the caches. Cold runs walk over at least four times the last-level cache.
enum class Weights : std::uint8_t { cold, warm };

std::string_view name(Weights);

// Host memory that a GPU reads by itself, or that goes through such memory.
enum class HostMemoryKind : std::uint8_t { pinned, pageable };

struct BenchRequest {
  std::string op;
  std::int64_t rows = 0, k = 0;   // both 0: the op's own default
  std::optional<std::int64_t> m;  // only for ops that have it
  Scheme scheme = Scheme::absmean;
  Granularity granularity;
  std::optional<Format> format;  // empty: default_format(scheme)
  std::optional<DType> dtype;    // of the float side; of linear's x, where it is i8 unless said
  DType y_dtype = DType::f32;    // of linear's results
  std::optional<Precision>
      precision;  // linear only: the type of x and y, chosen for the device; instead of dtype and y
  LinearMath math = LinearMath::w2a8;
  QparamsMethod method = QparamsMethod::absmax;
  std::string model;                        // linear only: all layers of this model instead of one shape
  bool baselines = false;                   // linear only: other libraries beside the kernel, where they are installed
  std::optional<DeviceId> device;           // empty: TERN_DEVICE, else the CPU
  std::optional<HostMemoryKind> from_host;  // ternary_quantize on a GPU: of a tensor that lies on the host
  std::vector<int> threads;                 // of a CPU; empty: what a Context takes by itself
  std::string kernel;                       // empty: the one selection picks
  Tuning tuning = {};                       // of a GPU's kernel
  bool all_kernels = false;                 // every kernel of the op that takes the problem on this machine
  Weights weights = Weights::cold;
  int repetitions = 0;  // 0: as many as Sampling says
  double budget_s = 8;  // per record
  std::size_t limit_bytes = Limits::kDefaultBytes;
  std::size_t cold_bytes = 0;  // what a cold rotation covers; 0: four times the last-level cache
};

// One kernel made ready. run(turn) computes the problem once, a cold one on buffers number turn modulo their count.
struct Subject {
  std::string kernel;
  std::function<Status(std::int64_t turn)> run;  // on a GPU: puts it on the context's stream
  std::int64_t launches = 1;                     // of one run, about
};

// Another library doing the same work. make() answers why it cannot, or the run.
struct BaselineCase {
  std::string name;
  std::function<Result<std::function<Status(std::int64_t turn)>>(int threads)> make;
};

// What an op hands to the harness: its problem on filled buffers, and how to make one kernel ready for it.
struct OpCase {
  nlohmann::ordered_json problem;
  std::int64_t bytes = 0;            // input + output + scales of one run
  std::optional<double> operations;  // 2*M*N*K where the op is a product
  Limit limit = Limit::streaming_read;
  std::vector<std::string> notes;  // what could not be done as asked
  std::function<Result<Subject>(const Context&, const Preference&)> ready;
  std::vector<BaselineCase> baselines = {};
  bool waits = false;  // run() returns when it is done, on a GPU, too: the wall clock times it
};

struct Record {
  struct LimitShare {
    std::string name;
    double value = 0;  // GB/s, or 10^9 operations a second
    double share = 0;
  };
  struct Baseline {
    std::string name;
    double median_us = 0;
    double speedup = 0;  // of the record over the baseline
  };
  std::string op, kernel, device;
  nlohmann::ordered_json problem;
  int threads = 1;
  Weights weights = Weights::cold;
  double median_us = 0, p10_us = 0, p90_us = 0;
  int repetitions = 0;
  std::int64_t bytes = 0;
  double gb_per_s = 0;
  std::optional<double> gops;
  LimitShare limit;
  std::vector<Baseline> baselines;
  std::vector<std::string> notes;
};

// One token (or m) through all ternary layers of a model, from the medians of its problems.
struct ModelSummary {
  std::string name;
  std::int64_t m = 1;
  DType x_dtype = DType::i8;
  int threads = 1;
  std::int64_t bytes = 0;
  double milliseconds = 0;
  double tokens_per_s = 0;
  double floor_tokens_per_s = 0;  // if every problem ran at the limit
  std::string limit;
  double share = 0, lowest_share = 0;  // of the limit: over all of them, weighted by their work; the worst problem's
};

struct BenchReport {
  Device machine;
  std::vector<CalibratedLoop> limits;
  std::string date;             // UTC, ISO 8601
  std::vector<Record> records;  // in the order of the list of kernels, then of the thread counts
  std::vector<ModelSummary> models = {};
};

// Called with what is about to be done, on the thread that called bench().
using BenchProgress = std::function<void(const std::string& what)>;

// An unknown op or kernel is an error that lists the known ones.
Result<BenchReport> bench(const BenchRequest& request, const BenchProgress& progress = {});

std::vector<std::string_view> bench_ops();

// {"machine": {...}, "records": [...]}
nlohmann::ordered_json to_json(const BenchReport& report);

// The error of a request with an m for an op that has none.
Status refuse_m(const BenchRequest& request);

}  // namespace tern::lab
