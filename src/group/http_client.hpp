// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"

namespace hbmwire::detail {

/// The longest body that an answer may have.
constexpr std::size_t kMaxAnswerBytes = std::size_t{1} << 20U;

struct HttpAnswer {
  long status = 0;  // as libcurl has it: 200 and so on
  std::string body;
};

/// libcurl, opened at run time: a connection to one server, over which requests go one after the
/// other. Used by one thread at a time.
class HttpClient {
 public:
  /// Errors: Errc::not_found, Stage::probe: no libcurl.
  static Result<std::unique_ptr<HttpClient>> create();

  HttpClient() = default;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  virtual ~HttpClient() = default;

  /// POSTs JSON. `subject`: for errors. Follows no redirection, and asks no proxy. Errors, of
  /// Stage::connect: Errc::not_found: no such host; Errc::peer_failed: it refuses, or breaks off;
  /// Errc::protocol: it speaks no HTTP, or its answer is longer than kMaxAnswerBytes;
  /// Errc::permission_denied: its certificate; timed_out, cancelled.
  virtual Result<HttpAnswer> post(const std::string& url, const std::string& body, const Wait& wait,
                                  std::string_view subject) = 0;
};

}  // namespace hbmwire::detail
