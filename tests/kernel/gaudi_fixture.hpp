// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/log.hpp"

#include "raw_gaudi.hpp"

namespace hbmwire::test {

inline Wait soon() { return {Deadline::after(std::chrono::seconds(20)), -1}; }

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed, std::size_t from = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((from + i) * 31 + (from + i) / 256 + seed);
  return bytes;
}

/// After each test the card is as before: it has no exports, attachments, mappings or owner. The
/// library has logged no warnings.
class OnGaudi : public testing::Test {
 protected:
  OnGaudi();
  ~OnGaudi() override;
  void TearDown() override;

  [[nodiscard]] long counted(const char* name) const {
    return gaudi_counters()[name] - before_.at(name);
  }

 private:
  std::map<std::string, long> before_ = gaudi_counters();
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

}  // namespace hbmwire::test
