// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <cerrno>

#include "tools/doctor/checks/ports.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// Counters of packets that did not arrive the first time.
constexpr std::array kLossCounters{"out_of_sequence", "packet_seq_err", "local_ack_timeout_err",
                                   "rnr_nak_retry_err"};
constexpr std::string_view kDiscards = "rx_discards_phy";

// After a lost packet a NIC sends a window anew: one in so many costs a per cent or more.
constexpr std::uint64_t kPacketsALoss = 100'000;
// Where the traffic is not known.
constexpr std::uint64_t kMostLosses = 1000;

struct Losses {
  bool has_counters = false;  // any of them is there
  bool readable = false;
  int error = 0;
  std::uint64_t total = 0;
  std::string words;
};

void add_loss(Losses& losses, std::string_view name, std::uint64_t count) {
  losses.readable = true;
  losses.total += count;
  if (count != 0)
    losses.words += fmt::format("{}{} {}", losses.words.empty() ? "" : ", ", name, count);
}

// mlx5 refuses some counters with EINVAL, and a virtual function has fewer: each stands by itself.
Losses losses_of(Evidence& machine, const Port& port, const Json& statistics) {
  Losses losses;
  for (const char* name : kLossCounters) {
    const Answer counter = read_line(machine, port.folder + "/hw_counters/" + name);
    if (counter.error == ENOENT) continue;
    losses.has_counters = true;
    const auto count = leading_number(counter.value);
    if (counter.error != 0 || !count) {
      losses.error = counter.error != 0 ? counter.error : EPROTO;
      continue;
    }
    add_loss(losses, name, *count);
  }
  if (const auto discards = number_at(statistics, kDiscards))
    add_loss(losses, kDiscards, *discards);
  return losses;
}

// The priorities for which the switch or this NIC has paused: with flow control by priority.
std::string paused_priorities(const Json& statistics) {
  constexpr int kPriorities = 8;
  std::string priorities;
  for (int i = 0; i < kPriorities; ++i) {
    const auto received = number_at(statistics, fmt::format("rx_prio{}_pause", i)).value_or(0);
    const auto sent = number_at(statistics, fmt::format("tx_prio{}_pause", i)).value_or(0);
    if (received + sent != 0) priorities += fmt::format("{}{}", priorities.empty() ? "" : ",", i);
  }
  return priorities;
}

Finding judge_losses(Evidence& machine, const Port& port, const Losses& losses,
                     const Json& statistics) {
  const auto packets =
      leading_number(read_line(machine, port.folder + "/counters/port_xmit_packets").value);
  const std::string paused = paused_priorities(statistics);
  Finding finding{.check = "congestion",
                  .subject = port.subject,
                  .verdict = Verdict::good,
                  .source = port.folder + "/hw_counters",
                  .found = losses.words.empty() ? "nothing lost" : losses.words,
                  .wanted = fmt::format("less than one loss in {} packets", kPacketsALoss),
                  .remedy = {}};
  if (packets) finding.found += fmt::format(", of {} packets", *packets);
  if (!paused.empty()) finding.found += ", paused priorities " + paused;
  const bool slow = packets ? losses.total > *packets / kPacketsALoss : losses.total > kMostLosses;
  if (!slow) return finding;
  finding.verdict = Verdict::slow;
  const std::string interface = interface_of(machine, port);
  finding.remedy =
      !port.ethernet
          ? "look for bad cables (ibqueryerrors)"
          : fmt::format(
                "set the switch and the NIC to ECN, and to flow control (PFC) for the priority "
                "in use: dcb pfc show dev {}",
                interface.empty() ? "INTERFACE" : interface);
  return finding;
}

}  // namespace

Findings congestion(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : ports_of(machine, hardware)) {
    if (!port.active) continue;
    const std::string interface = port.ethernet ? interface_of(machine, port) : std::string();
    const Told told = interface.empty() ? Told{.error = ENODEV, .value = nullptr}
                                        : ask(machine, "ethtool " + interface);
    const Json& statistics = member(told.value, "statistics");
    const Losses losses = losses_of(machine, port, statistics);
    if (!losses.has_counters) continue;
    if (!losses.readable) {
      findings.push_back(unknown_for("congestion", port.subject, port.folder + "/hw_counters",
                                     losses.error, "counters of lost packets"));
      continue;
    }
    findings.push_back(judge_losses(machine, port, losses, statistics));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
