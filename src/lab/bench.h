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
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern::lab {

// Whether a run finds its data in the caches. Cold runs walk over at least four times the last-level cache.
enum class Weights : std::uint8_t { cold, warm };

std::string_view name(Weights);

struct BenchRequest {
  std::string op;
  std::int64_t rows = 0, k = 0;   // both 0: the op's own default
  std::optional<std::int64_t> m;  // only for ops that have it
  Scheme scheme = Scheme::absmean;
  Granularity granularity;
  std::optional<Format> format;  // empty: default_format(scheme)
  DType dtype = DType::f32;
  std::vector<int> threads;  // empty: what a Context takes by itself
  std::string kernel;        // empty: the one selection picks
  bool all_kernels = false;  // every kernel of the op that takes the problem on this machine
  Weights weights = Weights::cold;
  int repetitions = 0;  // 0: as many as Sampling says
  double budget_s = 8;  // per record
  std::size_t limit_bytes = Limits::kDefaultBytes;
  std::size_t cold_bytes = 0;  // what a cold rotation covers; 0: four times the last-level cache
};

// One kernel made ready. run(turn) computes the problem once, a cold one on buffers number turn modulo their count.
struct Subject {
  std::string kernel;
  std::function<Status(std::int64_t turn)> run;
};

// What an op hands to the harness: its problem on filled buffers, and how to make one kernel ready for it.
struct OpCase {
  nlohmann::ordered_json problem;
  std::int64_t bytes = 0;            // input + output + scales of one run
  std::optional<double> operations;  // 2*M*N*K where the op is a product
  Limit limit = Limit::streaming_read;
  std::vector<std::string> notes;  // what could not be done as asked
  std::function<Result<Subject>(const Context&, const Preference&)> ready;
};

struct Record {
  struct LimitShare {
    std::string name;
    double value = 0;  // GB/s
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

struct BenchReport {
  Device machine;
  std::vector<CalibratedLoop> limits;
  std::string date;             // UTC, ISO 8601
  std::vector<Record> records;  // in the order of the list of kernels, then of the thread counts
};

// Told what is about to be done; never called from another thread.
using BenchProgress = std::function<void(const std::string& what)>;

// An unknown op or kernel is an error that lists the known ones.
Result<BenchReport> bench(const BenchRequest& request, const BenchProgress& progress = {});

std::vector<std::string_view> bench_ops();

// {"machine": {...}, "records": [...]}
nlohmann::ordered_json to_json(const BenchReport& report);

// The error of a request with an m for an op that has none.
Status refuse_m(const BenchRequest& request);

}  // namespace tern::lab
