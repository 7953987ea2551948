// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// A line of /proc/self/maps.
struct Mapping {
  AddressRange range;
  bool readable = false;
  bool writable = false;
};

[[nodiscard]] inline std::optional<Mapping> parse_mapping(const char* line) noexcept {
  // "7f0a1000-7f0a3000 rw-p ..."
  const char* const end = line + std::char_traits<char>::length(line);
  Mapping mapping;
  const auto first = std::from_chars(line, end, mapping.range.begin, 16);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, mapping.range.end, 16);
  if (second.ec != std::errc() || end - second.ptr < 3) return std::nullopt;
  mapping.readable = second.ptr[1] == 'r';
  mapping.writable = second.ptr[2] == 'w';
  return mapping;
}

/// Closes a file that std::fopen() has opened.
struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

/// Calls `use(mapping)` for each mapping of this process, in the order of addresses, until it
/// returns false. Allocates only what an open file needs. Returns false if there is no
/// /proc/self/maps.
template <class Use>
bool for_each_mapping(Use use) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen("/proc/self/maps", "re"));
  if (!file) return false;
  std::array<char, 256> line;
  bool at_begin = true;
  bool any = false;
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    const std::size_t length = std::char_traits<char>::length(line.data());
    // A line with a long path comes in several pieces; the first one has all that is needed.
    const bool whole = at_begin;
    at_begin = length != 0 && line[length - 1] == '\n';
    const auto mapping = whole ? parse_mapping(line.data()) : std::nullopt;
    if (!mapping) continue;
    any = true;
    if (!use(*mapping)) break;
  }
  return any;
}

}  // namespace hbmwire::memory::host
