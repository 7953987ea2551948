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

/// Results of the runs over every pair of memory and NIC. They are plain values, so that a saved
/// archive gives the same report as the machine that it was saved on.
namespace hbmwire::tools::doctor {

/// The outcome of a pair.
enum class PairOutcome : std::uint8_t {
  zero_copy,    ///< the NIC writes and reads device memory through its dma-buf, verified
  peer_memory,  ///< the NIC writes and reads device memory by its address, verified
  host,         ///< host memory, verified
  copy,         ///< without a NIC: copied by a device's engine or the CPU, verified
  ipc,     ///< without a NIC: between two processes of this machine (of the host's memory by shared
           ///< memory), verified
  tcp,     ///< without a NIC: over TCP, verified
  slow,    ///< verified, but at less than slow_share() of the possible rate
  staged,  ///< the NIC refuses the memory: transfers would stage through host memory
  untried,  ///< another process uses the card, or a NIC that hung before was skipped
  refused,  ///< the memory could not be opened, or the NIC refuses it and no other path is allowed
  failed,   ///< wrong bytes arrived, or an operation failed
};

/// The name of the enumerator, as in the JSON.
[[nodiscard]] std::string_view to_string(PairOutcome outcome) noexcept;

/// The reason why a pair does not work, or is slower than it could be.
struct PairError {
  std::string step;  ///< the step that failed: "probe", "open", "register", as in to_string(Stage)
  std::string code;  ///< the kind of failure: "busy", as in to_string(Errc)
  std::string hint;  ///< name of the library's hint; "none" if there is none
  std::string text;  ///< the sentence, with its remedy

  bool operator==(const PairError&) const = default;
};

[[nodiscard]] PairError error_of(const Error& error);

/// The error of a process that gave no answer: the process hangs (`limit`: the time waited), or has
/// ended (`how`: Child::end()). `what`: the NIC and memory that it worked on.
[[nodiscard]] PairError no_answer(const std::string& step, const std::string& what, bool hangs,
                                  std::chrono::milliseconds limit, const std::string& how);

/// One memory and one NIC. For a pair without a NIC, `by` names the way that moves the bytes.
struct Pair {
  std::string name = {};       ///< name in lists; empty means memory and NIC: "gaudi 0 - mlx5_0"
  std::string memory;          ///< "gaudi 0": the type, and the number of the device; "host"
  std::string device;          ///< "gaudi2 0000:33:00.0"
  std::string device_address;  ///< PCI address; empty if it has none
  /// "mlx5_0", or "mlx5_0:2" for a second port; without a NIC "host", "itself", "cuda 1", "ipc",
  /// "tcp".
  std::string by;
  std::string by_address;  ///< PCI address of the NIC; empty if there is none or it is unknown
  PairOutcome outcome = PairOutcome::failed;
  std::string path;       ///< "zero-copy dma-buf", as in to_string(Path); empty if there is none
  std::string distance;   ///< "PIX"; empty if one of the two is no PCI device
  std::string copy_path;  ///< the way that moved the compared bytes: "SynapseAI DMA"
  std::uint64_t verified_bytes = 0;
  std::uint64_t wrong_bytes = 0;
  double write_bytes_per_second = 0;  ///< 0 if not measured
  double read_bytes_per_second = 0;
  double latency_ns = 0;                 ///< median time of an 8-byte write until its completion
  double possible_bytes_per_second = 0;  ///< the rate that link and PCIe allow; 0 if unknown
  std::string limit;                     ///< the part that sets the possible rate
  std::optional<PairError> error;

  /// The rate of the slower direction; 0 if not measured.
  [[nodiscard]] double bytes_per_second() const noexcept;

  /// The measured rate as a share of the possible one; 0 if unknown.
  [[nodiscard]] double share() const noexcept;

  /// Whether all compared bytes were right: PairOutcome lists such outcomes first.
  [[nodiscard]] bool works() const noexcept { return outcome <= PairOutcome::slow; }

  bool operator==(const Pair&) const = default;
};

/// A pair is slow below this share of the possible rate. A NIC in loopback uses its slot in both
/// directions at once, and reaches 0.8 or more on a sound machine. An emulated NIC claims 100 Gb/s,
/// but the CPU moves its bytes, and other programs use the CPU, too. A few per cent are usual on a
/// busy machine. Only a NIC that is held back far below that (`emulate --rate emu1=400M`) counts as
/// slow.
[[nodiscard]] constexpr double slow_share(bool emulated) noexcept { return emulated ? 0.01 : 0.5; }

/// The rate that decides whether a pair is slow: the slower one of writes and reads. For an
/// emulated NIC it is the faster one, because a READ of a NIC that --rate or --async shapes waits
/// for a thread, which takes long on a busy machine.
[[nodiscard]] double judged_rate(bool emulated, double written, double read) noexcept;

/// The outcome of a verified pair whose bytes took this path. `slowest`: the lowest judged_rate().
[[nodiscard]] PairOutcome outcome_of(Path path, double slowest, double possible,
                                     bool emulated) noexcept;

/// All pairs, and the reasons why some are missing.
struct Pairs {
  std::vector<Pair> pairs = {};
  bool emulated = false;
  std::optional<PairError> no_nics = {};  ///< the reason why there is no NIC
  std::optional<PairError> no_look = {};  ///< the reason why NICs and devices cannot be listed
  std::size_t nics = 0;                   ///< number of NICs that were tried
  std::size_t accelerators = 0;

  bool operator==(const Pairs&) const = default;
};

[[nodiscard]] Json to_json(const Pair& pair);
[[nodiscard]] Json to_json(const Pairs& pairs);

/// Reads a pair. The JSON may be foreign. Errors: it is no such object, it has too many pairs, or a
/// text is too long.
[[nodiscard]] Outcome<Pair> pair_from_json(const Json& json);
[[nodiscard]] Outcome<Pairs> pairs_from_json(const Json& json);
[[nodiscard]] std::optional<PairError> error_from_json(const Json& json);
[[nodiscard]] Json to_json(const std::optional<PairError>& error);

}  // namespace hbmwire::tools::doctor
