// Reads a safetensors header: the length, then the JSON as events; every number is checked before it is used.
#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "io/json_events.h"
#include "io/little_endian.h"

namespace tern::safetensors {
namespace {

constexpr std::string_view kWhere = "safetensors";
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kLengthBytes = 8;

// The bytes of a tensor, as the header gives them: offsets from the end of the header.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The tensors that the header lists. There may be a million, so they are moved from here and never copied.
struct Entries {
  std::vector<StoredTensor> tensors;
  std::vector<Range> ranges;
};

class HeaderEvents final : public JsonEvents {
 public:
  HeaderEvents() : JsonEvents(kWhere) {}
  Entries entries;
  Metadata metadata;

  bool on_key(std::string& key) override {
    if (key.size() > kMaxNameBytes)
      return fail(fmt::format("'{}' has {} bytes; more than {} are refused for a name", printable(key), key.size(),
                              kMaxNameBytes));
    if (state_ != State::tensor) {
      name_ = std::move(key);
      return true;
    }
    for (std::size_t i = 0; i < kFields.size(); ++i)
      if (key == kFields[i]) {
        if (seen_[i]) return fail(fmt::format("tensor '{}' has '{}' twice", shown(), key));
        seen_[i] = true;
        field_ = i;
        return true;
      }
    return fail(
        fmt::format("tensor '{}' has a key '{}', which is not dtype, shape or data_offsets", shown(), printable(key)));
  }

  bool on_start(bool object) override {
    if (state_ == State::start && object) return enter(State::top);
    if (state_ == State::top && object) {
      if (name_ == kMetadataKey) {
        if (had_metadata_) return fail(fmt::format("there are two '{}'", kMetadataKey));
        had_metadata_ = true;
        return enter(State::metadata);
      }
      if (entries.tensors.size() >= kMaxTensors)
        return fail(fmt::format("more than {} tensors are refused", kMaxTensors));
      entries.tensors.emplace_back().name = name_;  // copied: the parser's own string has twice the capacity it needs
      entries.ranges.emplace_back();
      seen_ = {};
      offsets_ = 0;
      return enter(State::tensor);
    }
    if (state_ == State::tensor && !object && field_ == kShape) return enter(State::shape);
    if (state_ == State::tensor && !object && field_ == kOffsets) return enter(State::offsets);
    return unexpected(object ? "an object" : "a list");
  }

  bool on_end(bool) override {
    switch (state_) {
      case State::shape: return enter(State::tensor);
      case State::offsets:
        if (offsets_ != 2)
          return fail(fmt::format("data_offsets of tensor '{}' has {} of 2 numbers", shown(), offsets_));
        return enter(State::tensor);
      case State::tensor:
        for (std::size_t i = 0; i < kFields.size(); ++i)
          if (!seen_[i]) return fail(fmt::format("tensor '{}' has no '{}'", shown(), kFields[i]));
        return enter(State::top);
      case State::metadata: return enter(State::top);
      default: return enter(State::done);
    }
  }

  bool on_text(std::string& text) override {
    if (state_ == State::metadata) {
      if (metadata.size() >= kMaxKeys) return fail(fmt::format("more than {} keys are refused", kMaxKeys));
      metadata.push_back({name_, MetaValue(std::string_view(text))});
      return true;
    }
    if (state_ != State::tensor || field_ != kDtype) return unexpected(fmt::format("the text '{}'", printable(text)));
    for (const StoredTypeInfo& row : stored_types())
      if (row.in_safetensors && row.name == text) {
        entries.tensors.back().type = row.type;
        return true;
      }
    return fail(
        fmt::format("dtype of tensor '{}' is '{}', which safetensors 0.8 does not have", shown(), printable(text)));
  }

  bool on_number(std::uint64_t value) override {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      if (state_ == State::shape) {
        std::vector<std::int64_t>& shape = entries.tensors.back().shape;
        if (shape.size() >= kMaxAxes) return fail(fmt::format("tensor '{}' has more than {} axes", shown(), kMaxAxes));
        shape.push_back(static_cast<std::int64_t>(value));
        return true;
      }
      if (state_ == State::offsets && offsets_ < 2) {
        Range& range = entries.ranges.back();
        (offsets_++ == 0 ? range.begin : range.end) = value;
        return true;
      }
    }
    return JsonEvents::on_number(value);
  }

  // Like the safetensors library, accepts null for no metadata.
  bool on_null() override {
    return (state_ == State::top && name_ == kMetadataKey && !had_metadata_) ? (had_metadata_ = true)
                                                                             : JsonEvents::on_null();
  }

  bool unexpected(const std::string& what) override {
    switch (state_) {
      case State::start: return fail(fmt::format("the header is {}, not an object", what));
      case State::top: return fail(fmt::format("'{}' is {}, not an object", printable(name_), what));
      case State::metadata: return fail(fmt::format("{} '{}' is {}, not a text", kMetadataKey, printable(name_), what));
      case State::shape:
        return fail(fmt::format("shape of tensor '{}' holds {}, not whole numbers below 2^63", shown(), what));
      case State::offsets:
        return fail(
            fmt::format("data_offsets of tensor '{}' holds {}, not two whole numbers below 2^63", shown(), what));
      default: return fail(fmt::format("{} of tensor '{}' is {}", kFields[field_], shown(), what));
    }
  }

 private:
  enum class State : std::uint8_t { start, top, tensor, shape, offsets, metadata, done };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};
  static constexpr std::size_t kDtype = 0, kShape = 1, kOffsets = 2;

  bool enter(State state) {
    state_ = state;
    return true;
  }
  [[nodiscard]] std::string shown() const { return printable(entries.tensors.back().name); }

  State state_ = State::start;
  std::string name_;  // of the tensor or metadata key whose value follows
  std::size_t field_ = 0;
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
  bool had_metadata_ = false;
};

Result<std::string_view> find_text(std::span<const std::uint8_t> file) {
  if (file.empty()) return error(Code::corrupt_file, kWhere, "the file is empty");
  if (file.size() < kLengthBytes + 2)
    return error(Code::corrupt_file, kWhere, "it ends after {} bytes, inside the header: it is truncated", file.size());
  const auto length = read_le<std::uint64_t>(file, 0);
  if (length > kMaxHeaderBytes)
    return error(Code::corrupt_file, kWhere,
                 "it begins with '{}', neither GGUF's magic nor the length of a safetensors header, which would be {} "
                 "bytes where the format allows {}: it is damaged, or in another format",
                 printable(text_of(file.first(kLengthBytes))), length, kMaxHeaderBytes);
  if (length > file.size() - kLengthBytes)
    return error(Code::corrupt_file, kWhere,
                 "the header says it is {} bytes long, the file has {} left: it is truncated", length,
                 file.size() - kLengthBytes);
  const std::string_view text = text_of(file.subspan(kLengthBytes, length));
  if (!text.starts_with('{'))
    return error(Code::corrupt_file, kWhere, "the header begins with '{}', not with a brace",
                 printable(text.substr(0, 8)));
  return text;
}

// Checks that the file is not truncated.
Status check_length(const std::vector<Range>& ranges, std::size_t data_offset, std::size_t file_bytes) {
  std::uint64_t end = 0;
  for (const Range& range : ranges) end = std::max(end, range.end);  // all below 2^63
  if (end <= file_bytes - data_offset) return {};
  return error(Code::corrupt_file, kWhere, "header and tensors need {} bytes, the file has {}: it is truncated",
               data_offset + end, file_bytes);
}

// Sorts by begin, then by end: of tensors that begin at the same offset, the empty ones come first.
void sort_by_place(Entries& entries) {
  const auto place = [&](std::uint32_t i) { return std::pair(entries.ranges[i].begin, entries.ranges[i].end); };
  std::vector<std::uint32_t> order(entries.ranges.size());
  std::iota(order.begin(), order.end(), 0U);
  if (std::ranges::is_sorted(order, {}, place)) return;  // nearly every file is
  std::ranges::stable_sort(order, {}, place);
  Entries sorted;
  sorted.tensors.reserve(order.size());
  sorted.ranges.reserve(order.size());
  for (const std::uint32_t i : order) {
    sorted.tensors.push_back(std::move(entries.tensors[i]));
    sorted.ranges.push_back(entries.ranges[i]);
  }
  entries = std::move(sorted);
}

// Checks that every tensor begins where the previous one ends, and has the size of its type and shape.
Status check_ranges(Entries& entries, std::size_t data_bytes) {
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < entries.tensors.size(); ++i) {
    StoredTensor& tensor = entries.tensors[i];
    const auto [begin, end] = entries.ranges[i];
    const auto shown = [&] { return printable(tensor.name); };
    if (begin > end)
      return error(Code::corrupt_file, kWhere, "data_offsets of tensor '{}' are {} to {}: it ends before it begins",
                   shown(), begin, end);
    if (begin < expected)
      return error(Code::corrupt_file, kWhere, "tensor '{}' begins at {}, inside '{}', which ends at {}", shown(),
                   begin, printable(entries.tensors[i - 1].name), expected);
    if (begin > expected)
      return error(Code::corrupt_file, kWhere, "tensor '{}' begins at {}: the {} bytes before it belong to no tensor",
                   shown(), begin, begin - expected);
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    if (!bytes.ok()) return error(Code::corrupt_file, kWhere, "tensor '{}': {}", shown(), bytes.error().message);
    if (*bytes != end - begin)
      return error(Code::corrupt_file, kWhere,
                   "tensor '{}' has {} bytes by its data_offsets, {} by its shape and dtype {}", shown(), end - begin,
                   *bytes, name(tensor.type));
    tensor.bytes = *bytes;
    expected = end;
  }
  if (expected != data_bytes)
    return error(Code::corrupt_file, kWhere, "the tensors have {} bytes, but {} follow the header", expected,
                 data_bytes);
  return {};
}

Status check_duplicates(const std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  std::vector<std::string_view> names;
  names.reserve(std::max(tensors.size(), metadata.size()));
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::corrupt_file, kWhere, "there are two tensors '{}'", printable(names[i]));
  names.clear();
  for (const MetaEntry& entry : metadata) names.push_back(entry.key);
  if (const std::size_t i = first_duplicate(names); i < names.size())
    return error(Code::corrupt_file, kWhere, "{} has '{}' twice", kMetadataKey, printable(names[i]));
  return {};
}

}  // namespace

bool has_magic(std::span<const std::uint8_t> file) {
  return file.size() > kLengthBytes && file[kLengthBytes] == '{' &&
         read_le<std::uint64_t>(file, 0) <= std::min(kMaxHeaderBytes, file.size() - kLengthBytes);
}

Result<ParsedContainer> parse(std::span<const std::uint8_t> file) {
  TERN_ASSIGN(text, find_text(file));
  HeaderEvents header;
  TERN_RETURN_IF_ERROR(header.run(text));
  Entries& entries = header.entries;
  TERN_RETURN_IF_ERROR(check_duplicates(entries.tensors, header.metadata));
  sort_by_place(entries);
  const std::size_t data_offset = kLengthBytes + text.size();
  TERN_RETURN_IF_ERROR(check_length(entries.ranges, data_offset, file.size()));
  TERN_RETURN_IF_ERROR(check_ranges(entries, file.size() - data_offset));
  ParsedContainer parsed{.metadata = std::move(header.metadata), .tensors = std::move(entries.tensors)};
  parsed.offsets.reserve(entries.ranges.size());
  for (const Range& range : entries.ranges) parsed.offsets.push_back(data_offset + range.begin);
  return parsed;
}

}  // namespace tern::safetensors
