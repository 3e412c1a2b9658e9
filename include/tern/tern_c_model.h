// The C ABI of models: checkpoints whose ternary weights are understood, quantized, converted and compared. tern_c.h
// includes this file.
#pragma once

#include "tern/tern_c.h"
#include "tern/tern_c_checkpoint.h"
#include "tern/tern_c_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// What becomes of a tensor.
typedef enum tern_action TERN_ENUM_TYPE {
  TERN_ACTION_QUANTIZE = 0,  // floats become trits and scales
  TERN_ACTION_REPACK = 1,    // trits stay the same, in other bytes
  TERN_ACTION_CAST = 2,      // floats of another type
  TERN_ACTION_COPY = 3,      // byte for byte
  TERN_ACTION_DROP = 4       // left out
} tern_action;

typedef enum tern_difference TERN_ENUM_TYPE {
  TERN_DIFFERENCE_EQUAL = 0,
  TERN_DIFFERENCE_DIFFERS = 1,
  TERN_DIFFERENCE_ONLY_IN_A = 2,
  TERN_DIFFERENCE_ONLY_IN_B = 3
} tern_difference;

// What the weight_scale beside hf_packed weights does.
typedef enum tern_weight_scale TERN_ENUM_TYPE {
  TERN_WEIGHT_SCALE_DEFAULT = -1,  // only in tern_read_options: config.json beside the file says it
  TERN_WEIGHT_SCALE_MULTIPLIES = 0,
  TERN_WEIGHT_SCALE_DIVIDES = 1
} tern_weight_scale;

TERN_API const char* tern_action_name(tern_action action);
TERN_API const char* tern_difference_name(tern_difference difference);
TERN_API const char* tern_weight_scale_name(tern_weight_scale weight_scale);

// What must be told where a file does not say it itself. Files that Tern wrote say everything.
typedef struct tern_read_options {
  size_t struct_size;
  const char* const* gguf_types;  // as in tern_open_options
  size_t gguf_type_count;
  tern_layout i2_s;                // the order of i2_s bytes; TERN_LAYOUT_DEFAULT: by the file
  tern_weight_scale weight_scale;  // of hf_packed
  const char* kernel_config;       // of tl1 and tl2: the text of bitnet.cpp's kernel_config.ini; may be NULL
} tern_read_options;
#define TERN_READ_OPTIONS_INIT \
  { sizeof(tern_read_options), NULL, 0, TERN_LAYOUT_DEFAULT, TERN_WEIGHT_SCALE_DEFAULT, NULL }

// One tensor of a model. Scales that lie in a tensor of their own belong to their weights.
typedef struct tern_model_tensor {
  size_t struct_size;
  const char* name;     // as in the file: print it through tern_escape()
  const char* hf_name;  // as Hugging Face's Llama and BitNet name it; the same where it is not known
  const char* type;
  const int64_t* shape;  // of the weights: [n, k] also where fewer bytes stand for them
  int32_t rank;
  int32_t stored_rank;
  const int64_t* stored_shape;  // as in the file
  size_t index;                 // of the checkpoint's tensors
  size_t bytes;                 // with scales
  int32_t gguf_id;
  int32_t has_checksum;  // 1: the file says one
  uint64_t checksum;     // of trits and scales, or of the bytes of other tensors
  // Of ternary weights alone:
  int32_t ternary;
  const tern_layout_spec* layout;  // NULL: `unreadable` says what to give
  const char* unreadable;
  int64_t scales_index;    // of the checkpoint's tensors, where scales lie apart; -1: they do not
  const char* scale_type;  // then
  tern_weight_scale weight_scale;
  tern_granularity granularity;
  const char* codes;  // "s8" or "s4": weights of 8 or 4 bits, with scales by granularity; "": they are not
} tern_model_tensor;

typedef struct tern_model tern_model;

// options may be NULL.
TERN_API tern_status tern_model_open(const char* path, const tern_read_options* options, tern_model** out);
TERN_API void tern_model_close(tern_model* model);
TERN_API tern_status tern_model_checkpoint(const tern_model* model, const tern_checkpoint** out);
// The text of config.json beside it; "": there is none.
TERN_API tern_status tern_model_config_json(const tern_model* model, const char** out);
TERN_API tern_status tern_model_tensor_count(const tern_model* model, size_t* out);
TERN_API tern_status tern_model_tensor_get(const tern_model* model, size_t index, const tern_model_tensor** out);
// By either of its names; -1: there is none.
TERN_API tern_status tern_model_find(const tern_model* model, const char* name, int64_t* index);

// Ternary weights as canonical i2 codes and scales, in host memory. A checksum that the file has must fit.
TERN_API tern_status tern_model_read(const tern_context* context, const tern_model* model, size_t index,
                                     tern_quantized** out);
// The same as linear's kernels read them, by a name in either container.
TERN_API tern_status tern_packed_weights_load(const tern_context* context, const tern_model* model, const char* tensor,
                                              tern_packed_weights** out);

// Names of Llama's and BitNet's tensors from one container in the other, as texts go into buffers; "": it is not one.
TERN_API tern_status tern_gguf_name(const char* hf_name, char* buffer, size_t buffer_bytes, size_t* length);
TERN_API tern_status tern_hf_name(const char* gguf_name, char* buffer, size_t buffer_bytes, size_t* length);

// Reports.

typedef struct tern_tensor_report {
  size_t struct_size;
  const tern_quality* quality;  // of what was quantized; NULL for others
  int64_t trits[3];             // how many -1, 0, +1
  float smallest_scale;
  float largest_scale;
  int32_t has_checksum;
  uint64_t checksum;
  const tern_scale_loss* scale_loss;
  double largest_change;      // of a cast: the largest relative change of a value
  int64_t overflowed;         // of a cast: values that became infinite
  int64_t underflowed;        // of a cast: values that changed below the type's normal range
  const uint64_t* histogram;  // of w / scale from -4 to 4, when it was asked for
  size_t histogram_count;
  int32_t has_cast_sqnr;  // 1: of a cast to 8 or 4 bits
  double cast_sqnr_db;
} tern_tensor_report;

typedef struct tern_model_report_info {
  size_t struct_size;
  size_t tensor_count;  // those of the plan
  size_t file_bytes;
  const char* kernel;      // that quantized; "": none did
  double seconds;          // all together, of which ...
  double flush_seconds;    // ... the disk took these at the end
  double waiting_seconds;  // ... and the computation waited these for writes to end
  // The same seconds by what threads did or waited for, in the mean over them: flushing and waiting are writing.
  double reading_seconds;
  double computing_seconds;
  double bus_seconds;  // copies to a GPU and back
  double gpu_seconds;
  double writing_seconds;
  double idle_seconds;
  const char* limited_by;  // which took most: "reading", "computing", "bus", "gpu" or "writing"
  double limit_gb_per_s;   // how fast that was
} tern_model_report_info;

typedef struct tern_model_report tern_model_report;

TERN_API tern_status tern_model_report_get_info(const tern_model_report* report, const tern_model_report_info** out);
TERN_API tern_status tern_model_report_tensor(const tern_model_report* report, size_t index,
                                              const tern_tensor_report** out);
TERN_API void tern_model_report_destroy(tern_model_report* report);

// What can be seen of one tensor, as a report of one.
TERN_API tern_status tern_inspect_tensor(const tern_context* context, const tern_model* model, size_t index,
                                         tern_model_report** out);

// Quantized and converted models.

typedef struct tern_write_options {
  size_t struct_size;
  tern_container container;   // TERN_CONTAINER_DEFAULT: as the output's name ends, .gguf or .safetensors
  tern_layout layout;         // TERN_LAYOUT_DEFAULT: i2_s.x86_128 in GGUF, i2 in safetensors
  const char* kernel_config;  // of tl1 and tl2: the text of kernel_config.ini; may be NULL
  int32_t tl2_id;             // of GGUF: 39 in bitnet.cpp's first fork, 42 in the later one
  int32_t quantize;           // 0: floats stay floats, and the model is converted alone
  tern_scheme scheme;
  tern_non_finite non_finite;
  const tern_granularity* granularity;  // NULL: that of the layout, or tensor
  int32_t match_bitnet;                 // 1: as BitNet's own converter computes
  int32_t lossy;                        // 1: scales that the layout cannot hold are rounded
  const char* include;       // ECMAScript expressions that are searched for in names: quantize these matrices alone,
  const char* exclude;       // leave these as they are,
  const char* drop;          // leave these out; each may be NULL
  const char* embeddings;    // "f16", "bf16", "q8_0" or "q4_0" for embeddings and the head; NULL: as they are
  const char* architecture;  // general.architecture of GGUF; NULL: by config.json
  const tern_preference* preference;
  int32_t histograms;  // 1: of weights
} tern_write_options;
// clang-format off
#define TERN_WRITE_OPTIONS_INIT \
  {sizeof(tern_write_options), TERN_CONTAINER_DEFAULT, TERN_LAYOUT_DEFAULT, NULL, 39, 1, TERN_SCHEME_ABSMEAN, \
   TERN_NON_FINITE_REJECT, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0}
// clang-format on

// The tensor that is written for one that is read; scales that lie apart follow it.
typedef struct tern_tensor_plan {
  size_t struct_size;
  size_t input;  // of the model's tensors
  const char* input_name;
  const char* input_type;
  tern_action action;
  const char* why;  // "a projection", "a norm stays float"
  const char* name;
  const char* type;
  size_t in_bytes;
  size_t out_bytes;                // with scales
  int32_t gguf_id;                 // -1: that of the type
  const tern_layout_spec* layout;  // of quantize and repack; NULL for others
  tern_granularity granularity;
  const char* scale_type;  // where scales lie apart
  const char* scale_name;  // "": they lie in the weights' bytes
  const char* codes;       // "s8" or "s4": written with 8 or 4 bits; "": it is not
} tern_tensor_plan;

typedef struct tern_model_plan_info {
  size_t struct_size;
  tern_container container;
  tern_layout layout;
  size_t tensor_count;
  size_t note_count;
  size_t in_bytes;
  size_t out_bytes;
  size_t actions[5];  // how many tensors, by tern_action
} tern_model_plan_info;

typedef struct tern_model_plan tern_model_plan;

// Reads no tensor. options may be NULL. A matrix whose shape the layout cannot hold is TERN_UNSUPPORTED.
TERN_API tern_status tern_model_plan_create(const tern_model* model, const char* output,
                                            const tern_write_options* options, tern_model_plan** out);
TERN_API tern_status tern_model_plan_get_info(const tern_model_plan* plan, const tern_model_plan_info** out);
TERN_API tern_status tern_model_plan_tensor(const tern_model_plan* plan, size_t index, const tern_tensor_plan** out);
// What a person should know before: a tokenizer that is not converted, ...
TERN_API tern_status tern_model_plan_note(const tern_model_plan* plan, size_t index, const char** out);
TERN_API tern_status tern_model_plan_metadata(const tern_model_plan* plan, const tern_metadata** out);
TERN_API void tern_model_plan_destroy(tern_model_plan* plan);

// Told which tensor is at work and how many of how many bytes of input are done; 0 stops, and nothing is written.
typedef int32_t (*tern_model_progress_fn)(void* user, const char* tensor, size_t done_bytes, size_t total_bytes);

// Writes the model as planned: a plan of another model is refused. The output appears under its name when it is whole.
// progress may be NULL.
TERN_API tern_status tern_write_model(const tern_context* context, const tern_model* model, const tern_model_plan* plan,
                                      const char* output, tern_model_progress_fn progress, void* progress_user,
                                      tern_model_report** out);

// What two models have in common, tensor by tensor, by Hugging Face's names.
typedef struct tern_tensor_difference {
  size_t struct_size;
  const char* name;
  tern_difference kind;
  const char* what;  // "equal trits and scales", "17 trits differ, the first at [3, 129]: ..."
  int64_t elements;
  int64_t differing_trits;    // where both are ternary
  double largest_difference;  // of a value, absolute
  int64_t first_index;        // of a value that differs, row-major; -1: there is none
} tern_tensor_difference;

typedef struct tern_model_difference tern_model_difference;

// That two models differ is no failure: *_equal() tells.
TERN_API tern_status tern_compare_models(const tern_context* context, const tern_model* a, const tern_model* b,
                                         tern_model_progress_fn progress, void* progress_user,
                                         tern_model_difference** out);
TERN_API tern_status tern_model_difference_equal(const tern_model_difference* difference, int32_t* out);
TERN_API tern_status tern_model_difference_count(const tern_model_difference* difference, size_t* out);
TERN_API tern_status tern_model_difference_tensor(const tern_model_difference* difference, size_t index,
                                                  const tern_tensor_difference** out);
TERN_API void tern_model_difference_destroy(tern_model_difference* difference);

#ifdef __cplusplus
}  // extern "C"
#endif
