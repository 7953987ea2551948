// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/checks/hardware.hpp"
#include "tools/doctor/checks/ports.hpp"
#include "tools/doctor/evidence/evidence.hpp"
#include "tools/doctor/remote/differences.hpp"

/// The facts of a machine that the two ends of an RDMA connection should have in common.
namespace hbmwire::tools::doctor {

/// A machine with up to this many active ports is compared; an archive may claim any number.
inline constexpr std::size_t kMostPortsCompared = 256;

/// One of the two machines. `ports` refers to `hardware`.
struct End {
  /// `wrote`: the version of the hbmwire that wrote the machine's archive.
  End(Evidence& evidence, std::string wrote);
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() = default;

  Evidence& machine;
  std::string archive_version;  ///< counts where `info` tells none
  Json info;                    ///< the value of the call; null: not known
  Hardware hardware;
  std::vector<Port> ports;  ///< those that are active
};

/// The answer of one machine for one fact. A fact that it does not tell has no reading.
struct Reading {
  /// Readings of one group are compared with each other alone: a setting, a module, a kind of NIC.
  /// Empty: the fact has no groups.
  std::string group;
  std::string subject;  ///< "mlx5_0", "mlx5_0:2"; empty: the machine
  std::string value;    ///< as it is compared
  std::string source;   ///< the file or call
};

using Readings = std::vector<Reading>;

struct Fact {
  std::string_view what;  ///< "path MTU"; empty: the group is the name
  Difference::Matter matter = Difference::Matter::note;
  std::string_view remedy;
  Readings (*read)(End& end) = nullptr;
};

/// Facts of machines: versions, settings, drivers and firmware.
[[nodiscard]] std::span<const Fact> machine_facts() noexcept;
/// Facts of ports that are active.
[[nodiscard]] std::span<const Fact> port_facts() noexcept;

/// A setting of hbmwire: "" where it has no value; nothing where neither "info" nor "environment"
/// tells.
[[nodiscard]] std::optional<std::string> setting_of(End& end, std::string_view name);

}  // namespace hbmwire::tools::doctor
