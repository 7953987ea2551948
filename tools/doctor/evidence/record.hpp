// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "tools/common/failure.hpp"
#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

// Limits of an archive. A machine with 8 NICs and 8 cards needs some 20,000 entries and 4 MiB.
inline constexpr std::size_t kMaxArchiveBytes = std::size_t{32} << 20U;
inline constexpr std::size_t kMaxEntries = 100'000;  ///< paths, calls and names in folders
inline constexpr std::size_t kMaxPathBytes = 4096;   ///< PATH_MAX
/// Limit of one text; hwloc's XML of a machine with 256 cores has some 600 KiB.
inline constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20U;
inline constexpr std::size_t kMaxDepth = 32;
inline constexpr std::size_t kMaxValues = 500'000;

/// Questions about a machine and their answers: the contents of an archive.
struct Record {
  std::string version;    ///< of the hbmwire that wrote it; empty if another program wrote it
  bool emulated = false;  ///< the machine's hardware is emulated
  /// The record holds only what was asked. Other questions get EPERM, because the answer is
  /// unknown. A record of the whole machine answers them with ENOENT.
  bool partial = false;
  std::map<std::string, Answer> files;
  std::map<std::string, Answer> links;
  std::map<std::string, Answer> real_paths;
  std::map<std::string, Answer> access;
  std::map<std::string, Names> folders;
  std::map<std::string, Json> calls;  ///< {"value": ...} or {"error": ERRNO}

  bool operator==(const Record&) const = default;
};

/// The same value with the keys of its objects sorted. An archive returns them in this order, so
/// that the report of a machine equals the report of its archive.
[[nodiscard]] Json sorted(const Json& value);

/// The archive's text, the file of `hbmwire doctor --save`. It is one JSON object:
///     {"format": "hbmwire doctor", "version": 1,
///      "hbmwire": "0.1.1", "emulated": false, "partial": false,
///      "files":      {"/proc/cmdline": {"text": "..."}},
///      "links":      {"/sys/...": {"target": "../.."}},
///      "real_paths": {"/sys/...": {"target": "/sys/devices/..."}},
///      "folders":    {"/sys/class/infiniband": {"names": ["mlx5_0"]}},
///      "access":     {"/dev/infiniband/uverbs0": {"errno": 13}},
///      "calls":      {"uname": {"value": {...}}}}
/// The bytes of a file are "text", "base64", or "zlib" (base64 of compressed bytes). An entry that
/// could not be read is {"errno": N}, a call that failed {"error": N}; a failed call "info" also
/// has "text", "hint" and "emulated". A path in no entry does not exist, or is unknown if the
/// archive is partial. Evidence::call() describes the calls.
[[nodiscard]] std::string archive_text(const Record& record);

/// Reads an archive, or a dump of `rdma_topo dump`. `name` is the name of the file, for error
/// messages. The text is foreign: its size, depth and number of entries are bounded.
[[nodiscard]] Outcome<Record> record_of(std::string_view text, const std::string& name);

/// Reads a file of at most kMaxArchiveBytes.
[[nodiscard]] Outcome<Record> read_record(const std::string& path);

}  // namespace hbmwire::tools::doctor
