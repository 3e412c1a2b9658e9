// Maps the fields of the library to the options of the command.
#include "flags.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tern::cli {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// As they appear in sentences. No field name is the beginning of another.
constexpr std::array<Names, 19> kFields = {{{"BenchRequest::from_host", "--from"},
                                            {"BenchRequest::kernel", "--kernel"},
                                            {"BenchRequest::model", "--model"},
                                            {"BenchRequest::threads", "--threads"},
                                            {"OpenOptions::gguf_types", "--gguf-type"},
                                            {"Preference::kernel", "--kernel"},
                                            {"Preference::tuning", "--tuning"},
                                            {"ReadOptions::i2_s", "--variant"},
                                            {"ReadOptions::tiles", "--kernel-config"},
                                            {"ReadOptions::weight_scale", "--weight-scale"},
                                            {"WriteOptions::architecture", "--architecture"},
                                            {"WriteOptions::container", "--container"},
                                            {"WriteOptions::drop", "--drop"},
                                            {"WriteOptions::embeddings", "--keep-embeddings"},
                                            {"WriteOptions::exclude", "--exclude"},
                                            {"WriteOptions::include", "--include"},
                                            {"WriteOptions::layout", "--format"},
                                            {"WriteOptions::tiles", "--kernel-config"},
                                            {"WriteOptions::tl2_id", "--later-tl2"}}};

// Error::where of the library's parsers of words, and the option that the word came from.
constexpr std::array<Names, 9> kWords = {{{"device", "--device"},
                                          {"dtype", "--dtype"},
                                          {"granularity", "--granularity"},
                                          {"math", "--math"},
                                          {"non-finite policy", "--non-finite"},
                                          {"precision", "--precision"},
                                          {"qparams method", "--method"},
                                          {"scheme", "--scheme"},
                                          {"tuning", "--tuning"}}};

}  // namespace

std::string with_flags(std::string text) {
  for (const auto& [field, flag] : kFields)
    for (std::size_t at = text.find(field); at != std::string::npos; at = text.find(field, at + flag.size()))
      text.replace(at, field.size(), flag);
  return text;
}

Error with_flags(Error error) {
  error.message = with_flags(std::move(error.message));
  const auto word = std::ranges::find(kWords, error.where, &Names::first);
  error.where = word != kWords.end() ? std::string(word->second) : with_flags(std::move(error.where));
  return error;
}

}  // namespace tern::cli
