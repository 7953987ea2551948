// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace hbmwire::emulate_test {

/// A program that was started with its three standard streams on pipes.
class Process {
 public:
  struct Setup {
    std::string input = {};
    bool as_nobody = false;                    ///< only root can ask for it
    std::function<void()> in_child = nullptr;  ///< runs before exec, as whoever the test is
  };

  struct Outcome {
    int exit_code = -1;  ///< 128+N when signal N ended it
    std::string out;
    std::string err;
  };

  Process(const std::vector<std::string>& command, const Setup& setup);

  explicit Process(const std::vector<std::string>& command) : Process(command, Setup{}) {}

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }

  void signal(int number) const;
  /// Reads stdout until it contains `text`. False when the stream ends before.
  bool wait_for_output(const std::string& text);

  /// What has been read of stdout.
  [[nodiscard]] const std::string& output() const { return outcome_.out; }

  /// Reads both streams to their ends, then waits.
  Outcome finish();

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
  Outcome outcome_;
};

Process::Outcome run(const std::vector<std::string>& command, const Process::Setup& setup = {});

/// Polls until `condition` holds. False when it does not within `limit`.
bool becomes_true(const std::function<bool()>& condition,
                  std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace hbmwire::emulate_test
