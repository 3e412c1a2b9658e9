// Checkpoint: finds the files, maps them, and combines what their parsers return.
#include "tern/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/words.h"
#include "io/file_error.h"
#include "io/gguf.h"
#include "io/gguf_split.h"
#include "io/little_endian.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"

namespace tern {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kOpen = "Checkpoint::open";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

// Files of other kinds that are mistaken for checkpoints: their first bytes, and what the error says.
struct Stranger {
  std::string_view begin;
  std::string_view what;
};
constexpr std::string_view kOldGgml =
    "it is a file of ggml from before GGUF; llama.cpp's convert_llama_ggml_to_gguf.py makes a GGUF of it";
constexpr std::string_view kPage = "it is a web page, perhaps what a download answered in place of the weights";
constexpr Stranger kStrangers[] = {
    {"PK\3\4",
     "it is a zip archive, not a checkpoint; load_quantized() and `tern dequantize` read an .npz that tern wrote, "
     "and what PyTorch wrote must be saved as .safetensors first"},
    {"\x93NUMPY", "it is a .npy file, one tensor and not a checkpoint; NpyFile::open() and `tern quantize` read it"},
    {"version https://git-lfs", "it is a pointer of Git LFS, not the weights; `git lfs pull` fetches them"},
    {"\x1f\x8b", "it is compressed by gzip; unpack it first"},
    {"\x80\x02", "it is a Python pickle, as PyTorch writes; save it as .safetensors first"},
    {"\x89HDF", "it is an HDF5 file; save it as .safetensors first"},
    {"lmgg", kOldGgml},
    {"fmgg", kOldGgml},
    {"tjgg", kOldGgml},
    {"<!doctype", kPage},
    {"<!DOCTYPE", kPage},
    {"<html", kPage},
};

Status refuse_stranger(std::span<const std::uint8_t> file) {
  if (safetensors::has_magic(file)) return {};  // the length of a 640-byte header looks like a pickle
  for (const Stranger& stranger : kStrangers)
    if (text_of(file).starts_with(stranger.begin)) return error(Code::invalid_argument, kOpen, "{}", stranger.what);
  return {};
}

Result<ParsedContainer> parse_safetensors(std::span<const std::uint8_t> file) {
  TERN_RETURN_IF_ERROR(refuse_stranger(file));
  return safetensors::parse(file);
}

Result<ParsedContainer> parse_gguf(std::span<const std::uint8_t> file, const OpenOptions& options,
                                   const Metadata* of_model = nullptr) {
  TERN_RETURN_IF_ERROR(refuse_stranger(file));
  return gguf::parse(file, options, of_model);
}

struct Place {
  std::size_t file = 0;
  std::size_t offset = 0;
};

// Chooses the file to open among those of a kind: the one with the conventional name, or the only one.
Result<std::string> one_of(const std::string& folder, std::vector<std::string> names, std::string_view usual) {
  if (std::ranges::find(names, usual) != names.end()) return std::string(usual);
  if (names.size() == 1) return names.front();
  std::ranges::sort(names);
  if (names.size() > 4) {
    names.resize(4);
    names.emplace_back("...");
  }
  return file_error(Code::invalid_argument, kOpen, "'{}' holds several checkpoints; name one of them: {}", folder,
                    escaped(listed(names)));
}

// The checkpoint that a folder holds.
Result<std::string> find_in_folder(const std::string& folder) {
  std::vector<std::string> indices;
  std::vector<std::string> singles;
  std::vector<std::string> ggufs;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    std::string file = it->path().filename().string();
    if (file.starts_with('.')) continue;
    if (file.ends_with(kIndexEnding))
      indices.push_back(std::move(file));
    else if (file.ends_with(".safetensors"))
      singles.push_back(std::move(file));
    else if (file.ends_with(".gguf"))
      ggufs.push_back(std::move(file));
  }
  if (failure) return os_error(failure.value(), kOpen, "read the folder", folder);
  const std::set<std::string> all_ggufs(ggufs.begin(), ggufs.end());
  std::erase_if(ggufs, [&](const std::string& file) { return all_ggufs.contains(gguf::first_part(file)); });
  const bool safetensors = !indices.empty() || !singles.empty();
  if (!safetensors && ggufs.empty())
    return file_error(
        Code::invalid_argument, kOpen,
        "'{}' holds no .safetensors and no .gguf file; what PyTorch wrote must be saved as .safetensors first", folder);
  if (safetensors && !ggufs.empty())
    return file_error(Code::invalid_argument, kOpen, "'{}' holds both .safetensors and .gguf files; name one of them",
                      folder);
  Result<std::string> found = !indices.empty() ? one_of(folder, indices, kIndexName)
                                               : one_of(folder, safetensors ? singles : ggufs, kSingleName);
  if (!found.ok()) return found;
  return (fs::path(folder) / *found).string();
}

}  // namespace

struct Checkpoint::Impl {
  Container container = Container::safetensors;
  std::string path;
  std::vector<std::shared_ptr<const MappedFile>> maps;
  std::vector<CheckpointFile> files;
  std::vector<StoredTensor> tensors;
  std::vector<Place> places;
  Metadata metadata;
  std::unordered_map<std::string, std::size_t> key_places;  // key to index in `metadata`; only for several files
  std::vector<std::string> notes;
  std::vector<std::uint32_t> by_name;  // indices of tensors, sorted by name: a twelfth of the memory of a map
  std::size_t total_bytes = 0;

  // Adds the parsed contents of one file.
  void add(const std::string& file_path, std::shared_ptr<const MappedFile> map, ParsedContainer parsed) {
    const std::size_t file = maps.size();
    files.push_back({file_path, map->bytes().size()});
    // The header is parsed, so release its pages; those of a large one would stay in this process.
    if (!parsed.offsets.empty()) map->release(0, *std::ranges::min_element(parsed.offsets));
    maps.push_back(std::move(map));
    places.reserve(places.size() + parsed.offsets.size());
    for (const std::size_t offset : parsed.offsets) places.push_back({file, offset});
    for (const StoredTensor& tensor : parsed.tensors) total_bytes += tensor.bytes;
    if (file == 0) {
      tensors = std::move(parsed.tensors);
      metadata = std::move(parsed.metadata);
      return;
    }
    std::ranges::move(parsed.tensors, std::back_inserter(tensors));
    if (file == 1)
      for (std::size_t i = 0; i < metadata.size(); ++i) key_places.emplace(metadata[i].key, i);
    for (MetaEntry& entry : parsed.metadata) add_key(file_path, std::move(entry));
  }

  // Shards repeat each other's keys. A key whose value differs is kept as FILE:KEY.
  void add_key(const std::string& file_path, MetaEntry entry) {
    const auto known = key_places.find(entry.key);
    if (known != key_places.end()) {
      if (metadata[known->second].value == entry.value) return;
      entry.key = fs::path(file_path).filename().string() + ":" + entry.key;
    }
    key_places.emplace(entry.key, metadata.size());
    metadata.push_back(std::move(entry));
  }

  Status index_names() {
    by_name.resize(tensors.size());
    std::iota(by_name.begin(), by_name.end(), 0U);
    std::ranges::sort(by_name, {}, [&](std::uint32_t i) { return std::pair(std::string_view(tensors[i].name), i); });
    std::size_t twice = tensors.size(), before = 0;  // the first repeated name, and its previous occurrence
    for (std::size_t i = 1; i < by_name.size(); ++i)
      if (tensors[by_name[i]].name == tensors[by_name[i - 1]].name && by_name[i] < twice) {
        twice = by_name[i];
        before = by_name[i - 1];
      }
    if (twice == tensors.size()) return {};
    return file_error(Code::corrupt_file, kOpen, "'{}': tensor '{}' is in both '{}' and '{}'", path,
                      printable(tensors[twice].name), files[places[before].file].path, files[places[twice].file].path);
  }

  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
    const auto found =
        std::ranges::lower_bound(by_name, name, {}, [&](std::uint32_t i) { return std::string_view(tensors[i].name); });
    if (found == by_name.end() || tensors[*found].name != name) return std::nullopt;
    return *found;
  }

  Status open_single(const std::string& file_path, std::shared_ptr<const MappedFile> map, const OpenOptions& options) {
    // The first bytes decide. If they are of neither format, the name decides what the error says is missing.
    const bool is_gguf =
        gguf::has_magic(map->bytes()) || (file_path.ends_with(".gguf") && !safetensors::has_magic(map->bytes()));
    container = is_gguf ? Container::gguf : Container::safetensors;
    auto parsed = is_gguf ? parse_gguf(map->bytes(), options) : parse_safetensors(map->bytes());
    if (!parsed.ok()) return in_file(std::move(parsed).error(), kOpen, file_path);
    if (is_gguf && gguf::split_of(parsed->metadata).count > 1)
      return open_parts(file_path, std::move(map), *std::move(parsed), options);
    add(file_path, std::move(map), *std::move(parsed));
    return {};
  }

  // Opens a GGUF model in several files, given the first of them.
  Status open_parts(const std::string& first_path, std::shared_ptr<const MappedFile> first_map, ParsedContainer first,
                    OpenOptions options) {
    const Metadata first_metadata = first.metadata;
    const gguf::Split all = gguf::split_of(first_metadata);
    const std::string first_name = gguf::first_part(fs::path(first_path).filename().string());
    if (all.part != 0)
      return file_error(Code::invalid_argument, kOpen, "'{}' is part {} of {}; name the first part{}", first_path,
                        all.part + 1, all.count, first_name.empty() ? first_name : ", '" + first_name + "'");
    const std::string prefix(gguf::part_prefix(first_path, 0, all.count));
    if (prefix.empty())
      return file_error(Code::invalid_argument, kOpen,
                        "'{}' is the first of {} parts; the others are found by its name, which must end with '{}'",
                        first_path, all.count, gguf::part_ending(0, all.count));
    add_part(first_path, std::move(first_map), std::move(first), options);
    for (std::int64_t part = 1; part < all.count; ++part) {
      const std::string part_path = prefix + gguf::part_ending(part, all.count);
      TERN_ASSIGN(map, MappedFile::open(part_path, kOpen));
      auto parsed = parse_gguf(map->bytes(), options, &first_metadata);
      if (!parsed.ok()) return in_file(std::move(parsed).error(), kOpen, part_path);
      const gguf::Split said = gguf::split_of(parsed->metadata);
      if (said.part != part || said.count != all.count || said.tensors != all.tensors)
        return file_error(
            Code::corrupt_file, kOpen,
            "'{}' says it is part {} of {} with {} tensors; by the first part it is part {} of {} with {}", part_path,
            said.part + 1, said.count, said.tensors, part + 1, all.count, all.tensors);
      add_part(part_path, std::move(map), *std::move(parsed), options);
    }
    if (all.tensors >= 0 && std::cmp_not_equal(all.tensors, tensors.size()))
      return file_error(Code::corrupt_file, kOpen, "'{}' says that its parts have {} tensors; they have {}", first_path,
                        all.tensors, tensors.size());
    return {};
  }

  void add_part(const std::string& part_path, std::shared_ptr<const MappedFile> map, ParsedContainer parsed,
                OpenOptions& options) {
    // A type id with several meanings has the same one in all parts.
    for (const StoredTensor& tensor : parsed.tensors)
      if (gguf_readings(static_cast<std::uint32_t>(tensor.gguf_id)).size() > 1 &&
          std::ranges::find(options.gguf_types, tensor.type) == options.gguf_types.end())
        options.gguf_types.push_back(tensor.type);
    std::erase_if(parsed.metadata, [](const MetaEntry& entry) { return gguf::is_split_key(entry.key); });
    add(part_path, std::move(map), std::move(parsed));
  }

  Status open_shards(const std::string& index_path, std::string_view text) {
    auto parsed_index = safetensors::parse_index(text);
    if (!parsed_index.ok()) return in_file(std::move(parsed_index).error(), kOpen, index_path);
    std::vector<std::string_view> names;  // in the order of their first tensor
    std::unordered_map<std::string_view, std::size_t> shards;
    for (const auto& entry : parsed_index->weight_map)
      if (shards.emplace(entry.file, names.size()).second) names.push_back(entry.file);
    const fs::path folder = fs::path(index_path).parent_path();
    for (const std::string_view shard : names) {
      const std::string shard_path = (folder / shard).string();
      TERN_ASSIGN(map, MappedFile::open(shard_path, kOpen));
      auto parsed = parse_safetensors(map->bytes());
      if (!parsed.ok()) return in_file(std::move(parsed).error(), kOpen, shard_path);
      add(shard_path, std::move(map), *std::move(parsed));
    }
    TERN_RETURN_IF_ERROR(index_names());
    for (const auto& entry : parsed_index->weight_map) {
      const auto found = find(entry.tensor);
      if (!found || places[*found].file != shards.at(entry.file))
        return file_error(Code::corrupt_file, kOpen,
                          "'{}': tensor '{}' is not in '{}', where the weight_map says it is", index_path,
                          printable(entry.tensor), printable(entry.file));
    }
    if (tensors.size() > parsed_index->weight_map.size())
      notes.push_back(fmt::format("the shards hold {} tensors that the weight_map of '{}' does not name",
                                  tensors.size() - parsed_index->weight_map.size(), index_path));
    if (parsed_index->total_bytes >= 0 && std::cmp_not_equal(parsed_index->total_bytes, total_bytes))
      notes.push_back(fmt::format("'{}' says total_size is {}; the tensors have {} bytes", index_path,
                                  parsed_index->total_bytes, total_bytes));
    return {};
  }
};

Result<Checkpoint> Checkpoint::open(const std::string& path, const OpenOptions& options) {
  std::string file_path = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    TERN_ASSIGN(found, find_in_folder(path));
    file_path = std::move(found);
  }
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  TERN_ASSIGN(map, MappedFile::open(file_path, kOpen));
  // An index is JSON from its first byte; a safetensors file has the length of its header before the brace.
  const bool is_index = file_path.ends_with(".json") ||
                        (!map->bytes().empty() && map->bytes()[0] == '{' && !safetensors::has_magic(map->bytes()));
  if (is_index) {
    TERN_RETURN_IF_ERROR(impl->open_shards(file_path, text_of(map->bytes())));
  } else {
    TERN_RETURN_IF_ERROR(impl->open_single(file_path, std::move(map), options));
    TERN_RETURN_IF_ERROR(impl->index_names());
  }
  return Checkpoint(std::move(impl));
}

Container Checkpoint::container() const { return impl_->container; }
const std::string& Checkpoint::path() const { return impl_->path; }
std::span<const CheckpointFile> Checkpoint::files() const { return impl_->files; }
std::span<const StoredTensor> Checkpoint::tensors() const { return impl_->tensors; }
const Metadata& Checkpoint::metadata() const { return impl_->metadata; }
std::span<const std::string> Checkpoint::notes() const { return impl_->notes; }
std::size_t Checkpoint::total_bytes() const { return impl_->total_bytes; }

std::optional<std::size_t> Checkpoint::find(std::string_view name) const { return impl_->find(name); }

std::span<const std::uint8_t> Checkpoint::data(std::size_t index) const {
  if (index >= impl_->tensors.size()) return {};
  const Place& place = impl_->places[index];
  return impl_->maps[place.file]->bytes().subspan(place.offset, impl_->tensors[index].bytes);
}

void Checkpoint::release(std::size_t index, std::size_t offset_bytes, std::size_t bytes) const {
  if (index >= impl_->tensors.size() || offset_bytes >= impl_->tensors[index].bytes) return;
  const Place& place = impl_->places[index];
  impl_->maps[place.file]->release(place.offset + offset_bytes,
                                   std::min(bytes, impl_->tensors[index].bytes - offset_bytes));
}

}  // namespace tern
