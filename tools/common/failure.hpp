// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"

#include "tools/common/command.hpp"
#include <tl/expected.hpp>

namespace hbmwire::tools {

/// Why a tool, or its work for one peer, ends: the sentence for the user and the exit code. Made of
/// the library's Error, or of a sentence of the tool's own where the cause has a name that does not
/// fit an Error (a path, a peer's words).
struct Failure {
  // Implicit, so that HBMWIRE_TRY turns the library's errors into failures. The remedy is
  // remedy_by_options(), and behind it is the hint's name: hint_mark().
  Failure(const Error& error);  // NOLINT(google-explicit-constructor)

  /// With a remedy of the tool's own.
  Failure(const Error& error, std::string_view remedy);

  explicit Failure(std::string sentence, int code = kExitFailed)
      : text(std::move(sentence)), exit_code(code) {}

  std::string text;
  int exit_code = kExitFailed;
  bool peer_knows = false;  ///< it came from the peer: telling it would be an echo
  bool interrupted = false;
  bool shortage = false;   ///< is_shortage(): nothing else is tried instead
  Hint hint = Hint::none;  ///< of the library's Error; `hbmwire doctor explain` tells more
};

template <class T>
using Outcome = tl::expected<T, Failure>;

inline tl::unexpected<Failure> fail(std::string sentence, int exit_code = kExitFailed) {
  return tl::make_unexpected(Failure(std::move(sentence), exit_code));
}

/// Words of a library's remedy that speak of its calls, and what the tools say in their place.
struct OptionWords {
  Hint hint;
  std::string_view library;
  std::string_view tool;
};

[[nodiscard]] std::span<const OptionWords> option_words() noexcept;

/// The library's remedy, in terms of the options that server, client and perf have in common where
/// the library speaks of its calls.
std::string remedy_by_options(Hint hint);

/// " [no_rdma_device]", with which an error sentence of the tools ends, so that its reader can ask
/// `hbmwire doctor explain` for more. Empty for Hint::none.
std::string hint_mark(Hint hint);

/// describe(), and hint_mark() behind it.
std::string describe_with_hint(const Error& error);

/// The failure to reach a server: where nothing listens, `start_it` is the remedy.
Failure not_reached(const Error& error, std::string_view start_it);

/// A failure of the work for one client, named so that its peer is known: "client 10.0.0.2:4711:
/// ...".
std::string about_client(const std::string& peer, const Failure& failure);

/// "file: /tmp/x: No space left on device; ...": a failed call on a file.
tl::unexpected<Failure> fail_file(const std::string& what, const std::string& path,
                                  int error_number);

}  // namespace hbmwire::tools
