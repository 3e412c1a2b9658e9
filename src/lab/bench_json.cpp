// A report as JSON: the machine, with the fastest loop for each limit, and the records.
#include "commit.h"
#include "device/topology.h"
#include "lab/bench.h"
#include "tern/version.h"

namespace tern::lab {
namespace {

using Json = nlohmann::ordered_json;

Json machine_json(const BenchReport& report) {
  const Device& device = report.machine;
  Json caches = Json::array();
  for (const Cache& cache : device.caches)
    caches.push_back({{"level", cache.level},
                      {"type", cache.type},
                      {"bytes", cache.bytes},
                      {"line_bytes", cache.line_bytes},
                      {"shared_by", cache.shared_by},
                      {"count", cache.count}});
  Json capabilities = Json::array();
  for (int i = 0; i < kCapabilityCount; ++i)
    if (const auto c = static_cast<Capability>(i); device.capabilities.has(c)) capabilities.push_back(name(c));
  Json limits = Json::array();
  for (const CalibratedLoop& loop : report.limits)
    limits.push_back({{"name", name(loop.limit)},
                      {"threads", loop.threads},
                      {"loop", loop.loop},
                      {counts_operations(loop.limit) ? "gops" : "gb_per_s", loop.rate}});
  Json machine = {{"device", name(device.id)},
                  {"name", device.name},
                  {"architecture", device.architecture},
                  {"capabilities", capabilities},
                  {"cores", device.cores},
                  {"hardware_threads", device.hardware_threads},
                  {"usable_threads", device.usable_threads},
                  {"caches", caches},
                  {"memory_bytes", device.memory_total_bytes},
                  {"limits", limits},
                  {"tern_version", version()},
                  {"commit", TERN_COMMIT},
                  {"date", report.date}};
  if (!device.cpu.vendor.empty())
    machine["cpu"] = {{"vendor", device.cpu.vendor}, {"family", device.cpu.family}, {"model", device.cpu.model}};
  if (device.gpu) {
    machine["driver"] = device.gpu->driver;
    machine["cuda"] = device.gpu->runtime_version;
    machine["multiprocessors"] = device.gpu->multiprocessors;
    machine["host"] = host_device().name;
  }
  return machine;
}

Json record_json(const Record& record) {
  Json baselines = Json::array();
  for (const Record::Baseline& baseline : record.baselines)
    baselines.push_back({{"name", baseline.name}, {"median_us", baseline.median_us}, {"speedup", baseline.speedup}});
  Json json = {{"op", record.op},
               {"kernel", record.kernel},
               {"device", record.device},
               {"problem", record.problem},
               {"threads", record.threads},
               {"weights", name(record.weights)},
               {"median_us", record.median_us},
               {"p10_us", record.p10_us},
               {"p90_us", record.p90_us},
               {"repetitions", record.repetitions},
               {"bytes", record.bytes},
               {"gb_per_s", record.gb_per_s},
               {"gops", record.gops ? Json(*record.gops) : Json(nullptr)},
               {"limit", {{"name", record.limit.name}, {"value", record.limit.value}, {"share", record.limit.share}}},
               {"baselines", baselines}};
  if (!record.notes.empty()) json["notes"] = record.notes;
  return json;
}

}  // namespace

Json to_json(const BenchReport& report) {
  Json records = Json::array();
  for (const Record& record : report.records) records.push_back(record_json(record));
  Json json = {{"machine", machine_json(report)}, {"records", records}};
  if (!report.models.empty()) {
    json["models"] = Json::array();
    for (const ModelSummary& m : report.models)
      json["models"].push_back({{"name", m.name},
                                {"m", m.m},
                                {"x_dtype", name(m.x_dtype)},
                                {"threads", m.threads},
                                {"bytes", m.bytes},
                                {"operations", m.operations},
                                {"milliseconds", m.milliseconds},
                                {m.item + "s_per_s", m.items_per_s},
                                {"floor_" + m.item + "s_per_s", m.floor_items_per_s},
                                {"limit", m.limit},
                                {"share", m.share},
                                {"lowest_share", m.lowest_share}});
  }
  return json;
}

}  // namespace tern::lab
