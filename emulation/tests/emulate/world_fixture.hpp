// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "emulation/tests/emulate/process.hpp"

namespace hbmwire::emulate_test {

/// Runs the built `hbmwire emulate` with a --dir of the test's own, and checks at the end that
/// nothing is left: no directories, no processes, no mounts.
class World : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// `hbmwire emulate --dir <own> <options> -- sh -c <script>`.
  [[nodiscard]] std::vector<std::string> emulate(std::vector<std::string> options,
                                                 const std::string& script) const;
  Process::Outcome shell(std::vector<std::string> options, const std::string& script,
                         const Process::Setup& setup = {}) const;

  /// Processes that have this test's --dir on their command line.
  [[nodiscard]] std::vector<pid_t> processes() const;
  [[nodiscard]] std::vector<pid_t> janitors() const;
  [[nodiscard]] bool nothing_is_left() const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

  [[nodiscard]] const std::string& program() const { return program_; }

 private:
  std::filesystem::path directory_;
  std::filesystem::path copy_;
  std::string program_;
};

/// As World, where a view of /dev and /sys is possible; skipped elsewhere, with the reason.
class ViewedWorld : public World {
 protected:
  void SetUp() override;
};

/// As World, for root, which can drop to an ordinary user.
class OrdinaryUser : public World {
 protected:
  void SetUp() override;

  static Process::Setup nobody() { return {.as_nobody = true}; }
};

/// From here on this process and its children have a /dev of their own, without RDMA devices and
/// accelerators, whatever the machine has and whatever runs beside. In words why not, where that is
/// forbidden; empty when it is done.
std::string make_own_dev();

/// Text without the newline at its end.
std::string line(std::string text);

}  // namespace hbmwire::emulate_test
