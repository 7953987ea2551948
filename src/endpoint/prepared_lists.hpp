// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "hbmwire/endpoint.hpp"

#include "endpoint/request_state.hpp"

namespace hbmwire::detail {

/// The lists of puts or gets that were prepared for an endpoint (PreparedTransfer). They are
/// checked and cut into chunks once, and can be posted many times.
class PreparedLists {
 public:
  explicit PreparedLists(EndpointState& endpoint) noexcept : endpoint_(endpoint) {}

  PreparedLists(const PreparedLists&) = delete;
  PreparedLists& operator=(const PreparedLists&) = delete;
  ~PreparedLists();

  /// Checks the parts of a list of puts, or of gets, and cuts it into chunks. Errors: as
  /// Endpoint::prepare_put() and prepare_get(). May throw std::bad_alloc.
  Result<std::unique_ptr<RequestState>> prepare(std::span<const TransferPart> parts, bool put,
                                                const PutOptions& put_options);

  /// Starts a run of the list. Errors: as PreparedTransfer::post().
  Result<Transfer> post(RequestState& request);

  /// The application has let go of `request`. A request under way is kept until it is over.
  void let_go(std::unique_ptr<RequestState> request) noexcept;

  /// Destroys kept requests that are over.
  void drop_left() noexcept;

 private:
  EndpointState& endpoint_;
  std::vector<RequestState*> requests_;
  std::vector<std::unique_ptr<RequestState>> left_;  // let go of while under way; has room for all
                                                     // requests
};

}  // namespace hbmwire::detail
