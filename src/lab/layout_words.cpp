// Lists the layouts of each container, from the table.
#include "lab/layout_words.h"

#include "format/layout.h"

namespace tern::lab {
namespace {

constexpr std::size_t kLineEnd = 64;  // what is left of 100 columns beside the names of the options

void add(std::string& text, std::string_view word) {
  if (text.size() - (text.rfind('\n') + 1) + 1 + word.size() > kLineEnd)
    text += '\n';
  else if (!text.empty())
    text += ' ';
  text += word;
}

}  // namespace

std::string layout_words(std::string before, bool orders_and_defaults) {
  for (const Container container : {Container::gguf, Container::safetensors}) {
    add(before, container == Container::gguf ? "GGUF" : "in");
    if (container == Container::safetensors) add(before, "safetensors");
    std::vector<std::string> words;
    for (const LayoutRow* row : layouts_in(container)) {
      const auto orders = layouts_of(row->type);
      const bool first = orders.size() > 1 && row == &orders.front();
      if (orders.size() > 1 && !first && !orders_and_defaults) continue;
      words.emplace_back(first ? row->name.substr(0, row->name.find('.')) : row->name);
      if (orders_and_defaults && words.size() == 1) words.back() += " (default)";
    }
    for (std::size_t i = 0; i < words.size(); ++i)
      add(before, words[i] + (i + 1 < words.size() ? "," : container == Container::gguf ? ";" : ""));
  }
  return before;
}

}  // namespace tern::lab
