// Error messages for a command line that does not parse: the mistake that was typed first, with the nearest known word.
#include "typo.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tern/status.h"

namespace tern::cli {
namespace {

// The number of letters to add, drop or change to turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

// "; did you mean WORD?" with the nearest word, or one that starts with what was typed; empty if none is near.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& word : known) {
    const std::size_t letters = typed.size() > 4 && word.starts_with(typed) ? 0 : distance(typed, word);
    if (letters >= least) continue;
    least = letters;
    best = word;
  }
  return best.empty() ? "" : fmt::format("; did you mean {}?", best);
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unknown_option(const CLI::App& command, const std::string& typed) {
  const std::string name = typed.substr(0, typed.find('='));
  return fmt::format("unknown option {}{}", escaped(name, 40), did_you_mean(name, options_of(command)));
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

const CLI::App& named_command(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : *named.front();
}

std::string message_of(const CLI::App& app, const CLI::ParseError& mistake) {
  const CLI::App& command = named_command(app);
  const std::vector<std::string> before = app.remaining();
  if (&command == &app && !before.empty() && !is_option(before.front())) {
    std::vector<std::string> commands;
    for (const CLI::App* each : app.get_subcommands({})) commands.push_back(each->get_name());
    return fmt::format("unknown command '{}'{}", escaped(before.front(), 40), did_you_mean(before.front(), commands));
  }
  if (!before.empty() && is_option(before.front())) {
    const std::vector<std::string> after = options_of(command);
    if (&command != &app && std::find(after.begin(), after.end(), before.front()) != after.end())
      return fmt::format("{} belongs behind the command, as in tern {} {}", before.front(), command.get_name(),
                         before.front());
    return unknown_option(app, before.front());
  }
  // A mistyped option is the reason why a required one is missing.
  const std::vector<std::string> left = command.remaining();
  if (const auto option = std::find_if(left.begin(), left.end(), is_option); option != left.end())
    return unknown_option(command, *option);
  if (!left.empty() && dynamic_cast<const CLI::ExtrasError*>(&mistake) != nullptr)
    return fmt::format("'{}' is one argument too many", escaped(left.front(), 40));
  std::string text = mistake.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&mistake) != nullptr && text.ends_with(" missing"))
    return text.substr(0, text.find(':')) + " needs a value";
  return text;
}

}  // namespace tern::cli
