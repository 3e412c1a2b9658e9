// Quantizes a whole checkpoint through the C ABI, loads a layer from the written file, and compares it with the input.
// Makes a small checkpoint for this; the argument is the folder for both files.
//
//   cc quantize_model.c $(pkg-config --cflags --libs tern) -o quantize_model && ./quantize_model .
#include <inttypes.h>
#include <stdio.h>
#include <tern/tern_c.h>

enum { kHidden = 256, kFfn = 512 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tern_last_error()->text);
  return 1;
}

// Two projections and a norm, named as in Hugging Face's Llama. The writer decides the order in which it takes them.
static int write_checkpoint(const char* path) {
  static float weights[kFfn * kHidden];
  const int64_t up[] = {kFfn, kHidden}, down[] = {kHidden, kFfn}, norm[] = {kHidden};
  tern_stored_tensor tensors[3] = {TERN_STORED_TENSOR_INIT, TERN_STORED_TENSOR_INIT, TERN_STORED_TENSOR_INIT};
  const char* names[] = {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
                         "model.layers.0.input_layernorm.weight"};
  const int64_t* shapes[] = {up, down, norm};
  for (int i = 0; i < 3; ++i) {
    tensors[i].name = names[i];
    tensors[i].shape = shapes[i];
    tensors[i].rank = i < 2 ? 2 : 1;
  }
  for (int i = 0; i < kFfn * kHidden; ++i) weights[i] = (float)(i * 37 % 201 - 100) / 64;
  tern_checkpoint_writer* writer = NULL;
  tern_status status = tern_checkpoint_writer_create(path, TERN_CONTAINER_SAFETENSORS, NULL, tensors, 3, &writer);
  for (size_t i = 0; i < 3 && status == TERN_OK; ++i) {
    const tern_stored_tensor* tensor = NULL;
    status = tern_checkpoint_writer_tensor(writer, i, &tensor);
    if (status == TERN_OK) status = tern_checkpoint_writer_write(writer, weights, tensor->bytes);
  }
  if (status == TERN_OK) status = tern_checkpoint_writer_finish(writer);
  tern_checkpoint_writer_destroy(writer);
  return status == TERN_OK ? 0 : failed("write the checkpoint");
}

static int32_t progress(void* user, const char* tensor, size_t done_bytes, size_t total_bytes) {
  (void)user;
  printf("  %zu of %zu bytes, %s\n", done_bytes, total_bytes, tensor);
  return 1;  // 0 would cancel
}

int main(int argc, char** argv) {
  char input[1000], output[1000];
  snprintf(input, sizeof(input), "%s/example.safetensors", argc > 1 ? argv[1] : ".");
  snprintf(output, sizeof(output), "%s/example.gguf", argc > 1 ? argv[1] : ".");
  if (write_checkpoint(input) != 0) return 1;

  tern_context* context = NULL;
  tern_model* model = NULL;
  if (tern_context_open(NULL, &context) != TERN_OK) return failed("open the CPU");
  if (tern_model_open(input, NULL, &model) != TERN_OK) return failed("open");

  // The plan: what each tensor will become. Nothing is read or written yet.
  tern_write_options options = TERN_WRITE_OPTIONS_INIT;
  options.layout = TERN_LAYOUT_TQ2_0;  // what llama.cpp reads
  options.architecture = "bitnet";     // its rows keep the order of Hugging Face
  tern_model_plan* plan = NULL;
  const tern_model_plan_info* planned = NULL;
  if (tern_model_plan_create(model, output, &options, &plan) != TERN_OK) return failed("plan");
  if (tern_model_plan_get_info(plan, &planned) != TERN_OK) return failed("plan");
  for (size_t i = 0; i < planned->tensor_count; ++i) {
    const tern_tensor_plan* tensor = NULL;
    if (tern_model_plan_tensor(plan, i, &tensor) != TERN_OK) return failed("plan");
    printf("%s: %s, %s -> %s (%s)\n", tensor->name, tern_action_name(tensor->action), tensor->input_type, tensor->type,
           tensor->why);
  }

  tern_model_report* report = NULL;
  if (tern_write_model(context, model, plan, output, progress, NULL, &report) != TERN_OK) return failed("write");
  const tern_model_report_info* written = NULL;
  if (tern_model_report_get_info(report, &written) != TERN_OK) return failed("report");
  printf("%zu bytes became a file of %zu\n", planned->in_bytes, written->file_bytes);

  // Open the written file and load one layer: trits and scales, packed for the kernels of linear.
  tern_model* reread = NULL;
  tern_packed_weights* weights = NULL;
  const tern_packed_weights_info* info = NULL;
  if (tern_model_open(output, NULL, &reread) != TERN_OK) return failed("open again");
  if (tern_packed_weights_load(context, reread, "model.layers.0.mlp.up_proj.weight", &weights) != TERN_OK)
    return failed("load");
  if (tern_packed_weights_get_info(weights, &info) != TERN_OK) return failed("info");
  printf("loaded %" PRId64 " x %" PRId64 " weights, checksum %016" PRIx64 "\n", info->n, info->k, info->checksum);

  // Compare with the input. Trits approximate floats, so tensors differ; print by how much.
  tern_model_difference* difference = NULL;
  size_t count = 0;
  if (tern_compare_models(context, model, reread, NULL, NULL, &difference) != TERN_OK) return failed("compare");
  if (tern_model_difference_count(difference, &count) != TERN_OK) return failed("compare");
  for (size_t i = 0; i < count; ++i) {
    const tern_tensor_difference* tensor = NULL;
    if (tern_model_difference_tensor(difference, i, &tensor) != TERN_OK) return failed("compare");
    printf("%s: %s\n", tensor->name, tensor->what);
  }

  tern_model_difference_destroy(difference);
  tern_packed_weights_destroy(weights);
  tern_model_close(reread);
  tern_model_report_destroy(report);
  tern_model_plan_destroy(plan);
  tern_model_close(model);
  tern_context_close(context);
  return 0;
}
