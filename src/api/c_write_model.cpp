// The C ABI: models inspected, planned, written and compared.
#include "api/c_model.h"

struct tern_model_plan {
  explicit tern_model_plan(tern::ModelPlan from);
  tern_model_plan(const tern_model_plan&) = delete;
  tern_model_plan& operator=(const tern_model_plan&) = delete;

  tern::ModelPlan plan;
  tern_metadata metadata;
  std::vector<std::string> notes;
  std::vector<tern_layout_spec> layouts;  // one per tensor; unused if the tensor has none
  std::vector<tern_tensor_plan> tensors;
  tern_model_plan_info info{};
};

struct tern_model_report {
  explicit tern_model_report(tern::ModelReport from);
  tern_model_report(const tern_model_report&) = delete;
  tern_model_report& operator=(const tern_model_report&) = delete;

  tern::ModelReport report;
  std::vector<tern_quality> qualities;  // one per tensor; unused if the tensor has none
  std::vector<tern_scale_loss> losses;
  std::vector<tern_tensor_report> tensors;
  tern_model_report_info info{};
};

struct tern_model_difference {
  explicit tern_model_difference(tern::ModelDifference from);
  tern_model_difference(const tern_model_difference&) = delete;
  tern_model_difference& operator=(const tern_model_difference&) = delete;

  tern::ModelDifference difference;
  std::vector<tern_tensor_difference> tensors;
};

namespace tern::c {
namespace {

tern_tensor_plan face_of(const TensorPlan& plan, const tern_layout_spec* layout) {
  return {.struct_size = sizeof(tern_tensor_plan),
          .input = plan.input,
          .input_name = plan.input_name.c_str(),
          .input_type = name(plan.input_type).data(),
          .action = static_cast<tern_action>(plan.action),
          .why = plan.why.c_str(),
          .name = plan.name.c_str(),
          .type = name(plan.type).data(),
          .in_bytes = plan.in_bytes,
          .out_bytes = plan.out_bytes,
          .gguf_id = plan.gguf_id,
          .layout = plan.action == Action::quantize || plan.action == Action::repack ? layout : nullptr,
          .granularity = from_granularity(plan.granularity),
          .scale_type = name(plan.scale_type).data(),
          .scale_name = plan.scale_name.c_str(),
          .codes = plan.codes ? name(*plan.codes).data() : ""};
}

tern_tensor_report face_of(const TensorReport& report, const tern_quality* quality, const tern_scale_loss* loss) {
  return {.struct_size = sizeof(tern_tensor_report),
          .quality = report.quality ? quality : nullptr,
          .trits = {report.trits[0], report.trits[1], report.trits[2]},
          .smallest_scale = report.smallest_scale,
          .largest_scale = report.largest_scale,
          .has_checksum = report.checksum ? 1 : 0,
          .checksum = report.checksum.value_or(0),
          .scale_loss = loss,
          .largest_change = report.largest_change,
          .overflowed = report.overflowed,
          .underflowed = report.underflowed,
          .histogram = report.histogram.empty() ? nullptr : report.histogram.data(),
          .histogram_count = report.histogram.size(),
          .has_cast_sqnr = report.cast_sqnr_db ? 1 : 0,
          .cast_sqnr_db = report.cast_sqnr_db.value_or(0)};
}

tern_tensor_difference face_of(const TensorDifference& difference) {
  return {.struct_size = sizeof(tern_tensor_difference),
          .name = difference.name.c_str(),
          .kind = static_cast<tern_difference>(difference.kind),
          .what = difference.what.c_str(),
          .elements = difference.elements,
          .differing_trits = difference.differing_trits,
          .largest_difference = difference.largest_difference,
          .first_index = difference.first_index};
}

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

Result<WriteOptions> to_options(const char* where, const tern_write_options* options) {
  TERN_ASSIGN(given, read_struct(where, "options", options));
  WriteOptions cpp;
  if (given.container != TERN_CONTAINER_DEFAULT) {
    TERN_ASSIGN(container, to_enum(where, "options->container", given.container, kLastContainer));
    cpp.container = container;
  }
  if (given.layout != TERN_LAYOUT_DEFAULT) {
    TERN_ASSIGN(layout, to_enum(where, "options->layout", given.layout, kLastLayout));
    cpp.layout = layout;
  }
  if (given.granularity != nullptr) {
    TERN_ASSIGN(granularity, to_granularity(where, *given.granularity));
    cpp.granularity = granularity;
  }
  if (given.embeddings != nullptr) {
    TERN_ASSIGN(embeddings, parse_stored_type(given.embeddings));
    cpp.embeddings = embeddings;
  }
  TERN_ASSIGN(tiles, to_tiles(given.kernel_config));
  TERN_ASSIGN(scheme, to_enum(where, "options->scheme", given.scheme, kLastScheme));
  TERN_ASSIGN(non_finite, to_enum(where, "options->non_finite", given.non_finite, kLastNonFinite));
  TERN_ASSIGN(preference, to_preference(where, given.preference));
  cpp.tiles = std::move(tiles);
  cpp.tl2_id = given.tl2_id;
  cpp.quantize = given.quantize != 0;
  cpp.scheme = scheme;
  cpp.match_bitnet = given.match_bitnet != 0;
  cpp.non_finite = non_finite;
  cpp.include = text_or_empty(given.include);
  cpp.exclude = text_or_empty(given.exclude);
  cpp.drop = text_or_empty(given.drop);
  cpp.lossy = given.lossy != 0 ? Lossy::allow : Lossy::refuse;
  cpp.architecture = text_or_empty(given.architecture);
  cpp.histograms = given.histograms != 0;
  cpp.preference = std::move(preference);
  return cpp;
}

// Also stops if the caller's parallel-for failed, so that an incomplete file never gets its final name.
ModelProgress adapt(const ParallelForWatch& watch, tern_model_progress_fn progress, void* user) {
  return [&watch, progress, user](std::string_view tensor, std::size_t done_bytes, std::size_t total_bytes) {
    if (!watch.status("").ok()) return false;
    return progress == nullptr || progress(user, std::string(tensor).c_str(), done_bytes, total_bytes) != 0;
  };
}

}  // namespace
}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_model_plan::tern_model_plan(ModelPlan from)
    : plan(std::move(from)),
      metadata{plan.metadata},
      notes(plan.notes),
      info{.struct_size = sizeof(tern_model_plan_info),
           .container = static_cast<tern_container>(plan.container),
           .layout = static_cast<tern_layout>(plan.layout),
           .tensor_count = plan.tensors.size(),
           .note_count = notes.size(),
           .in_bytes = plan.in_bytes(),
           .out_bytes = plan.out_bytes(),
           .actions = {}} {
  for (std::size_t i = 0; i < std::size(info.actions); ++i) info.actions[i] = plan.count(static_cast<Action>(i));
  for (const TensorPlan& tensor : plan.tensors) layouts.push_back(from_spec(tensor.layout));
  for (std::size_t i = 0; i < layouts.size(); ++i) tensors.push_back(face_of(plan.tensors[i], &layouts[i]));
}
static_assert(std::size(tern_model_plan_info{}.actions) == static_cast<std::size_t>(kLastAction) + 1);

tern_model_report::tern_model_report(ModelReport from)
    : report(std::move(from)),
      info{.struct_size = sizeof(tern_model_report_info),
           .tensor_count = report.tensors.size(),
           .file_bytes = report.file_bytes,
           .kernel = report.kernel.c_str(),
           .seconds = report.seconds,
           .flush_seconds = report.flush_seconds,
           .waiting_seconds = report.waiting_seconds,
           .reading_seconds = report.spent(Stage::reading).seconds,
           .computing_seconds = report.spent(Stage::computing).seconds,
           .bus_seconds = report.spent(Stage::bus).seconds,
           .gpu_seconds = report.spent(Stage::gpu).seconds,
           .writing_seconds = report.spent(Stage::writing).seconds,
           .idle_seconds = report.idle_seconds,
           .limited_by = name(report.limited_by()).data(),
           .limit_gb_per_s = report.spent(report.limited_by()).gb_per_s()} {
  for (const TensorReport& tensor : report.tensors) {
    qualities.push_back(from_quality(tensor.quality.value_or(Quality())));
    losses.push_back(from_loss(tensor.scale_loss));
  }
  for (std::size_t i = 0; i < losses.size(); ++i)
    tensors.push_back(face_of(report.tensors[i], &qualities[i], &losses[i]));
}

tern_model_difference::tern_model_difference(ModelDifference from) : difference(std::move(from)) {
  for (const TensorDifference& tensor : difference.tensors) tensors.push_back(face_of(tensor));
}

tern_status tern_model_report_get_info(const tern_model_report* report, const tern_model_report_info** out) {
  return hand_out("tern_model_report_get_info", "report", report, &tern_model_report::info, out);
}

tern_status tern_model_report_tensor(const tern_model_report* report, size_t index, const tern_tensor_report** out) {
  return hand_out("tern_model_report_tensor", "report", report, &tern_model_report::tensors, index, out);
}

void tern_model_report_destroy(tern_model_report* report) { delete report; }

tern_status tern_inspect_tensor(const tern_context* context, const tern_model* model, size_t index,
                                tern_model_report** out) {
  return guarded("tern_inspect_tensor", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"model", model}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, model->tensors.size()));
    const ParallelForWatch watch;
    TERN_ASSIGN(seen, inspect_tensor(context->context, model->model, index));
    TERN_RETURN_IF_ERROR(watch.status(where));
    ModelReport one;
    one.tensors.push_back(std::move(seen));
    *out = new tern_model_report(std::move(one));
    return {};
  });
}

tern_status tern_model_plan_create(const tern_model* model, const char* output, const tern_write_options* options,
                                   tern_model_plan** out) {
  return guarded("tern_model_plan_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"model", model}, {"output", output}}));
    TERN_ASSIGN(cpp_options, to_options(where, options));
    TERN_ASSIGN(plan, plan_model(model->model, output, cpp_options));
    *out = new tern_model_plan(std::move(plan));
    return {};
  });
}

tern_status tern_model_plan_get_info(const tern_model_plan* plan, const tern_model_plan_info** out) {
  return hand_out("tern_model_plan_get_info", "plan", plan, &tern_model_plan::info, out);
}

tern_status tern_model_plan_tensor(const tern_model_plan* plan, size_t index, const tern_tensor_plan** out) {
  return hand_out("tern_model_plan_tensor", "plan", plan, &tern_model_plan::tensors, index, out);
}

tern_status tern_model_plan_note(const tern_model_plan* plan, size_t index, const char** out) {
  return hand_out("tern_model_plan_note", "plan", plan, &tern_model_plan::notes, index, out);
}

tern_status tern_model_plan_metadata(const tern_model_plan* plan, const tern_metadata** out) {
  return hand_out("tern_model_plan_metadata", "plan", plan, &tern_model_plan::metadata, out);
}

void tern_model_plan_destroy(tern_model_plan* plan) { delete plan; }

tern_status tern_write_model(const tern_context* context, const tern_model* model, const tern_model_plan* plan,
                             const char* output, tern_model_progress_fn progress, void* progress_user,
                             tern_model_report** out) {
  return guarded("tern_write_model", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(
        cleared(where, out, {{"context", context}, {"model", model}, {"plan", plan}, {"output", output}}));
    const ParallelForWatch watch;
    auto report =
        write_model(context->context, model->model, plan->plan, output, adapt(watch, progress, progress_user));
    TERN_RETURN_IF_ERROR(watch.status(where));
    if (!report.ok()) return std::move(report).error();
    *out = new tern_model_report(*std::move(report));
    return {};
  });
}

tern_status tern_compare_models(const tern_context* context, const tern_model* a, const tern_model* b,
                                tern_model_progress_fn progress, void* progress_user, tern_model_difference** out) {
  return guarded("tern_compare_models", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"a", a}, {"b", b}}));
    const ParallelForWatch watch;
    auto found = compare_models(context->context, a->model, b->model, adapt(watch, progress, progress_user));
    TERN_RETURN_IF_ERROR(watch.status(where));
    if (!found.ok()) return std::move(found).error();
    *out = new tern_model_difference(*std::move(found));
    return {};
  });
}

tern_status tern_model_difference_equal(const tern_model_difference* difference, int32_t* out) {
  return guarded("tern_model_difference_equal", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"difference", difference}, {"out", out}}));
    *out = difference->difference.equal() ? 1 : 0;
    return {};
  });
}

tern_status tern_model_difference_count(const tern_model_difference* difference, size_t* out) {
  return count_of("tern_model_difference_count", "difference", difference, &tern_model_difference::tensors, out);
}

tern_status tern_model_difference_tensor(const tern_model_difference* difference, size_t index,
                                         const tern_tensor_difference** out) {
  return hand_out("tern_model_difference_tensor", "difference", difference, &tern_model_difference::tensors, index,
                  out);
}

void tern_model_difference_destroy(tern_model_difference* difference) { delete difference; }
