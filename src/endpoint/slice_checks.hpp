// SPDX-License-Identifier: MIT
#pragma once

#include "hbmwire/endpoint.hpp"

#include "transport/lane.hpp"

namespace hbmwire::detail {

struct EndpointState;
struct RegionState;
struct RemoteRegionState;

/// Checks the slices of an operation: their range, the rights of the peer's key, whether the
/// endpoint's lane reaches the memory, and whether the policies admit its path. Each check fills in
/// the parts of `operation` that it finds. find_*() checks every operation, reach_*() only those
/// that the lane carries. In line: slice_checks_datapath.hpp.
class SliceChecks {
 public:
  using Operation = transport::Operation;

  explicit SliceChecks(const EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  SliceChecks(const SliceChecks&) = delete;
  SliceChecks& operator=(const SliceChecks&) = delete;
  ~SliceChecks() = default;

  /// Both checks of this end's memory. Errors: Stage::post.
  Result<void> local(Operation& operation, const Slice& slice);

  /// local() for the memory of a message. If messages go by a ring, no NIC need have that memory.
  Result<void> message(Operation& operation, const Slice& slice);

  /// Both checks of the peer's memory, whose key must give `needed`. Errors: Stage::post.
  Result<void> remote(Operation& operation, const RemoteSlice& slice, Access needed);

  [[gnu::always_inline]] inline Result<void> find_local(Operation& operation,
                                                        const Slice& slice) const;
  Result<void> reach_local(Operation& operation, const Slice& slice);

  /// Whether one request of the lane carries a put or get, and no other check is needed:
  /// reach_local() and reach_remote() would succeed, and no mover takes it.
  [[gnu::always_inline]] inline bool is_plain(Operation& operation, const Slice& here,
                                              const RemoteRegionState& there) const noexcept;
  [[gnu::always_inline]] inline Result<void> find_remote(Operation& operation,
                                                         const RemoteSlice& slice,
                                                         Access needed) const;
  Result<void> reach_remote(const RemoteSlice& slice) const;

  /// Notes that the lane carries bytes between these memories, for warn_of_tcp(). One of them may
  /// be a device's.
  void note(const Slice& here, MemoryType there = MemoryType::host) noexcept;

  /// Logs once that device memory goes by TCP.
  void warn_of_tcp() noexcept;

 private:
  /// The check of a region that the endpoint's NIC does not have.
  Result<void> check_reach(const RegionState& region);

  const EndpointState& endpoint_;
  bool device_over_tcp_ = false;
  bool warned_of_tcp_ = false;
};

}  // namespace hbmwire::detail
