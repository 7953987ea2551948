// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"

#include "tools/common/command.hpp"
#include <tl/expected.hpp>

namespace hbmwire::tools {

/// The reason why a tool, or its work for one peer, ends: a sentence for the user, and the exit
/// code. It is made from the library's Error, or from a sentence of the tool if it names something
/// that does not fit an Error (a path, a peer's message).
struct Failure {
  // Implicit, so that HBMWIRE_TRY turns errors of the library into failures. The text is followed
  // by remedy_by_options() and hint_mark().
  Failure(const Error& error);  // NOLINT(google-explicit-constructor)

  /// Uses the tool's own remedy.
  Failure(const Error& error, std::string_view remedy);

  explicit Failure(std::string sentence, int code = kExitFailed)
      : text(std::move(sentence)), exit_code(code) {}

  std::string text;
  int exit_code = kExitFailed;
  bool peer_knows = false;  ///< the peer reported it, so it must not be sent back
  bool interrupted = false;
  bool shortage = false;   ///< is_shortage(): the tool tries no alternative
  Hint hint = Hint::none;  ///< hint of the library's Error, for `hbmwire doctor explain`
};

template <class T>
using Outcome = tl::expected<T, Failure>;

inline tl::unexpected<Failure> fail(std::string sentence, int exit_code = kExitFailed) {
  return tl::make_unexpected(Failure(std::move(sentence), exit_code));
}

/// Words of a library's remedy that name its calls, and the words that the tools use instead.
struct OptionWords {
  Hint hint;
  std::string_view library;
  std::string_view tool;
};

/// All such words, as remedy_by_options() replaces them.
[[nodiscard]] std::span<const OptionWords> option_words() noexcept;

/// The library's remedy. If it names calls of the library, they are replaced by the options that
/// server, client and perf share.
std::string remedy_by_options(Hint hint);

/// " [no_rdma_device]", the end of an error message of the tools. Users pass it to `hbmwire doctor
/// explain`. Empty for Hint::none.
std::string hint_mark(Hint hint);

/// describe(), followed by hint_mark().
std::string describe_with_hint(const Error& error);

/// The failure to reach a server. If nothing listens there, `start_it` is the remedy.
Failure not_reached(const Error& error, std::string_view start_it);

/// A failure of the work for one client, with the client's address: "client 10.0.0.2:4711: ...".
std::string about_client(const std::string& peer, const Failure& failure);

/// A failed call on a file: "file: /tmp/x: No space left on device; ...".
tl::unexpected<Failure> fail_file(const std::string& what, const std::string& path,
                                  int error_number);

}  // namespace hbmwire::tools
