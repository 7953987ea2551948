// SPDX-License-Identifier: MIT
#include "hbmwire/settings.hpp"

#include <array>
#include <cstdlib>
#include <optional>

namespace hbmwire {

namespace {

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

constexpr std::array kUses{Choice<Use>{"yes", Use::yes}, Choice<Use>{"no", Use::no},
                           Choice<Use>{"try", Use::attempt}};
constexpr std::array kSwitches{Choice<bool>{"yes", true}, Choice<bool>{"no", false}};
using Owner = MemoryOptions::Owner;
constexpr std::array kOwners{Choice<Owner>{"auto", Owner::automatic},
                             Choice<Owner>{"synapse", Owner::synapse},
                             Choice<Owner>{"hl-thunk", Owner::hl_thunk}};
constexpr std::array kLevels{
    Choice<LogLevel>{"off", LogLevel::off}, Choice<LogLevel>{"error", LogLevel::error},
    Choice<LogLevel>{"warn", LogLevel::warn}, Choice<LogLevel>{"info", LogLevel::info},
    Choice<LogLevel>{"debug", LogLevel::debug}};

template <class Choices, class T>
bool parse(const Choices& choices, std::string_view text, T& value) {
  for (const auto& choice : choices) {
    if (choice.name != text) continue;
    value = choice.value;
    return true;
  }
  return false;
}

template <class Choices, class T>
std::string_view print(const Choices& choices, const T& value) {
  for (const auto& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return "?";
}

/// One row of the table: how a setting is read and shown.
struct Row {
  const char* name;
  std::string_view choices;
  std::string_view help;
  bool (*set)(Settings& settings, std::string_view text);
  std::string_view (*get)(const Settings& settings);
};

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a member can't be named in any other way that keeps
// parsing and printing of one setting in one line.
#define HBMWIRE_SETTING(name, choices, member, values, help)                              \
  Row {                                                                                   \
    name, choices, help,                                                                  \
        [](Settings& s, std::string_view text) { return parse(values, text, s.member); }, \
        [](const Settings& s) { return print(values, s.member); }                         \
  }
// NOLINTEND(cppcoreguidelines-macro-usage)

const std::array kRows{
    HBMWIRE_SETTING("HBMWIRE_LOG_LEVEL", "off|error|warn|info|debug", log_level, kLevels,
                    "What is written on standard error"),
    HBMWIRE_SETTING("HBMWIRE_GAUDI_DMABUF", "yes|no|try", gaudi.dmabuf, kUses,
                    "Whether Gaudi memory is registered through its dma-buf; there is no other "
                    "zero-copy way"),
    HBMWIRE_SETTING("HBMWIRE_GAUDI_OWNER", "auto|synapse|hl-thunk", gaudi.owner, kOwners,
                    "Who drives a Gaudi card in this process"),
    HBMWIRE_SETTING("HBMWIRE_CUDA_DMABUF", "yes|no|try", cuda.dmabuf, kUses,
                    "Whether CUDA memory is registered through its dma-buf; no: by peer memory "
                    "(nvidia_peermem), try: by peer memory where the dma-buf fails"),
    HBMWIRE_SETTING("HBMWIRE_CUDA_PCIE_MAPPING", "yes|no|try", cuda.pcie_mapping, kUses,
                    "Whether CUDA exports dma-bufs with the PCIe mapping (driver 12.8 and newer)"),
    HBMWIRE_SETTING("HBMWIRE_CUDA_SYNC_MEMOPS", "yes|no", cuda.sync_memops, kSwitches,
                    "Whether CUDA's synchronous copies are complete before a NIC reads"),
    HBMWIRE_SETTING("HBMWIRE_ROCM_DMABUF", "yes|no|try", rocm.dmabuf, kUses,
                    "Whether ROCm memory is registered through its dma-buf; no: by peer memory, "
                    "try: by peer memory where the dma-buf fails"),
};
#undef HBMWIRE_SETTING

// The one place that reads the product's variables.
std::optional<std::string_view> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

}  // namespace

Result<Settings> settings_from_environment() {
  Settings settings;
  for (const Row& row : kRows) {
    const auto text = variable(row.name);
    if (!text || row.set(settings, *text)) continue;
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "the variable's value is none of its choices", row.name,
                                          Hint::setting_choices));
  }
  return settings;
}

std::vector<SettingInfo> describe_settings() {
  const Settings defaults;
  std::vector<SettingInfo> infos;
  for (const Row& row : kRows) {
    const auto text = variable(row.name);
    const std::string default_value(row.get(defaults));
    infos.push_back({.name = row.name,
                     .choices = row.choices,
                     .help = row.help,
                     .default_value = default_value,
                     .value = text ? std::string(*text) : default_value,
                     .source = text ? "environment" : "default"});
  }
  return infos;
}

}  // namespace hbmwire
