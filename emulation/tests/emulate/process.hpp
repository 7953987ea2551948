// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace hbmwire::emulate_test {

/// A running program with pipes for its three standard streams.
class Process {
 public:
  struct Setup {
    std::string input = {};
    bool as_nobody = false;                    ///< works only for root
    std::function<void()> in_child = nullptr;  ///< runs before exec, as the user of the test
  };

  struct Outcome {
    int exit_code = -1;  ///< 128+N if signal N ended it
    std::string out;
    std::string err;
  };

  /// Starts the command, found by PATH, with `setup.input` as its whole input.
  Process(const std::vector<std::string>& command, const Setup& setup);

  explicit Process(const std::vector<std::string>& command) : Process(command, Setup{}) {}

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }

  void signal(int number) const;
  /// Reads stdout until it contains `text`. Returns false if the stream ends before.
  bool wait_for_output(const std::string& text);

  /// The text that has been read from stdout.
  [[nodiscard]] const std::string& output() const { return outcome_.out; }

  /// Reads both streams to their ends, then waits for the program's end.
  Outcome finish();

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
  Outcome outcome_;
};

/// Runs a command to its end.
Process::Outcome run(const std::vector<std::string>& command, const Process::Setup& setup = {});

/// Polls until `condition` holds. Returns false if it does not within `limit`.
bool becomes_true(const std::function<bool()>& condition,
                  std::chrono::milliseconds limit = std::chrono::seconds(5));

}  // namespace hbmwire::emulate_test
