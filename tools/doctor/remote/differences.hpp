// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/output.hpp"
#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// A fact that should be the same on both machines of an RDMA connection, and is not. Its texts are
/// safe for a terminal: printable, and cut.
struct Difference {
  enum class Matter : std::uint8_t {
    note,   ///< useful to know if something works in one direction only
    fault,  ///< can make transfers fail or slow
  };

  std::string what;    ///< "kernel", "path MTU of mlx5_0 and mlx5_2"
  std::string here;    ///< "6.8.0-45-generic", "4096 on all"
  std::string there;   ///< "4096 on mlx5_0; 1024 on mlx5_1"
  std::string source;  ///< the file or call with a value that only one end has
  Matter matter = Matter::note;
  std::string remedy;  ///< the reason why it matters, or the remedy

  bool operator==(const Difference&) const = default;
};

/// "note", "fault".
[[nodiscard]] std::string_view to_string(Difference::Matter matter) noexcept;

/// The versions of the hbmwire that wrote the machines' archives (Record::version). Used if a
/// machine does not report its own.
struct ArchiveVersions {
  std::string here;
  std::string there;
};

/// The differences, in a fixed order. NICs and ports are compared as sets: their number, and which
/// of them has a value, make no difference. A fact that one machine does not report makes none
/// either. Both machines may be foreign archives.
[[nodiscard]] std::vector<Difference> differences(Evidence& here, Evidence& there,
                                                  const ArchiveVersions& versions = {});

/// Asks `machine` everything that differences() asks. A partial archive can answer only recorded
/// questions. Before recording a machine for another one's differences(), call this on the
/// Recorder.
void ask_for_differences(Evidence& machine);

/// A list of objects: `what here there source matter remedy`.
[[nodiscard]] Json to_json(const std::vector<Difference>& differences);

/// Makes a foreign text safe for a terminal: printable ASCII, at most `most` characters (3 or
/// more). A text that is cut ends in "...".
[[nodiscard]] std::string shown(std::string_view foreign, std::size_t most);

}  // namespace hbmwire::tools::doctor
