// SPDX-License-Identifier: MIT
#include "emulation/nic/state/counter_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <string>

#include "emulation/nic/state/port_record.hpp"

namespace hbmwire::emulation::nic {
namespace {

using Value = std::uint64_t (*)(const PortRecord&);

std::uint64_t counted(const PortRecord& port, PortCounter counter) {
  return port.counters[static_cast<std::size_t>(counter)].load();
}

template <PortCounter kCounter>
std::uint64_t plain(const PortRecord& port) {
  return counted(port, kCounter);
}

/// InfiniBand counts data in words of four bytes.
template <PortCounter kBytes>
std::uint64_t words(const PortRecord& port) {
  return counted(port, kBytes) / 4;
}

/// Reads the multicast packets first. They are counted after the total, so this order never yields
/// more multicast packets than packets.
template <PortCounter kAll, PortCounter kMulticast>
std::uint64_t unicast(const PortRecord& port) {
  const std::uint64_t multicast = counted(port, kMulticast);
  return counted(port, kAll) - multicast;
}

/// The link is up at first and changes alternately, so every odd change takes it down.
std::uint64_t link_downs(const PortRecord& port) {
  return (std::uint64_t{port.link_changes.load()} + 1) / 2;
}

struct CounterFile {
  const char* path;
  Value value;
};

using enum PortCounter;

constexpr std::array kFiles{
    CounterFile{"counters/port_xmit_data", words<xmit_bytes>},
    CounterFile{"counters/port_rcv_data", words<rcv_bytes>},
    CounterFile{"counters/port_xmit_packets", plain<xmit_packets>},
    CounterFile{"counters/port_rcv_packets", plain<rcv_packets>},
    CounterFile{"counters/unicast_xmit_packets", unicast<xmit_packets, xmit_multicast_packets>},
    CounterFile{"counters/unicast_rcv_packets", unicast<rcv_packets, rcv_multicast_packets>},
    CounterFile{"counters/multicast_xmit_packets", plain<xmit_multicast_packets>},
    CounterFile{"counters/multicast_rcv_packets", plain<rcv_multicast_packets>},
    CounterFile{"counters/port_xmit_discards", plain<xmit_discards>},
    CounterFile{"counters/port_rcv_errors", plain<rcv_errors>},
    CounterFile{"counters/link_downed", link_downs},
    CounterFile{"hw_counters/rx_write_requests", plain<rx_write_requests>},
    CounterFile{"hw_counters/rx_read_requests", plain<rx_read_requests>},
    CounterFile{"hw_counters/rx_atomic_requests", plain<rx_atomic_requests>},
    CounterFile{"hw_counters/out_of_buffer", plain<out_of_buffer>},
    CounterFile{"hw_counters/rnr_nak_retry_err", plain<rnr_nak_retry_err>},
    CounterFile{"hw_counters/local_ack_timeout_err", plain<local_ack_timeout_err>},
    CounterFile{"hw_counters/req_cqe_error", plain<req_cqe_error>},
    CounterFile{"hw_counters/req_cqe_flush_error", plain<req_cqe_flush_error>},
    CounterFile{"hw_counters/req_remote_access_errors", plain<req_remote_access_errors>},
    CounterFile{"hw_counters/req_remote_invalid_request", plain<req_remote_invalid_request>},
    CounterFile{"hw_counters/resp_cqe_error", plain<resp_cqe_error>},
    CounterFile{"hw_counters/resp_cqe_flush_error", plain<resp_cqe_flush_error>},
    CounterFile{"hw_counters/resp_local_length_error", plain<resp_local_length_error>},
    CounterFile{"hw_counters/resp_remote_access_errors", plain<resp_remote_access_errors>},
};
static_assert(kFiles.size() <= kMaxCounterFiles);

constexpr std::array kIdleFiles{
    "counters/port_xmit_wait",
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_rcv_switch_relay_errors",
    "counters/port_rcv_constraint_errors",
    "counters/port_xmit_constraint_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/VL15_dropped",
    "hw_counters/duplicate_request",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/implied_nak_seq_err",
    "hw_counters/rx_icrc_encapsulated",
};

/// Overwrites the file in place: a counter never gets shorter. Returns false if the file does not
/// exist (any more).
bool rewrite(const std::filesystem::path& file, std::uint64_t value) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::string line = std::to_string(value) + '\n';
  const bool written = ::pwrite(fd, line.data(), line.size(), 0) >= 0;
  ::close(fd);
  return written;
}

}  // namespace

std::span<const char* const> counter_files() {
  static const auto kPaths = [] {
    std::array<const char*, kFiles.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = kFiles[i].path;
    return all;
  }();
  return kPaths;
}

std::span<const char* const> idle_counter_files() { return kIdleFiles; }

bool publish_counters(const std::filesystem::path& fabric, PortRecord& port) {
  if (port.directory[0] == '\0') return true;  // no process has opened its NIC yet
  // The counters are read with the lock held, so a later writer never writes a smaller number.
  const Hold guard(port.publishing);
  if (!guard.held()) return false;
  const std::filesystem::path directory = fabric / port.directory;
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    const std::uint64_t value = kFiles[i].value(port);
    if (value == port.published[i] || !rewrite(directory / kFiles[i].path, value)) continue;
    port.published[i] = value;
  }
  return true;
}

}  // namespace hbmwire::emulation::nic
