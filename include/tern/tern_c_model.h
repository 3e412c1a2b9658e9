// The C ABI of models: checkpoints whose ternary weights are recognised, and can be quantized, converted and compared.
// tern_c.h includes this file.
#pragma once

#include "tern/tern_c.h"
#include "tern/tern_c_checkpoint.h"
#include "tern/tern_c_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is done with a tensor.
typedef enum tern_action TERN_ENUM_TYPE {
  TERN_ACTION_QUANTIZE = 0,  // floats become trits and scales
  TERN_ACTION_REPACK = 1,    // the same trits in another layout
  TERN_ACTION_CAST = 2,      // to another float type, or to 8 or 4 bits
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
  TERN_WEIGHT_SCALE_DEFAULT = -1,  // only in tern_read_options: from config.json beside the file
  TERN_WEIGHT_SCALE_MULTIPLIES = 0,
  TERN_WEIGHT_SCALE_DIVIDES = 1
} tern_weight_scale;

TERN_API const char* tern_action_name(tern_action action);
TERN_API const char* tern_difference_name(tern_difference difference);
TERN_API const char* tern_weight_scale_name(tern_weight_scale weight_scale);

// What the caller must say where a file does not describe itself. Files written by Tern always do.
typedef struct tern_read_options {
  size_t struct_size;
  const char* const* gguf_types;  // as in tern_open_options
  size_t gguf_type_count;
  tern_layout i2_s;                // the order of i2_s bytes; TERN_LAYOUT_DEFAULT: as the file says
  tern_weight_scale weight_scale;  // of hf_packed
  const char* kernel_config;       // of tl1 and tl2: the text of bitnet.cpp's kernel_config.ini; may be NULL
} tern_read_options;
#define TERN_READ_OPTIONS_INIT \
  { sizeof(tern_read_options), NULL, 0, TERN_LAYOUT_DEFAULT, TERN_WEIGHT_SCALE_DEFAULT, NULL }

// One tensor of a model. A tensor that holds the scales of others is not listed separately.
typedef struct tern_model_tensor {
  size_t struct_size;
  const char* name;     // as in the file: print it through tern_escape()
  const char* hf_name;  // its name in Hugging Face's Llama and BitNet models, or `name`
  const char* type;
  const int64_t* shape;  // of the weights: [n, k], even where the file stores fewer bytes
  int32_t rank;
  int32_t stored_rank;
  const int64_t* stored_shape;  // as in the file
  size_t index;                 // among the checkpoint's tensors
  size_t bytes;                 // with scales
  int32_t gguf_id;
  int32_t has_checksum;  // 1: the file has one
  uint64_t checksum;     // of trits and scales, or of the bytes of other tensors
  // For ternary weights only:
  int32_t ternary;
  const tern_layout_spec* layout;  // NULL: `unreadable` says which option to give
  const char* unreadable;
  int64_t scales_index;    // among the checkpoint's tensors, if scales are separate; -1: they are not
  const char* scale_type;  // their type, if so
  tern_weight_scale weight_scale;
  tern_granularity granularity;
  const char* codes;  // "s8" or "s4": weights of 8 or 4 bits, with scales by granularity; else ""
} tern_model_tensor;

typedef struct tern_model tern_model;

// options may be NULL.
TERN_API tern_status tern_model_open(const char* path, const tern_read_options* options, tern_model** out);
TERN_API void tern_model_close(tern_model* model);
TERN_API tern_status tern_model_checkpoint(const tern_model* model, const tern_checkpoint** out);
// The text of the config.json in the same folder; "" if there is none.
TERN_API tern_status tern_model_config_json(const tern_model* model, const char** out);
TERN_API tern_status tern_model_tensor_count(const tern_model* model, size_t* out);
TERN_API tern_status tern_model_tensor_get(const tern_model* model, size_t index, const tern_model_tensor** out);
// The index of a tensor, by either of its names; -1 if there is none.
TERN_API tern_status tern_model_find(const tern_model* model, const char* name, int64_t* index);

// Ternary weights as canonical i2 codes and scales, in host memory. Verified against the file's checksum if it has one.
TERN_API tern_status tern_model_read(const tern_context* context, const tern_model* model, size_t index,
                                     tern_quantized** out);
// The same, packed for linear's kernels, by the name in either container.
TERN_API tern_status tern_packed_weights_load(const tern_context* context, const tern_model* model, const char* tensor,
                                              tern_packed_weights** out);

// Converts names of Llama's and BitNet's tensors between the containers, into the buffer as texts are; "" for other
// names.
TERN_API tern_status tern_gguf_name(const char* hf_name, char* buffer, size_t buffer_bytes, size_t* length);
TERN_API tern_status tern_hf_name(const char* gguf_name, char* buffer, size_t buffer_bytes, size_t* length);

// Reports.

typedef struct tern_tensor_report {
  size_t struct_size;
  const tern_quality* quality;  // of quantized tensors; NULL for others
  int64_t trits[3];             // the counts of -1, 0, +1
  float smallest_scale;
  float largest_scale;
  int32_t has_checksum;
  uint64_t checksum;
  const tern_scale_loss* scale_loss;
  double largest_change;      // of a cast: the largest relative change of a value
  int64_t overflowed;         // of a cast: values that became infinite
  int64_t underflowed;        // of a cast: values that changed below the type's normal range
  const uint64_t* histogram;  // of w / scale from -4 to 4, if requested
  size_t histogram_count;
  int32_t has_cast_sqnr;  // 1: of a cast to 8 or 4 bits
  double cast_sqnr_db;
} tern_tensor_report;

typedef struct tern_model_report_info {
  size_t struct_size;
  size_t tensor_count;  // those of the plan
  size_t file_bytes;
  const char* kernel;      // that quantized; "" if none did
  double seconds;          // the whole call; of this ...
  double flush_seconds;    // ... for flushing to the disk at the end
  double waiting_seconds;  // ... for computation that waited until writes ended
  // The same seconds by stage, averaged over threads; flushing and waiting count as writing.
  double reading_seconds;
  double computing_seconds;
  double bus_seconds;  // copies to a GPU and back
  double gpu_seconds;
  double writing_seconds;
  double idle_seconds;
  const char* limited_by;  // the stage that took most time: "reading", "computing", "bus", "gpu" or "writing"
  double limit_gb_per_s;   // its speed
} tern_model_report_info;

typedef struct tern_model_report tern_model_report;

TERN_API tern_status tern_model_report_get_info(const tern_model_report* report, const tern_model_report_info** out);
TERN_API tern_status tern_model_report_tensor(const tern_model_report* report, size_t index,
                                              const tern_tensor_report** out);
TERN_API void tern_model_report_destroy(tern_model_report* report);

// Examines one tensor and makes a report of it.
TERN_API tern_status tern_inspect_tensor(const tern_context* context, const tern_model* model, size_t index,
                                         tern_model_report** out);

// Quantized and converted models.

typedef struct tern_write_options {
  size_t struct_size;
  tern_container container;   // TERN_CONTAINER_DEFAULT: from the output's extension, .gguf or .safetensors
  tern_layout layout;         // TERN_LAYOUT_DEFAULT: i2_s.x86_128 in GGUF, i2 in safetensors
  const char* kernel_config;  // of tl1 and tl2: the text of kernel_config.ini; may be NULL
  int32_t tl2_id;             // TL2's id in GGUF: 39 in bitnet.cpp's first fork, 42 in the later one
  int32_t quantize;           // 0: floats are not quantized, the model is only converted
  tern_scheme scheme;
  tern_non_finite non_finite;
  const tern_granularity* granularity;  // NULL: that of the layout, or tensor
  int32_t match_bitnet;                 // 1: round exactly as BitNet's own converter does
  int32_t lossy;                        // 1: scales that the layout cannot hold are rounded
  const char* include;       // ECMAScript regular expressions, searched for in names: quantize only these matrices,
  const char* exclude;       // do not quantize these,
  const char* drop;          // do not write these; each may be NULL
  const char* embeddings;    // "f16", "bf16", "q8_0" or "q4_0" for embeddings and the head; NULL: unchanged
  const char* architecture;  // general.architecture of GGUF; NULL: from config.json
  const tern_preference* preference;
  int32_t histograms;  // 1: collect them for reports
} tern_write_options;
// clang-format off
#define TERN_WRITE_OPTIONS_INIT \
  {sizeof(tern_write_options), TERN_CONTAINER_DEFAULT, TERN_LAYOUT_DEFAULT, NULL, 39, 1, TERN_SCHEME_ABSMEAN, \
   TERN_NON_FINITE_REJECT, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0}
// clang-format on

// The tensor that is written for one that is read. A separate tensor of scales follows it.
typedef struct tern_tensor_plan {
  size_t struct_size;
  size_t input;  // among the model's tensors
  const char* input_name;
  const char* input_type;
  tern_action action;
  const char* why;  // "a projection", "a norm stays float"
  const char* name;
  const char* type;
  size_t in_bytes;
  size_t out_bytes;                // with scales
  int32_t gguf_id;                 // -1: the usual one of the type
  const tern_layout_spec* layout;  // of quantize and repack; NULL for others
  tern_granularity granularity;
  const char* scale_type;  // where scales are a separate tensor
  const char* scale_name;  // "": the scales are inside the weights' bytes
  const char* codes;       // "s8" or "s4" if written with 8 or 4 bits; else ""
} tern_tensor_plan;

typedef struct tern_model_plan_info {
  size_t struct_size;
  tern_container container;
  tern_layout layout;
  size_t tensor_count;
  size_t note_count;
  size_t in_bytes;
  size_t out_bytes;
  size_t actions[5];  // the number of tensors for each tern_action
} tern_model_plan_info;

typedef struct tern_model_plan tern_model_plan;

// Reads no tensor data. options may be NULL. A matrix whose shape the layout cannot hold is TERN_UNSUPPORTED.
TERN_API tern_status tern_model_plan_create(const tern_model* model, const char* output,
                                            const tern_write_options* options, tern_model_plan** out);
TERN_API tern_status tern_model_plan_get_info(const tern_model_plan* plan, const tern_model_plan_info** out);
TERN_API tern_status tern_model_plan_tensor(const tern_model_plan* plan, size_t index, const tern_tensor_plan** out);
// What the user should know before writing: a tokenizer that is not converted, ...
TERN_API tern_status tern_model_plan_note(const tern_model_plan* plan, size_t index, const char** out);
TERN_API tern_status tern_model_plan_metadata(const tern_model_plan* plan, const tern_metadata** out);
TERN_API void tern_model_plan_destroy(tern_model_plan* plan);

// Called with the tensor at work and the bytes of input done and in total; return 0 to stop. Nothing is written then.
typedef int32_t (*tern_model_progress_fn)(void* user, const char* tensor, size_t done_bytes, size_t total_bytes);

// Writes the model as planned; refuses a plan that was made for another model. The output appears under its name only
// when it is complete. progress may be NULL.
TERN_API tern_status tern_write_model(const tern_context* context, const tern_model* model, const tern_model_plan* plan,
                                      const char* output, tern_model_progress_fn progress, void* progress_user,
                                      tern_model_report** out);

// How a tensor differs between two models, matched by Hugging Face's names.
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

// A difference between models is not a failure: ask *_equal().
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
