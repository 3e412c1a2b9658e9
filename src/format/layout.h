// Properties of the layouts: the rows that are stored together, the size, and the conversion to i2 and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/layout_traits.h"
#include "tern/checkpoint.h"

namespace tern {

// What a layout's row of the table says.
struct LayoutWords {
  Layout layout{};
  std::string_view name;
  StoredType type = StoredType::u8;  // of its tensors: u8 in safetensors, a type of its own in GGUF
  std::uint32_t file_type = 0;       // GGUF's general.file_type, as bitnet.cpp has it
  // Hugging Face's way: one scale, in a tensor of its own named X_scale, which may divide (WeightScale).
  bool weight_scale = false;
};

// A row of the table of layouts (layouts.cpp), with what the layout's header says.
struct LayoutRow : LayoutWords {
  ScalesIn scales = ScalesIn::none;
  std::int64_t scale_columns = 0;  // that share a scale, with ScalesIn::blocks
  bool tiles = false;
  std::int64_t runs = 1;
  Status (*check)(const LayoutSpec&, std::int64_t n, std::int64_t k) = nullptr;
  LayoutShape (*shape)(const LutTiles&, std::int64_t n, std::int64_t k) = nullptr;
  void (*to_i2)(const RowPiece&, const LutTiles&, const std::uint8_t* bytes, const CodesOut&) = nullptr;
  void (*from_i2)(const RowPiece&, const LutTiles&, const CodesIn&, std::uint8_t* bytes) = nullptr;

  [[nodiscard]] Container container() const {
    return type == StoredType::u8 ? Container::safetensors : Container::gguf;
  }
  [[nodiscard]] bool one_scale() const { return scales == ScalesIn::trailer || weight_scale; }
  // What the name of the tensor of scales adds to that of the codes, if it has one.
  [[nodiscard]] std::string_view scale_suffix() const { return weight_scale ? "_scale" : ".scales"; }
};

// All rows, in the order of the enum.
std::span<const LayoutRow> layouts();
// Those of a container: first the one that it gets if none is named, then the others in their order from there on.
std::vector<const LayoutRow*> layouts_in(Container container);
// Of no layout: a row without functions.
const LayoutRow& row_of(Layout layout);
// The layouts that tensors of a type of GGUF may have, the one to assume first; none of the bytes of safetensors.
std::span<const LayoutRow> layouts_of(StoredType type);

// n and k must not be negative, and n * k + n must be below 2^61. An unsupported error says why a shape does not fit.
Result<LayoutShape> shape_of(const LayoutSpec& spec, std::int64_t n, std::int64_t k);

// The piece must consist of whole row blocks. Bits that no trit encodes to become code 3.
void layout_to_i2(const LayoutSpec& spec, const RowPiece& piece, const std::uint8_t* bytes, const CodesOut& codes);
// Every code must be a trit.
void layout_from_i2(const LayoutSpec& spec, const RowPiece& piece, const CodesIn& codes, std::uint8_t* bytes);

// Whether none of the k i2 codes of a row is 3; bits after the last code are ignored.
bool all_trits(const std::uint8_t* row, std::int64_t k);

}  // namespace tern
