// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/path.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"

/// Results of the runs over every pair of memory and NIC: values only, so that a saved archive
/// gives the same report as the machine that it was saved on.
namespace hbmwire::tools::doctor {

/// How a pair ended.
enum class PairOutcome : std::uint8_t {
  zero_copy,    ///< the NIC writes and reads device memory through its dma-buf, verified
  peer_memory,  ///< the same by the device's address, verified
  host,         ///< host memory, verified
  copy,         ///< without a NIC: a device's engine, or the CPU, verified
  ipc,     ///< without a NIC: between two processes of this machine (of the host's memory by shared
           ///< memory), verified
  tcp,     ///< without a NIC: over TCP, verified
  slow,    ///< verified, and less than slow_share() of what is possible
  staged,  ///< the NIC refuses the memory: transfers would stop in host memory
  untried,  ///< another process has the card, or a NIC that hung before was left alone
  refused,  ///< the memory can't be had, or the NIC refuses it and nothing else is allowed
  failed,   ///< wrong bytes, or an operation that failed
};

/// "zero_copy" and so on, as the JSON has it.
[[nodiscard]] std::string_view to_string(PairOutcome outcome) noexcept;

/// Why a pair does not work, or not as well as it could.
struct PairError {
  std::string step;  ///< where it failed: "probe", "open", "register", as to_string(Stage) has it
  std::string code;  ///< the kind of failure: "busy", as to_string(Errc) has it
  std::string hint;  ///< name of the library's hint, "none" without one
  std::string text;  ///< the sentence, with its remedy

  bool operator==(const PairError&) const = default;
};

[[nodiscard]] PairError error_of(const Error& error);

/// The error of a process that gave no answer: it hangs (`limit`: for so long), or has ended
/// (`how`: Child::end()). `what`: the NIC and the memory at work.
[[nodiscard]] PairError no_answer(const std::string& step, const std::string& what, bool hangs,
                                  std::chrono::milliseconds limit, const std::string& how);

/// One memory and one NIC. Without a NIC `by` says how else the bytes went.
struct Pair {
  std::string name = {};       ///< in lists; empty: memory and NIC, as "gaudi 0 - mlx5_0"
  std::string memory;          ///< "gaudi 0": type, and which device of it; "host"
  std::string device;          ///< "gaudi2 0000:33:00.0"
  std::string device_address;  ///< of PCI; empty: none
  /// "mlx5_0", of a second port "mlx5_0:2"; without a NIC "host", "itself", "cuda 1", "ipc", "tcp".
  std::string by;
  std::string by_address;  ///< PCI address of the NIC; empty: none, or not told
  PairOutcome outcome = PairOutcome::failed;
  std::string path;       ///< "zero-copy dma-buf", as to_string(Path) has it; empty: none
  std::string distance;   ///< "PIX"; empty: not of two PCI devices
  std::string copy_path;  ///< what moved the bytes that were compared: "SynapseAI DMA"
  std::uint64_t verified_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  double write_bytes_per_second = 0;  ///< 0: not measured
  double read_bytes_per_second = 0;
  double latency_ns = 0;                 ///< of a write of 8 bytes until its completion, the median
  double possible_bytes_per_second = 0;  ///< what link and PCIe allow; 0: unknown
  std::string limit;                     ///< which of them that is
  std::optional<PairError> error;

  /// The slower one of both directions; 0: not measured.
  [[nodiscard]] double bytes_per_second() const noexcept;

  /// The share of what is possible; 0: unknown.
  [[nodiscard]] double share() const noexcept;

  /// Whether every byte was as it should be.
  [[nodiscard]] bool works() const noexcept { return outcome <= PairOutcome::slow; }

  bool operator==(const Pair&) const = default;
};

/// Below this share of what is possible a pair is slow. A NIC in loopback passes its slot in both
/// directions at once, and reaches 0.8 and more on a sound machine. An emulated NIC claims 100 Gb/s
/// and moves bytes by the CPU, which other programs share: some per cent are usual on a busy
/// machine, and only a NIC that is held back far below that (`emulate --rate emu1=400M`) is slow.
[[nodiscard]] constexpr double slow_share(bool emulated) noexcept { return emulated ? 0.01 : 0.5; }

/// The figure that counts of writes and reads: the slower one. A READ of an emulated NIC that
/// --rate or --async shapes waits for a thread, on a busy machine for long: of these the quicker
/// one.
[[nodiscard]] double judged_rate(bool emulated, double written, double read) noexcept;

/// The outcome of a verified pair whose bytes went by that path; `slowest`: the slowest
/// judged_rate().
[[nodiscard]] PairOutcome outcome_of(Path path, double slowest, double possible,
                                     bool emulated) noexcept;

/// All pairs, and why there are no more of them.
struct Pairs {
  std::vector<Pair> pairs = {};
  bool emulated = false;
  std::optional<PairError> no_nics = {};  ///< why there is none
  std::optional<PairError> no_look = {};  ///< why NICs and devices can't be looked for
  std::size_t nics = 0;                   ///< that were tried
  std::size_t accelerators = 0;

  bool operator==(const Pairs&) const = default;
};

[[nodiscard]] Json to_json(const Pair& pair);
[[nodiscard]] Json to_json(const Pairs& pairs);

/// The same backwards. The bytes may be a stranger's: what is no such object, too many pairs or a
/// text that is too long is a failure.
[[nodiscard]] Outcome<Pair> pair_from_json(const Json& json);
[[nodiscard]] Outcome<Pairs> pairs_from_json(const Json& json);
[[nodiscard]] std::optional<PairError> error_from_json(const Json& json);
[[nodiscard]] Json to_json(const std::optional<PairError>& error);

}  // namespace hbmwire::tools::doctor
