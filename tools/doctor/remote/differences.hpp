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

/// A fact of two machines that should be the same at both ends of an RDMA connection. Its texts
/// are fit for a terminal: printable, and cut.
struct Difference {
  enum class Matter : std::uint8_t {
    note,   ///< worth knowing where something works one way and not the other
    fault,  ///< can make transfers fail, or slow
  };

  std::string what;    ///< "kernel", "path MTU of mlx5_0 and mlx5_2"
  std::string here;    ///< "6.8.0-45-generic", "4096 on all"
  std::string there;   ///< "4096 on mlx5_0; 1024 on mlx5_1"
  std::string source;  ///< the file or call that told a value which one end alone has
  Matter matter = Matter::note;
  std::string remedy;  ///< why it matters, or what mends it

  bool operator==(const Difference&) const = default;
};

/// "note", "fault".
[[nodiscard]] std::string_view to_string(Difference::Matter matter) noexcept;

/// The versions of the hbmwire that wrote the machines' archives (Record::version). They count
/// where a machine does not tell its own.
struct ArchiveVersions {
  std::string here;
  std::string there;
};

/// The differences in an order of its own. NICs and ports are compared as sets: how many there are
/// is no difference, and neither is which of them has a value. What one machine does not tell is
/// none either. Both machines may be a stranger's archive.
[[nodiscard]] std::vector<Difference> differences(Evidence& here, Evidence& there,
                                                  const ArchiveVersions& versions = {});

/// Asks `machine` all that differences() asks. A partial archive answers no other questions: who
/// records a machine for another one's differences() calls this on the Recorder.
void ask_for_differences(Evidence& machine);

/// A list of objects: `what here there source matter remedy`.
[[nodiscard]] Json to_json(const std::vector<Difference>& differences);

/// A foreign text for a terminal: printable ASCII, and of at most `most` characters, 3 or more.
/// A text that is cut ends in "...".
[[nodiscard]] std::string shown(std::string_view foreign, std::size_t most);

}  // namespace hbmwire::tools::doctor
