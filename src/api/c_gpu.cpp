// The C ABI: streams, events, copies, memory and the time of kernels.
#include "api/c_handles.h"

namespace tern::c {
namespace {

std::string json_of(const std::map<std::string, KernelTime>& times) {
  std::string text;
  for (const auto& [kernel, time] : times)
    text += fmt::format(R"({}{{"kernel":"{}","runs":{},"milliseconds":{}}})", text.empty() ? "" : ",", kernel,
                        time.runs, time.milliseconds);
  return "[" + text + "]";
}

// Releases the stream with its last handle; before that, only synchronizes it.
Status release_stream(const tern_stream& stream) {
  WrappedStreams& all = *stream.wrapped;
  const std::scoped_lock lock(all.mutex);
  const auto handles = all.handles.find(stream.stream.cuda_stream());
  if (handles == all.handles.end() || --handles->second > 0) return stream.stream.synchronize();
  all.handles.erase(handles);
  return all.context.release(stream.stream);
}

}  // namespace
}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_context_wrap_stream(const tern_context* context, void* cuda_stream, tern_stream** out) {
  return guarded("tern_context_wrap_stream", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}}));
    auto handle = std::make_unique<tern_stream>();
    const std::scoped_lock lock(context->wrapped->mutex);
    TERN_ASSIGN(stream, context->context.wrap(cuda_stream));
    ++context->wrapped->handles[cuda_stream];
    handle->stream = stream;
    handle->wrapped = context->wrapped;
    *out = handle.release();
    return {};
  });
}

tern_status tern_stream_release(tern_stream* wrapped) {
  return guarded("tern_stream_release", [&](const char* where) -> Status {
    if (wrapped == nullptr) return {};
    if (!wrapped->wrapped)
      return error(Code::invalid_argument, where, "the stream is the context's own; it goes with the context");
    const std::unique_ptr<tern_stream> handle(wrapped);
    return release_stream(*handle);
  });
}

tern_status tern_context_profile(const tern_context* context, char* buffer, size_t buffer_bytes, size_t* length) {
  return guarded("tern_context_profile", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"length", length}}));
    const std::scoped_lock lock(context->profile_mutex);
    TERN_ASSIGN(latest, context->context.profile());  // reports a run only once, so keep what is not returned below
    for (const KernelTime& time : latest) {
      KernelTime& total = context->profile[time.kernel];
      total.runs += time.runs;
      total.milliseconds += time.milliseconds;
    }
    const std::string text = json_of(context->profile);
    TERN_RETURN_IF_ERROR(write_text(where, text, buffer, buffer_bytes, length));
    if (buffer_bytes > text.size()) context->profile.clear();
    return {};
  });
}
