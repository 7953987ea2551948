// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

/// docs/paths.md's table: which path is taken, by memories, NICs and places.
namespace hbmwire::paths {

/// One end of a transfer.
struct End {
  /// "host", "shared": host memory that other processes open, which fits "host" too, "engine": a
  /// device that has one that copies, "without engine", "imported": another program's dma-buf; in
  /// the table also "device": with an engine or imported
  std::string memory;
  std::string nic;  ///< "dma-buf", "plain", "none"; "two": two that fit "dma-buf"
};

/// A transfer, as the table knows it.
struct Case {
  End here;
  End there;
  std::string place;         ///< "process", "node", "nodes"
  bool same_engine = false;  ///< this end's copies the peer's memory, which is a device's, too
};

struct Row {
  Case which;  ///< "any" wherever it does not matter; of places also "one node", "one process" and
               ///< "processes": of a node, of the peer's memory also "its engine's"
  std::string path;
  std::string required;  ///< the path where zero_copy is required
};

/// The rows behind the line that begins with `| this end`. Throws what is wrong with it.
[[nodiscard]] std::vector<Row> read_table(const std::string& file);

/// The first row that fits. Throws: there is none.
[[nodiscard]] const Row& row_of(const std::vector<Row>& table, const Case& which);

}  // namespace hbmwire::paths
