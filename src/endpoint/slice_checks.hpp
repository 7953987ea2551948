// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/endpoint.hpp"

#include "transport/lane.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct RegionState;
struct RemoteRegionState;

/// The checks of an operation's slices: their range, the peer's key, whether the endpoint's lane
/// reaches the memory and the policies let it go. Each fills in what it has found of `operation`.
/// find_*() is asked of every operation, reach_*() where the lane carries the bytes. In line:
/// slice_checks_datapath.hpp.
class SliceChecks {
 public:
  using Operation = transport::Operation;

  explicit SliceChecks(const EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  SliceChecks(const SliceChecks&) = delete;
  SliceChecks& operator=(const SliceChecks&) = delete;
  ~SliceChecks() = default;

  /// Both of this end's memory. Errors: Stage::post.
  Result<void> local(Operation& operation, const Slice& slice);

  /// The same of a message's memory, which need not be a NIC's where messages go by a ring.
  Result<void> message(Operation& operation, const Slice& slice);

  /// Both of the peer's, for which its key has to give `needed`. Errors: Stage::post.
  Result<void> remote(Operation& operation, const RemoteSlice& slice, Access needed);

  [[gnu::always_inline]] inline Result<void> find_local(Operation& operation,
                                                        const Slice& slice) const;
  Result<void> reach_local(Operation& operation, const Slice& slice);

  /// Whether one request of the lane carries a put or get, and nothing else need be asked: as for
  /// reach_local() and reach_remote(), and no mover takes it.
  [[gnu::always_inline]] inline bool is_plain(Operation& operation, const Slice& here,
                                              const RemoteRegionState& there) const noexcept;
  [[gnu::always_inline]] inline Result<void> find_remote(Operation& operation,
                                                         const RemoteSlice& slice,
                                                         Access needed) const;
  Result<void> reach_remote(const RemoteSlice& slice) const;

  /// The lane carries bytes between these memories, of which one may be a device's: for
  /// warn_of_tcp().
  void note(const Slice& here, MemoryType there = MemoryType::host) noexcept;

  /// Logs once that device memory goes by TCP.
  void warn_of_tcp() noexcept;

 private:
  /// For a region that the endpoint's NIC does not have.
  Result<void> check_reach(const RegionState& region);

  const EndpointState& endpoint_;
  bool device_over_tcp_ = false;
  bool warned_of_tcp_ = false;
};

}  // namespace hbmwire::detail
