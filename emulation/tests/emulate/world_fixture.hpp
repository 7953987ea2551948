// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "emulation/tests/emulate/process.hpp"

namespace hbmwire::emulate_test {

/// Runs the built `hbmwire emulate` with the test's own --dir. At the end it checks that no
/// directories, processes or mounts are left.
class World : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// The words `hbmwire emulate --dir <own> <options> -- sh -c <script>`.
  [[nodiscard]] std::vector<std::string> emulate(std::vector<std::string> options,
                                                 const std::string& script) const;
  /// Runs the command of emulate() to its end.
  Process::Outcome shell(std::vector<std::string> options, const std::string& script,
                         const Process::Setup& setup = {}) const;

  /// Processes with this test's --dir on their command line.
  [[nodiscard]] std::vector<pid_t> processes() const;
  /// The processes of processes() that remove a world's files after its last process.
  [[nodiscard]] std::vector<pid_t> janitors() const;
  /// Whether the --dir is empty and no process uses it.
  [[nodiscard]] bool nothing_is_left() const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

  [[nodiscard]] const std::string& program() const { return program_; }

 private:
  std::filesystem::path directory_;
  std::filesystem::path copy_;  ///< of the build tree, if an ordinary user cannot enter that
  std::string program_;
};

/// A World for tests that need a view of /dev and /sys. They are skipped with the reason if a view
/// is not possible.
class ViewedWorld : public World {
 protected:
  void SetUp() override;
};

/// A World for tests that need root, which can switch to an ordinary user.
class OrdinaryUser : public World {
 protected:
  void SetUp() override;

  static Process::Setup nobody() { return {.as_nobody = true}; }
};

/// Gives this process and its children their own /dev without RDMA devices and accelerators,
/// whatever the machine has and other tests do. Returns the reason if that is forbidden, otherwise
/// an empty string.
std::string make_own_dev();

/// The text without the newline at its end.
std::string line(std::string text);

}  // namespace hbmwire::emulate_test
