// The C ABI: metadata, read and made.
#include "api/c_handles.h"

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

namespace {

Error wrong_kind(const char* where, const char* key, const MetaValue& value, std::string_view wanted) {
  return error(Code::invalid_argument, where, "'{}' is {}, not {}", printable(key), name(value.kind()), wanted);
}

// Finds the key and calls answer(where, value). `outs` are the caller's output pointers, which are checked first.
template <class Answer>
tern_status with_value(const char* entry, const tern_metadata* metadata, const char* key,
                       std::initializer_list<Parameter> outs, Answer answer) {
  return guarded(entry, [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"metadata", metadata}, {"key", key}}));
    TERN_RETURN_IF_ERROR(not_null(where, outs));
    const MetaValue* value = find_key(metadata->entries, key);
    if (value == nullptr) return error(Code::invalid_argument, where, "there is no key '{}'", printable(key));
    return answer(where, *value);
  });
}

// Sets the key to the value that make(where) returns.
template <class Make>
tern_status set_value(const char* entry, tern_metadata* metadata, const char* key, Make make) {
  return guarded(entry, [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"metadata", metadata}, {"key", key}}));
    Result<MetaValue> value = make(where);
    if (!value.ok()) return std::move(value).error();
    set_key(metadata->entries, key, *std::move(value));
    return {};
  });
}

void write_view(const std::string& from, const char** text, std::size_t* bytes) {
  *text = from.c_str();
  *bytes = from.size();
}

}  // namespace

tern_status tern_metadata_find(const tern_metadata* metadata, const char* key, int64_t* index) {
  return guarded("tern_metadata_find", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"metadata", metadata}, {"key", key}, {"index", index}}));
    const auto found = std::ranges::find(metadata->entries, std::string_view(key), &MetaEntry::key);
    *index = found == metadata->entries.end() ? -1 : found - metadata->entries.begin();
    return {};
  });
}

tern_status tern_metadata_get_text(const tern_metadata* metadata, const char* key, const char** text, size_t* bytes) {
  return with_value("tern_metadata_get_text", metadata, key, {{"text", text}, {"bytes", bytes}},
                    [&](const char* where, const MetaValue& value) -> Status {
                      if (value.text() == nullptr) return wrong_kind(where, key, value, "a string");
                      write_view(*value.text(), text, bytes);
                      return {};
                    });
}

tern_status tern_metadata_get_integer(const tern_metadata* metadata, const char* key, int64_t* out) {
  return with_value("tern_metadata_get_integer", metadata, key, {{"out", out}},
                    [&](const char* where, const MetaValue& value) -> Status {
                      const auto whole = value.boolean() ? std::int64_t{*value.boolean()} : value.integer();
                      if (!whole) return wrong_kind(where, key, value, "an integer of 64 bits with a sign");
                      *out = *whole;
                      return {};
                    });
}

tern_status tern_metadata_get_number(const tern_metadata* metadata, const char* key, double* out) {
  return with_value("tern_metadata_get_number", metadata, key, {{"out", out}},
                    [&](const char* where, const MetaValue& value) -> Status {
                      if (!value.number()) return wrong_kind(where, key, value, "a number");
                      *out = *value.number();
                      return {};
                    });
}

tern_status tern_metadata_get_array(const tern_metadata* metadata, const char* key, tern_meta_kind* kind,
                                    const void** elements, size_t* count) {
  return with_value("tern_metadata_get_array", metadata, key,
                    {{"kind", kind}, {"elements", elements}, {"count", count}},
                    [&](const char* where, const MetaValue& value) -> Status {
                      const MetaArray* array = value.array();
                      if (array == nullptr) return wrong_kind(where, key, value, "an array");
                      *kind = static_cast<tern_meta_kind>(array->element);
                      *elements = scalar_bytes(array->element) != 0 ? array->scalars.data() : nullptr;
                      *count = array->size();
                      return {};
                    });
}

tern_status tern_metadata_get_array_text(const tern_metadata* metadata, const char* key, size_t index,
                                         const char** text, size_t* bytes) {
  return with_value("tern_metadata_get_array_text", metadata, key, {{"text", text}, {"bytes", bytes}},
                    [&](const char* where, const MetaValue& value) -> Status {
                      const MetaArray* array = value.array();
                      if (array == nullptr || array->element != MetaKind::string)
                        return wrong_kind(where, key, value, "an array of strings");
                      TERN_RETURN_IF_ERROR(check_index(where, index, array->texts.size()));
                      write_view(array->texts[index], text, bytes);
                      return {};
                    });
}

tern_status tern_metadata_get_json(const tern_metadata* metadata, const char* key, size_t max_elements, char* buffer,
                                   size_t buffer_bytes, size_t* length) {
  return with_value("tern_metadata_get_json", metadata, key, {{"length", length}},
                    [&](const char* where, const MetaValue& value) {
                      return write_text(where, value.to_json(max_elements), buffer, buffer_bytes, length);
                    });
}

tern_status tern_metadata_set_text(tern_metadata* metadata, const char* key, const char* text, size_t bytes) {
  return set_value("tern_metadata_set_text", metadata, key, [&](const char* where) -> Result<MetaValue> {
    TERN_ASSIGN(view, to_array<const char>(where, "text", text, "bytes", bytes));
    return MetaValue(std::string(view.begin(), view.end()));
  });
}

tern_status tern_metadata_set_integer(tern_metadata* metadata, const char* key, tern_meta_kind kind, int64_t value) {
  return set_value("tern_metadata_set_integer", metadata, key, [&](const char* where) -> Result<MetaValue> {
    TERN_ASSIGN(cpp_kind, to_enum(where, "kind", kind, kLastMetaKind));
    if (scalar_bytes(cpp_kind) == 0 || cpp_kind == MetaKind::f32 || cpp_kind == MetaKind::f64)
      return error(Code::invalid_argument, where, "kind is {}, not one of integers or bool", name(cpp_kind));
    MetaValue made = MetaValue::from_bits(cpp_kind, static_cast<std::uint64_t>(value));
    const bool fits = cpp_kind == MetaKind::boolean ? value == 0 || value == 1 : made.integer() == value;
    if (!fits)
      return error(Code::invalid_argument, where, "value is {}, which {} does not hold", value, name(cpp_kind));
    return made;
  });
}

tern_status tern_metadata_set_number(tern_metadata* metadata, const char* key, tern_meta_kind kind, double value) {
  return set_value("tern_metadata_set_number", metadata, key, [&](const char* where) -> Result<MetaValue> {
    if (kind == TERN_META_F32) return MetaValue(static_cast<float>(value));
    if (kind == TERN_META_F64) return MetaValue(value);
    return error(Code::invalid_argument, where, "kind is {}, not TERN_META_F32 or TERN_META_F64",
                 static_cast<std::int32_t>(kind));
  });
}

tern_status tern_metadata_set_array(tern_metadata* metadata, const char* key, tern_meta_kind kind, const void* elements,
                                    size_t count) {
  return set_value("tern_metadata_set_array", metadata, key, [&](const char* where) -> Result<MetaValue> {
    TERN_ASSIGN(cpp_kind, to_enum(where, "kind", kind, kLastMetaKind));
    const std::size_t each = scalar_bytes(cpp_kind);
    if (each == 0)
      return error(Code::invalid_argument, where,
                   "kind is {}, but the elements must be numbers or bools; tern_metadata_set_texts() takes strings",
                   name(cpp_kind));
    if (count > SIZE_MAX / 16) return error(Code::invalid_argument, where, "count is {}", count);
    TERN_ASSIGN(first, to_array<const std::uint8_t>(where, "elements", elements, "count", count));
    return MetaValue(MetaArray{.element = cpp_kind, .scalars = {first.data(), first.data() + count * each}});
  });
}

tern_status tern_metadata_set_texts(tern_metadata* metadata, const char* key, const char* const* texts, size_t count) {
  return set_value("tern_metadata_set_texts", metadata, key, [&](const char* where) -> Result<MetaValue> {
    TERN_ASSIGN(given, to_array<const char* const>(where, "texts", texts, "count", count));
    std::vector<std::string> all;
    for (const char* text : given) {
      TERN_RETURN_IF_ERROR(not_null(where, {{"one of texts", text}}));
      all.emplace_back(text);
    }
    return MetaValue(MetaArray::of(std::move(all)));
  });
}
