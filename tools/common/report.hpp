// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/local_side.hpp"
#include "tools/common/output.hpp"
#include "tools/common/pattern.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools {

// The names of the operations in verdicts.
inline constexpr const char* kSend = "send";          // client to server
inline constexpr const char* kResponse = "response";  // server to client, doubled
inline constexpr const char* kWrite = "write";        // server writes into the client's memory
inline constexpr const char* kRead = "read";          // client reads the server's memory

/// The results of one operation over all iterations.
struct OperationReport {
  std::string name;
  std::uint64_t completions = 0;  ///< completions seen on this side
  std::uint64_t verdicts = 0;     ///< iterations that either side compared
  std::uint64_t bytes = 0;        ///< compared bytes
  std::uint64_t wrong_bytes = 0;
  std::optional<wire::Verdict> first_wrong;
};

/// The transfer of a file.
struct FileReport {
  std::string name;
  std::string digest;  ///< this side's BLAKE2b-512
  std::string peer_digest;
  std::uint64_t bytes = 0;
  std::uint64_t pieces = 0;       ///< completions
  std::uint64_t loading_ns = 0;   ///< client: time to load the file into device memory
  std::uint64_t transfer_ns = 0;  ///< client: time with at least one piece in flight
  std::uint64_t saving_ns = 0;    ///< server: time to save device memory to the file
  std::uint64_t total_ns = 0;
};

/// All results of the work with one peer, taken only from completions and comparisons.
struct Report {
  std::string peer;
  std::string peer_memory;
  std::vector<OperationReport> operations = {};
  std::optional<FileReport> file = {};

  /// The operation with this name, which is added if there is none.
  OperationReport& operation(const std::string& name);
  /// Adds a verdict, of either side, to its operation.
  void add(const wire::Verdict& verdict);

  /// True if something was compared and no byte was wrong.
  [[nodiscard]] bool verified() const noexcept;

  /// The first fault as a sentence; empty if verified.
  [[nodiscard]] std::string wrong_text() const;
};

/// "send, iteration 1, offset 100: expected 0x4e, got 0x4f (1 of 4096 bytes wrong)".
std::string verdict_text(const wire::Verdict& verdict);

Json to_json(const Report& report);

/// Prints "=== Summary ===" and the results of this side.
void print_summary(const Report& report, const LocalSide& side, Output& output);

}  // namespace hbmwire::tools
