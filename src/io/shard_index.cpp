// Parses the index of a checkpoint in several files:
// {"metadata": {"total_size": 5}, "weight_map": {"w": "model-1.safetensors"}}.
#include <algorithm>

#include "io/json_events.h"
#include "io/safetensors.h"

namespace tern::safetensors {
namespace {

constexpr std::string_view kWhere = "index";
constexpr int kMaxDepth = 32;  // for what is skipped: the metadata of other programs

// Why a shard may not have this name, or empty. Names come from the internet and become paths.
std::string_view refusal(std::string_view file) {
  if (file.empty()) return "is empty";
  if (file.starts_with('/')) return "is not relative to the index";
  // Only plain ASCII, because these names are printed with every error of their files.
  if (std::ranges::any_of(file, [](char c) { return c < ' ' || c > '~' || c == '\\'; }))
    return "has characters that file names of shards do not have";
  for (std::size_t begin = 0; begin <= file.size();) {
    const std::size_t end = std::min(file.find('/', begin), file.size());
    const std::string_view part = file.substr(begin, end - begin);
    if (part == "..") return "leads out of the folder of the index";
    if (part.empty() || part == ".") return "is not a plain path";
    begin = end + 1;
  }
  return {};
}

class IndexEvents final : public JsonEvents {
 public:
  IndexEvents() : JsonEvents(kWhere) {}
  ShardIndex index;
  bool has_map = false;

  bool on_key(std::string& key) override {
    if (key.size() > kMaxNameBytes) return fail(fmt::format("a key has {} bytes", key.size()));
    (depth_ == 1 ? top_ : key_) = std::move(key);
    return true;
  }
  bool on_start(bool object) override {
    if (depth_ == 0 && !object) return unexpected("a list");
    if (depth_ == 1 && top_ == "weight_map") {
      if (!object) return unexpected("a list");
      if (has_map) return fail("there are two 'weight_map'");
      has_map = true;
    } else if (in_map()) {
      return unexpected(object ? "an object" : "a list");
    }
    if (++depth_ > kMaxDepth) return fail(fmt::format("it is nested more than {} deep", kMaxDepth));
    return true;
  }
  bool on_end(bool) override {
    --depth_;
    return true;
  }
  bool on_text(std::string& text) override {
    if (!in_map()) return scalar();
    if (const std::string_view why = refusal(text); !why.empty())
      return fail(fmt::format("weight_map: '{}' {}", printable(text), why));
    if (index.weight_map.size() >= kMaxTensors)
      return fail(fmt::format("more than {} tensors are refused", kMaxTensors));
    index.weight_map.push_back({std::move(key_), std::move(text)});
    return true;
  }
  bool on_number(std::uint64_t value) override {
    if (depth_ == 2 && top_ == "metadata" && key_ == "total_size" && value <= static_cast<std::uint64_t>(INT64_MAX))
      index.total_bytes = static_cast<std::int64_t>(value);
    return in_map() ? unexpected("a number") : scalar();
  }
  bool on_other_number(std::string_view) override { return in_map() ? unexpected("a number") : scalar(); }
  bool on_boolean(bool) override { return in_map() ? unexpected("true or false") : scalar(); }
  bool on_null() override { return in_map() ? unexpected("null") : scalar(); }
  bool unexpected(const std::string& what) override {
    if (depth_ == 0) return fail(fmt::format("it is {}, not an object", what));
    if (in_map()) return fail(fmt::format("weight_map: '{}' is {}, not the name of a file", printable(key_), what));
    return fail(fmt::format("weight_map is {}, not an object", what));
  }

 private:
  [[nodiscard]] bool in_map() const { return depth_ == 2 && top_ == "weight_map"; }
  bool scalar() { return depth_ == 0 || (depth_ == 1 && top_ == "weight_map") ? unexpected("a single value") : true; }

  int depth_ = 0;
  std::string top_;  // the key of the outermost object
  std::string key_;  // and of the object in it
};

}  // namespace

Result<ShardIndex> parse_index(std::string_view text) {
  if (text.size() > kMaxHeaderBytes)
    return error(Code::corrupt_file, kWhere, "it has {} bytes; more than {} are refused", text.size(), kMaxHeaderBytes);
  IndexEvents events;
  TERN_RETURN_IF_ERROR(events.run(text));
  if (!events.has_map)
    return error(Code::corrupt_file, kWhere,
                 "there is no 'weight_map', so it is no index of shards; name its folder or a file");
  std::vector<std::string_view> names;
  for (const ShardIndex::Entry& entry : events.index.weight_map) names.push_back(entry.tensor);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::corrupt_file, kWhere, "weight_map has '{}' twice", printable(names[i]));
  return std::move(events.index);
}

}  // namespace tern::safetensors
