// SPDX-License-Identifier: MIT
#include "tools/trace/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

namespace hbmwire::tools::trace {
namespace {

/// The members that are read, of an event and of its `args`.
enum class Member : std::uint8_t {
  none,
  phase,
  name,
  category,
  process,
  begin,
  duration,
  args,
  bytes,
  path,
  protocol,
  by,
  nic,
  worker,
  endpoint,
  peer,
  local,
  remote,
  posted,
  wait,
  error,
  code,
  hint,
  version,
  wall_clock,
  transfers,
  dropped_busy,
  dropped_full,
};

using Names = std::pair<std::string_view, Member>;

constexpr std::array kOfEvents{Names{"ph", Member::phase},     Names{"name", Member::name},
                               Names{"cat", Member::category}, Names{"pid", Member::process},
                               Names{"ts", Member::begin},     Names{"dur", Member::duration},
                               Names{"args", Member::args}};
constexpr std::array kOfArgs{Names{"bytes", Member::bytes},
                             Names{"path", Member::path},
                             Names{"protocol", Member::protocol},
                             Names{"by", Member::by},
                             Names{"nic", Member::nic},
                             Names{"worker", Member::worker},
                             Names{"endpoint", Member::endpoint},
                             Names{"peer", Member::peer},
                             Names{"local", Member::local},
                             Names{"remote", Member::remote},
                             Names{"posted_us", Member::posted},
                             Names{"wait", Member::wait},
                             Names{"error", Member::error},
                             Names{"code", Member::code},
                             Names{"hint", Member::hint},
                             Names{"name", Member::name},
                             Names{"hbmwire", Member::version},
                             Names{"wall_clock_us", Member::wall_clock},
                             Names{"transfers", Member::transfers},
                             Names{"dropped_busy", Member::dropped_busy},
                             Names{"dropped_full", Member::dropped_full}};

template <class Table>
Member member_of(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Names::first);
  return found == table.end() ? Member::none : found->second;
}

// 31 years: larger values are no times. The sum of two such times, in nanoseconds, still fits into
// 64 bits.
constexpr double kMostUs = 1e15;

bool is_time(double us) noexcept { return us >= 0 && us < kMostUs; }

std::int64_t ns_of(double us) noexcept { return std::llround(us * 1000); }

/// Collects the events of a file while it is parsed.
class Events {
 public:
  Events(TraceFacts& facts, const std::function<void(const TracedTransfer&)>& use)
      : facts_(facts), use_(use) {}

  // --- called by nlohmann::json::sax_parse(); false ends the parsing

  bool null() { return scalar(); }

  bool boolean(bool /*value*/) { return scalar(); }

  bool number_integer(std::int64_t value) { return number(static_cast<double>(value), 0); }

  bool number_unsigned(std::uint64_t value) { return number(static_cast<double>(value), value); }

  bool number_float(double value, const std::string& /*text*/) {
    return number(value, value >= 0 && value < kMostUs ? static_cast<std::uint64_t>(value) : 0);
  }

  bool string(std::string& value) {
    if (std::string* const place = text_place(); place != nullptr) place->swap(value);
    return scalar();
  }

  template <class Bytes>
  bool binary(Bytes& /*value*/) {
    return scalar();
  }

  bool start_object(std::size_t /*size*/) {
    if (depth_ == 0) return false;  // the top level of a trace is a list
    if (depth_ == kOfFile) begin_event();
    ++depth_;
    return true;
  }

  bool key(std::string& name) {
    member_ = depth_ == kInEvent               ? member_of(kOfEvents, name)
              : depth_ == kInArgs && are_args_ ? member_of(kOfArgs, name)
                                               : Member::none;
    if (depth_ == kInEvent) are_args_ = member_ == Member::args;
    return true;
  }

  bool end_object() {
    --depth_;
    return depth_ != kOfFile || end_event();
  }

  bool start_array(std::size_t /*size*/) {
    ++depth_;
    // A list in place of an event counts as an odd one. Deeper lists are members of an event.
    if (depth_ == kInEvent) begin_event();
    return true;
  }

  bool end_array() {
    --depth_;
    return depth_ != kOfFile || end_event();
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*why*/) {
    error_at_ = position;
    return false;
  }

  // --- results

  [[nodiscard]] bool has_begun() const noexcept { return begin_ns_ >= 0; }

  /// The place where the text is no JSON.
  [[nodiscard]] std::optional<std::size_t> error_at() const noexcept { return error_at_; }

 private:
  // Depths of nesting: in the list, in an event, in its args.
  static constexpr int kOfFile = 1;
  static constexpr int kInEvent = 2;
  static constexpr int kInArgs = 3;

  [[nodiscard]] bool is_in_args() const noexcept { return depth_ == kInArgs && are_args_; }

  bool scalar() {
    member_ = Member::none;
    return depth_ != 0;  // the top level of a trace is a list
  }

  /// `whole`: the value as an integer; 0 if it is none.
  bool number(double value, std::uint64_t whole) {
    switch (member_) {
      case Member::process:
        process_ = whole;
        break;
      case Member::begin:
        begin_us_ = value;
        break;
      case Member::duration:
        duration_us_ = value;
        break;
      case Member::bytes:
        transfer_.bytes = whole;
        break;
      case Member::worker:
        transfer_.worker = whole;
        break;
      case Member::endpoint:
        transfer_.endpoint = whole;
        break;
      case Member::posted:
        transfer_.posted_ns = is_time(value) ? ns_of(value) : -1;
        break;
      case Member::wall_clock:
        wall_clock_us_ = value;
        break;
      case Member::transfers:
        end_.transfers = whole;
        break;
      case Member::dropped_busy:
        end_.dropped_busy = whole;
        break;
      case Member::dropped_full:
        end_.dropped_full = whole;
        break;
      default:
        break;
    }
    return scalar();
  }

  /// The place to store a string of this member; null if it is not needed.
  std::string* text_place() {
    switch (member_) {
      case Member::phase:
        return &phase_;
      case Member::name:
        return depth_ == kInArgs ? &name_in_args_ : &name_;
      case Member::category:
        return &category_;
      case Member::path:
        return &transfer_.path;
      case Member::protocol:
        return &transfer_.protocol;
      case Member::by:
        return &transfer_.by;
      case Member::nic:
        return &transfer_.nic;
      case Member::peer:
        return &transfer_.peer;
      case Member::local:
        return &transfer_.local;
      case Member::remote:
        return &transfer_.remote;
      case Member::wait:
        return &transfer_.wait;
      case Member::error:
        return &transfer_.error;
      case Member::code:
        return &transfer_.code;
      case Member::hint:
        return &transfer_.hint;
      case Member::version:
        return &version_;
      default:
        return nullptr;
    }
  }

  void begin_event() {
    // The texts keep their allocated memory.
    for (std::string* const text :
         {&phase_, &name_, &category_, &version_, &name_in_args_, &transfer_.path,
          &transfer_.protocol, &transfer_.by, &transfer_.nic, &transfer_.peer, &transfer_.local,
          &transfer_.remote, &transfer_.wait, &transfer_.error, &transfer_.code, &transfer_.hint})
      text->clear();
    begin_us_ = duration_us_ = -1;
    wall_clock_us_ = 0;
    process_ = 0;
    transfer_.bytes = transfer_.worker = transfer_.endpoint = 0;
    transfer_.posted_ns = -1;
    end_ = {};
    are_args_ = false;
  }

  /// Returns false if this is no trace of hbmwire.
  bool end_event() {
    if (phase_ == "M") {
      if (name_ == "process_name") facts_.process.swap(name_in_args_);
      return true;
    }
    if (phase_ == "i" && category_ == "trace" && is_time(begin_us_)) {
      if (name_ == "trace begins" && !has_begun()) {
        begin_ns_ = ns_of(begin_us_);
        facts_.version.swap(version_);
        facts_.process_id = process_;
        facts_.wall_clock_us = wall_clock_us_;
      } else if (name_ == "trace ends" && has_begun()) {
        facts_.end = end_;
        facts_.end->at_ns = std::max<std::int64_t>(ns_of(begin_us_) - begin_ns_, 0);
        facts_.end->error.swap(transfer_.error);
      }
      return has_begun();
    }
    if (!has_begun()) return false;
    if (phase_ == "X" && category_ == "wait") return true;  // the transfer contains its waits, too
    if (phase_ == "X" && category_.starts_with("transfer") && take_transfer()) return true;
    ++facts_.odd_events;
    return true;
  }

  bool take_transfer() {
    if (!is_time(begin_us_) || !is_time(duration_us_)) return false;
    transfer_.asked_ns = ns_of(begin_us_) - begin_ns_;
    transfer_.took_ns = ns_of(duration_us_);
    transfer_.posted_ns = std::min(transfer_.posted_ns, transfer_.took_ns);
    if (transfer_.asked_ns < 0) return false;
    transfer_.failed = category_.find("failed") != std::string::npos;
    transfer_.kind.swap(name_);
    ++facts_.transfers;
    use_(transfer_);
    return true;
  }

  TraceFacts& facts_;
  const std::function<void(const TracedTransfer&)>& use_;
  int depth_ = 0;
  Member member_ = Member::none;
  bool are_args_ = false;       // the event's last member was `args`
  std::int64_t begin_ns_ = -1;  // the time of the event "trace begins"; negative before it
  std::optional<std::size_t> error_at_;

  // The event that is being read.
  TracedTransfer transfer_;
  TraceFacts::End end_;
  std::string phase_;
  std::string name_;
  std::string category_;
  std::string version_;
  std::string name_in_args_;
  double begin_us_ = -1;
  double duration_us_ = -1;
  double wall_clock_us_ = 0;
  std::uint64_t process_ = 0;
};

}  // namespace

Outcome<TraceFacts> read_trace(std::istream& in, std::string_view name,
                               const std::function<void(const TracedTransfer&)>& use) {
  if (in.peek() == std::istream::traits_type::eof()) {
    return fail(
        fmt::format("file: {} is empty: its process has not written anything yet, or "
                    "could not",
                    name));
  }
  TraceFacts facts;
  Events events(facts, use);
  const bool whole = nlohmann::json::sax_parse(in, &events);
  if (events.has_begun() && (whole || events.error_at())) {
    // JSON that is wrong in the middle is an error. At the end it only means that the rest is
    // missing.
    if (!whole && in.peek() != std::istream::traits_type::eof()) {
      return fail(
          fmt::format("file: {} is damaged: it is no JSON at byte {}", name, *events.error_at()));
    }
    return facts;
  }
  if (events.error_at()) {
    return fail(
        fmt::format("file: {} is no trace: it is no JSON at byte {}; HBMWIRE_TRACE=FILE "
                    "has a program write a trace",
                    name, *events.error_at()));
  }
  return fail(fmt::format(
      "file: {} is JSON, but no trace of hbmwire's, which HBMWIRE_TRACE=FILE has a program write; "
      "Perfetto reads those of other programs",
      name));
}

}  // namespace hbmwire::tools::trace
