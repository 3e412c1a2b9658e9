// Lists layouts from their table.
#include "lab/layout_words.h"

#include "base/words.h"
#include "format/layout.h"

namespace tern::lab {

std::string layout_words(Container container, bool orders_and_default) {
  std::vector<std::string> words;
  for (const LayoutRow* row : layouts_in(container)) {
    const auto orders = layouts_of(row->type);
    const bool first = orders.empty() || row == &orders.front();
    if (!first && !orders_and_default) continue;
    words.emplace_back(first ? row->name.substr(0, row->name.find('.')) : row->name);
    if (orders_and_default && words.size() == 1) words.back() += " (default)";
  }
  return listed(words);
}

}  // namespace tern::lab
