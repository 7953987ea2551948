// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/endpoint.hpp"

#include "context/path_bits.hpp"

namespace hbmwire::detail {

struct RegionState;

/// The paths by which memory may go between the two ends of an endpoint. They follow from the
/// policies of context and endpoint, from where the peer is, and from whether there is a NIC
/// (docs/paths.md). Kept as bits for the data path.
class PathRules {
 public:
  /// Errors: Stage::configure: no path satisfies both policies.
  Result<void> set_policies(const PathPolicy& of_endpoint, const PathPolicy& of_context);

  /// Lets all memory go by TCP, whatever its type: there is no NIC, and the policies admit
  /// Path::tcp.
  void go_by_tcp() noexcept;

  [[nodiscard]] bool by_tcp() const noexcept { return by_tcp_; }

  /// Call it once it is known where the peer is.
  void set_placement(Placement placement) noexcept;

  [[nodiscard]] Placement placement() const noexcept { return placement_; }

  /// Whether memory that is reached by `path` may go without any further check.
  [[nodiscard]] bool is_plain(Path path) const noexcept { return has_path(plain_, path); }

  [[nodiscard]] bool admits(Path path) const noexcept { return has_path(admitted_, path); }

  /// Whether this end's NIC does not reach memory of this path.
  [[nodiscard]] bool is_staged(Path path) const noexcept { return has_path(staged_, path); }

  /// Whether engines of this process may copy: both ends are in it.
  [[nodiscard]] bool copies() const noexcept { return copies_; }

  /// Whether the peer's process may open this end's memory and copy: both processes are of one
  /// node.
  [[nodiscard]] bool shares() const noexcept { return shares_; }

  /// Whether IPC is tried even if a NIC could carry the bytes.
  [[nodiscard]] bool shares_first() const noexcept { return shares_first_; }

  /// Whether this end's CPU may copy between host memories of both ends: the peer is another
  /// process of this node.
  [[nodiscard]] bool shares_memory() const noexcept { return shares_memory_; }

  /// Notes that this CPU reaches the peer's host memory. From then on host memory is not plain,
  /// since it may go without the NIC.
  void reach_neighbour() noexcept { plain_ &= static_cast<PathBits>(~bit_of(Path::host)); }

  /// Whether both ends may stage through host memory that both have mapped.
  [[nodiscard]] bool shares_pieces() const noexcept {
    return stages_ && placement_ != Placement::two_nodes;
  }

  /// Checks whether memory of `region` may go by its path here, and notes its path for the log.
  /// Errors: Stage::post: the policy excludes it.
  Result<void> check(const RegionState& region) const;

 private:
  PathBits plain_ = 0;
  PathBits admitted_ = 0;
  PathBits staged_ = bit_of(Path::staged);
  // Bit-fields, so that a put finds everything in few cache lines.
  bool copies_ : 1 = false;
  bool shares_ : 1 = false;
  bool shares_first_ : 1 = false;
  bool shares_memory_ : 1 = false;
  bool stages_ : 1 = false;
  bool by_tcp_ : 1 = false;
  Placement placement_ = Placement::two_nodes;
};

}  // namespace hbmwire::detail
