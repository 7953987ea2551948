// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// More CPUs than any machine has: a list in an archive may claim 2^64 of them.
constexpr std::size_t kMostListedCpus = 8192;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end != 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::string first_line(std::string_view text) {
  return std::string(trimmed(text.substr(0, text.find('\n'))));
}

Answer read_line(Evidence& machine, const std::string& path) {
  Answer answer = machine.file(path);
  answer.value = first_line(answer.value);
  return answer;
}

std::vector<std::string_view> lines_in(std::string_view text) { return split_at(text, "\n"); }

std::vector<std::string_view> words_in(std::string_view text) { return split_at(text, kBlanks); }

std::optional<std::string> value_of_key(std::string_view text, std::string_view key) {
  for (const std::string_view line : lines_in(text)) {
    if (line.starts_with(key)) return std::string(trimmed(line.substr(key.size())));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> leading_number(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [rest, problem] =
      std::from_chars(text.data(), text.data() + text.size(), number, base);
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

std::vector<std::uint64_t> cpus_in(std::string_view list) {
  std::vector<std::uint64_t> cpus;
  for (const std::string_view range : split_at(list, ", \n")) {
    const auto first = leading_number(range);
    if (!first) continue;
    const std::size_t dash = range.find('-');
    const auto last =
        dash == std::string_view::npos ? first : leading_number(range.substr(dash + 1));
    for (std::uint64_t cpu = *first; last && cpu <= *last && cpus.size() < kMostListedCpus; ++cpu)
      cpus.push_back(cpu);
  }
  return cpus;
}

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.find_last_of('/') + 1));
}

bool is_forbidden(int error) noexcept { return error == EACCES || error == EPERM; }

bool is_unread(int error) noexcept {
  switch (error) {
    case 0:
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ENXIO:
    case EINVAL:
    case EOPNOTSUPP:
      return false;
    default:
      return true;
  }
}

int error_below(Evidence& machine, const std::string& folder, int error) {
  if (error != ENOENT) return error;
  const Names names = machine.folder(folder);
  if (is_unread(names.error)) return names.error;
  return names.values.empty() ? ENODATA : error;
}

bool is_device_name(std::string_view text) noexcept {
  constexpr std::size_t kLongest = 64;  // IB_DEVICE_NAME_MAX; interfaces have 15
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || text.size() > kLongest || !is_plain(text.front())) return false;
  return std::ranges::all_of(text, [&](char c) {
    return is_plain(c) || std::string_view("_.:@-").find(c) != std::string_view::npos;
  });
}

std::string error_words(int error) {
  return fmt::format("{} (errno {})", std::generic_category().message(error), error);
}

const Json& member(const Json& object, std::string_view key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(std::string(key));
  return found == object.end() ? nothing : *found;
}

std::string text_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<std::uint64_t> number_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0)
    return static_cast<std::uint64_t>(value.get<std::int64_t>());
  return std::nullopt;
}

std::optional<bool> flag_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

Told ask(Evidence& machine, const std::string& name) {
  Json answer = machine.call(name);
  if (const auto error = number_at(answer, "error"))
    // A foreign number is cut, so that it fits an int.
    return {.error = *error == 0 ? EPROTO : static_cast<int>(*error & 0xFFFFU),
            .value = nullptr,
            .failure = std::move(answer)};
  const Json& value = member(answer, "value");
  if (value.is_null()) return {.error = EPROTO, .value = nullptr};
  return {.error = 0, .value = value};
}

std::optional<ShortVersion> version_in(std::string_view text) {
  const auto major = leading_number(text);
  const std::size_t dot = text.find('.');
  if (!major || dot == std::string_view::npos) return std::nullopt;
  const auto minor = leading_number(text.substr(dot + 1));
  return minor ? std::optional(ShortVersion(*major, *minor)) : std::nullopt;
}

std::string version_words(ShortVersion version) {
  return fmt::format("{}.{}", version.first, version.second);
}

std::string kernel_release(Evidence& machine) {
  return text_at(ask(machine, "uname").value, "release");
}

std::optional<ShortVersion> kernel_version(Evidence& machine) {
  return version_in(kernel_release(machine));
}

Finding unknown_for(std::string check, std::string subject, std::string source, int error,
                    std::string wanted) {
  return {.check = std::move(check),
          .subject = std::move(subject),
          .verdict = Verdict::unknown,
          .source = std::move(source),
          .found = error_words(error),
          .wanted = std::move(wanted),
          .remedy = is_forbidden(error) ? "sudo hbmwire doctor" : ""};
}

std::optional<bool> has_capability(Evidence& machine, unsigned bit) {
  const Told identity = ask(machine, "identity");
  const auto capabilities = leading_number(text_at(identity.value, "capabilities"), 16);
  if (!capabilities) return std::nullopt;
  return ((*capabilities >> bit) & 1U) != 0;
}

}  // namespace hbmwire::tools::doctor
