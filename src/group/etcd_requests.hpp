// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "group/http_client.hpp"
#include "group/meeting_name.hpp"

namespace hbmwire::detail {

/// Requests to etcd's gateway for JSON, version 3: of one key, and of the lease that it hangs on.
/// Source: etcd 3.4, Documentation/dev-guide/api_grpc_gateway.md.
class EtcdRequests {
 public:
  EtcdRequests(std::unique_ptr<HttpClient> http, const MeetingName& meeting);

  /// The lease's number. Errors here and below: as HttpClient::post(); Errc::protocol: another
  /// server than etcd answers; Errc::permission_denied: etcd wants a user; Errc::peer_failed: etcd
  /// refuses.
  Result<std::int64_t> grant_lease(const Wait& wait);

  /// False: there is no such lease any more.
  Result<bool> renew_lease(std::int64_t lease, const Wait& wait);

  /// The keys that hang on the lease go with it. No error if the lease has ended already.
  Result<void> revoke_lease(std::int64_t lease, const Wait& wait);

  /// Makes the key, for as long as the lease is renewed; false: the key exists already.
  Result<bool> make_key(std::int64_t lease, const std::string& value, const Wait& wait);

  /// Changes the key's value if the key hangs on this lease; false: it does not hang on it.
  Result<bool> change_key(std::int64_t lease, const std::string& value, const Wait& wait);

  /// The key's value; empty: there is no key, or nothing in it.
  Result<std::string> read_key(const Wait& wait);

 private:
  Result<bool> put_if(const std::string& compare, std::int64_t lease, const std::string& value,
                      const Wait& wait);
  Result<HttpAnswer> ask(const char* call, const std::string& body, const Wait& wait);
  [[nodiscard]] tl::unexpected<Error> refused(const HttpAnswer& answer) const;
  [[nodiscard]] tl::unexpected<Error> not_etcd() const;

  std::unique_ptr<HttpClient> http_;
  std::string subject_;
  std::string url_;
  std::string key_;  // as base64
};

}  // namespace hbmwire::detail
