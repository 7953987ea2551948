// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire {

namespace detail {
struct Internals;
struct PendingEndpointState;
struct PendingRegionState;
}  // namespace detail

/// An endpoint that is being connected (Endpoint::start_connect(), start_reconnect()). It proceeds
/// with its worker's progress. Move-only; used by its worker's thread. Dropping it gives the
/// connection up; an endpoint that was not taken is closed. It keeps the worker, as an Endpoint
/// does.
class HBMWIRE_API PendingEndpoint {
 public:
  PendingEndpoint(PendingEndpoint&&) noexcept;
  PendingEndpoint& operator=(PendingEndpoint&&) noexcept;
  PendingEndpoint(const PendingEndpoint&) = delete;
  PendingEndpoint& operator=(const PendingEndpoint&) = delete;
  ~PendingEndpoint();

  /// Over when there is an endpoint, or there can be none. It can be polled, waited for and told of
  /// (Transfer::notify()) as any other transfer. It moves no bytes, and counts among
  /// WorkerOptions::max_transfers. It fails with the errors of Endpoint::connect(). cancel() gives
  /// the connection up at once.
  [[nodiscard]] Transfer& transfer() noexcept;

  /// The endpoint, once. Errors: as transfer(); Errc::busy: it is not over; Errc::invalid_argument:
  /// it was taken already.
  Result<Endpoint> take();

 private:
  friend struct detail::Internals;

  explicit PendingEndpoint(std::unique_ptr<detail::PendingEndpointState> state) noexcept;

  std::unique_ptr<detail::PendingEndpointState> state_;
};

/// Memory that the peer is asked for by its name (Endpoint::start_remote()). Move-only, and used by
/// its worker's thread. It keeps the worker; until it is over, it also keeps the state of its
/// connection.
class HBMWIRE_API PendingRegion {
 public:
  PendingRegion(PendingRegion&&) noexcept;
  PendingRegion& operator=(PendingRegion&&) noexcept;
  PendingRegion(const PendingRegion&) = delete;
  PendingRegion& operator=(const PendingRegion&) = delete;
  ~PendingRegion();

  /// Over when the peer has answered, or cannot answer any more. It fails with the errors of
  /// Endpoint::remote().
  [[nodiscard]] Transfer& transfer() noexcept;

  /// The region, any number of times. Errors: as transfer(); Errc::busy: it is not over.
  Result<RemoteRegion> take();

 private:
  friend struct detail::Internals;

  explicit PendingRegion(std::unique_ptr<detail::PendingRegionState> state) noexcept;

  std::unique_ptr<detail::PendingRegionState> state_;
};

}  // namespace hbmwire
