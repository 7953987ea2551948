// SPDX-License-Identifier: MIT
#include "trace/trace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace hbmwire::detail {

namespace {

std::string expanded(const std::string& pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] == '%' && (next == 'p' || next == '%')) {
      path += next == 'p' ? std::to_string(::getpid()) : "%";
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

Fd create_new(const std::string& path) {
  constexpr mode_t kPermissions = 0666;  // the umask restricts this
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPermissions));
}

bool is_regular(const std::string& path) {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Keeps the end of a long name, which tells more than its beginning.
std::string_view subject_of(std::string_view path) {
  constexpr std::size_t kMost = sizeof(Error::subject) - 1;
  return path.substr(path.size() - std::min(path.size(), kMost));
}

}  // namespace

TraceFile::TraceFile(std::string path, std::uint64_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  text_.reserve(kGathered + kGathered / 4);
}

TraceFile::~TraceFile() {
  if (fd_ && !kept_) ::unlink(path_.c_str());
}

Result<TraceFile> TraceFile::create(const std::string& pattern, std::uint64_t most_bytes) {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10U;
  if (most_bytes < kLeastBytes) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a trace has at least 64 KiB (HBMWIRE_TRACE_BYTES)",
                                          subject_of(pattern)));
  }
  // If another process of the same environment, or an earlier one, has the name, tries others.
  constexpr int kMostNames = 1000;
  const std::string wanted = expanded(pattern);
  TraceFile file(wanted, most_bytes);
  for (int i = 1; i <= kMostNames; ++i) {
    file.fd_ = create_new(file.path_);
    if (file.fd_) {
      if (i > 1) file.note_ = wanted + " is there already: the trace is written to " + file.path_;
      return file;
    }
    if (errno != EEXIST) break;
    if (!is_regular(file.path_)) {
      return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                            "a trace is written to a regular file (HBMWIRE_TRACE)",
                                            subject_of(file.path_)));
    }
    file.path_ = wanted + "." + std::to_string(::getpid());
    if (i > 1) file.path_ += "." + std::to_string(i);
  }
  return tl::make_unexpected(system_error(Stage::configure,
                                          "making the file of the trace (HBMWIRE_TRACE)", errno,
                                          subject_of(file.path_)));
}

bool TraceFile::accept(std::size_t before) noexcept {
  full_ = full_ || written_bytes_ + text_.size() + kEndBytes > most_bytes_;
  if (full_) {
    text_.resize(before);
    return false;
  }
  ++transfers_;
  ++gathered_transfers_;
  return true;
}

int TraceFile::write_all(const std::string& text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::pwrite(fd_.get(), text.data() + done, text.size() - done,
                                   static_cast<off_t>(written_bytes_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    if (wrote == 0) return ENOSPC;
    done += static_cast<std::size_t>(wrote);
  }
  return 0;
}

bool TraceFile::write() {
  if (error_) return false;
  if (text_.empty()) return true;
  const int failure = write_all(text_);
  if (failure == 0) {
    before_last_bytes_ = std::exchange(written_bytes_, written_bytes_ + text_.size());
    last_transfers_ = std::exchange(gathered_transfers_, 0);
    text_.clear();
    return true;
  }
  error_ = system_error(Stage::complete, "writing the trace", failure, subject_of(path_));
  // Removes the last part that was written as well, to make room for the file's end.
  transfers_ -= gathered_transfers_ + last_transfers_;
  // The first part stays, because the rest can't be read without it.
  if (before_last_bytes_ == 0) {
    before_last_bytes_ = written_bytes_;
    transfers_ += last_transfers_;
  }
  gathered_transfers_ = last_transfers_ = 0;
  text_.clear();
  written_bytes_ = before_last_bytes_;
  if (::ftruncate(fd_.get(), static_cast<off_t>(written_bytes_)) != 0)
    log_warning("ftruncate", path_.c_str(), errno);
  return false;
}

void TraceFile::finish(const std::string& end) {
  const int failure = write_all(end);
  if (failure == 0 || error_) return;
  error_ = system_error(Stage::complete, "writing the trace", failure, subject_of(path_));
}

}  // namespace hbmwire::detail
