// The C ABI: what a plan says of itself.
#include "api/c_plan.h"

namespace tern::c {

PlanFace::PlanFace(PlanId of, const Guarantee& promised, const std::optional<Tuning>& tuned)
    : id(std::move(of)),
      guarantee(promised),
      text(id.str()),
      math(guarantee.math),
      accumulator(guarantee.accumulator),
      has_tuning(tuned.has_value()),
      tuning(face_of(tuned.value_or(Tuning{}))),
      info(face_of(id, *this)) {}

std::string text_of(const Explanation& explanation) {
  std::string text = explanation.chosen.empty()
                         ? std::string("chosen: none\n")
                         : fmt::format("chosen: {} ({})\n", explanation.chosen, explanation.chosen_because);
  for (const auto& [kernel, reason] : explanation.rejections) text += fmt::format("refused: {}: {}\n", kernel, reason);
  for (const std::string& note : explanation.notes) text += fmt::format("note: {}\n", note);
  return text;
}

}  // namespace tern::c
