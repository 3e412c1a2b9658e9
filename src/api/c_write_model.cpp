// The C ABI: models inspected, planned, written and compared.
#include "api/c_handles.h"

namespace tern::c {
namespace {

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
    : plan(std::move(from)), metadata{plan.metadata}, notes(plan.notes), info(face_of(plan)) {
  for (std::size_t i = 0; i < std::size(info.actions); ++i) info.actions[i] = plan.count(static_cast<Action>(i));
  for (const TensorPlan& tensor : plan.tensors) layouts.push_back(face_of(tensor.layout));
  for (std::size_t i = 0; i < layouts.size(); ++i) tensors.push_back(face_of(plan.tensors[i], &layouts[i]));
}
static_assert(std::size(tern_model_plan_info{}.actions) == static_cast<std::size_t>(kLastAction) + 1);

tern_model_report::tern_model_report(ModelReport from) : report(std::move(from)), info(face_of(report)) {
  for (const TensorReport& tensor : report.tensors) {
    qualities.push_back(face_of(tensor.quality.value_or(Quality())));
    losses.push_back(face_of(tensor.scale_loss));
  }
  for (std::size_t i = 0; i < losses.size(); ++i)
    tensors.push_back(face_of(report.tensors[i], &qualities[i], &losses[i]));
}

tern_model_difference::tern_model_difference(ModelDifference from) : difference(std::move(from)) {
  for (const TensorDifference& tensor : difference.tensors) tensors.push_back(face_of(tensor));
}

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
