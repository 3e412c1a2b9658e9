// The C ABI: streams, events, copies, memory and the time of kernels.
#include "api/c_abi.h"

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

tern_status tern_context_stream_count(const tern_context* context, size_t* out) {
  return guarded("tern_context_stream_count", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"out", out}}));
    *out = context->streams.size();
    return {};
  });
}

tern_status tern_context_stream_at(const tern_context* context, size_t index, const tern_stream** out) {
  return guarded("tern_context_stream_at", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, context->streams.size()));
    *out = &context->streams[index];
    return {};
  });
}

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

tern_status tern_stream_synchronize(const tern_stream* stream) {
  return guarded("tern_stream_synchronize", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"stream", stream}}));
    return stream->stream.synchronize();
  });
}

tern_status tern_stream_status(const tern_stream* stream) {
  return guarded("tern_stream_status", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"stream", stream}}));
    return stream->stream.status();
  });
}

tern_status tern_stream_cuda_stream(const tern_stream* stream, void** out) {
  return guarded("tern_stream_cuda_stream", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"stream", stream}, {"out", out}}));
    *out = stream->stream.cuda_stream();
    return {};
  });
}

tern_status tern_context_synchronize(const tern_context* context) {
  return guarded("tern_context_synchronize", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}}));
    return context->context.synchronize();
  });
}

tern_status tern_event_create(const tern_context* context, tern_event** out) {
  return guarded("tern_event_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}}));
    TERN_ASSIGN(event, context->context.event());
    *out = new tern_event{std::move(event)};
    return {};
  });
}

void tern_event_destroy(tern_event* event) { delete event; }

tern_status tern_event_record(tern_event* event, const tern_stream* stream) {
  return guarded("tern_event_record", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"event", event}, {"stream", stream}}));
    return event->event.record(stream->stream);
  });
}

tern_status tern_event_synchronize(const tern_event* event) {
  return guarded("tern_event_synchronize", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"event", event}}));
    return event->event.synchronize();
  });
}

tern_status tern_event_milliseconds(const tern_event* event, const tern_event* earlier, double* out) {
  return guarded("tern_event_milliseconds", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"event", event}, {"earlier", earlier}, {"out", out}}));
    TERN_ASSIGN(milliseconds, event->event.milliseconds_since(earlier->event));
    *out = milliseconds;
    return {};
  });
}

tern_status tern_stream_wait(const tern_stream* stream, const tern_event* event) {
  return guarded("tern_stream_wait", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"stream", stream}, {"event", event}}));
    return stream->stream.wait(event->event);
  });
}

tern_status tern_copy(const tern_context* context, const tern_tensor_view* to, const tern_tensor_view* from,
                      const tern_stream* stream) {
  return guarded("tern_copy", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"to", to}, {"from", from}, {"stream", stream}}));
    TERN_ASSIGN(target, to_view(where, "to", *to));
    TERN_ASSIGN(source, to_view(where, "from", *from));
    return context->context.copy(target, source, stream->stream);
  });
}

tern_status tern_context_memory_info(const tern_context* context, tern_memory_info* out) {
  return guarded("tern_context_memory_info", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"out", out}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_ASSIGN(info, context->counted_gpu ? context->counted_gpu->info() : context->context.memory_info());
    write_struct({.struct_size = sizeof(tern_memory_info),
                  .total_bytes = info.total_bytes,
                  .free_bytes = info.free_bytes,
                  .reserved_bytes = info.reserved_bytes,
                  .in_use_bytes = info.in_use_bytes,
                  .reserved_peak_bytes = info.reserved_peak_bytes,
                  .in_use_peak_bytes = info.in_use_peak_bytes},
                 out);
    return {};
  });
}

tern_status tern_context_ensure_ready(const tern_context* context, size_t bytes) {
  return guarded("tern_context_ensure_ready", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}}));
    return context->context.ensure_ready(bytes);
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
