// The C ABI: the version, words and their names, and the last error of each thread.
#include "api/c_abi.h"

namespace tern::c {
namespace {

static_assert(static_cast<int>(kLastCapability) + 1 == kCapabilityCount);

struct LastError {
  Error error;
  std::string text;
  tern_error face{sizeof(tern_error), TERN_OK, "", "", "", -1};
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

tern_status report(Error error) noexcept {
  LastError& last = last_error();
  const auto status = static_cast<tern_status>(error.code);
  try {
    last.text = error.str();
  } catch (...) {
    return report_literal(status, "memory for the message ran out", "tern_last_error");
  }
  last.error = std::move(error);
  last.face = {sizeof(tern_error), status,          last.error.message.c_str(), last.error.where.c_str(),
               last.text.c_str(),  last.error.index};
  return status;
}

tern_status report_literal(tern_status status, const char* message, const char* where) noexcept {
  last_error().error.details = {};
  last_error().face = {sizeof(tern_error), status, message, where, message, -1};
  return status;
}

Status not_null(const char* where, std::initializer_list<Parameter> parameters) {
  for (const auto& [parameter, value] : parameters)
    if (value == nullptr) return error(Code::invalid_argument, where, "{} is NULL", parameter);
  return {};
}

Status write_text(const char* where, const std::string& text, char* buffer, std::size_t buffer_bytes,
                  std::size_t* length) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"length", length}}));
  if (buffer == nullptr && buffer_bytes != 0)
    return error(Code::invalid_argument, where, "buffer is NULL but buffer_bytes is {}", buffer_bytes);
  *length = text.size();
  if (buffer_bytes == 0) return {};
  const std::size_t copied = std::min(text.size(), buffer_bytes - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
  return {};
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

const char* tern_version(void) { return tern::version(); }
const tern_error* tern_last_error(void) { return &last_error().face; }

int32_t tern_last_error_memory(uint64_t* needed_bytes, uint64_t* free_bytes) {
  const auto* shortage = last_error().error.as<MemoryShortage>();
  if (shortage == nullptr) return 0;
  if (needed_bytes != nullptr) *needed_bytes = shortage->needed_bytes;
  if (free_bytes != nullptr) *free_bytes = shortage->free_bytes;
  return 1;
}
int32_t tern_last_error_cuda(const char** kernel, int32_t* code) {
  const auto* failure = last_error().error.as<CudaFailure>();
  if (failure == nullptr) return 0;
  if (kernel != nullptr) *kernel = failure->kernel.c_str();
  if (code != nullptr) *code = failure->code;
  return 1;
}
int32_t tern_last_error_value(double* value, double* lowest, double* highest) {
  const auto* invalid = last_error().error.as<InvalidValue>();
  if (invalid == nullptr) return 0;
  if (value != nullptr) *value = invalid->value;
  if (lowest != nullptr) *lowest = invalid->lowest;
  if (highest != nullptr) *highest = invalid->highest;
  return 1;
}

const char* tern_format_name(tern_format format) {
  return format == TERN_FORMAT_DEFAULT ? "default" : word(format, kLastFormat);
}

size_t tern_dtype_bytes(tern_dtype dtype) {
  const auto known = to_enum("tern_dtype_bytes", "dtype", dtype, kLastDType);
  return known.ok() ? size_of(*known) : 0;
}
