// The C ABI of checkpoints: safetensors and GGUF files, their tensors as bytes, and their metadata. tern_c.h includes
// this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tern_container TERN_ENUM_TYPE {
  TERN_CONTAINER_DEFAULT = -1,  // only in tern_write_options: by the name of the output
  TERN_CONTAINER_SAFETENSORS = 0,
  TERN_CONTAINER_GGUF = 1
} tern_container;

// The kind of a value; the numbers are those of GGUF.
typedef enum tern_meta_kind TERN_ENUM_TYPE {
  TERN_META_U8 = 0,
  TERN_META_I8 = 1,
  TERN_META_U16 = 2,
  TERN_META_I16 = 3,
  TERN_META_U32 = 4,
  TERN_META_I32 = 5,
  TERN_META_F32 = 6,
  TERN_META_BOOL = 7,
  TERN_META_STRING = 8,
  TERN_META_ARRAY = 9,
  TERN_META_U64 = 10,
  TERN_META_I64 = 11,
  TERN_META_F64 = 12
} tern_meta_kind;

TERN_API const char* tern_container_name(tern_container container);
TERN_API tern_status tern_container_parse(const char* text, tern_container* out);

// Types of stored tensors go by their names: "F32", "BF16", "TQ2_0". Those that Tern does not compute with are bytes.
typedef struct tern_stored_type_info {
  size_t struct_size;
  const char* name;
  int64_t block_elements;  // consecutive elements of the innermost axis that are stored together ...
  int64_t block_bytes;     // ... and the bytes they take
  int32_t gguf_id;         // what is written in GGUF; -1: it has none
  int32_t in_safetensors;
  int32_t dtype;  // a tern_dtype; -1: Tern does not compute with it
} tern_stored_type_info;
#define TERN_STORED_TYPE_INFO_INIT \
  { sizeof(tern_stored_type_info), NULL, 0, 0, -1, 0, -1 }

TERN_API size_t tern_stored_type_count(void);
TERN_API tern_status tern_stored_type_get(size_t index, tern_stored_type_info* out);
TERN_API tern_status tern_stored_type_find(const char* name, tern_stored_type_info* out);  // in any case
// The bytes of a tensor, or why a tensor of this shape cannot be of this type.
TERN_API tern_status tern_stored_bytes(const char* type, int32_t rank, const int64_t* shape, size_t* out);

// Untrusted text, such as the name of a tensor, as one printable line, as texts go into buffers.
TERN_API tern_status tern_escape(const char* text, char* buffer, size_t buffer_bytes, size_t* length);

// Metadata: keys in order, each with a value.

typedef struct tern_metadata tern_metadata;

TERN_API tern_status tern_metadata_create(tern_metadata** out);
TERN_API void tern_metadata_destroy(tern_metadata* metadata);
TERN_API tern_status tern_metadata_count(const tern_metadata* metadata, size_t* out);
TERN_API tern_status tern_metadata_entry(const tern_metadata* metadata, size_t index, const char** key,
                                         tern_meta_kind* kind);
// The place of a key, -1: there is none.
TERN_API tern_status tern_metadata_find(const tern_metadata* metadata, const char* key, int64_t* index);

// A key that is not there, and a value of another kind, are TERN_INVALID_ARGUMENT. Texts end with a zero, and may hold
// others. What is handed out is good until the metadata change or are destroyed.
TERN_API tern_status tern_metadata_get_text(const tern_metadata* metadata, const char* key, const char** text,
                                            size_t* bytes);
TERN_API tern_status tern_metadata_get_integer(const tern_metadata* metadata, const char* key,
                                               int64_t* out);  // or bool
TERN_API tern_status tern_metadata_get_number(const tern_metadata* metadata, const char* key, double* out);
// Elements as they lie in a file, little-endian; of texts and arrays *elements is NULL, and JSON has them.
TERN_API tern_status tern_metadata_get_array(const tern_metadata* metadata, const char* key, tern_meta_kind* kind,
                                             const void** elements, size_t* count);
TERN_API tern_status tern_metadata_get_array_text(const tern_metadata* metadata, const char* key, size_t index,
                                                  const char** text, size_t* bytes);
// Any value, on one line in ASCII; of arrays at most max_elements.
TERN_API tern_status tern_metadata_get_json(const tern_metadata* metadata, const char* key, size_t max_elements,
                                            char* buffer, size_t buffer_bytes, size_t* length);

// These replace the value of a key where it stands, or add it last.
TERN_API tern_status tern_metadata_set_text(tern_metadata* metadata, const char* key, const char* text, size_t bytes);
// Of the kinds of integers and bool; a value that the kind does not hold is refused.
TERN_API tern_status tern_metadata_set_integer(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                               int64_t value);
TERN_API tern_status tern_metadata_set_number(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                              double value);  // F32 or F64
// Elements as tern_metadata_get_array() hands them out.
TERN_API tern_status tern_metadata_set_array(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                             const void* elements, size_t count);
TERN_API tern_status tern_metadata_set_texts(tern_metadata* metadata, const char* key, const char* const* texts,
                                             size_t count);

// Checkpoints, read.

// A tensor of a file: handed out by what reads, given to what writes.
typedef struct tern_stored_tensor {
  size_t struct_size;  // in an array the same for all: the library steps by it
  const char* name;    // as it is in the file: print it through tern_escape()
  const char* type;
  const int64_t* shape;  // slowest axis first, in both containers
  int32_t rank;
  int32_t gguf_id;  // that stands, or is to stand, in a GGUF file; -1: that of the type
  size_t bytes;     // to be written: 0 is filled in
} tern_stored_tensor;
#define TERN_STORED_TENSOR_INIT \
  { sizeof(tern_stored_tensor), NULL, "F32", NULL, 0, -1, 0 }

typedef struct tern_open_options {
  size_t struct_size;
  const char* const* gguf_types;  // what GGUF's ids 39 and 42 mean, where the file does not tell: names of types
  size_t gguf_type_count;
} tern_open_options;
#define TERN_OPEN_OPTIONS_INIT \
  { sizeof(tern_open_options), NULL, 0 }

typedef struct tern_checkpoint_info {
  size_t struct_size;
  tern_container container;
  const char* path;  // as given
  size_t file_count;
  size_t tensor_count;
  size_t note_count;
  size_t total_bytes;  // of all tensors
} tern_checkpoint_info;

typedef struct tern_checkpoint tern_checkpoint;  // mapped files: nobody may shorten them meanwhile

// A .safetensors or .gguf file, an index of shards, the first part of a split GGUF model, or a folder with one of
// these. options may be NULL.
TERN_API tern_status tern_checkpoint_open(const char* path, const tern_open_options* options, tern_checkpoint** out);
TERN_API void tern_checkpoint_close(tern_checkpoint* checkpoint);
TERN_API tern_status tern_checkpoint_get_info(const tern_checkpoint* checkpoint, const tern_checkpoint_info** out);
TERN_API tern_status tern_checkpoint_file(const tern_checkpoint* checkpoint, size_t index, const char** path,
                                          size_t* bytes);
// What was found odd but not wrong.
TERN_API tern_status tern_checkpoint_note(const tern_checkpoint* checkpoint, size_t index, const char** out);
TERN_API tern_status tern_checkpoint_metadata(const tern_checkpoint* checkpoint, const tern_metadata** out);
TERN_API tern_status tern_checkpoint_tensor(const tern_checkpoint* checkpoint, size_t index,
                                            const tern_stored_tensor** out);
// The place of a tensor, -1: there is none of that name.
TERN_API tern_status tern_checkpoint_find(const tern_checkpoint* checkpoint, const char* name, int64_t* index);
// The bytes of a tensor in the mapped file, at any alignment; read-only.
TERN_API tern_status tern_checkpoint_data(const tern_checkpoint* checkpoint, size_t index, const void** data,
                                          size_t* bytes);
// A stretch of a tensor's bytes is not needed soon: its pages leave this process.
TERN_API tern_status tern_checkpoint_release(const tern_checkpoint* checkpoint, size_t index, size_t offset_bytes,
                                             size_t bytes);

// Checkpoints, written from the first byte to the last. The file appears under its name when finish succeeds.

typedef struct tern_checkpoint_writer tern_checkpoint_writer;  // of one thread at a time

// What the container cannot hold is refused. metadata may be NULL; safetensors has texts alone.
TERN_API tern_status tern_checkpoint_writer_create(const char* path, tern_container container,
                                                   const tern_metadata* metadata, const tern_stored_tensor* tensors,
                                                   size_t tensor_count, tern_checkpoint_writer** out);
// The tensors in the order in which their bytes are expected.
TERN_API tern_status tern_checkpoint_writer_tensor(const tern_checkpoint_writer* writer, size_t index,
                                                   const tern_stored_tensor** out);
TERN_API tern_status tern_checkpoint_writer_file_bytes(const tern_checkpoint_writer* writer, size_t* out);
// The next bytes; a piece may not reach over the end of a tensor.
TERN_API tern_status tern_checkpoint_writer_write(tern_checkpoint_writer* writer, const void* bytes, size_t byte_count);
// Goes on with the next tensor and leaves the bytes of this one, of which none is written, to fill().
TERN_API tern_status tern_checkpoint_writer_skip(tern_checkpoint_writer* writer);
// The next bytes of a tensor that was skipped; all must be there in the end.
TERN_API tern_status tern_checkpoint_writer_fill(tern_checkpoint_writer* writer, size_t index, const void* bytes,
                                                 size_t byte_count);
// Replaces the metadata by one of the same length in the file: the same keys, and texts as long as before.
TERN_API tern_status tern_checkpoint_writer_replace_metadata(tern_checkpoint_writer* writer,
                                                             const tern_metadata* metadata);
// Fails, leaving nothing behind, when bytes are missing.
TERN_API tern_status tern_checkpoint_writer_finish(tern_checkpoint_writer* writer);
TERN_API void tern_checkpoint_writer_destroy(tern_checkpoint_writer* writer);  // unfinished: nothing is left behind

#ifdef __cplusplus
}  // extern "C"
#endif
