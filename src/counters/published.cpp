// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "hbmwire/counters.hpp"
#include "hbmwire/fd.hpp"

#include "base/guarded.hpp"
#include "base/internals.hpp"
#include "base/setting_numbers.hpp"
#include "counters/reader.hpp"
#include "counters/store.hpp"

namespace hbmwire {

namespace detail {

/// The file of counters of another process.
struct PublishedState {
  std::uint32_t process = 0;
  Fd file;
  Fd running;  // a pidfd, readable when the process has ended
};

}  // namespace detail

namespace {

namespace fs = std::filesystem;

// Bytes. Only a process with tens of thousands of endpoints has more counters.
constexpr off_t kMostBytes = off_t{1} << 30U;

/// Parses a process id from /proc; 0 if the text is none.
std::uint32_t number_of(std::string_view text) noexcept {
  std::uint64_t number = 0;
  setting_numbers::parse_up_to(text, std::numeric_limits<std::uint32_t>::max(), number);
  return static_cast<std::uint32_t>(number);
}

/// The id by which a process knows itself; 0 if it has gone.
std::uint32_t own_number(std::uint32_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  if (!status) return 0;
  constexpr std::string_view kName = "NSpid:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kName)) continue;
    // The last id is that in the process's innermost PID namespace.
    const std::size_t at = line.find_last_of(" \t");
    return number_of(std::string_view(line).substr(at + 1));
  }
  return process;  // a kernel without PID namespaces
}

tl::unexpected<Error> no_counters(Errc code, const char* why, std::uint32_t process) {
  return tl::make_unexpected(
      make_error(code, Stage::probe, why, "process " + std::to_string(process)));
}

tl::unexpected<Error> no_proc() {
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                        "/proc is not mounted, and processes are found by it"));
}

bool has_proc() {
  std::error_code failure;
  return fs::exists("/proc/self", failure);
}

/// Reads the beginning of the file, up to `most` bytes.
std::vector<std::byte> read_beginning(const Fd& file, std::size_t most) {
  std::vector<std::byte> bytes(most);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::pread(file.get(), &bytes[at], bytes.size() - at, static_cast<off_t>(at));
    if (got <= 0) break;
    at += static_cast<std::size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

/// Reads the block of the process.
std::vector<std::byte> read_first(const Fd& file) {
  return read_beginning(file, counters::kBlockBytes);
}

/// Reads the whole file, as it is at nearly one moment.
Result<std::vector<std::byte>> read_all(const Fd& file) {
  struct stat status {};

  if (::fstat(file.get(), &status) != 0 || status.st_size > kMostBytes)
    return tl::make_unexpected(
        make_error(Errc::protocol, Stage::probe, "the file of counters is too large for one"));
  return read_beginning(file, static_cast<std::size_t>(status.st_size));
}

/// The file of counters that the process has made itself, not one that it has inherited.
Result<detail::PublishedState> open_process(std::uint32_t process) {
  detail::PublishedState found{.process = process, .file = {}, .running = {}};
  found.running = Fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  const std::string name = "/memfd:" + std::string(counters::kFileName) + " (deleted)";
  std::error_code failure;
  const fs::path folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) != name) continue;
    Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) continue;
    // A file of another version is accepted here, because read() reports the version.
    const std::uint32_t owner = counters::process_of(read_first(file));
    if (owner == 0 || owner != own_number(process)) continue;
    found.file = std::move(file);
    return found;
  }
  if (!has_proc()) return no_proc();
  if (failure == std::errc::permission_denied)
    return no_counters(Errc::permission_denied, "it is another user's", process);
  if (failure) return no_counters(Errc::not_found, "there is no such process", process);
  return no_counters(Errc::not_found,
                     "it does not publish counters (HBMWIRE_STATS=yes in its environment)",
                     process);
}

}  // namespace

PublishedProcess::PublishedProcess(std::unique_ptr<detail::PublishedState> state) noexcept
    : state_(std::move(state)) {}

PublishedProcess::PublishedProcess(PublishedProcess&&) noexcept = default;
PublishedProcess& PublishedProcess::operator=(PublishedProcess&&) noexcept = default;
PublishedProcess::~PublishedProcess() = default;

Result<std::vector<PublishedProcess>> PublishedProcess::find_all() {
  return guarded(Stage::probe, [&]() -> Result<std::vector<PublishedProcess>> {
    std::vector<std::uint32_t> numbers;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator("/proc", failure)) {
      const std::uint32_t process = number_of(entry.path().filename().native());
      if (process != 0) numbers.push_back(process);
    }
    if (failure)
      return tl::make_unexpected(system_error(Stage::probe, "opendir", failure.value(), "/proc"));
    if (!has_proc()) return no_proc();
    std::ranges::sort(numbers);
    std::vector<PublishedProcess> all;
    for (const std::uint32_t process : numbers) {
      if (auto found = open_process(process))
        all.push_back(
            PublishedProcess(std::make_unique<detail::PublishedState>(std::move(*found))));
    }
    return all;
  });
}

Result<PublishedProcess> PublishedProcess::find(std::uint32_t process) {
  return guarded(Stage::probe, [&]() -> Result<PublishedProcess> {
    HBMWIRE_TRY_ASSIGN(auto found, open_process(process));
    return PublishedProcess(std::make_unique<detail::PublishedState>(std::move(found)));
  });
}

std::uint32_t PublishedProcess::process() const noexcept { return state_->process; }

bool PublishedProcess::is_running() const noexcept {
  if (!state_->running) return own_number(state_->process) != 0;
  pollfd ended{.fd = state_->running.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) == 0;
}

Result<PublishedCounters> PublishedProcess::read() const {
  return guarded(Stage::probe, [&]() -> Result<PublishedCounters> {
    // When an endpoint ends, its counts move between blocks, and the file is read again. If a
    // process was killed during such a move, the file stays in that state: hence a limit.
    constexpr int kMostTries = 100;
    for (int tries = 0;; ++tries) {
      HBMWIRE_TRY_ASSIGN(const auto bytes, read_all(state_->file));
      const std::uint64_t changes = counters::changes_of(bytes);
      const bool is_whole =
          changes % 2 == 0 && changes == counters::changes_of(read_first(state_->file));
      if (!is_whole && tries < kMostTries) {
        std::this_thread::yield();
        continue;
      }
      HBMWIRE_TRY_ASSIGN(PublishedCounters read, counters::read_counters(bytes));
      read.process = state_->process;
      return read;
    }
  });
}

}  // namespace hbmwire
