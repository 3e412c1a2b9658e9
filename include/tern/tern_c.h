// The C ABI: everything of the C++ API for C programs and for languages that load shared libraries. It is
// long because it holds every op's structs, and the macro that declares an op's plan, next to each other.
//
//   tern_context* context = NULL;
//   tern_quantized* q = NULL;
//   const tern_quantized_info* info = NULL;
//   float w[2 * 4] = {0.5f, -1, 0, 2, 1, 1, -3, 0.25f};
//   tern_tensor_view x = {.data = w, .dtype = TERN_DTYPE_F32, .rank = 2, .shape = {2, 4}};
//   tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
//   options.granularity.kind = TERN_GRANULARITY_ROW;
//   if (tern_context_open(NULL, &context) != TERN_OK || tern_quantize(context, &x, &options, &q) != TERN_OK ||
//       tern_quantized_get_info(q, &info) != TERN_OK)
//     fprintf(stderr, "%s\n", tern_last_error()->text);
//   else
//     printf("%zu bytes of codes, %zu scales, by %s\n", info->codes_bytes, info->scale_count, info->kernel);
//   tern_quantized_destroy(q);
//   tern_context_close(context);
//
// Rules. A call that can fail returns a tern_status; after a failure tern_last_error() says what was wrong, and the
// handle it would have made is NULL. A NULL handle or out pointer is TERN_INVALID_ARGUMENT. Functions that destroy or
// close accept NULL. Handles may be used by several threads at once, and are destroyed once. What a handle hands out
// (strings, infos, views) lives as long as the handle.
//
// A struct that begins with struct_size is set up by its ..._INIT macro where the caller makes it, so that a program
// built with these headers works with later libraries in which the struct has grown at its end. In those the library
// hands out, struct_size is what this library filled in.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/export.h"
#include "tern/tern_c_types.h"
#include "tern/version.h"

#ifdef __cplusplus
extern "C" {
#endif

TERN_API const char* tern_version(void);  // of the library; TERN_VERSION is the version of these headers

// Errors.

typedef struct tern_error {
  size_t struct_size;
  tern_status status;   // TERN_OK as long as no call of this thread has failed
  const char* message;  // one sentence with the offending value
  const char* where;    // the operation that failed
  const char* text;     // all of it on one line: "invalid_argument: x is NULL (tern_quantize)"
  int64_t index;        // element, range or byte that the message is about; -1 when there is none
} tern_error;

// The last failure on this thread; never NULL, valid until this thread's next failure.
TERN_API const tern_error* tern_last_error(void);

// What that error says in fields, too: 1, and whatever is not NULL is filled; 0, and nothing is touched, where it has
// no such fields (the kernels of a GPU report an index alone).
// Of TERN_INSUFFICIENT_MEMORY.
TERN_API int32_t tern_last_error_memory(uint64_t* needed_bytes, uint64_t* free_bytes);
// Of TERN_KERNEL_LAUNCH, and of whatever else CUDA answered. kernel is "" where a call of CUDA's runtime failed, which
// tern_last_error()->where names, and lives as long as the error; code is a cudaError_t.
TERN_API int32_t tern_last_error_cuda(const char** kernel, int32_t* code);
// Of TERN_INVALID_QUANTIZED_VALUE and TERN_INVALID_SCALE: the value, and what it may be, both ends included. Bits that
// no code has count as one above the largest code, as 2 for a trit.
TERN_API int32_t tern_last_error_value(double* value, double* lowest, double* highest);

// Devices.

typedef struct tern_cache_info {
  size_t struct_size;
  int32_t level;
  int32_t shared_by;  // hardware threads
  int32_t count;      // caches of this kind on the device
  const char* type;   // "data", "unified", "instruction"
  size_t bytes;
  size_t line_bytes;
} tern_cache_info;

typedef struct tern_numa_info {
  size_t struct_size;
  int32_t id;
  size_t memory_bytes;
  const int32_t* cpus;
  size_t cpu_count;
} tern_numa_info;

typedef struct tern_gpu_info tern_gpu_info;  // tern_c_gpu.h

typedef struct tern_device_info {
  size_t struct_size;
  tern_device_id id;
  const char* name;
  const char* architecture;  // "x86_64", "aarch64"
  uint64_t capabilities;     // bits numbered by tern_capability
  int32_t sockets;
  int32_t cores;
  int32_t hardware_threads;
  int32_t usable_threads;  // that this process may use, after affinity and cgroup quota
  size_t memory_total_bytes;
  size_t memory_available_bytes;
  const tern_cache_info* const* caches;
  size_t cache_count;
  const tern_numa_info* const* numa_nodes;
  size_t numa_node_count;
  const char* unusable;      // why no kernel here can run on it; "" when one can
  const tern_gpu_info* gpu;  // NULL on a CPU
  const char* cpu_vendor;    // "AuthenticAMD"; "" where the processor does not say
  int32_t cpu_family;
  int32_t cpu_model;
} tern_device_info;

typedef struct tern_inventory tern_inventory;

TERN_API tern_status tern_inventory_create(tern_inventory** out);  // examines the machine anew
TERN_API void tern_inventory_destroy(tern_inventory* inventory);
TERN_API tern_status tern_inventory_device_count(const tern_inventory* inventory, size_t* out);
TERN_API tern_status tern_inventory_device(const tern_inventory* inventory, size_t index, const tern_device_info** out);
// What could not be found out, and why.
TERN_API tern_status tern_inventory_note_count(const tern_inventory* inventory, size_t* out);
TERN_API tern_status tern_inventory_note(const tern_inventory* inventory, size_t index, const char** out);

// Contexts. Callbacks must be thread-safe, must not throw, and must stay valid until the context and everything made
// with it (tensors, plans) is gone.

// Returns `bytes` at a multiple of `alignment`, a power of two, or NULL; `tag` says who allocates.
typedef void* (*tern_allocate_fn)(void* user, size_t bytes, size_t alignment, const char* tag);
typedef void (*tern_deallocate_fn)(void* user, void* data, size_t bytes);

// Calls task(task_user, slot) once for every slot in [0, slots), on any threads; returns when all are done.
typedef void (*tern_task_fn)(void* task_user, int32_t slot);
typedef void (*tern_parallel_for_fn)(void* user, int32_t slots, tern_task_fn task, void* task_user);

// Called with what plans do. Must not call back into the library; each function may be NULL.
typedef struct tern_observer {
  size_t struct_size;
  void* user;
  void (*plan_selected)(void* user, const char* kernel, const char* note);
  void (*run_started)(void* user, const char* kernel, const char* device, int32_t threads);
  void (*run_finished)(void* user, const char* kernel, const char* device, int32_t threads, tern_status status);
} tern_observer;

typedef struct tern_context_config {
  size_t struct_size;
  int32_t threads;            // 0: TERN_THREADS if set, else all that this process may use
  int32_t count_memory;       // 1: enables tern_context_memory_statistics()
  tern_allocate_fn allocate;  // NULL: the device's own memory; otherwise set deallocate too, and use a CPU
  tern_deallocate_fn deallocate;
  void* memory_user;
  tern_parallel_for_fn parallel_for;  // NULL: the library's own pool
  void* parallel_for_user;
  const tern_observer* observer;  // NULL: nobody watches; copied
  uint64_t pool_bytes;            // of a GPU: freed memory that the pool keeps for later allocations
  int32_t streams;                // of a GPU: 1 to 64
  int32_t profiling;              // 1: count runs and their time, for tern_context_profile()
  uint64_t preallocate_bytes;     // of a GPU: taken from the driver when the context opens; pool_bytes at most
} tern_context_config;

typedef struct tern_context tern_context;
typedef struct tern_stream tern_stream;

// The CPU, or what TERN_DEVICE names. config may be NULL.
TERN_API tern_status tern_context_open(const tern_context_config* config, tern_context** out);
TERN_API tern_status tern_context_open_device(tern_device_id device, const tern_context_config* config,
                                              tern_context** out);
TERN_API void tern_context_close(tern_context* context);
TERN_API tern_status tern_context_device(const tern_context* context, const tern_device_info** out);
TERN_API tern_status tern_context_threads(const tern_context* context, int32_t* out);
TERN_API tern_status tern_context_stream(const tern_context* context, const tern_stream** out);  // the default stream

typedef struct tern_memory_statistics {
  size_t struct_size;
  size_t bytes_in_use;
  size_t peak_bytes;
  size_t allocations;
  size_t deallocations;
  size_t failures;
} tern_memory_statistics;

TERN_API tern_status tern_context_memory_statistics(const tern_context* context, tern_memory_statistics* out);
TERN_API tern_status tern_context_reset_memory_peak(tern_context* context);

// Texts are written to the caller's buffer as snprintf does: cut to buffer_bytes, always terminated, and *length is the
// length of the whole text without its terminator. A NULL buffer of 0 bytes only measures.

// The live allocations, oldest first, one a line: "#0 1200 bytes 'tensor' at c_tensor.cpp:84".
TERN_API tern_status tern_context_memory_report(const tern_context* context, char* buffer, size_t buffer_bytes,
                                                size_t* length);

// Tensors.

typedef struct tern_tensor tern_tensor;  // owns its elements, dense, in memory of a context

TERN_API tern_status tern_tensor_allocate(const tern_context* context, tern_dtype dtype, int32_t rank,
                                          const int64_t* shape, tern_tensor** out);
TERN_API tern_status tern_tensor_get_view(const tern_tensor* tensor, tern_tensor_view* out);
TERN_API void tern_tensor_destroy(tern_tensor* tensor);

// Quantization.

// How a kernel works, where it has the choice. What is left open is chosen for the machine. Results do not depend on
// it.
typedef struct tern_tuning {
  size_t struct_size;
  int32_t threads;  // of a GPU's kernel: of a block, a multiple of 32; 0: the kernel's choice
  tern_grid_strategy grid;
  int32_t split;             // parts of k; 0: the kernel's choice
  int32_t dependent_launch;  // start while the previous kernel still runs: 0 no, 1 yes, -1 the kernel's choice
  int32_t streams;  // of a CPU's kernel of linear, for one token: places that are read in turn, 1, 2 or 4; 0: chosen
  int32_t ahead_bytes;  // ... and how far ahead of each it prefetches; -1: chosen
} tern_tuning;

typedef struct tern_preference {
  size_t struct_size;
  const char* kernel;         // use this kernel if it accepts the problem, otherwise the best that does (with a note)
  int32_t strict;             // 1: ... otherwise the call fails
  const tern_tuning* tuning;  // may be NULL; fields for the other kind of device must be open
} tern_preference;

typedef struct tern_quantize_options {
  size_t struct_size;
  tern_scheme scheme;
  tern_format format;
  tern_granularity granularity;
  tern_non_finite non_finite;
  int32_t measure_quality;  // 1: yes; a limit implies it
  const float* scale;       // only for int2: one, or one per range; NULL: computed
  size_t scale_count;
  double min_sqnr_db;  // limits that fail the call with TERN_QUALITY_BELOW_LIMIT; NAN: none
  double min_cosine;
  double max_zero_fraction;
  const tern_preference* preference;  // may be NULL
  uint64_t device_bytes;              // memory on a GPU for quantizing a tensor that is on the host
  int32_t ensure_ready;               // 1: on a GPU, first see whether the memory for it is free
  int32_t validate;                   // 1: look at every code and scale that was written, as tern_validate() does
} tern_quantize_options;

typedef struct tern_quality {
  size_t struct_size;
  double sqnr_db;  // infinite when nothing was lost; NAN: undefined (0/0)
  double cosine;   // NAN: undefined
  double zero_fraction;
} tern_quality;

typedef struct tern_quantized tern_quantized;  // codes, scales and what they mean

typedef struct tern_quantized_info {
  size_t struct_size;
  tern_tensor_view
      codes;  // u8 [rows, ceil(k/4)] for i2 and s2, [rows, ceil(k/5)] for b3; i8 [rows, k] for i8; read-only
  tern_tensor_view scales;  // f32; read-only
  size_t codes_bytes;
  size_t scale_count;
  int64_t shape[8];  // of the original
  int32_t rank;
  tern_scheme scheme;
  tern_format format;
  tern_granularity granularity;
  int64_t rows;
  int64_t k;
  int64_t block_size;           // elements that share a scale (the last block may be short)
  const char* kernel;           // the kernel that made it; "" if none here did
  const tern_quality* quality;  // NULL: not measured
} tern_quantized_info;

// Codes and scales from elsewhere; dense, copied into memory of the context (with a GPU, what is on the host stays on
// the host). tern_validate() checks that they fit together.
typedef struct tern_quantized_parts {
  size_t struct_size;
  tern_tensor_view codes;
  tern_tensor_view scales;
  int64_t shape[8];
  int32_t rank;
  tern_scheme scheme;
  tern_format format;
  tern_granularity granularity;
} tern_quantized_parts;

// options may be NULL. An empty tensor is TERN_EMPTY_INPUT.
TERN_API tern_status tern_quantize(const tern_context* context, const tern_tensor_view* x,
                                   const tern_quantize_options* options, tern_quantized** out);
TERN_API tern_status tern_dequantize(const tern_context* context, const tern_quantized* quantized, tern_dtype dtype,
                                     tern_tensor** out);
TERN_API tern_status tern_quantized_from_parts(const tern_context* context, const tern_quantized_parts* parts,
                                               tern_quantized** out);
TERN_API void tern_quantized_destroy(tern_quantized* quantized);
TERN_API tern_status tern_quantized_get_info(const tern_quantized* quantized, const tern_quantized_info** out);
TERN_API tern_status tern_quantized_checksum(const tern_quantized* quantized, uint64_t* out);  // of codes, then scales
// Checks that all shapes fit, every code is valid for its scheme, and every scale is finite and positive; the error
// names the first that is not.
TERN_API tern_status tern_validate(const tern_quantized* quantized);
TERN_API tern_status tern_measure_quality(const tern_context* context, const tern_tensor_view* x,
                                          const tern_quantized* quantized, tern_non_finite non_finite,
                                          tern_quality* out);

// Packed weights: trits in the order in which kernels read them, with their scales.

typedef struct tern_packed_weights tern_packed_weights;

typedef struct tern_packed_weights_info {
  size_t struct_size;
  int64_t n;
  int64_t k;
  tern_granularity granularity;
  size_t bytes;       // codes and scales, padding included
  uint64_t checksum;  // of the canonical bytes, as tern_quantized_checksum()
  const char* tile;   // the name of the order
  tern_format format;
} tern_packed_weights_info;

// The bytes that n x k weights need on a CPU, codes and scales together.
TERN_API tern_status tern_packed_weights_bytes(int64_t n, int64_t k, tern_granularity granularity, tern_format format,
                                               size_t* out);
// The same on a context's device, where kernels may read another order.
TERN_API tern_status tern_packed_weights_bytes_on(const tern_context* context, int64_t n, int64_t k,
                                                  tern_granularity granularity, tern_format format, size_t* out);
// Codes are trits in i2, u8 [n, ceil(k/4)], or in b3, u8 [n, ceil(k/5)], scales as ternary_quantize writes them; both
// may be freed afterwards. The memory is the caller's, on the context's device (64-byte aligned, 256 on a GPU, valid
// until the handle is destroyed), or, for NULL and 0, the context's. For a GPU, codes and scales may be on the host or
// on the GPU.
TERN_API tern_status tern_packed_weights_create(const tern_context* context, const tern_tensor_view* codes,
                                                const tern_tensor_view* scales, int64_t n, int64_t k,
                                                tern_granularity granularity, tern_format format, void* memory,
                                                size_t memory_bytes, tern_packed_weights** out);
TERN_API tern_status tern_packed_weights_create_from_quantized(const tern_context* context,
                                                               const tern_quantized* quantized, void* memory,
                                                               size_t memory_bytes, tern_packed_weights** out);
TERN_API tern_status tern_packed_weights_get_info(const tern_packed_weights* weights,
                                                  const tern_packed_weights_info** out);
TERN_API void tern_packed_weights_destroy(tern_packed_weights* weights);

// Plans: a kernel chosen for a problem on a device. select -> can_implement -> workspace_bytes -> run.

typedef struct tern_plan_info {
  size_t struct_size;
  const char* id;  // one line, stable, fit for a key
  const char* op;
  const char* kernel;  // "ternary_quantize.i2.x86_avx2"
  const char* element;
  const char* aux_element;
  const char* layout;
  const char* epilogue;
  const char* arch;
  const char* backend;
  const char* math;           // guarantee: the type of every single operation
  const char* accumulator;    // guarantee: the type of sums
  int32_t deterministic;      // guarantee: the same bits for every thread count
  int32_t bit_stable;         // guarantee: the same bits as the reference on every machine
  const tern_tuning* tuning;  // what the kernel gets, on a GPU for the longest run; NULL: it has no such choice
} tern_plan_info;

typedef struct tern_ternary_quantize_problem {
  size_t struct_size;
  int64_t rows;
  int64_t k;
  tern_dtype dtype;
  tern_scheme scheme;
  tern_granularity granularity;
  tern_format format;
  tern_non_finite non_finite;
  int32_t scale_given;  // 1: args.given_scale is used; int2 only
} tern_ternary_quantize_problem;

typedef struct tern_ternary_quantize_args {
  size_t struct_size;
  tern_tensor_view x;      // rows may be strided
  tern_tensor_view codes;  // written: u8 [rows, ceil(k/4)] for i2 and s2, [rows, ceil(k/5)] for b3; i8 [rows, k] for i8
  tern_tensor_view scales;       // written: f32, dense
  tern_tensor_view given_scale;  // with scale_given: f32, one element or one per range
} tern_ternary_quantize_args;

typedef struct tern_ternary_dequantize_problem {
  size_t struct_size;
  int64_t rows;
  int64_t k;
  tern_dtype dtype;  // of y
  tern_scheme scheme;
  tern_granularity granularity;
  tern_format format;
} tern_ternary_dequantize_problem;

typedef struct tern_ternary_dequantize_args {
  size_t struct_size;
  tern_tensor_view codes;
  tern_tensor_view scales;
  tern_tensor_view y;  // written
} tern_ternary_dequantize_args;

// q, s, sums = token_i8(x): for each token s = 127 / max(max abs, 1e-5), q = x * s rounded to nearest even.
typedef struct tern_activation_quantize_problem {
  size_t struct_size;
  int64_t m;  // tokens
  int64_t k;
  tern_dtype dtype;  // f32, f16 or bf16
  tern_non_finite non_finite;
} tern_activation_quantize_problem;

typedef struct tern_activation_quantize_args {
  size_t struct_size;
  tern_tensor_view x;       // [m, k]; tokens may be strided
  tern_tensor_view q;       // written: i8 [m, k]
  tern_tensor_view scales;  // written: f32 [m], dense
  tern_tensor_view sums;    // written: i32 [m], dense: sum(q) of each token
} tern_activation_quantize_args;

// y[m, n] = epilogue(sum over k of x[m, k] * w[n, k]) for one or several matrices w that share x. The epilogue:
// t / s[m]; t * w_scale; t + bias; activation; t + residual; each step rounded to f32, then to y's dtype.
typedef struct tern_linear_matrix {
  size_t struct_size;  // the same for all elements of an array
  int64_t n;
  tern_granularity granularity;
  tern_dtype y_dtype;  // f32, f16, bf16; i32 is the plain sum of w2a8
  int32_t bias;        // 1: the output has one
  tern_activation activation;
  int32_t residual;  // 1: the output has one
} tern_linear_matrix;

typedef struct tern_linear_problem {
  size_t struct_size;
  int64_t m_max;  // the most tokens of one run
  int64_t k;
  tern_dtype x_dtype;  // i8, f32, f16, bf16
  tern_linear_math math;
  tern_non_finite non_finite;          // of float activations
  tern_format format;                  // of the weights
  const tern_linear_matrix* matrices;  // copied
  size_t matrix_count;                 // 1 to TERN_LINEAR_MAX_MATRICES
} tern_linear_problem;

#define TERN_LINEAR_MAX_MATRICES 8

typedef struct tern_linear_output {
  size_t struct_size;  // the same for all elements of an array
  const tern_packed_weights* weights;
  tern_tensor_view y;         // written: [m, n]; rows may be strided
  tern_tensor_view bias;      // f32 [n]
  tern_tensor_view residual;  // [m, n] of y's dtype; may be y itself
} tern_linear_output;

typedef struct tern_linear_args {
  size_t struct_size;
  tern_tensor_view x;                 // [m, k], m up to m_max; rows may be strided
  tern_tensor_view x_scales;          // for i8: f32 [m], the s of token_i8; none when every y is i32
  const tern_linear_output* outputs;  // one per matrix
  size_t output_count;
} tern_linear_args;

// The same eight functions for every op.
//   select           preference may be NULL
//   explain          what select would choose and why, as text; succeeds also when every kernel refuses
//   plan_explain     the same for a plan that was made
//   can_implement    run's checks, without running
//   run              thread-safe, each call with its own workspace of at least workspace_bytes, 64-byte aligned
#define TERN_DECLARE_PLAN(op)                                                                                         \
  typedef struct tern_##op##_plan tern_##op##_plan;                                                                   \
  TERN_API tern_status tern_##op##_select(const tern_context* context, const tern_##op##_problem* problem,            \
                                          const tern_preference* preference, tern_##op##_plan** out);                 \
  TERN_API tern_status tern_##op##_explain(const tern_context* context, const tern_##op##_problem* problem,           \
                                           const tern_preference* preference, char* buffer, size_t buffer_bytes,      \
                                           size_t* length);                                                           \
  TERN_API tern_status tern_##op##_plan_explain(const tern_##op##_plan* plan, char* buffer, size_t buffer_bytes,      \
                                                size_t* length);                                                      \
  TERN_API tern_status tern_##op##_plan_can_implement(const tern_##op##_plan* plan, const tern_##op##_args* args);    \
  TERN_API tern_status tern_##op##_plan_workspace_bytes(const tern_##op##_plan* plan, size_t* out);                   \
  TERN_API tern_status tern_##op##_plan_run(const tern_##op##_plan* plan, const tern_stream* stream, void* workspace, \
                                            size_t workspace_bytes, const tern_##op##_args* args);                    \
  TERN_API tern_status tern_##op##_plan_get_info(const tern_##op##_plan* plan, const tern_plan_info** out);           \
  TERN_API void tern_##op##_plan_destroy(tern_##op##_plan* plan)

TERN_DECLARE_PLAN(ternary_quantize);
TERN_DECLARE_PLAN(ternary_dequantize);
TERN_DECLARE_PLAN(activation_quantize);
TERN_DECLARE_PLAN(linear);

// Kernels: the list, seen from this context.

typedef struct tern_kernel_info {
  size_t struct_size;
  const char* name;
  const char* op;
  const char* format;
  const char* const* needs;  // capabilities
  size_t need_count;
  const char* const* dtypes;  // of the float side
  size_t dtype_count;
  const char* const* schemes;
  size_t scheme_count;
  int32_t in_build;
  const char* refused;  // why this context cannot run it; "" when it can
} tern_kernel_info;

typedef struct tern_kernel_list tern_kernel_list;

TERN_API tern_status tern_kernel_list_create(const tern_context* context, tern_kernel_list** out);
TERN_API void tern_kernel_list_destroy(tern_kernel_list* list);
TERN_API tern_status tern_kernel_list_count(const tern_kernel_list* list, size_t* out);
TERN_API tern_status tern_kernel_list_get(const tern_kernel_list* list, size_t index, const tern_kernel_info** out);

// Files. Output appears under its name only when it is whole; a name that is a link is followed.

// Called every few MiB with the bytes written so far and the total. May be NULL.
typedef void (*tern_progress_fn)(void* user, size_t done_bytes, size_t total_bytes);

typedef struct tern_npy tern_npy;  // a .npy file mapped into memory

TERN_API tern_status tern_npy_open(const char* path, tern_npy** out);
// A file of bare elements, little-endian and dense, exactly as many as the shape has.
TERN_API tern_status tern_npy_open_raw(const char* path, tern_dtype dtype, const int64_t* shape, int rank,
                                       tern_npy** out);
TERN_API tern_status tern_npy_get_view(const tern_npy* npy, tern_tensor_view* out);  // read-only
TERN_API void tern_npy_close(tern_npy* npy);
TERN_API tern_status tern_save_npy(const char* path, const tern_tensor_view* tensor, tern_progress_fn progress,
                                   void* progress_user);
TERN_API tern_status tern_save_raw(const char* path, const tern_tensor_view* tensor, tern_progress_fn progress,
                                   void* progress_user);  // the bare elements
TERN_API tern_status tern_save_quantized(const char* path, const tern_quantized* quantized, tern_progress_fn progress,
                                         void* progress_user);
// Takes the next bytes of an output, as a pipe or a socket can: 0 when it took all of them, otherwise an errno, which
// ends the output with TERN_IO_ERROR.
typedef int32_t (*tern_write_fn)(void* user, const void* bytes, size_t byte_count);

// The bytes that the three above would give a file, in their order.
TERN_API tern_status tern_write_npy(tern_write_fn writer, void* writer_user, const tern_tensor_view* tensor,
                                    tern_progress_fn progress, void* progress_user);
TERN_API tern_status tern_write_raw(tern_write_fn writer, void* writer_user, const tern_tensor_view* tensor,
                                    tern_progress_fn progress, void* progress_user);
TERN_API tern_status tern_write_quantized(tern_write_fn writer, void* writer_user, const tern_quantized* quantized,
                                          tern_progress_fn progress, void* progress_user);
// Loads into the context's memory; with a GPU context, into host memory.
TERN_API tern_status tern_load_quantized(const tern_context* context, const char* path, tern_quantized** out);

// The ..._INIT macros: the defaults of every struct that the caller makes.
// clang-format off
#define TERN_OBSERVER_INIT {sizeof(tern_observer), NULL, NULL, NULL, NULL}
#define TERN_CONTEXT_CONFIG_INIT \
  {sizeof(tern_context_config), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1 << 30, 4, 0, 0}
#define TERN_MEMORY_STATISTICS_INIT {sizeof(tern_memory_statistics), 0, 0, 0, 0, 0}
#define TERN_TENSOR_VIEW_INIT {NULL, TERN_DTYPE_F32, 0, {0}, {0}, {TERN_DEVICE_CPU, 0}}
#define TERN_TUNING_INIT {sizeof(tern_tuning), 0, TERN_GRID_AUTO, 0, -1, 0, -1}
#define TERN_PREFERENCE_INIT {sizeof(tern_preference), NULL, 0, NULL}
#define TERN_QUANTIZE_OPTIONS_INIT \
  {sizeof(tern_quantize_options), TERN_SCHEME_ABSMEAN, TERN_FORMAT_DEFAULT, {TERN_GRANULARITY_TENSOR, 0}, \
   TERN_NON_FINITE_REJECT, 0, NULL, 0, NAN, NAN, NAN, NULL, 256 << 20, 1, 0}
#define TERN_QUALITY_INIT {sizeof(tern_quality), NAN, NAN, 0}
#define TERN_QUANTIZED_PARTS_INIT \
  {sizeof(tern_quantized_parts), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, {0}, 0, TERN_SCHEME_ABSMEAN, \
   TERN_FORMAT_I2, {TERN_GRANULARITY_TENSOR, 0}}
#define TERN_TERNARY_QUANTIZE_PROBLEM_INIT \
  {sizeof(tern_ternary_quantize_problem), 0, 0, TERN_DTYPE_F32, TERN_SCHEME_ABSMEAN, {TERN_GRANULARITY_TENSOR, 0}, \
   TERN_FORMAT_I2, TERN_NON_FINITE_REJECT, 0}
#define TERN_TERNARY_QUANTIZE_ARGS_INIT \
  {sizeof(tern_ternary_quantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT}
#define TERN_TERNARY_DEQUANTIZE_PROBLEM_INIT \
  {sizeof(tern_ternary_dequantize_problem), 0, 0, TERN_DTYPE_F32, TERN_SCHEME_ABSMEAN, {TERN_GRANULARITY_TENSOR, 0}, \
   TERN_FORMAT_I2}
#define TERN_TERNARY_DEQUANTIZE_ARGS_INIT \
  {sizeof(tern_ternary_dequantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT}
#define TERN_ACTIVATION_QUANTIZE_PROBLEM_INIT \
  {sizeof(tern_activation_quantize_problem), 0, 0, TERN_DTYPE_F32, TERN_NON_FINITE_REJECT}
#define TERN_ACTIVATION_QUANTIZE_ARGS_INIT \
  {sizeof(tern_activation_quantize_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, \
   TERN_TENSOR_VIEW_INIT}
#define TERN_LINEAR_MATRIX_INIT \
  {sizeof(tern_linear_matrix), 0, {TERN_GRANULARITY_TENSOR, 0}, TERN_DTYPE_F32, 0, TERN_ACTIVATION_NONE, 0}
#define TERN_LINEAR_PROBLEM_INIT \
  {sizeof(tern_linear_problem), 1, 0, TERN_DTYPE_I8, TERN_LINEAR_MATH_W2A8, TERN_NON_FINITE_REJECT, TERN_FORMAT_I2, \
   NULL, 0}
#define TERN_LINEAR_OUTPUT_INIT \
  {sizeof(tern_linear_output), NULL, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT}
#define TERN_LINEAR_ARGS_INIT {sizeof(tern_linear_args), TERN_TENSOR_VIEW_INIT, TERN_TENSOR_VIEW_INIT, NULL, 0}
// clang-format on

#ifdef __cplusplus
}  // extern "C"
#endif

#include "tern/tern_c_affine.h"
#include "tern/tern_c_checkpoint.h"
#include "tern/tern_c_gpu.h"
#include "tern/tern_c_layout.h"
#include "tern/tern_c_linear.h"
#include "tern/tern_c_model.h"
#include "tern/tern_c_qparams.h"
