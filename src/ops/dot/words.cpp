// The words of what ops with packed weights share: activations, and how weights are multiplied.
#include "base/words.h"
#include "tern/linear.h"

namespace tern {
namespace {

constexpr WordTable<Activation, 3> kActivations = {
    {{Activation::none, "none"}, {Activation::squared_relu, "squared_relu"}, {Activation::relu, "relu"}}};
constexpr WordTable<LinearMath, 2> kMaths = {{{LinearMath::w2a8, "w2a8"}, {LinearMath::w2_float, "w2_float"}}};

}  // namespace

std::string_view name(Activation a) { return word_of(kActivations, a); }
std::string_view name(LinearMath m) { return word_of(kMaths, m); }
Result<Activation> parse_activation(std::string_view word) { return parse_word(kActivations, "activation", word); }
Result<LinearMath> parse_linear_math(std::string_view word) { return parse_word(kMaths, "math", word); }

}  // namespace tern
