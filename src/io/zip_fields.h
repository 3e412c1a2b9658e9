// The numbers of the zip format that its reader and its writer share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::zip {

inline constexpr std::uint32_t kLocalSignature = 0x04034B50;
inline constexpr std::uint32_t kCentralSignature = 0x02014B50;
inline constexpr std::uint32_t kEndSignature = 0x06054B50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064B50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064B50;

// Fixed parts, before name, extra field and comment.
inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kCentralBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::size_t kEnd64Bytes = 56;
inline constexpr std::size_t kLocator64Bytes = 20;

inline constexpr std::uint16_t kZip64ExtraId = 1;
inline constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // "see the zip64 field"
inline constexpr std::uint16_t kCountIn64 = 0xFFFF;
inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint16_t kDeflated = 8;

}  // namespace tern::zip
