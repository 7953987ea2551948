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

// The operations, as verdicts name them.
inline constexpr const char* kSend = "send";          // client to server
inline constexpr const char* kResponse = "response";  // server to client, doubled
inline constexpr const char* kWrite = "write";        // server into the client's memory
inline constexpr const char* kRead = "read";          // client out of the server's memory

/// What came of one operation, over all iterations.
struct OperationReport {
  std::string name;
  std::uint64_t completions = 0;  ///< seen on this side
  std::uint64_t verdicts = 0;     ///< iterations that were compared, on either side
  std::uint64_t bytes = 0;        ///< compared
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
  std::uint64_t loading_ns = 0;   ///< client: file to device memory
  std::uint64_t transfer_ns = 0;  ///< client: while at least one piece was under way
  std::uint64_t saving_ns = 0;    ///< server: device memory to file
  std::uint64_t total_ns = 0;
};

/// All that happened with one peer: made of completions and comparisons, never of good faith.
struct Report {
  std::string peer;
  std::string peer_memory;
  std::vector<OperationReport> operations = {};
  std::optional<FileReport> file = {};

  OperationReport& operation(const std::string& name);
  void add(const wire::Verdict& verdict);

  /// True when something was compared and no byte was wrong.
  [[nodiscard]] bool verified() const noexcept;

  /// The first thing found wrong, as a sentence; empty when verified.
  [[nodiscard]] std::string wrong_text() const;
};

/// "send, iteration 1, offset 100: expected 0x4e, got 0x4f (1 of 4096 bytes wrong)".
std::string verdict_text(const wire::Verdict& verdict);

Json to_json(const Report& report);

/// "=== Summary ===" and what follows, of this side.
void print_summary(const Report& report, const LocalSide& side, Output& output);

}  // namespace hbmwire::tools
