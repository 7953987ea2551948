// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "hbmwire/error.hpp"

#include "tools/common/command.hpp"
#include <tl/expected.hpp>

namespace hbmwire::tools {

/// Why a tool, or its work for one peer, ends: the sentence for the user and the exit code. Made of
/// the library's Error, or of a sentence of the tool's own where the cause has a name that does not
/// fit an Error (a path, a peer's words).
struct Failure {
  // Implicit, so that HBMWIRE_TRY turns the library's errors into failures.
  Failure(const Error& error);  // NOLINT(google-explicit-constructor)

  explicit Failure(std::string sentence, int code = kExitFailed)
      : text(std::move(sentence)), exit_code(code) {}

  std::string text;
  int exit_code = kExitFailed;
  bool peer_knows = false;  ///< it came from the peer: telling it would be an echo
  bool interrupted = false;
};

template <class T>
using Outcome = tl::expected<T, Failure>;

inline tl::unexpected<Failure> fail(std::string sentence, int exit_code = kExitFailed) {
  return tl::make_unexpected(Failure(std::move(sentence), exit_code));
}

/// "file: /tmp/x: No space left on device; ...": a failed call on a file.
tl::unexpected<Failure> fail_file(const std::string& what, const std::string& path,
                                  int error_number);

}  // namespace hbmwire::tools
