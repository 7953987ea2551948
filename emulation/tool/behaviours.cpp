// SPDX-License-Identifier: MIT
#include "emulation/tool/behaviours.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace hbmwire::emulation::tool {
namespace {

using emulation::nic::Behaviour;
using emulation::nic::NicLimits;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
constexpr Unit kRates[] = {{"M", 1'000'000}, {"G", 1'000'000'000}};
constexpr std::uint64_t kLongestNs = 60'000'000'000;
constexpr std::uint64_t kFastest = 100'000'000'000'000;  // bit/s

/// Reads a number with one of the units. The result must be from 1 to `most`.
std::optional<std::uint64_t> measure(std::string_view text, std::span<const Unit> units,
                                     std::uint64_t most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !(value > 0)) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& known : units) {
    const double scaled = value * static_cast<double>(known.factor);
    if (unit == known.name && scaled >= 1 && scaled <= static_cast<double>(most))
      return static_cast<std::uint64_t>(scaled);
  }
  return std::nullopt;
}

/// A word of an option, and the member that it sets.
struct Switch {
  std::string_view name;
  bool Behaviour::*member;
};

constexpr Switch kFeatures[] = {{"dmabuf", &Behaviour::dmabuf},
                                {"atomics", &Behaviour::atomics},
                                {"last_wqe", &Behaviour::last_wqe}};
constexpr Switch kTraits[] = {{"flush", &Behaviour::flush},
                              {"scatter", &Behaviour::scatter},
                              {"relaxed", &Behaviour::relaxed}};
constexpr std::string_view kAllTraits = "all";
constexpr std::string_view kEthernet = "ethernet";
constexpr std::string_view kInfiniband = "infiniband";

std::vector<std::string_view> names_of(std::span<const Switch> switches) {
  std::vector<std::string_view> names;
  for (const Switch& one : switches) names.push_back(one.name);
  return names;
}

std::span<Behaviour> nics_of(Hardware& hardware) {
  return {hardware.behaviour.data(), hardware.nics};
}

/// Removes "emuN=" from the front of a text. Returns the NICs that the rest applies to; none if
/// there is no such NIC.
std::span<Behaviour> take_scope(std::string_view& text, Hardware& hardware) {
  const auto all = nics_of(hardware);
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || !text.starts_with("emu")) return all;
  for (unsigned nic = 0; nic < hardware.nics; ++nic) {
    if (text.substr(0, equals) != fmt::format("emu{}", nic)) continue;
    text.remove_prefix(equals + 1);
    return all.subspan(nic, 1);
  }
  return {};
}

/// Calls `take(nics, text)` for each "[emuN=]TEXT". `take` returns an empty string, or a
/// description of the right form if TEXT does not have it.
template <class Take>
Status apply_each(std::string_view option, const std::vector<std::string>& arguments,
                  Hardware& hardware, Take take) {
  for (const std::string& argument : arguments) {
    std::string_view text = argument;
    const auto nics = take_scope(text, hardware);
    if (nics.empty()) return problem(fmt::format("{} {}: there is no such NIC", option, argument));
    const std::string_view form = take(nics, text);
    if (!form.empty()) return problem(fmt::format("{} {} is not {}", option, argument, form));
  }
  return {};
}

/// Sets a rate or a time.
Status set(const std::vector<std::string>& arguments, Hardware& hardware, std::string_view option,
           std::uint64_t Behaviour::*member) {
  const bool is_rate = member == &Behaviour::rate_bits_per_s;
  return apply_each(
      option, arguments, hardware, [&](std::span<Behaviour> nics, std::string_view text) {
        const auto value =
            is_rate ? measure(text, kRates, kFastest) : measure(text, kTimes, kLongestNs);
        if (value) {
          for (Behaviour& behaviour : nics) behaviour.*member = *value;
          return "";
        }
        return is_rate ? "a rate in bits a second, as 400M, 25G or emu1=25G"
                       : "a time up to 60s, as 800ns, 5us, 1ms or emu1=5us";
      });
}

Status take_away(const std::vector<std::string>& arguments, Hardware& hardware) {
  const auto take = [](std::span<Behaviour> nics, std::string_view text) {
    const auto* const feature = std::ranges::find(kFeatures, text, &Switch::name);
    if (feature == std::end(kFeatures)) return "dmabuf, atomics, last_wqe, or emu1=dmabuf";
    for (Behaviour& behaviour : nics) behaviour.*(feature->member) = false;
    return "";
  };
  return apply_each("--without", arguments, hardware, take);
}

struct LimitName {
  std::string_view name;
  std::uint64_t NicLimits::*member;
  std::string_view what;  ///< the object in words, for "at most N ..."
};

constexpr LimitName kLimits[] = {{"qp", &NicLimits::qp, "queue pairs"},
                                 {"cq", &NicLimits::cq, "completion queues"},
                                 {"cqe", &NicLimits::cqe, "entries of a completion queue"},
                                 {"mr", &NicLimits::mr, "memory regions"},
                                 {"srq", &NicLimits::srq, "shared receive queues"}};

/// Sets a limit like "qp=100". Returns false if the form is wrong, or the limit exceeds that of a
/// default NIC.
bool set_limit(std::span<Behaviour> nics, std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  const auto* const named =
      std::ranges::find(kLimits, text.substr(0, equals), [](const LimitName& l) { return l.name; });
  if (named == std::end(kLimits)) return false;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + equals + 1, end, value);
  if (error != std::errc{} || rest != end || value > NicLimits{}.*(named->member)) return false;
  if (value == 0 && named->name == "cqe") return false;  // a completion queue has an entry
  for (Behaviour& behaviour : nics) behaviour.limits.*(named->member) = value;
  return true;
}

Status set_limits(const std::vector<std::string>& arguments, Hardware& hardware) {
  const auto take = [](std::span<Behaviour> nics, std::string_view text) {
    while (true) {
      const auto comma = text.find(',');
      if (!set_limit(nics, text.substr(0, comma))) {
        return "OBJECT=N with qp, cq, cqe, mr or srq and no more than a NIC has without it, as "
               "qp=100, qp=100,srq=0 or emu1=qp=100";
      }
      if (comma == std::string_view::npos) return "";
      text.remove_prefix(comma + 1);
    }
  };
  return apply_each("--limits", arguments, hardware, take);
}

Status set_link_layers(const std::vector<std::string>& arguments, Hardware& hardware) {
  const auto take = [&](std::span<Behaviour> nics, std::string_view text) {
    if (text != kInfiniband && text != kEthernet) return "infiniband, ethernet, or emu1=infiniband";
    const auto first = static_cast<std::size_t>(nics.data() - hardware.behaviour.data());
    for (std::size_t nic = first; nic < first + nics.size(); ++nic)
      hardware.infiniband[nic] = text == kInfiniband;
    return "";
  };
  return apply_each("--link-layer", arguments, hardware, take);
}

/// ", InfiniBand" if all NICs have InfiniBand ports, or the list of the NICs that have them.
std::string link_layers_in_words(const Hardware& hardware) {
  if (hardware.infiniband.none()) return {};
  if (hardware.infiniband.count() == hardware.nics) return ", InfiniBand";
  std::string text;
  for (unsigned nic = 0; nic < hardware.nics; ++nic) {
    if (hardware.infiniband[nic]) text += fmt::format("{} emu{}", text.empty() ? "," : " and", nic);
  }
  return text + " of InfiniBand";
}

std::string time_in_words(std::uint64_t ns) {
  const Unit* best = kTimes;
  for (const Unit& unit : kTimes) {
    if (ns % unit.factor == 0) best = &unit;
  }
  return fmt::format("{}{}", ns / best->factor, best->name);
}

}  // namespace

std::vector<std::string_view> trait_names() {
  auto names = names_of(kTraits);
  names.push_back(kAllTraits);
  return names;
}

std::vector<std::string_view> feature_names() { return names_of(kFeatures); }

std::vector<std::string_view> link_layer_names() { return {kEthernet, kInfiniband}; }

Status apply(const BehaviourArguments& arguments, Hardware& hardware) {
  for (Behaviour& behaviour : nics_of(hardware))
    behaviour.seed = arguments.seed.value_or(behaviour.seed);
  std::vector<std::string> async;
  if (!arguments.async.empty()) async.push_back(arguments.async);
  if (auto done = set(async, hardware, "--async", &Behaviour::async_ns); !done) return done;
  if (auto done = set(arguments.rate, hardware, "--rate", &Behaviour::rate_bits_per_s); !done)
    return done;
  if (auto done = set(arguments.latency, hardware, "--latency", &Behaviour::latency_ns); !done)
    return done;
  if (auto done = take_away(arguments.without, hardware); !done) return done;
  if (auto done = set_limits(arguments.limits, hardware); !done) return done;
  if (auto done = set_link_layers(arguments.link_layer, hardware); !done) return done;
  for (const std::string& trait : arguments.like) {
    const bool all = trait == kAllTraits;
    if (!all && std::ranges::find(kTraits, trait, &Switch::name) == std::end(kTraits)) {
      return problem(
          fmt::format("--like-hardware {} is not flush, scatter, relaxed or all", trait));
    }
    for (Behaviour& behaviour : nics_of(hardware)) {
      for (const Switch& known : kTraits) behaviour.*(known.member) |= all || trait == known.name;
    }
  }
  return {};
}

std::string in_words(const Hardware& hardware) {
  if (hardware.nics == 0) return {};
  bool differ = false;
  const Behaviour& first = hardware.behaviour.front();
  for (unsigned nic = 1; nic < hardware.nics; ++nic) differ |= hardware.behaviour[nic] != first;
  std::string text = link_layers_in_words(hardware);
  if (differ) return text + ", each NIC as its own options say";
  if (first.async_ns != 0)
    text += fmt::format(", asynchronous (up to {})", time_in_words(first.async_ns));
  if (first.rate_bits_per_s != 0)
    text += fmt::format(", {} Gbit/s", static_cast<double>(first.rate_bits_per_s) / 1e9);
  if (first.latency_ns != 0) text += fmt::format(", {} away", time_in_words(first.latency_ns));
  if (first.flush) text += ", writes wait for a flush";
  if (first.scatter) text += ", small receives in the CQE";
  if (first.relaxed) text += ", relaxed ordering";
  if (!first.dmabuf) text += ", no import of dma-bufs";
  if (!first.atomics) text += ", no atomics";
  if (!first.last_wqe) text += ", no event of the last receive";
  for (const LimitName& limit : kLimits) {
    const std::uint64_t most = first.limits.*(limit.member);
    if (most == NicLimits{}.*(limit.member)) continue;
    text += most == 0 ? fmt::format(", no {}", limit.what)
                      : fmt::format(", at most {} {}", most, limit.what);
  }
  return text;
}

}  // namespace hbmwire::emulation::tool
