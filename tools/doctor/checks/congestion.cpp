// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "tools/doctor/checks/ports.hpp"
#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor::rules {
namespace {

// Counters of packets that arrived late, damaged or not at all.
constexpr std::array kLossCounters{"out_of_sequence", "packet_seq_err", "local_ack_timeout_err",
                                   "rnr_nak_retry_err"};
constexpr std::string_view kDiscards = "rx_discards_phy";

// After a lost packet a NIC sends a window again. One loss in this many packets costs a per cent of
// the rate or more.
constexpr std::uint64_t kPacketsALoss = 100'000;
// The limit if the number of packets is not known.
constexpr std::uint64_t kMostLosses = 1000;

struct Losses {
  bool has_counters = false;  // at least one counter exists
  bool readable = false;      // at least one could be read
  int error = 0;              // errno of the first counter that could not be read
  std::string source;         // the file of that counter
  std::uint64_t total = 0;
  std::string words;
};

// Keeps the first error that leaves a question open.
void note(Losses& losses, const std::string& source, int error) {
  if (losses.error != 0 || !is_unread(error)) return;
  losses.error = error;
  losses.source = source;
}

void add_loss(Losses& losses, std::string_view name, std::uint64_t count) {
  losses.readable = true;
  losses.total += count;
  if (count != 0)
    losses.words += fmt::format("{}{} {}", losses.words.empty() ? "" : ", ", name, count);
}

// mlx5 refuses some counters with EINVAL, and a virtual function has fewer of them. One missing
// counter therefore says nothing about the others.
Losses losses_of(Evidence& machine, const Port& port) {
  Losses losses;
  for (const char* name : kLossCounters) {
    const std::string source = port.folder + "/hw_counters/" + name;
    const Answer counter = read_line(machine, source);
    if (counter.error == ENOENT) continue;
    losses.has_counters = true;
    const auto count = leading_number(counter.value);
    if (count) {
      add_loss(losses, name, *count);
    } else {
      note(losses, source, counter.error != 0 ? counter.error : EPROTO);
    }
  }
  note(losses, port.folder + "/hw_counters", machine.folder(port.folder + "/hw_counters").error);
  return losses;
}

// The counters of the port's network interface; empty if the port has none.
Told statistics_of(Evidence& machine, const Port& port, Losses& losses) {
  if (!port.ethernet) return {.error = ENODEV, .value = nullptr};
  const Interface interface = interface_of(machine, port);
  note(losses, port.folder + "/gid_attrs/ndevs", interface.error);
  if (interface.name.empty()) return {.error = ENODEV, .value = nullptr};
  Told told = ask(machine, "ethtool " + interface.name);
  note(losses, "ethtool -S " + interface.name, told.error);
  if (const auto discards = number_at(member(told.value, "statistics"), kDiscards))
    add_loss(losses, kDiscards, *discards);
  return told;
}

// The priorities for which the switch or this NIC sent pauses (priority flow control).
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

std::string congestion_remedy(Evidence& machine, const Port& port) {
  if (!port.ethernet) return "look for bad cables (ibqueryerrors)";
  const std::string interface = interface_of(machine, port).name;
  return fmt::format(
      "set the switch and the NIC to ECN, and to flow control (PFC) for the priority in use: dcb "
      "pfc show dev {}",
      interface.empty() ? "INTERFACE" : interface);
}

Finding judge_losses(Evidence& machine, const Port& port, Losses losses, const Json& statistics) {
  const std::string traffic = port.folder + "/counters/port_xmit_packets";
  const Answer sent = read_line(machine, traffic);
  const auto packets = leading_number(sent.value);
  note(losses, traffic, sent.error);
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
  const bool traffic_hidden = is_unread(sent.error);
  // Without a counter of packets a fixed limit applies. If the counter is hidden, no limit does.
  const bool slow = packets ? losses.total > *packets / kPacketsALoss
                            : !traffic_hidden && losses.total > kMostLosses;
  if (slow) {
    finding.verdict = Verdict::slow;
    finding.remedy = congestion_remedy(machine, port);
  } else if (losses.error != 0) {
    return unknown_for(finding.check, finding.subject, losses.source, losses.error,
                       "all counters of lost packets");
  }
  return finding;
}

}  // namespace

Findings congestion(Evidence& machine) {
  const Hardware hardware = hardware_of(machine);
  Findings findings;
  for (const Port& port : active_ports(machine, hardware, "congestion", findings)) {
    Losses losses = losses_of(machine, port);
    const Told told = statistics_of(machine, port, losses);
    if (!losses.has_counters && losses.error == 0) continue;
    if (!losses.readable && losses.error == 0) {
      findings.push_back(unknown_for("congestion", port.subject, port.folder + "/hw_counters",
                                     EINVAL, "counters of lost packets"));
      continue;
    }
    findings.push_back(
        judge_losses(machine, port, std::move(losses), member(told.value, "statistics")));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor::rules
