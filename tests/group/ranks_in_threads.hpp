// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/group.hpp"
#include "hbmwire/hbmwire.hpp"

/// Ranks of a group as threads of one process, each with a context and a worker of its own.
namespace hbmwire::test {

using namespace std::chrono_literals;

/// A folder with a file by which the ranks of a test meet.
class Place {
 public:
  Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();

  [[nodiscard]] std::string meeting() const { return "file://" + (folder_ / "group").string(); }

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  std::filesystem::path folder_;
};

struct Rank {
  Context context;
  Worker worker;
  Group group;

  [[nodiscard]] std::uint32_t number() const noexcept { return group.rank(); }

  /// Host memory of this rank, whose bytes all are `value`.
  [[nodiscard]] Region memory(std::uint64_t size, std::uint8_t value) const;
};

/// A rank that joins as the options say, or why it can't.
Result<Rank> join(const GroupOptions& options, const Wait& wait = 20s);

/// Options of rank `rank` of `size` ranks that meet at `place`.
GroupOptions options_of(const Place& place, std::uint32_t rank, std::uint32_t size);

/// Does `work` at each of `size` ranks, each in a thread, after `change` has changed its options. A
/// rank that can't join is a failure.
void at_all_ranks(std::uint32_t size, const std::function<void(Rank&)>& work,
                  const std::function<void(GroupOptions&)>& change = {});

std::vector<std::byte> bytes_of(std::string_view text);
std::string text_of(const std::vector<std::byte>& bytes);

}  // namespace hbmwire::test
