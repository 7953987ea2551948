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

/// The facts that should be the same on the two machines of an RDMA connection.
namespace hbmwire::tools::doctor {

/// Machines with more active ports are not compared, because an archive may claim any number.
inline constexpr std::size_t kMostPortsCompared = 256;

/// One of the two machines. `ports` refers to `hardware`.
struct End {
  /// `wrote`: the version of the hbmwire that wrote the machine's archive.
  End(Evidence& evidence, std::string wrote);
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() = default;

  Evidence& machine;
  std::string archive_version;  ///< used if `info` has no version
  Json info;                    ///< the value of the call; null if unknown
  Hardware hardware;
  std::vector<Port> ports;  ///< the active ports
};

/// The value of a fact on one machine. A fact that the machine does not report has no reading.
struct Reading {
  /// Only readings of the same group are compared: a setting, a module, a kind of NIC. Empty if the
  /// fact has no groups.
  std::string group;
  std::string subject;  ///< "mlx5_0", "mlx5_0:2"; empty for the machine
  std::string value;    ///< the compared text
  std::string source;   ///< the file or call
};

using Readings = std::vector<Reading>;

struct Fact {
  std::string_view what;  ///< "path MTU"; if empty, the group's name is used
  Difference::Matter matter = Difference::Matter::note;
  std::string_view remedy;
  Readings (*read)(End& end) = nullptr;
};

/// Facts of machines: versions, settings, drivers and firmware.
[[nodiscard]] std::span<const Fact> machine_facts() noexcept;
/// Facts of the active ports.
[[nodiscard]] std::span<const Fact> port_facts() noexcept;

/// A setting of hbmwire: "" if it has no value; empty if neither "info" nor "environment" reports
/// it.
[[nodiscard]] std::optional<std::string> setting_of(End& end, std::string_view name);

}  // namespace hbmwire::tools::doctor
