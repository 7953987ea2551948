// SPDX-License-Identifier: MIT
#include "tools/trace/text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "tools/common/columns.hpp"
#include "tools/perf/table.hpp"

namespace hbmwire::tools::trace {
namespace {

std::string duration(std::int64_t ns) { return perf::duration_text(static_cast<double>(ns)); }

/// Formats a sum: "12.3 KiB".
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGTPE";
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.3g} {}iB", value, kUnits[unit]);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

/// Names in the files of other programs may contain anything. Replaces characters that could move
/// the cursor.
std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    safe += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return safe;
}

void print(Output& output, std::string_view heading, const Columns& columns) {
  output.line("");
  output.line("{}", heading);
  for (const std::string& line : columns.lines()) output.line("  {}", line);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWaits{{
    {"room", "the send queue was full (EndpointOptions::send_depth)"},
    {"order", "transfers of the same endpoint before it waited"},
    {"fence", "what stands before a fence was not over"},
    {"mover", "not by one request of the NIC: the bytes were moved otherwise"},
    {"credit", "the peer had given no place for a message (receive_depth)"},
    {"lanes", "the endpoint had no queue pairs yet"},
    {"message", "the receive's message had not come"},
}};

std::string time_text(double us_since_1970) {
  const auto seconds = static_cast<std::time_t>(us_since_1970 / 1e6);
  std::tm parts{};
  std::array<char, 32> text{};
  // Numbers above 1e17 are some thousand years ahead: no times.
  if (us_since_1970 <= 0 || us_since_1970 > 1e17 || ::gmtime_r(&seconds, &parts) == nullptr)
    return "-";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

void print_head(Output& output, const TraceFacts& facts, const Summary& summary) {
  output.line("process    {}, {}, hbmwire {}", or_dash(printable(facts.process)), facts.process_id,
              or_dash(printable(facts.version)));
  output.line("begun      {}", time_text(facts.wall_clock_us));
  if (facts.end) output.line("length     {}", duration(facts.end->at_ns));
  const std::string shown = summary.transfers() == facts.transfers
                                ? std::string()
                                : fmt::format(", {} of them chosen", summary.transfers());
  output.line("transfers  {}{}", facts.transfers, shown);
  for (const std::string& note : notes_of(facts)) output.line("note       {}", note);
}

// The tables below align columns of words to the left.
void print_groups(Output& output, Summary& summary) {
  Columns table(
      {"kind", "path", "nic", "transfers", "failed", "waited", "bytes", "median", "p99", "max"},
      {0, 1, 2});
  for (Group* const group : summary.groups()) {
    table.add({printable(group->kind), or_dash(printable(group->path)),
               or_dash(printable(group->nic)), std::to_string(group->took.count()),
               std::to_string(group->failed), std::to_string(group->waited),
               bytes_text(group->bytes), duration(group->took.quantile_ns(0.5)),
               duration(group->took.quantile_ns(0.99)), duration(group->took.quantile_ns(1))});
  }
  print(output, "Transfers", table);
}

void print_waits(Output& output, Summary& summary) {
  if (summary.waits().empty()) return;
  Columns table({"for", "transfers", "sum", "median", "p99", "max", ""}, {0, 6});
  for (auto& [cause, waits] : summary.waits()) {
    table.add({printable(cause), std::to_string(waits.count()), perf::duration_text(waits.sum_ns()),
               duration(waits.quantile_ns(0.5)), duration(waits.quantile_ns(0.99)),
               duration(waits.quantile_ns(1)), std::string(meaning_of(cause))});
  }
  print(output, "Waits", table);
}

void print_failures(Output& output, const Summary& summary) {
  constexpr std::size_t kMost = 20;
  const auto failures = summary.failures();
  if (failures.empty()) return;
  Columns table({"transfers", "error"}, {1});
  for (std::size_t i = 0; i < std::min(failures.size(), kMost); ++i) {
    const std::string mark =
        failures[i].hint.empty() ? "" : fmt::format(" [{}]", printable(failures[i].hint));
    table.add({std::to_string(failures[i].count), printable(failures[i].error) + mark});
  }
  print(output, "Failures", table);
  if (failures.size() > kMost) output.line("  and {} other errors", failures.size() - kMost);
}

void print_slowest(Output& output, const Summary& summary) {
  const auto slowest = summary.slowest();
  if (slowest.empty()) return;
  Columns table(
      {"at", "took", "waited", "for", "kind", "bytes", "path", "nic", "endpoint", "peer", ""},
      {3, 4, 6, 7, 9, 10});
  for (const TracedTransfer& each : slowest) {
    std::string more = each.by.empty() ? "" : "by " + printable(each.by);
    if (each.failed) more = printable(each.error);
    table.add({duration(each.asked_ns), duration(each.took_ns),
               each.wait.empty() ? "-" : duration(each.waited_ns()), or_dash(printable(each.wait)),
               printable(each.kind), bytes_text(each.bytes), or_dash(printable(each.path)),
               or_dash(printable(each.nic)),
               each.endpoint == 0 ? "-" : std::to_string(each.endpoint),
               or_dash(printable(each.peer)), more});
  }
  print(output, "Slowest", table);
}

/// A character for each value: the higher, the fuller.
std::string signs_of(const std::vector<double>& values, double most) {
  constexpr std::string_view kSigns = " .:-=+*#%@";
  std::string text;
  for (const double value : values) {
    const double share = most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
    auto sign = static_cast<std::size_t>(share * static_cast<double>(kSigns.size() - 1));
    if (value > 0 && sign == 0) sign = 1;
    text += kSigns[sign];
  }
  return text;
}

void print_timeline(Output& output, const Timeline& timeline, unsigned columns) {
  constexpr unsigned kLabel = 14;   // two blanks, the label, and "|"
  constexpr unsigned kLegend = 18;  // "|", a blank, and the largest value
  constexpr unsigned kLeast = 20;
  constexpr unsigned kMost = 128;
  const auto slots = timeline.slots();
  if (slots.empty()) return;
  const std::size_t width =
      std::clamp(columns > kLabel + kLegend ? columns - kLabel - kLegend : kLeast, kLeast, kMost);
  const std::size_t together = (slots.size() + width - 1) / width;  // slots in a column
  std::vector<double> bytes;
  std::vector<double> under_way;
  std::vector<double> waiting;
  std::int64_t open = 0;  // transfers under way, and those that wait, after the slots so far
  std::int64_t held = 0;
  const double seconds =
      static_cast<double>(timeline.slot_ns()) * static_cast<double>(together) / 1e9;
  for (std::size_t first = 0; first < slots.size(); first += together) {
    double sum = 0;
    // The largest number of open transfers at the ends of its slots.
    std::int64_t most_open = 0;
    std::int64_t most_held = 0;
    for (std::size_t i = first; i < std::min(first + together, slots.size()); ++i) {
      sum += static_cast<double>(slots[i].bytes);
      open += std::int64_t{slots[i].begun} - slots[i].ended;
      held += std::int64_t{slots[i].began_waiting} - slots[i].ended_waiting;
      most_open = std::max(most_open, open);
      most_held = std::max(most_held, held);
    }
    bytes.push_back(sum / seconds);
    under_way.push_back(static_cast<double>(most_open));
    waiting.push_back(static_cast<double>(most_held));
  }
  const auto most = [](const std::vector<double>& values) {
    return *std::ranges::max_element(values);
  };
  const auto row = [&](std::string_view label, const std::vector<double>& values,
                       const std::string& legend) {
    output.line("  {:<{}}|{}| {}", label, kLabel - 3, signs_of(values, most(values)), legend);
  };
  output.line("");
  output.line("Timeline, a column for {}",
              duration(timeline.slot_ns() * static_cast<std::int64_t>(together)));
  row("bytes", bytes, fmt::format("{}/s", bytes_text(static_cast<std::uint64_t>(most(bytes)))));
  row("under way", under_way, fmt::format("{:.0f}", most(under_way)));
  if (most(waiting) > 0) row("waiting", waiting, fmt::format("{:.0f}", most(waiting)));
  const std::string begin = duration(timeline.from_ns());
  const std::string end =
      duration(timeline.from_ns() + timeline.slot_ns() * static_cast<std::int64_t>(together) *
                                        static_cast<std::int64_t>(bytes.size()));
  const std::size_t inner = std::max(bytes.size(), begin.size() + end.size() + 1);
  output.line("  {:<{}} {}{:>{}}", "", kLabel - 3, begin, end, inner - begin.size());
}

Json quantiles_json(Durations& durations) {
  const auto us = [&](double share) {
    return static_cast<double>(durations.quantile_ns(share)) / 1000;
  };
  return {{"median_us", us(0.5)}, {"p99_us", us(0.99)}, {"max_us", us(1)}};
}

Json transfer_json(const TracedTransfer& each) {
  const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1000; };
  const auto text = [](const std::string& words) { return words.empty() ? Json() : Json(words); };
  return {{"asked_us", us(each.asked_ns)},
          {"took_us", us(each.took_ns)},
          {"posted_us", each.posted_ns < 0 ? Json() : Json(us(each.posted_ns))},
          {"waited_us", us(each.waited_ns())},
          {"wait", text(each.wait)},
          {"kind", each.kind},
          {"bytes", each.bytes},
          {"path", text(each.path)},
          {"protocol", text(each.protocol)},
          {"by", text(each.by)},
          {"nic", text(each.nic)},
          {"worker", each.worker},
          {"endpoint", each.endpoint == 0 ? Json() : Json(each.endpoint)},
          {"peer", text(each.peer)},
          {"local", text(each.local)},
          {"remote", text(each.remote)},
          {"error", text(each.error)},
          {"code", text(each.code)},
          {"hint", text(each.hint)}};
}

Json timeline_json(const Timeline& timeline) {
  Json slots = Json::array();
  for (const Timeline::Slot& slot : timeline.slots()) {
    slots.push_back({{"bytes", slot.bytes},
                     {"begun", slot.begun},
                     {"ended", slot.ended},
                     {"began_waiting", slot.began_waiting},
                     {"ended_waiting", slot.ended_waiting}});
  }
  return {{"from_us", static_cast<double>(timeline.from_ns()) / 1000},
          {"slot_us", static_cast<double>(timeline.slot_ns()) / 1000},
          {"slots", std::move(slots)}};
}

}  // namespace

std::string_view meaning_of(std::string_view wait) {
  const auto* const found =
      std::ranges::find(kWaits, wait, &std::pair<std::string_view, std::string_view>::first);
  return found == kWaits.end() ? std::string_view() : found->second;
}

std::vector<std::string> notes_of(const TraceFacts& facts) {
  std::vector<std::string> notes;
  if (!facts.end) {
    notes.emplace_back(
        "the file ends midway: its process was killed, or is still writing; how many transfers are "
        "missing is not known");
  } else {
    if (!facts.end->error.empty())
      notes.push_back("the trace ended early: " + printable(facts.end->error));
    if (facts.end->dropped_busy != 0) {
      notes.push_back(
          fmt::format("{} transfers are missing: they ended faster than they could be "
                      "written",
                      facts.end->dropped_busy));
    }
    if (facts.end->dropped_full != 0) {
      notes.push_back(
          fmt::format("{} transfers are missing: the file was full; HBMWIRE_TRACE_BYTES makes it "
                      "larger",
                      facts.end->dropped_full));
    }
  }
  if (facts.odd_events != 0) {
    notes.push_back(
        fmt::format("{} events are none that this version of hbmwire writes", facts.odd_events));
  }
  return notes;
}

void print_report(Output& output, const TraceFacts& facts, Summary& summary, unsigned columns) {
  print_head(output, facts, summary);
  if (summary.transfers() == 0) return;
  print_groups(output, summary);
  print_waits(output, summary);
  print_failures(output, summary);
  print_slowest(output, summary);
  print_timeline(output, summary.timeline(), columns);
}

Json report_json(const TraceFacts& facts, Summary& summary) {
  Json json{{"process", facts.process},
            {"process_id", facts.process_id},
            {"version", facts.version},
            {"begun_unix_us", facts.wall_clock_us},
            {"whole", facts.end.has_value()},
            {"length_us", facts.end ? Json(static_cast<double>(facts.end->at_ns) / 1000) : Json()},
            {"transfers", facts.transfers},
            {"dropped_busy", facts.end ? Json(facts.end->dropped_busy) : Json()},
            {"dropped_full", facts.end ? Json(facts.end->dropped_full) : Json()},
            {"notes", notes_of(facts)},
            {"chosen", summary.transfers()}};
  json["groups"] = Json::array();
  for (Group* const group : summary.groups()) {
    Json each{{"kind", group->kind},
              {"path", group->path},
              {"nic", group->nic.empty() ? Json() : Json(group->nic)},
              {"transfers", group->took.count()},
              {"failed", group->failed},
              {"waited", group->waited},
              {"bytes", group->bytes}};
    each.update(quantiles_json(group->took));
    json["groups"].push_back(std::move(each));
  }
  json["waits"] = Json::array();
  for (auto& [cause, waits] : summary.waits()) {
    Json each{{"for", cause}, {"transfers", waits.count()}, {"sum_us", waits.sum_ns() / 1000}};
    each.update(quantiles_json(waits));
    json["waits"].push_back(std::move(each));
  }
  json["failures"] = Json::array();
  for (const Failed& failed : summary.failures()) {
    json["failures"].push_back({{"transfers", failed.count},
                                {"error", failed.error},
                                {"code", failed.code},
                                {"hint", failed.hint.empty() ? Json() : Json(failed.hint)}});
  }
  json["slowest"] = Json::array();
  for (const TracedTransfer& each : summary.slowest())
    json["slowest"].push_back(transfer_json(each));
  json["timeline"] = timeline_json(summary.timeline());
  return json;
}

}  // namespace hbmwire::tools::trace
