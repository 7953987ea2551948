// SPDX-License-Identifier: MIT
#include "hbmwire/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "base/every_setting.hpp"
#include "base/guarded.hpp"
#include "base/setting_numbers.hpp"
#include "base/settings_file.hpp"

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
using Whole = RegistrationOptions::Whole;
constexpr std::array kWholes{Choice<Whole>{"auto", Whole::automatic},
                             Choice<Whole>{"on", Whole::on}, Choice<Whole>{"off", Whole::off}};
using Watch = RegistrationOptions::Watch;
constexpr std::array kWatches{Choice<Watch>{"no", Watch::no}, Choice<Watch>{"yes", Watch::yes},
                              Choice<Watch>{"strict", Watch::strict}};
constexpr std::array kPaths{Choice<Path>{"zero_copy", Path::zero_copy},
                            Choice<Path>{"peer_memory", Path::peer_memory},
                            Choice<Path>{"host", Path::host},
                            Choice<Path>{"staged", Path::staged},
                            Choice<Path>{"copy", Path::copy},
                            Choice<Path>{"tcp", Path::tcp},
                            Choice<Path>{"ipc", Path::ipc},
                            Choice<Path>{"shared_memory", Path::shared_memory}};
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
std::string print(const Choices& choices, const T& value) {
  for (const auto& choice : choices) {
    if (choice.value == value) return std::string(choice.name);
  }
  return "?";
}

/// Splits the text at commas and passes each part to `take`, which returns false to reject it. An
/// empty part is a mistake.
template <class Take>
bool parse_list(std::string_view text, const Take& take) {
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    if (part.empty() || !take(part)) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool parse_names(std::string_view text, std::vector<std::string>& names) {
  return parse_list(text, [&](std::string_view name) {
    if (std::ranges::find(names, name) != names.end()) return false;
    names.emplace_back(name);
    return true;
  });
}

std::string print_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

bool parse_paths(std::string_view text, PathPolicy& paths) {
  return parse_list(text, [&](std::string_view name) {
    Path path{};
    if (!parse(kPaths, name, path)) return false;
    paths.allow.push_back(path);
    return true;
  });
}

std::string print_paths(const PathPolicy& paths) {
  std::vector<std::string> names;
  for (const Path path : paths.allow) names.push_back(print(kPaths, path));
  return print_names(names);
}

constexpr std::array kMtus{Choice<std::uint32_t>{"256", 256}, Choice<std::uint32_t>{"512", 512},
                           Choice<std::uint32_t>{"1024", 1024}, Choice<std::uint32_t>{"2048", 2048},
                           Choice<std::uint32_t>{"4096", 4096}};

/// A number from 0 to `most`, in a setting that may be left open.
template <class T>
bool parse_open(std::string_view text, std::uint64_t most, std::optional<T>& value) {
  std::uint64_t number = 0;
  if (!setting_numbers::parse_up_to(text, most, number)) return false;
  value = static_cast<T>(number);
  return true;
}

constexpr std::uint64_t kMaxGroupSize = 4096;  // GroupOptions::size

/// Empty if the setting is left open.
template <class T>
std::string print_open(const std::optional<T>& value) {
  return value ? setting_numbers::print_count(*value) : std::string();
}

/// A row of the table: how one setting is parsed, printed and explained.
struct Row {
  const char* name;
  std::string_view choices;
  std::string_view help;
  bool (*set)(EverySetting& settings, std::string_view text);
  std::string (*get)(const EverySetting& settings);
};

// NOLINTBEGIN(cppcoreguidelines-macro-usage): only a macro can name a member so that one line holds
// both the parsing and the printing of a setting.
#define HBMWIRE_SETTING(name, choices, member, values, help)                                  \
  Row {                                                                                       \
    name, choices, help,                                                                      \
        [](EverySetting& s, std::string_view text) { return parse(values, text, s.member); }, \
        [](const EverySetting& s) { return print(values, s.member); }                         \
  }
// `kind`: count, bytes or ratio.
#define HBMWIRE_NUMBER(name, choices, member, kind, help)                             \
  Row {                                                                               \
    name, choices, help,                                                              \
        [](EverySetting& s, std::string_view text) {                                  \
          return setting_numbers::parse_##kind(text, s.member);                       \
        },                                                                            \
        [](const EverySetting& s) { return setting_numbers::print_##kind(s.member); } \
  }
// A number in Settings::Endpoints that may be left open.
#define HBMWIRE_OPEN(name, choices, member, most, help)                     \
  Row {                                                                     \
    name, choices, help,                                                    \
        [](EverySetting& s, std::string_view text) {                        \
          return parse_open(text, most, s.endpoint.member);                 \
        },                                                                  \
        [](const EverySetting& s) { return print_open(s.endpoint.member); } \
  }
// NOLINTEND(cppcoreguidelines-macro-usage)

constexpr std::array kRows{
    HBMWIRE_SETTING("HBMWIRE_LOG_LEVEL", "off|error|warn|info|debug", log_level, kLevels,
                    "The level of the log on standard error"),
    HBMWIRE_SETTING("HBMWIRE_GAUDI_DMABUF", "yes|no|try", gaudi.dmabuf, kUses,
                    "Whether Gaudi memory is registered through its dma-buf; there is no other "
                    "zero-copy way"),
    HBMWIRE_SETTING("HBMWIRE_GAUDI_OWNER", "auto|synapse|hl-thunk", gaudi.owner, kOwners,
                    "The library that drives Gaudi cards in this process"),
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
    Row{"HBMWIRE_ROCM_KERNEL_CONFIG", "FILE",
        "The running kernel's configuration, where it is neither in /proc nor in /boot "
        "(containers)",
        [](EverySetting& s, std::string_view text) {
          s.rocm.kernel_config = text;
          return true;
        },
        [](const EverySetting& s) { return s.rocm.kernel_config; }},
    Row{"HBMWIRE_DEFAULT_DEVICE", "ADDRESS|INDEX",
        "The device that is meant where several have the same address and the program names none",
        [](EverySetting& s, std::string_view text) {
          s.memory.default_device = text;
          return true;
        },
        [](const EverySetting& s) { return s.memory.default_device; }},
    HBMWIRE_SETTING("HBMWIRE_REGISTRATION_WHOLE", "auto|on|off", registration.whole, kWholes,
                    "Whether the cache registers the whole allocation of device memory where a "
                    "part of it is asked for; auto: where it is small against the device's memory"),
    HBMWIRE_NUMBER("HBMWIRE_REGISTRATION_WHOLE_RATIO", "0...1", registration.whole_ratio, ratio,
                   "Up to which part of the device's memory an allocation is small for that"),
    HBMWIRE_NUMBER("HBMWIRE_REGISTRATION_MAX_REGIONS", "NUMBER", registration.max_regions, count,
                   "How many memory regions the cache keeps, over all NICs"),
    HBMWIRE_NUMBER("HBMWIRE_REGISTRATION_MAX_BYTES", "NUMBER[KMG]|unlimited",
                   registration.max_bytes, bytes, "How much memory the cache keeps registered"),
    HBMWIRE_NUMBER("HBMWIRE_REGISTRATION_MAX_DMABUFS", "NUMBER", registration.max_dmabufs, count,
                   "How many descriptors of dma-bufs the cache keeps open"),
    HBMWIRE_SETTING("HBMWIRE_REGISTRATION_WATCH", "no|yes|strict", registration.watch, kWatches,
                    "Whether the application's host memory is watched, and its registrations kept; "
                    "strict: each look-up waits for an unmapping that is under way"),
    Row{"HBMWIRE_NICS", "NAME[,NAME]...",
        "The NICs with which memory is registered; endpoints communicate by the first one, and "
        "large transfers go by up to four. none: by TCP",
        [](EverySetting& s, std::string_view text) { return parse_names(text, s.endpoint.nics); },
        [](const EverySetting& s) { return print_names(s.endpoint.nics); }},
    HBMWIRE_OPEN("HBMWIRE_GID_INDEX", "0...255", gid_index, 255,
                 "Index in the GID table of each NIC's port; without: RoCE v2 before v1, routable "
                 "before link-local"),
    HBMWIRE_NUMBER("HBMWIRE_RAILS_FROM", "NUMBER[KMG]|unlimited", endpoint.rails_from_bytes, bytes,
                   "From how many bytes on a put or get goes by several NICs, where there are"),
    HBMWIRE_NUMBER("HBMWIRE_IPC_FROM", "NUMBER[KMG]|unlimited", endpoint.ipc_from_bytes, bytes,
                   "From how many bytes on a put or get between two processes' GPU memory goes by "
                   "IPC, where another way is left"),
    Row{"HBMWIRE_PATHS", "PATH[,PATH]...",
        "The only paths that memory may take (zero_copy, peer_memory, host, staged, copy, "
        "tcp, ipc, shared_memory); without: all",
        [](EverySetting& s, std::string_view text) { return parse_paths(text, s.endpoint.paths); },
        [](const EverySetting& s) { return print_paths(s.endpoint.paths); }},
    Row{"HBMWIRE_REQUIRE_PATH", "zero_copy|peer_memory|host|staged|copy|tcp|ipc|shared_memory",
        "The path that device memory must take; memory that can't take it is an error",
        [](EverySetting& s, std::string_view text) {
          return parse(kPaths, text, s.endpoint.paths.require.emplace());
        },
        [](const EverySetting& s) {
          return s.endpoint.paths.require ? print(kPaths, *s.endpoint.paths.require) : "";
        }},
    Row{"HBMWIRE_PRE_SHARED_KEY_FILE", "FILE",
        "Holds the key that both ends of an endpoint know; only its owner may read it",
        [](EverySetting& s, std::string_view text) {
          s.endpoint.pre_shared_key_file = text;
          return true;
        },
        [](const EverySetting& s) { return s.endpoint.pre_shared_key_file; }},
    HBMWIRE_OPEN("HBMWIRE_LINK_SERVICE_LEVEL", "0...15", link.service_level, 15,
                 "Service level of an endpoint's packets (RoCE: the VLAN priority)"),
    HBMWIRE_OPEN("HBMWIRE_LINK_TRAFFIC_CLASS", "0...255", link.traffic_class, 255,
                 "Traffic class of an endpoint's packets: four times the DSCP"),
    HBMWIRE_OPEN("HBMWIRE_LINK_PKEY_INDEX", "0...65535", link.pkey_index, 65535,
                 "Index in the partition key table of each NIC's port; without: 0"),
    Row{"HBMWIRE_LINK_MTU", "256|512|1024|2048|4096",
        "Path MTU of endpoints in bytes, no more than the ports'; without: the smaller one of both "
        "ports'",
        [](EverySetting& s, std::string_view text) {
          return parse(kMtus, text, s.endpoint.link.mtu_bytes.emplace());
        },
        [](const EverySetting& s) { return print_open(s.endpoint.link.mtu_bytes); }},
    HBMWIRE_OPEN("HBMWIRE_LINK_ACK_TIMEOUT", "0...31", link.ack_timeout, 31,
                 "Endpoints send a packet again after 4.096 us * 2^N without acknowledgement; "
                 "without: by EndpointOptions::peer_timeout"),
    HBMWIRE_OPEN("HBMWIRE_LINK_RETRY_COUNT", "0...7", link.retry_count, 7,
                 "How often they do so before the peer is taken for gone; without: 7"),
    HBMWIRE_OPEN("HBMWIRE_LINK_RNR_RETRY", "0...7", link.rnr_retry, 7,
                 "How often a message that finds no receive is sent again, 7: without end; "
                 "without: 6"),
    HBMWIRE_SETTING("HBMWIRE_STATS", "yes|no", statistics.publish, kSwitches,
                    "Whether `hbmwire stat` may read this process' counters"),
    HBMWIRE_NUMBER("HBMWIRE_STATS_PEERS", "NUMBER", statistics.peers, count,
                   "How many peers are counted each by itself; the others are counted together"),
    Row{"HBMWIRE_TRACE", "FILE",
        "The file that the trace of all transfers is written to (%p: the process id); without: "
        "nowhere",
        [](EverySetting& s, std::string_view text) {
          s.trace.file = text;
          return true;
        },
        [](const EverySetting& s) { return s.trace.file; }},
    HBMWIRE_NUMBER("HBMWIRE_TRACE_BYTES", "NUMBER[KMG]|unlimited", trace.most_bytes, bytes,
                   "The size of that file, at most"),
    Row{"HBMWIRE_GROUP", "tcp://HOST:PORT|pmix|file:///PATH|etcd://HOST:PORT/NAME|env",
        "Where the processes of a group meet; env: as the launcher's environment says, without "
        "PMIx; without: as the launcher says",
        [](EverySetting& s, std::string_view text) {
          s.group.meeting = text;
          return true;
        },
        [](const EverySetting& s) { return s.group.meeting; }},
    Row{"HBMWIRE_GROUP_RANK", "0...4095",
        "The number of this process in its group; without: the launcher's",
        [](EverySetting& s, std::string_view text) {
          return parse_open(text, kMaxGroupSize - 1, s.group.rank);
        },
        [](const EverySetting& s) { return print_open(s.group.rank); }},
    Row{"HBMWIRE_GROUP_SIZE", "1...4096",
        "How many processes the group has; without: as the launcher says",
        [](EverySetting& s, std::string_view text) {
          return parse_open(text, kMaxGroupSize, s.group.size) && *s.group.size > 0;
        },
        [](const EverySetting& s) { return print_open(s.group.size); }},
};
#undef HBMWIRE_SETTING
#undef HBMWIRE_NUMBER
#undef HBMWIRE_OPEN

// The only place that reads the library's environment variables. An empty variable counts as not
// set.
std::optional<std::string_view> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

// Prefixes that only this library uses. A variable that begins so but is no setting is a typing
// mistake.
constexpr std::array<std::string_view, 16> kPrefixes{
    "HBMWIRE_GAUDI_",   "HBMWIRE_CUDA_",         "HBMWIRE_ROCM_",  "HBMWIRE_LOG_",
    "HBMWIRE_HOST_",    "HBMWIRE_REGISTRATION_", "HBMWIRE_NIC",    "HBMWIRE_PATH",
    "HBMWIRE_REQUIRE_", "HBMWIRE_PRE_",          "HBMWIRE_RAILS_", "HBMWIRE_LINK_",
    "HBMWIRE_GID_",     "HBMWIRE_STAT",          "HBMWIRE_TRACE",  "HBMWIRE_GROUP"};

const Row* row_of(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kRows, [&](const Row& row) { return row.name == name; });
  return found == kRows.end() ? nullptr : found;
}

// The Levenshtein distance: how many letters must be changed, added or removed to turn one into the
// other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> above(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = above[0];
    above[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = above[j + 1];
      above[j + 1] = std::min({changed, above[j] + 1, diagonal + 1});
    }
  }
  return above.back();
}

// An Error holds only static strings. So the sentences for all rows are made once and never
// destroyed.
struct Sentences {
  Sentences() {
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      takes[i] = std::string(kRows[i].name) + " takes " + std::string(kRows[i].choices);
      nearest[i] = std::string("no setting has this name; the nearest is ") + kRows[i].name;
    }
  }

  static const Sentences& get() {
    static const auto& sentences = *new Sentences;
    return sentences;
  }

  std::array<std::string, kRows.size()> takes;
  std::array<std::string, kRows.size()> nearest;
};

std::size_t index_of(const Row& row) { return static_cast<std::size_t>(&row - kRows.data()); }

Error unknown_name(std::string_view name, std::string_view subject) {
  const auto nearest = std::ranges::min_element(
      kRows, {}, [&](const Row& row) { return edit_distance(row.name, name); });
  return make_error(Errc::invalid_argument, Stage::configure,
                    Sentences::get().nearest[index_of(*nearest)].c_str(), subject,
                    Hint::setting_choices);
}

Result<void> check_environment() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    const bool is_ours =
        std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
    if (!is_ours || equals + 1 >= text.size() || row_of(name) != nullptr) continue;
    return tl::make_unexpected(unknown_name(name, name));
  }
  return {};
}

// A value as it was written, not parsed yet. One for each row.
struct Given {
  std::string value;
  std::string source;
};

using GivenByRow = std::array<std::optional<Given>, kRows.size()>;

GivenByRow given_by_environment() {
  GivenByRow given;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (const auto text = variable(kRows[i].name))
      given[i] = Given{.value = std::string(*text), .source = "environment"};
  }
  return given;
}

Result<GivenByRow> given_by_file() {
  GivenByRow given;
  const auto path = variable(kSettingsFileVariable);
  if (!path) return given;
  HBMWIRE_TRY_ASSIGN(const auto lines, read_settings_file(std::string(*path)));
  for (const SettingLine& line : lines) {
    const Row* const row = row_of(line.name);
    if (row == nullptr)
      return tl::make_unexpected(unknown_name(line.name, fit_subject(line.place)));
    auto& slot = given[index_of(*row)];
    if (slot) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                            "the setting stands in the file twice",
                                            fit_subject(line.place), Hint::settings_file));
    }
    slot = Given{.value = line.value, .source = line.place};
  }
  return given;
}

// The environment overrides the file.
GivenByRow merge(GivenByRow environment, const GivenByRow& file) {
  for (std::size_t i = 0; i < environment.size(); ++i) {
    if (!environment[i] && file[i] && !file[i]->value.empty()) environment[i] = file[i];
  }
  return environment;
}

}  // namespace

Result<EverySetting> every_setting() {
  return guarded(Stage::configure, [&]() -> Result<EverySetting> {
    HBMWIRE_TRY(check_environment());
    HBMWIRE_TRY_ASSIGN(const GivenByRow file, given_by_file());
    const GivenByRow given = merge(given_by_environment(), file);
    EverySetting settings;
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      if (!given[i] || kRows[i].set(settings, given[i]->value)) continue;
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                            Sentences::get().takes[i].c_str(),
                                            fit_subject(given[i]->source), Hint::setting_choices));
    }
    return settings;
  });
}

Result<Settings> settings_from_environment() {
  return every_setting().map([](EverySetting&& all) { return Settings(std::move(all)); });
}

std::vector<SettingInfo> describe_settings() {
  const EverySetting defaults;
  const auto file = given_by_file();
  const GivenByRow given = merge(given_by_environment(), file ? *file : GivenByRow{});
  std::vector<SettingInfo> infos;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const Row& row = kRows[i];
    const std::string default_value = row.get(defaults);
    infos.push_back({.name = row.name,
                     .choices = row.choices,
                     .help = row.help,
                     .default_value = default_value,
                     .value = given[i] ? given[i]->value : default_value,
                     .source = given[i] ? given[i]->source : "default"});
  }
  return infos;
}

}  // namespace hbmwire
