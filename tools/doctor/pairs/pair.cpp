// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/pair.hpp"

#include <algorithm>
#include <array>

#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::array kOutcomes{
    PairOutcome::zero_copy, PairOutcome::peer_memory, PairOutcome::host,   PairOutcome::copy,
    PairOutcome::ipc,       PairOutcome::tcp,         PairOutcome::slow,   PairOutcome::staged,
    PairOutcome::untried,   PairOutcome::refused,     PairOutcome::failed,
};

// 32 devices of each family and 16 NICs of two ports are 3,104 pairs.
constexpr std::size_t kMostPairs = 4096;
constexpr std::size_t kLongestText = 2048;  // bytes; a sentence with its remedy has some 500

}  // namespace

std::string_view to_string(PairOutcome outcome) noexcept {
  switch (outcome) {
    case PairOutcome::zero_copy:
      return "zero_copy";
    case PairOutcome::peer_memory:
      return "peer_memory";
    case PairOutcome::host:
      return "host";
    case PairOutcome::copy:
      return "copy";
    case PairOutcome::ipc:
      return "ipc";
    case PairOutcome::tcp:
      return "tcp";
    case PairOutcome::slow:
      return "slow";
    case PairOutcome::staged:
      return "staged";
    case PairOutcome::untried:
      return "untried";
    case PairOutcome::refused:
      return "refused";
    case PairOutcome::failed:
      return "failed";
  }
  return "failed";
}

PairError error_of(const Error& error) {
  return {.step = std::string(to_string(error.stage)),
          .code = std::string(to_string(error.code)),
          .hint = std::string(to_string(error.hint)),
          .text = describe(error, remedy_by_options(error.hint))};
}

PairError no_answer(const std::string& step, const std::string& what, bool hangs,
                    std::chrono::milliseconds limit, const std::string& how) {
  return {.step = step,
          .code = std::string(to_string(hangs ? Errc::timed_out : Errc::system)),
          .hint = "none",
          .text = hangs
                      ? fmt::format("{}: {}: no answer within {:g} s; look for the driver's words "
                                    "in `dmesg`, and allow more time with --timeout if it is only "
                                    "slow",
                                    step, what, std::chrono::duration<double>(limit).count())
                      : fmt::format("{}: {}: the process that did this was {}; look at `dmesg`, "
                                    "and for a vendor's library of another version than its "
                                    "driver",
                                    step, what, how.empty() ? "ended" : how)};
}

double judged_rate(bool emulated, double written, double read) noexcept {
  return emulated ? std::max(written, read) : std::min(written, read);
}

PairOutcome outcome_of(Path path, double slowest, double possible, bool emulated) noexcept {
  if (slowest < slow_share(emulated) * possible) return PairOutcome::slow;
  return path == Path::host          ? PairOutcome::host
         : path == Path::peer_memory ? PairOutcome::peer_memory
                                     : PairOutcome::zero_copy;
}

double Pair::bytes_per_second() const noexcept {
  if (read_bytes_per_second <= 0) return write_bytes_per_second;
  if (write_bytes_per_second <= 0) return read_bytes_per_second;
  return std::min(write_bytes_per_second, read_bytes_per_second);
}

double Pair::share() const noexcept {
  return possible_bytes_per_second > 0 ? bytes_per_second() / possible_bytes_per_second : 0;
}

Json to_json(const std::optional<PairError>& error) {
  if (!error) return nullptr;
  return {
      {"step", error->step}, {"code", error->code}, {"hint", error->hint}, {"text", error->text}};
}

Json to_json(const Pair& pair) {
  return {{"memory", pair.memory},
          {"device", pair.device},
          {"device_address", pair.device_address},
          {"by", pair.by},
          {"by_address", pair.by_address},
          {"outcome", to_string(pair.outcome)},
          {"path", pair.path},
          {"distance", pair.distance},
          {"copy_path", pair.copy_path},
          {"verified_bytes", pair.verified_bytes},
          {"wrong_bytes", pair.wrong_bytes},
          {"write_bytes_per_second", pair.write_bytes_per_second},
          {"read_bytes_per_second", pair.read_bytes_per_second},
          {"latency_ns", pair.latency_ns},
          {"possible_bytes_per_second", pair.possible_bytes_per_second},
          {"limit", pair.limit},
          {"error", to_json(pair.error)}};
}

Json to_json(const Pairs& pairs) {
  Json list = Json::array();
  for (const Pair& pair : pairs.pairs) list.push_back(to_json(pair));
  return {{"emulated", pairs.emulated},         {"nics", pairs.nics},
          {"accelerators", pairs.accelerators}, {"no_nics", to_json(pairs.no_nics)},
          {"no_look", to_json(pairs.no_look)},  {"pairs", std::move(list)}};
}

namespace {

/// Reads the members of one object, and remembers the first fault.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {
    if (!json.is_object()) wrong_ = "the object";
  }

  /// Replaces control characters: a file must not be able to control a terminal.
  void text(const char* name, std::string& value) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_string() || found->get_ref<const std::string&>().size() > kLongestText)
      return note(name);
    value = wire::printable(found->get_ref<const std::string&>());
  }

  void number(const char* name, double& value) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_number() || !(found->get<double>() >= 0) || found->get<double>() > 1e18)
      return note(name);
    value = found->get<double>();
  }

  template <class T>
  void count(const char* name, T& value) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_number_unsigned()) return note(name);
    value = found->get<T>();
  }

  void flag(const char* name, bool& value) {
    const Json* const found = find(name);
    if (found == nullptr) return;
    if (!found->is_boolean()) return note(name);
    value = found->get<bool>();
  }

  void error(const char* name, std::optional<PairError>& value) {
    const Json* const found = find(name);
    if (found == nullptr || found->is_null()) return;
    value = error_from_json(*found);
    if (!value) note(name);
  }

  void outcome(const char* name, PairOutcome& value) {
    std::string word;
    text(name, word);
    const auto* const found =
        std::ranges::find(kOutcomes, word, [](PairOutcome outcome) { return to_string(outcome); });
    if (found == kOutcomes.end()) return note(name);
    value = *found;
  }

  const Json* list(const char* name) {
    const Json* const found = find(name);
    if (found != nullptr && found->is_array() && found->size() <= kMostPairs) return found;
    note(name);
    return nullptr;
  }

  [[nodiscard]] Outcome<void> good() const {
    if (wrong_.empty()) return {};
    return fail(
        fmt::format("file: the runs over pairs that were saved are not as `hbmwire doctor` "
                    "writes them: \"{}\"; save them again, by the same version",
                    wrong_));
  }

 private:
  const Json* find(const char* name) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    note(name);
    return nullptr;
  }

  void note(const char* name) {
    if (wrong_.empty()) wrong_ = name;
  }

  const Json& json_;
  std::string wrong_;
};

}  // namespace

std::optional<PairError> error_from_json(const Json& json) {
  PairError error;
  Members members(json);
  members.text("step", error.step);
  members.text("code", error.code);
  members.text("hint", error.hint);
  members.text("text", error.text);
  if (!members.good()) return std::nullopt;
  return error;
}

Outcome<Pair> pair_from_json(const Json& json) {
  Pair pair;
  Members members(json);
  members.text("memory", pair.memory);
  members.text("device", pair.device);
  members.text("device_address", pair.device_address);
  members.text("by", pair.by);
  members.text("by_address", pair.by_address);
  members.outcome("outcome", pair.outcome);
  members.text("path", pair.path);
  members.text("distance", pair.distance);
  members.text("copy_path", pair.copy_path);
  members.count("verified_bytes", pair.verified_bytes);
  members.count("wrong_bytes", pair.wrong_bytes);
  members.number("write_bytes_per_second", pair.write_bytes_per_second);
  members.number("read_bytes_per_second", pair.read_bytes_per_second);
  members.number("latency_ns", pair.latency_ns);
  members.number("possible_bytes_per_second", pair.possible_bytes_per_second);
  members.text("limit", pair.limit);
  members.error("error", pair.error);
  HBMWIRE_TRY(members.good());
  return pair;
}

Outcome<Pairs> pairs_from_json(const Json& json) {
  Pairs pairs;
  Members members(json);
  members.flag("emulated", pairs.emulated);
  members.count("nics", pairs.nics);
  members.count("accelerators", pairs.accelerators);
  members.error("no_nics", pairs.no_nics);
  members.error("no_look", pairs.no_look);
  const Json* const list = members.list("pairs");
  HBMWIRE_TRY(members.good());
  for (const Json& each : *list) {
    HBMWIRE_TRY_ASSIGN(Pair pair, pair_from_json(each));
    pairs.pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace hbmwire::tools::doctor
