// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire::test {

/// Collects the lines of the log while it lives.
class Heard {
 public:
  Heard() {
    set_log_sink([this](LogLevel /*level*/, std::string_view line) {
      const std::scoped_lock lock(mutex_);
      lines_.emplace_back(line);
    });
  }

  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  ~Heard() { set_log_sink({}); }

  /// The number of lines that contain `part`.
  [[nodiscard]] std::size_t count(std::string_view part) {
    const std::scoped_lock lock(mutex_);
    std::size_t found = 0;
    for (const std::string& line : lines_) found += line.find(part) != std::string::npos ? 1U : 0U;
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace hbmwire::test
