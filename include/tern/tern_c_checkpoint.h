// The C ABI of checkpoints: safetensors and GGUF files, their tensors as bytes, and their metadata. tern_c.h includes
// this file.
#pragma once

#include "tern/tern_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tern_container TERN_ENUM_TYPE {
  TERN_CONTAINER_DEFAULT = -1,  // only in tern_write_options: from the output's extension
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

// Types of stored tensors are identified by name: "F32", "BF16", "TQ2_0". Types that Tern does not compute with are
// carried as bytes.
typedef struct tern_stored_type_info {
  size_t struct_size;
  const char* name;
  int64_t block_elements;  // consecutive elements of the innermost axis that are stored together ...
  int64_t block_bytes;     // ... and the bytes they take
  int32_t gguf_id;         // the id in GGUF; -1: it has none
  int32_t in_safetensors;
  int32_t dtype;  // a tern_dtype; -1: Tern does not compute with it
} tern_stored_type_info;
#define TERN_STORED_TYPE_INFO_INIT \
  { sizeof(tern_stored_type_info), NULL, 0, 0, -1, 0, -1 }

TERN_API size_t tern_stored_type_count(void);
TERN_API tern_status tern_stored_type_get(size_t index, tern_stored_type_info* out);
TERN_API tern_status tern_stored_type_find(const char* name, tern_stored_type_info* out);  // case-insensitive
// The bytes of a tensor, or an error that says why a tensor of this shape cannot have this type.
TERN_API tern_status tern_stored_bytes(const char* type, int32_t rank, const int64_t* shape, size_t* out);

// Makes untrusted text, such as the name of a tensor, one printable line. The buffer works as for other texts.
TERN_API tern_status tern_escape(const char* text, char* buffer, size_t buffer_bytes, size_t* length);

// Metadata: keys in order, each with a value.

typedef struct tern_metadata tern_metadata;

TERN_API tern_status tern_metadata_create(tern_metadata** out);
TERN_API void tern_metadata_destroy(tern_metadata* metadata);
TERN_API tern_status tern_metadata_count(const tern_metadata* metadata, size_t* out);
TERN_API tern_status tern_metadata_entry(const tern_metadata* metadata, size_t index, const char** key,
                                         tern_meta_kind* kind);
// The index of a key; -1 if there is none.
TERN_API tern_status tern_metadata_find(const tern_metadata* metadata, const char* key, int64_t* index);

// A missing key, or a value of another kind, is TERN_INVALID_ARGUMENT. Texts end with a zero, and may contain others.
// The returned pointers are valid until the metadata change or are destroyed.
TERN_API tern_status tern_metadata_get_text(const tern_metadata* metadata, const char* key, const char** text,
                                            size_t* bytes);
TERN_API tern_status tern_metadata_get_integer(const tern_metadata* metadata, const char* key,
                                               int64_t* out);  // or a bool
TERN_API tern_status tern_metadata_get_number(const tern_metadata* metadata, const char* key, double* out);
// The elements as in a file, little-endian. For texts and arrays *elements is NULL; read those as JSON.
TERN_API tern_status tern_metadata_get_array(const tern_metadata* metadata, const char* key, tern_meta_kind* kind,
                                             const void** elements, size_t* count);
TERN_API tern_status tern_metadata_get_array_text(const tern_metadata* metadata, const char* key, size_t index,
                                                  const char** text, size_t* bytes);
// Any value as one line of ASCII JSON, with at most max_elements of an array.
TERN_API tern_status tern_metadata_get_json(const tern_metadata* metadata, const char* key, size_t max_elements,
                                            char* buffer, size_t buffer_bytes, size_t* length);

// These functions replace the value of an existing key, or append a new one.
TERN_API tern_status tern_metadata_set_text(tern_metadata* metadata, const char* key, const char* text, size_t bytes);
// For the kinds of integers and for bool; a value that does not fit into the kind is refused.
TERN_API tern_status tern_metadata_set_integer(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                               int64_t value);
TERN_API tern_status tern_metadata_set_number(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                              double value);  // F32 or F64
// Elements in the form in which tern_metadata_get_array() returns them.
TERN_API tern_status tern_metadata_set_array(tern_metadata* metadata, const char* key, tern_meta_kind kind,
                                             const void* elements, size_t count);
TERN_API tern_status tern_metadata_set_texts(tern_metadata* metadata, const char* key, const char* const* texts,
                                             size_t count);

// Checkpoints, read.

// A tensor of a file, either read or to be written.
typedef struct tern_stored_tensor {
  size_t struct_size;  // the same for all elements of an array
  const char* name;    // as it is in the file: print it through tern_escape()
  const char* type;
  const int64_t* shape;  // slowest axis first, in both containers
  int32_t rank;
  int32_t gguf_id;  // the type's id in a GGUF file, read or to be written; -1: the usual one
  size_t bytes;     // when writing, 0 is filled in
} tern_stored_tensor;
#define TERN_STORED_TENSOR_INIT \
  { sizeof(tern_stored_tensor), NULL, "F32", NULL, 0, -1, 0 }

typedef struct tern_open_options {
  size_t struct_size;
  const char* const* gguf_types;  // what GGUF's ids 39 and 42 mean, if the file does not tell
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

typedef struct tern_checkpoint tern_checkpoint;  // mapped files, which must not be shortened meanwhile

// A .safetensors or .gguf file, an index of shards, the first part of a split GGUF model, or a folder with one of
// these. options may be NULL.
TERN_API tern_status tern_checkpoint_open(const char* path, const tern_open_options* options, tern_checkpoint** out);
TERN_API void tern_checkpoint_close(tern_checkpoint* checkpoint);
TERN_API tern_status tern_checkpoint_get_info(const tern_checkpoint* checkpoint, const tern_checkpoint_info** out);
TERN_API tern_status tern_checkpoint_file(const tern_checkpoint* checkpoint, size_t index, const char** path,
                                          size_t* bytes);
// What was odd but acceptable.
TERN_API tern_status tern_checkpoint_note(const tern_checkpoint* checkpoint, size_t index, const char** out);
TERN_API tern_status tern_checkpoint_metadata(const tern_checkpoint* checkpoint, const tern_metadata** out);
TERN_API tern_status tern_checkpoint_tensor(const tern_checkpoint* checkpoint, size_t index,
                                            const tern_stored_tensor** out);
// The index of a tensor; -1 if there is none of that name.
TERN_API tern_status tern_checkpoint_find(const tern_checkpoint* checkpoint, const char* name, int64_t* index);
// The bytes of a tensor in the mapped file, at any alignment; read-only.
TERN_API tern_status tern_checkpoint_data(const tern_checkpoint* checkpoint, size_t index, const void** data,
                                          size_t* bytes);
// A hint that part of a tensor is not needed soon: its pages may leave memory.
TERN_API tern_status tern_checkpoint_release(const tern_checkpoint* checkpoint, size_t index, size_t offset_bytes,
                                             size_t bytes);

// Checkpoints, written from the first byte to the last. The file appears under its name when finish succeeds.

typedef struct tern_checkpoint_writer tern_checkpoint_writer;  // used by one thread at a time

// Refuses what the container cannot hold. metadata may be NULL; those of safetensors are texts only.
TERN_API tern_status tern_checkpoint_writer_create(const char* path, tern_container container,
                                                   const tern_metadata* metadata, const tern_stored_tensor* tensors,
                                                   size_t tensor_count, tern_checkpoint_writer** out);
// The tensors in the order in which their bytes are expected.
TERN_API tern_status tern_checkpoint_writer_tensor(const tern_checkpoint_writer* writer, size_t index,
                                                   const tern_stored_tensor** out);
TERN_API tern_status tern_checkpoint_writer_file_bytes(const tern_checkpoint_writer* writer, size_t* out);
// Appends bytes; a piece must not extend past the end of a tensor.
TERN_API tern_status tern_checkpoint_writer_write(tern_checkpoint_writer* writer, const void* bytes, size_t byte_count);
// Moves on to the next tensor. The bytes of the current one, of which none may be written yet, are left to fill().
TERN_API tern_status tern_checkpoint_writer_skip(tern_checkpoint_writer* writer);
// Appends bytes to a tensor that was skipped; all must be there before finish.
TERN_API tern_status tern_checkpoint_writer_fill(tern_checkpoint_writer* writer, size_t index, const void* bytes,
                                                 size_t byte_count);
// Replaces the metadata by others that take the same space in the file: the same keys, with texts of the same lengths.
TERN_API tern_status tern_checkpoint_writer_replace_metadata(tern_checkpoint_writer* writer,
                                                             const tern_metadata* metadata);
// Completes the file. When bytes are missing it fails and leaves no file behind.
TERN_API tern_status tern_checkpoint_writer_finish(tern_checkpoint_writer* writer);
TERN_API void tern_checkpoint_writer_destroy(tern_checkpoint_writer* writer);  // if unfinished, no file is left

#ifdef __cplusplus
}  // extern "C"
#endif
