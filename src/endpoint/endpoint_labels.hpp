// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/transfer.hpp"

namespace hbmwire::detail {

struct TransferState;

/// Facts about an endpoint that reports of its transfers need, kept after the endpoint has gone.
struct EndpointLabel {
  std::string nic;
  std::string peer;
  bool one_node = false;  // both ends are on one node
  bool one_process = false;
  bool copies = false;                   // engines of this process copy between its ends
  bool shares = false;                   // another process of the node is reached by IPC
  bool shares_first = false;             // IPC is tried even if a NIC could carry the bytes
  bool ipc_refused = false;              // IPC failed, and another path is used
  bool shares_memory = false;            // host memory of two processes of a node goes by shared
                                         // memory
  std::optional<Error> not_shared = {};  // why memory is not shared, or not all of it
  bool over_tcp = false;
  std::vector<std::string> rails = {};  // NICs of its rails, the endpoint's own first; empty: it
                                        // has one NIC
  bool in_use = true;                   // its endpoint lives
  bool wanted = false;                  // used by drop_unused()
};

/// The labels of a worker's endpoints, by EndpointState::number. They answer how a transfer went
/// (docs/paths.md). The data path writes only two words for that (Route); everything else is found
/// here when a program asks.
class EndpointLabels {
 public:
  /// May throw std::bad_alloc.
  void add(std::uint32_t number, EndpointLabel label) { labels_[number] = std::move(label); }

  /// Null if there is none.
  [[nodiscard]] EndpointLabel* find(std::uint32_t number) noexcept;
  [[nodiscard]] const EndpointLabel* find(std::uint32_t number) const noexcept;

  /// The endpoint goes. Its label, if it has one, stays while one of `transfers` may be asked about
  /// it. Labels without use are dropped many at a time.
  void leave(std::uint32_t number, std::span<const TransferState> transfers) noexcept;

  /// The path that reports name for the transfer.
  [[nodiscard]] Path path_of(const TransferState& transfer) const noexcept;

  /// Whether an engine of this process copied it, or why not.
  [[nodiscard]] PathTried copy_of(const TransferState& transfer) const;

  /// Whether an engine of the peer's process copied it. For host memory of two processes: whether
  /// this process's CPU copied it (Path::shared_memory). `ipc_from_bytes`: see Settings.
  [[nodiscard]] PathTried ipc_of(const TransferState& transfer, std::uint64_t ipc_from_bytes) const;

 private:
  [[nodiscard]] Error why_not_shared(const TransferState& transfer,
                                     const EndpointLabel& label) const;
  [[nodiscard]] const char* why_not_ipc(const TransferState& transfer,
                                        std::uint64_t ipc_from_bytes) const;

  void drop_unused(std::span<const TransferState> transfers) noexcept;

  // Dropping labels scans all transfers of the worker, so that is done for this many labels at a
  // time.
  static constexpr std::size_t kTogether = 64;

  std::map<std::uint32_t, EndpointLabel> labels_;
  std::size_t left_ = 0;               // labels of endpoints that have gone
  std::size_t most_left_ = kTogether;  // dropping begins with this many of them
};

}  // namespace hbmwire::detail
