// SPDX-License-Identifier: MIT
#include "base/settings_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "hbmwire/fd.hpp"

namespace hbmwire {

namespace {

// Bytes. Ample for a few dozen lines, and a bound in case a disk image is named by mistake.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '#') continue;
    if (i == 0 || kBlanks.find(line[i - 1]) != std::string_view::npos) return line.substr(0, i);
  }
  return line;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Error file_error(const char* call, int error_number, const std::string& path) {
  return system_error(Stage::configure, call, error_number, fit_subject(path), Hint::settings_file);
}

Result<std::string> read_all(const Fd& file, const std::string& path) {
  std::string text;
  std::string chunk(4096, '\0');
  while (text.size() <= kMostBytes) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got == 0) return text;
    if (got > 0) {
      text.append(chunk, 0, static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      return tl::make_unexpected(file_error("read", errno, path));
    }
  }
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                        "a settings file has at most 1 MiB", fit_subject(path),
                                        Hint::settings_file));
}

}  // namespace

std::string fit_subject(std::string_view place) {
  constexpr std::size_t kRoom = sizeof(Error::subject) - 1;
  constexpr std::string_view kCut = "...";
  if (place.size() <= kRoom) return std::string(place);
  return std::string(kCut) + std::string(place.substr(place.size() - (kRoom - kCut.size())));
}

Result<std::vector<SettingLine>> parse_settings(std::string_view text, std::string_view path) {
  std::vector<SettingLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    std::string place = std::string(path) + ":" + std::to_string(number);
    const auto equals = line.find('=');
    const std::string_view name = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name)) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                            "the line is not NAME=VALUE", fit_subject(place),
                                            Hint::settings_file));
    }
    lines.push_back({.name = std::string(name),
                     .value = std::string(trim(line.substr(equals + 1))),
                     .place = std::move(place)});
  }
  return lines;
}

Result<std::vector<SettingLine>> read_settings_file(const std::string& path) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return tl::make_unexpected(file_error("open", errno, path));

  struct stat status {};

  if (::fstat(file.get(), &status) != 0)
    return tl::make_unexpected(file_error("fstat", errno, path));
  if (!S_ISREG(status.st_mode)) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a settings file is a regular file", fit_subject(path),
                                          Hint::settings_file));
  }
  HBMWIRE_TRY_ASSIGN(const std::string text, read_all(file, path));
  return parse_settings(text, path);
}

}  // namespace hbmwire
