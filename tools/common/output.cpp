// SPDX-License-Identifier: MIT
#include "tools/common/output.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace hbmwire::tools {

namespace {

// errno of the first failure; the stream only remembers that there was one.
int write_error = 0;

// Tests whether standard output is writable, without writing. Full devices and closed descriptors
// refuse even a write of no bytes, and poll(2) reports a pipe without a reader.
int probe_stdout() {
  struct stat status {};

  if (::fstat(STDOUT_FILENO, &status) != 0) return errno;
  // On a datagram socket this would send an empty message.
  if (!S_ISSOCK(status.st_mode) && ::write(STDOUT_FILENO, "", 0) != 0) return errno;
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0 ? EPIPE : 0;
}

}  // namespace

void write_stdout(std::string_view text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if ((std::fflush(stdout) != 0 || written != text.size()) && write_error == 0) write_error = errno;
}

Outcome<void> written_stdout() {
  if (write_error == 0 && std::fflush(stdout) != 0) write_error = errno;
  if (write_error == 0) return {};
  return fail(
      fmt::format("file: writing to standard output: {}; lead it to a file with room, or to a "
                  "program that reads it",
                  std::generic_category().message(write_error)));
}

Outcome<void> Output::check() const {
  if (mode_ != Mode::quiet && write_error == 0) write_error = probe_stdout();
  return written_stdout();
}

void Output::notice(const std::string& text) {
  if (mode_ == Mode::json) fmt::print(stderr, "{}\n", text);
  if (mode_ == Mode::text) write_stdout(text + "\n");
}

void Output::error(const std::string& text) { fmt::print(stderr, "{}: {}\n", program_, text); }

void Output::json(const Json& object) {
  // Names of files may hold any byte, but JSON is UTF-8.
  if (mode_ != Mode::json) return;
  write_stdout(object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Output::json_line(const Json& object) {
  if (mode_ != Mode::json) return;
  write_stdout(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

bool is_emulated() {
  // Read before any thread exists.
  const char* value = std::getenv("HBMWIRE_EMULATED");  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && std::string_view(value) == "1";
}

bool is_capable_terminal(int fd) {
  const char* const kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): as above
  return ::isatty(fd) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool has_colours(int fd) {
  const char* const plain = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): as above
  return is_capable_terminal(fd) && (plain == nullptr || *plain == '\0');
}

void print_headline(Output& output, const std::string& title) {
  const std::string line = is_emulated() ? title + " (emulated hardware)" : title;
  output.line("{}", line);
  output.line("{}", std::string(line.size(), '='));
}

}  // namespace hbmwire::tools
