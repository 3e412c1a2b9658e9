// The bench harness: the request, what an op provides to be timed, and the records of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/limits.h"
#include "ops/op.h"
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

// Pinned host memory, which a GPU reads directly, or pageable memory, which is copied through pinned memory.
enum class HostMemoryKind : std::uint8_t { pinned, pageable };

struct BenchRequest {
  std::string op;
  std::int64_t rows = 0, k = 0;   // both 0: the op's default
  std::optional<std::int64_t> m;  // only for ops that have it
  Scheme scheme = Scheme::absmean;
  Granularity granularity;
  std::optional<Format> format;  // empty: default_format(scheme)
  std::optional<DType> dtype;    // of the float side; for linear of x, then i8 by default
  DType y_dtype = DType::f32;    // linear only: of the results
  std::optional<Precision>
      precision;  // linear only: chooses the type of x and y for the device; replaces dtype and y_dtype
  LinearMath math = LinearMath::w2a8;
  QparamsMethod method = QparamsMethod::absmax;
  std::optional<bool> zero_points = {};     // of affine ops; empty: where the method chooses them
  std::optional<WindowWords> window = {};   // of convolutions; empty: the usual one
  std::string model;                        // for ops that have it: all layers of this model instead of one shape
  bool baselines = false;                   // for ops that have it: also time other libraries, if installed
  std::optional<DeviceId> device;           // empty: TERN_DEVICE, else the CPU
  std::optional<HostMemoryKind> from_host;  // ternary_quantize on a GPU: the input is in host memory
  std::vector<int> threads;                 // CPU only; empty: the default of a Context
  std::string kernel;                       // empty: the selection chooses
  Tuning tuning = {};                       // for kernels of linear
  bool all_kernels = false;                 // every kernel of the op that accepts the problem here
  Weights weights = Weights::cold;
  int repetitions = 0;  // 0: as many as Sampling says
  double budget_s = 8;  // per record
  std::size_t limit_bytes = Limits::kDefaultBytes;
  std::size_t cold_bytes = 0;  // what a cold rotation covers; 0: four times the last-level cache
};

// A kernel that is ready to run. run(turn) computes the problem once; a cold subject uses copy number turn % copies of
// its buffers.
struct Subject {
  std::string kernel;
  std::function<Status(std::int64_t turn)> run;  // on a GPU: enqueues it on the context's stream
  std::int64_t launches = 1;                     // about how many kernel launches a run makes
};

// Another library that does the same work. make() returns the run, or why there is none.
struct BaselineCase {
  std::string name;
  std::function<Result<std::function<Status(std::int64_t turn)>>(int threads)> make;
};

// What an op provides to the harness: its problem on filled buffers, and how to make a kernel ready for it.
struct OpCase {
  nlohmann::ordered_json problem;
  std::int64_t bytes = 0;            // input + output + scales of one run
  std::optional<double> operations;  // 2*M*N*K where the op is a product
  Limit limit = Limit::streaming_read;
  std::vector<std::string> notes;  // what could not be done as asked
  std::function<Result<Subject>(const Context&, const Preference&)> ready;
  std::vector<BaselineCase> baselines = {};
  bool waits = false;  // run() returns when the work is done, on a GPU too, so the wall clock times it
};

struct Record {
  struct LimitShare {
    std::string name;
    double value = 0;  // GB/s, or 10^9 operations per second
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

// One token or image (or m) through all layers of a model that the op computes, from the medians of its problems.
struct ModelSummary {
  std::string name;
  std::string layers, item;  // "ternary layers" and "token", or "convolutions" and "image"
  std::int64_t m = 1;
  DType x_dtype = DType::i8;
  int threads = 1;
  std::int64_t bytes = 0;
  double operations = 0;
  double milliseconds = 0;
  double items_per_s = 0;
  double floor_items_per_s = 0;  //  if every problem ran at the limit
  std::string limit;
  double share = 0, lowest_share = 0;  // of the limit: of all problems, weighted by their work; of the worst problem
};

struct BenchReport {
  Device machine;
  std::vector<CalibratedLoop> limits;
  std::string date;             // UTC, ISO 8601
  std::vector<Record> records;  // in the order of the list of kernels, then of the thread counts
  std::vector<ModelSummary> models = {};
};

// Called before each step with what it does, on the thread that called bench().
using BenchProgress = std::function<void(const std::string& what)>;

// An unknown op or kernel is an error that lists the known ones.
Result<BenchReport> bench(const BenchRequest& request, const BenchProgress& progress = {});

// {"machine": {...}, "records": [...]}
nlohmann::ordered_json to_json(const BenchReport& report);

}  // namespace tern::lab
