// Runs a request: which op, which kernels, which thread counts, and one record for each of them.
#include "lab/bench.h"

#include <algorithm>
#include <ctime>

#include "base/errors.h"
#include "base/words.h"
#include "lab/bench_ops.h"
#include "lab/measure.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

constexpr std::string_view kWhere = "bench";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[] = "2000-01-01T00:00:00Z";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Result<const OpBench*> find_op(std::string_view op) {
  for (const OpBench& entry : kOpBenches)
    if (entry.op == op) return &entry;
  return error(Code::invalid_argument, kWhere, "'{}' is not an op with a bench; known are {}", op, listed(bench_ops()));
}

Result<std::vector<Context>> open_contexts(const std::vector<int>& threads) {
  std::vector<Context> contexts;
  for (const int count : threads.empty() ? std::vector<int>{0} : threads) {
    if (count < 1 && !threads.empty())
      return error(Code::invalid_argument, kWhere, "{} threads cannot run anything", count);
    ContextConfig config;
    config.threads = count;
    TERN_ASSIGN(context, Context::open(DeviceId{}, std::move(config)));
    contexts.push_back(std::move(context));
  }
  return contexts;
}

// The kernels to time, as preferences; an empty name is whatever selection picks.
Result<std::vector<Preference>> chosen_kernels(const BenchRequest& request, const Context& context) {
  if (request.kernel.empty() && !request.all_kernels) return std::vector<Preference>{{}};
  if (!request.kernel.empty() && request.all_kernels)
    return error(Code::invalid_argument, kWhere, "either one kernel ('{}') or all of them, not both", request.kernel);
  TERN_ASSIGN(all, kernels(context));
  std::vector<std::string> names;
  for (const KernelDescription& kernel : all)
    if (kernel.op == request.op) names.push_back(kernel.name);
  if (!request.kernel.empty()) {
    if (std::ranges::find(names, request.kernel) == names.end())
      return error(Code::invalid_argument, kWhere, "'{}' is not a kernel of {}; known are {}", request.kernel,
                   request.op, listed(names));
    names = {request.kernel};
  }
  std::vector<Preference> preferences;
  for (std::string& kernel : names) preferences.push_back({.kernel = std::move(kernel), .strict = true});
  return preferences;
}

Result<Record> measure(const BenchRequest& request, const OpCase& op_case, const Subject& subject,
                       const Context& context, Limits& limits) {
  const Threads& threads = context.state().threads;
  const Sampling sampling{
      .repetitions = request.repetitions, .budget_s = request.budget_s, .warm = request.weights == Weights::warm};
  TERN_ASSIGN(samples, sample(
                           wall_clock(subject.run), [&] { return limits.measure(op_case.limit, threads); }, sampling));
  const double gigabytes = static_cast<double>(op_case.bytes) / 1e9;
  const Summary summary = summarize(samples, gigabytes);
  Record record;
  record.op = request.op;
  record.kernel = subject.kernel;
  record.device = name(context.device().id);
  record.problem = op_case.problem;
  record.threads = context.threads();
  record.weights = request.weights;
  record.median_us = summary.median_s * 1e6;
  record.p10_us = summary.p10_s * 1e6;
  record.p90_us = summary.p90_s * 1e6;
  record.repetitions = static_cast<int>(samples.run_s.size());
  record.bytes = op_case.bytes;
  record.gb_per_s = gigabytes / summary.median_s;
  if (op_case.operations) record.gops = *op_case.operations / 1e9 / summary.median_s;
  record.limit = {std::string(name(op_case.limit)), summary.limit, summary.share};
  record.notes = op_case.notes;
  return record;
}

// The reference, where it was timed too, is what the other kernels of its thread count are compared with.
void compare_with_reference(std::vector<Record>& records) {
  const auto is_reference = [](const Record& r) { return r.kernel.ends_with(".reference"); };
  for (Record& record : records) {
    const auto reference = std::ranges::find_if(
        records, [&](const Record& other) { return is_reference(other) && other.threads == record.threads; });
    if (reference == records.end() || is_reference(record)) continue;
    record.baselines.push_back({reference->kernel, reference->median_us, reference->median_us / record.median_us});
  }
}

}  // namespace

std::string_view name(Weights weights) { return weights == Weights::cold ? "cold" : "warm"; }

std::vector<std::string_view> bench_ops() {
  std::vector<std::string_view> ops;
  for (const OpBench& entry : kOpBenches) ops.push_back(entry.op);
  return ops;
}

Status refuse_m(const BenchRequest& request) {
  if (!request.m) return {};
  return error(Code::invalid_argument, request.op, "{} has no m (it was given {}); rows and columns are its --shape",
               request.op, *request.m);
}

Result<BenchReport> bench(const BenchRequest& request, const BenchProgress& progress) {
  const auto tell = [&](const std::string& what) {
    if (progress) progress(what);
  };
  TERN_ASSIGN(op, find_op(request.op));
  TERN_ASSIGN(contexts, open_contexts(request.threads));
  // The widest pool fills the buffers.
  const auto widest = std::ranges::max_element(contexts, {}, &Context::threads);
  TERN_ASSIGN(preferences, chosen_kernels(request, *widest));
  tell("making random weights");
  TERN_ASSIGN(op_case, op->make(request, *widest));
  TERN_ASSIGN(limits, Limits::make(widest->memory(), request.limit_bytes));

  BenchReport report{.machine = widest->device(), .limits = {}, .date = utc_now(), .records = {}};
  Status refused;
  for (const Preference& preference : preferences)
    for (const Context& context : contexts) {
      auto subject = op_case.ready(context, preference);
      if (!subject.ok() && request.all_kernels && subject.code() == Code::unsupported) {
        refused = std::move(subject).error();  // not one of those that run here
        continue;
      }
      if (!subject.ok()) return std::move(subject).error();
      if (!preference.kernel.empty() && subject->kernel != preference.kernel)
        return error(Code::unsupported, kWhere, "{} was asked for and {} would run; is TERN_FORCE_KERNEL set?",
                     preference.kernel, subject->kernel);
      tell(fmt::format("{} with {} thread{}", subject->kernel, context.threads(), context.threads() == 1 ? "" : "s"));
      TERN_ASSIGN(record, measure(request, op_case, *subject, context, limits));
      report.records.push_back(std::move(record));
    }
  if (report.records.empty()) return refused;
  compare_with_reference(report.records);
  report.limits = limits.calibrated();
  return report;
}

}  // namespace tern::lab
