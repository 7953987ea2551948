// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/json_lines.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace hbmwire::tools::doctor {
namespace {

// A value is at most a machine's archive (kMaxArchiveBytes of record.hpp).
constexpr std::size_t kLongestLine = std::size_t{33} << 20;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

std::string line_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void JsonLines::say(const Json& value) {
  const std::string line = line_of(value);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // the other side has closed
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

bool JsonLines::try_say(const Json& value) {
  const std::string line = line_of(value);
  const ssize_t written = ::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return written == static_cast<ssize_t>(line.size());
}

std::optional<Heard> JsonLines::whole_line() {
  const std::size_t length = text_.find('\n', looked_);
  looked_ = length == std::string::npos ? text_.size() : 0;
  if (length == std::string::npos) return std::nullopt;
  Json value = Json::parse(text_.substr(0, length), nullptr, false);
  text_.erase(0, length + 1);
  return Heard{.kind = Heard::Kind::value, .value = std::move(value)};
}

/// Returns whether there was something to read. Never blocks.
bool JsonLines::read_more() {
  std::array<char, kReadBytes> more;  // NOLINT(cppcoreguidelines-pro-type-member-init): is filled
  const ssize_t got = ::recv(fd_.get(), more.data(), more.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got <= 0 || text_.size() > kLongestLine) {
    ended_ = true;
  } else {
    text_.append(more.data(), static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<Heard> JsonLines::look() {
  while (true) {
    if (auto line = whole_line()) return line;
    if (ended_) return Heard{.kind = Heard::Kind::ended};
    if (!read_more()) return std::nullopt;
  }
}

Heard JsonLines::listen(const Deadline& until, int cancel_fd) {
  while (true) {
    if (auto heard = look()) return std::move(*heard);
    std::array<pollfd, 2> fds{{{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                               {.fd = cancel_fd, .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(fds.data(), fds.size(), until.poll_timeout_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return {.kind = Heard::Kind::interrupted};
    if (ready == 0 && !until.passed()) continue;
    if (ready <= 0) return {.kind = Heard::Kind::silent};
  }
}

}  // namespace hbmwire::tools::doctor
