// Runs a bench request and returns one record for each kernel and thread count.
#include "lab/bench.h"

#include <algorithm>
#include <ctime>

#include "base/errors.h"
#include "base/options.h"
#include "base/words.h"
#include "lab/gpu_bench.h"
#include "lab/measure.h"
#include "lab/models.h"
#include "lab/op_record.h"
#include "lab/plan_subject.h"
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

Result<std::vector<Context>> open_contexts(DeviceId device, const std::vector<int>& threads) {
  std::vector<Context> contexts;
  if (device.kind == DeviceKind::cuda && !threads.empty())
    return error(Code::invalid_argument, "BenchRequest::threads",
                 "BenchRequest::threads is for a CPU, not for a GPU; leave it out");
  for (const int count : threads.empty() ? std::vector<int>{0} : threads) {
    if (count < 1 && !threads.empty())
      return error(Code::invalid_argument, kWhere, "{} threads cannot run anything", count);
    ContextConfig config;
    config.threads = count;
    TERN_ASSIGN(context, Context::open(device, std::move(config)));
    contexts.push_back(std::move(context));
  }
  return contexts;
}

// The kernels to time, as preferences; an empty name lets the selection choose.
Result<std::vector<Preference>> chosen_kernels(const BenchRequest& request, const Context& context) {
  if (request.kernel.empty() && !request.all_kernels) return std::vector<Preference>{{.tuning = request.tuning}};
  if (!request.kernel.empty() && request.all_kernels)
    return error(Code::invalid_argument, "BenchRequest::kernel", "either one kernel ('{}') or all of them, not both",
                 request.kernel);
  TERN_ASSIGN(all, kernels(context));
  std::vector<std::string> names;
  for (const KernelDescription& kernel : all)
    if (kernel.op == request.op) names.push_back(kernel.name);
  if (!request.kernel.empty()) {
    if (std::ranges::find(names, request.kernel) == names.end())
      return error(Code::invalid_argument, "BenchRequest::kernel", "'{}' is not a kernel of {}; known are {}",
                   request.kernel, request.op, listed(names));
    names = {request.kernel};
  }
  std::vector<Preference> preferences;
  for (std::string& kernel : names)
    preferences.push_back({.kernel = std::move(kernel), .strict = true, .tuning = request.tuning});
  return preferences;
}

// The limits of the device that is benched. Their buffer takes a gigabyte, so it is made only after the whole request
// was checked.
struct DeviceLimits {
  std::optional<Limits> cpu;
  std::optional<GpuLimits> gpu;

  static Result<DeviceLimits> make(const Context& context, std::size_t bytes) {
    DeviceLimits limits;
    if (context.device().id.kind == DeviceKind::cuda) {
      TERN_ASSIGN(gpu, GpuLimits::make(context, bytes));
      limits.gpu = std::move(gpu);
    } else {
      TERN_ASSIGN(cpu, Limits::make(context.memory(), bytes));
      limits.cpu = std::move(cpu);
    }
    return limits;
  }
  double measure(Limit limit, const Threads& threads) {
    return gpu ? gpu->measure(limit) : cpu->measure(limit, threads);
  }
  [[nodiscard]] const std::vector<CalibratedLoop>& calibrated() const {
    return gpu ? gpu->calibrated() : cpu->calibrated();
  }
};

Result<Record> measure(const BenchRequest& request, const OpCase& op_case, const Subject& subject,
                       const Context& context, DeviceLimits& limits) {
  const Threads& threads = context.state().threads;
  TimedRuns clock = wall_clock(subject.run);
  if (limits.gpu && !op_case.waits) {
    TERN_ASSIGN(events, gpu_clock(context, subject));
    clock = std::move(events);
  }
  const Limit limit = op_case.limit == Limit::int8_peak ? int8_limit(subject.kernel) : op_case.limit;
  const Sampling sampling{
      .repetitions = request.repetitions, .budget_s = request.budget_s, .warm = request.weights == Weights::warm};
  TERN_ASSIGN(samples, sample(
                           clock, [&] { return limits.measure(limit, threads); }, sampling));
  const double gigabytes = static_cast<double>(op_case.bytes) / 1e9;
  const double work = counts_operations(limit) ? op_case.operations.value_or(0) / 1e9 : gigabytes;
  const Summary summary = summarize(samples, work);
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
  record.limit = {std::string(name(limit)), summary.limit, summary.share};
  record.notes = op_case.notes;
  if (request.tuning != Tuning{}) record.notes.push_back("tuning asked for: " + name(request.tuning));
  for (const BaselineCase& baseline : op_case.baselines) {
    auto run = baseline.make(context.threads());
    if (!run.ok()) {
      record.notes.push_back(fmt::format("no baseline {}: {}", baseline.name, run.error().message));
      continue;
    }
    TimedRuns baseline_clock = wall_clock(*run);
    if (limits.gpu) {
      TERN_ASSIGN(events, gpu_clock(context, {.kernel = baseline.name, .run = *run, .launches = subject.launches}));
      baseline_clock = std::move(events);
    }
    TERN_ASSIGN(timed, sample(
                           baseline_clock, [] { return 1.0; }, sampling));
    const double median_us = summarize(timed, 1).median_s * 1e6;
    record.baselines.push_back({baseline.name, median_us, median_us / record.median_us});
  }
  return record;
}

// Records one problem with every kernel that was asked for and every thread count.
Status measure_case(const BenchRequest& request, const OpCase& op_case, const std::vector<Preference>& preferences,
                    const std::vector<Context>& contexts, DeviceLimits& limits, const BenchProgress& progress,
                    std::vector<Record>& records) {
  Status refused;
  const std::size_t before = records.size();
  for (const Preference& preference : preferences)
    for (const Context& context : contexts) {
      auto subject = op_case.ready(context, preference);
      if (!subject.ok() && request.all_kernels && subject.code() == Code::unsupported) {
        refused = std::move(subject).error();  // this kernel does not run here
        continue;
      }
      if (!subject.ok()) return std::move(subject).error();
      if (!preference.kernel.empty() && subject->kernel != preference.kernel)
        return error(Code::unsupported, kWhere, "{} was asked for and {} would run; is TERN_FORCE_KERNEL set?",
                     preference.kernel, subject->kernel);
      if (progress)
        progress(limits.gpu ? fmt::format("{} on {}", subject->kernel, name(context.device().id))
                            : fmt::format("{} with {} thread{}", subject->kernel, context.threads(),
                                          context.threads() == 1 ? "" : "s"));
      TERN_ASSIGN(record, measure(request, op_case, *subject, context, limits));
      records.push_back(std::move(record));
    }
  if (records.size() == before) return refused;
  return {};
}

// Sums up the records of a model's problems, each times the number of its occurrences in the model.
ModelSummary summarize_model(const ModelCase& model, const std::vector<Record>& records, int threads) {
  ModelSummary sum{.name = model.name,
                   .layers = model.layers,
                   .item = model.item,
                   .m = model.m,
                   .x_dtype = model.x_dtype,
                   .threads = threads,
                   .lowest_share = 1e9};
  double floor_us = 0, total_us = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    const auto times = static_cast<double>(model.problems[i].times);
    sum.bytes += r.bytes * model.problems[i].times;
    sum.operations += r.gops.value_or(0) * r.median_us * 1e3 * times;
    total_us += r.median_us * times;
    floor_us += r.median_us * r.limit.share * times;  // the time at the limit
    sum.lowest_share = std::min(sum.lowest_share, r.limit.share);
    sum.limit = r.limit.name;
  }
  sum.milliseconds = total_us / 1e3;
  sum.items_per_s = static_cast<double>(model.m) * 1e6 / total_us;
  sum.floor_items_per_s = floor_us > 0 ? static_cast<double>(model.m) * 1e6 / floor_us : 0;
  sum.share = floor_us / total_us;
  return sum;
}

// Chains the runs of all problems of a model into one run: layer after layer, and in each layer problem after problem,
// all of which occur equally often.
OpCase chain_of(const ModelCase& model, const std::vector<OpCase>& cases) {
  using Run = std::function<Status(std::int64_t turn)>;
  const auto chain = [model](const std::vector<Run>& runs) -> Run {
    return [model, runs](std::int64_t turn) -> Status {
      const std::int64_t layers = model.problems.front().times;
      for (std::int64_t layer = 0; layer < layers; ++layer)
        for (const Run& run : runs) TERN_RETURN_IF_ERROR(run(turn * layers + layer));
      return {};
    };
  };
  OpCase all{.problem = {{"model", model.name}, {"m", model.m}, {"dtype", name(model.x_dtype)}}};
  all.limit = cases.front().limit;
  all.operations = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    all.bytes += cases[i].bytes * model.problems[i].times;
    *all.operations += cases[i].operations.value_or(0) * static_cast<double>(model.problems[i].times);
    all.notes.insert(all.notes.end(), cases[i].notes.begin(), cases[i].notes.end());
  }
  const std::int64_t launches = model.problems.front().times * static_cast<std::int64_t>(cases.size());
  all.ready = [cases, chain, launches](const Context& context, const Preference& preference) -> Result<Subject> {
    std::vector<Run> runs;
    std::string kernel;
    for (const OpCase& one : cases) {
      TERN_ASSIGN(subject, one.ready(context, preference));
      kernel = subject.kernel;
      runs.push_back(subject.run);
    }
    return Subject{.kernel = kernel, .run = chain(runs), .launches = launches};
  };
  for (std::size_t j = 0; j < cases.front().baselines.size(); ++j)
    all.baselines.push_back({cases.front().baselines[j].name, [cases, chain, j](int threads) -> Result<Run> {
                               std::vector<Run> runs;
                               for (const OpCase& one : cases) {
                                 TERN_ASSIGN(run, one.baselines[j].make(threads));
                                 runs.push_back(run);
                               }
                               return chain(runs);
                             }});
  return all;
}

// On a GPU, the time of a model is that of its last record, which measures the whole chain.
ModelSummary with_chain(ModelSummary sum, const Record& chain) {
  sum.milliseconds = chain.median_us / 1e3;
  sum.items_per_s = static_cast<double>(sum.m) * 1e6 / chain.median_us;
  sum.share = chain.limit.share;
  sum.floor_items_per_s = sum.share > 0 ? sum.items_per_s / sum.share : 0;
  return sum;
}

// If the reference was timed too, it becomes a baseline of the other kernels with its thread count.
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

namespace {

// Applies the precision of a request, if it has one: sets the types, and a note that says which and why.
Result<BenchRequest> with_precision(const BenchRequest& given, const Context& context, std::string& note) {
  if (!given.precision) return given;
  if (!find_op(given.op)->words.has(Word::precision))
    return error(Code::invalid_argument, kWhere, "{} has no precision; {}", given.op, ops_with(Word::precision));
  if (given.dtype)
    return error(Code::invalid_argument, kWhere, "either precision {} or the dtype {}, not both",
                 name(*given.precision), name(*given.dtype));
  TERN_ASSIGN(choice, resolve_precision(context, *given.precision));
  note = fmt::format("precision {}: {}, {}", name(choice.asked), name(choice.used), choice.because);
  BenchRequest request = given;
  request.dtype = request.y_dtype = choice.used;
  return request;
}

}  // namespace

Result<BenchReport> bench(const BenchRequest& given, const BenchProgress& progress) {
  const auto tell = [&](const std::string& what) {
    if (progress) progress(what);
  };
  const OpRecord* const op = find_op(given.op);
  if (op == nullptr)
    return error(Code::invalid_argument, kWhere, "'{}' is not an op with a bench; known are {}", given.op,
                 listed(op_names()));
  TERN_ASSIGN(options, read_options());
  const DeviceId device = given.device.value_or(options.device.value_or(DeviceId{}));
  TERN_ASSIGN(contexts, open_contexts(device, given.threads));
  // The context with the most threads fills the buffers.
  const auto widest = std::ranges::max_element(contexts, {}, &Context::threads);
  std::string precision_note;
  TERN_ASSIGN(request, with_precision(given, *widest, precision_note));
  TERN_ASSIGN(preferences, chosen_kernels(request, *widest));
  std::vector<ModelCase> models;
  if (!request.model.empty()) {
    if (!op->words.has(Word::model))
      return error(Code::invalid_argument, kWhere, "{} has no models; {}", request.op, ops_with(Word::model));
    TERN_ASSIGN(known, op->models(request));
    models = std::move(known);
    for (const ModelCase& model : models)
      for (const ModelProblem& problem : model.problems) TERN_RETURN_IF_ERROR(problem.check(request, *widest));
  }
  BenchReport report{.machine = widest->device(), .limits = {}, .date = utc_now(), .records = {}};
  if (request.model.empty()) {
    tell("making random weights");
    TERN_ASSIGN(op_case, op->bench(request, *widest));
    TERN_ASSIGN(limits, DeviceLimits::make(*widest, request.limit_bytes));
    TERN_RETURN_IF_ERROR(measure_case(request, op_case, preferences, contexts, limits, progress, report.records));
    compare_with_reference(report.records);
    report.limits = limits.calibrated();
  } else {
    TERN_ASSIGN(limits, DeviceLimits::make(*widest, request.limit_bytes));
    for (const ModelCase& model : models)
      for (const Context& context : contexts) {
        std::vector<Record> records;
        std::vector<OpCase> cases;
        for (const ModelProblem& problem : model.problems) {
          tell("making random weights");
          TERN_ASSIGN(op_case, problem.bench(request, *widest));
          TERN_RETURN_IF_ERROR(
              measure_case(request, op_case, {preferences.front()}, {context}, limits, progress, records));
          if (limits.gpu) cases.push_back(std::move(op_case));
        }
        ModelSummary sum = summarize_model(model, records, context.threads());
        if (limits.gpu) {
          TERN_RETURN_IF_ERROR(measure_case(request, chain_of(model, cases), {preferences.front()}, {context}, limits,
                                            progress, records));
          sum = with_chain(std::move(sum), records.back());
        }
        report.models.push_back(std::move(sum));
        report.records.insert(report.records.end(), records.begin(), records.end());
      }
    report.limits = limits.calibrated();
  }
  if (!precision_note.empty())
    for (Record& record : report.records) record.notes.push_back(precision_note);
  return report;
}

}  // namespace tern::lab
