// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

/// The table of docs/paths.md: the path for each combination of memories, NICs and places.
namespace hbmwire::paths {

/// One end of a transfer.
struct End {
  /// "host", "shared" (host memory that other processes can open, which also matches "host"),
  /// "engine" (a device with an engine that copies), "without engine", "imported" (a foreign
  /// dma-buf). In the table also "device": with an engine or imported
  std::string memory;
  std::string nic;  ///< "dma-buf", "plain", "none"; "two": two that match "dma-buf"
};

/// A transfer in the terms of the table.
struct Case {
  End here;
  End there;
  std::string place;         ///< "process", "node", "nodes"
  bool same_engine = false;  ///< this end's engine copies the peer's memory, which is also a
                             ///< device's
};

struct Row {
  Case which;  ///< "any" if it does not matter. Places are also "one node", "one process" and
               ///< "processes" (of a node); the peer's memory may also be "its engine's"
  std::string path;
  std::string required;  ///< the path if zero_copy is required
};

/// The rows after the line that begins with `| this end`. Throws a message if the table is
/// malformed.
[[nodiscard]] std::vector<Row> read_table(const std::string& file);

/// The first row that matches. Throws if there is none.
[[nodiscard]] const Row& row_of(const std::vector<Row>& table, const Case& which);

}  // namespace hbmwire::paths
