// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/reader.hpp"

namespace hbmwire::tools::trace {

/// The filter for transfers.
struct Selection {
  std::optional<std::uint64_t> endpoint;
  std::string peer;  // a part of its name; empty means all
  std::int64_t from_ns = 0;
  std::optional<std::int64_t> to_ns;

  [[nodiscard]] bool has(const TracedTransfer& transfer) const;
};

/// Collects durations.
class Durations {
 public:
  void add(std::int64_t ns) { all_.push_back(ns); }

  [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }

  [[nodiscard]] double sum_ns() const noexcept;

  /// 0.5 is the median, 1 the maximum. 0 if there are none.
  [[nodiscard]] std::int64_t quantile_ns(double share);

 private:
  std::vector<std::int64_t> all_;
};

/// The transfers of one kind, path and NIC.
struct Group {
  std::string kind;
  std::string path;
  std::string nic;
  std::uint64_t failed = 0;
  std::uint64_t waited = 0;
  std::uint64_t bytes = 0;
  Durations took = {};
};

/// Transfers that failed for the same reason.
struct Failed {
  std::string error;
  std::string code;
  std::string hint;
  std::uint64_t count = 0;
};

/// The transfers in each of a fixed number of equal time slots. The slots become longer when later
/// transfers are added.
class Timeline {
 public:
  static constexpr std::size_t kSlots = 1024;

  struct Slot {
    std::uint64_t bytes = 0;  // bytes of transfers that ended there
    std::uint32_t begun = 0;
    std::uint32_t ended = 0;
    std::uint32_t began_waiting = 0;
    std::uint32_t ended_waiting = 0;
  };

  explicit Timeline(std::int64_t from_ns) : from_ns_(from_ns), slots_(kSlots) {}

  void add(const TracedTransfer& transfer);

  [[nodiscard]] std::int64_t from_ns() const noexcept { return from_ns_; }

  [[nodiscard]] std::int64_t slot_ns() const noexcept { return slot_ns_; }

  /// The slots up to the last one that is not empty.
  [[nodiscard]] std::vector<Slot> slots() const;

 private:
  /// The slot of this time. Lengthens all slots if it lies behind the last one.
  Slot& at(std::int64_t ns);

  std::int64_t from_ns_;
  std::int64_t slot_ns_ = 1000;
  std::vector<Slot> slots_;
};

/// The sums and times of the selected transfers. Needs 8 bytes for each of them, and 8 more if it
/// waited.
class Summary {
 public:
  /// `top`: the number of slowest transfers to keep.
  Summary(Selection selection, std::size_t top);

  void add(const TracedTransfer& transfer);

  [[nodiscard]] std::uint64_t transfers() const noexcept { return transfers_; }

  /// Sorted by bytes, then by transfers, the largest first. To be called once, at the end.
  [[nodiscard]] std::vector<Group*> groups();

  /// The durations of waits, by cause.
  [[nodiscard]] std::map<std::string, Durations>& waits() noexcept { return waits_; }

  /// The most frequent come first.
  [[nodiscard]] std::vector<Failed> failures() const;

  /// The slowest come first.
  [[nodiscard]] std::vector<TracedTransfer> slowest() const;

  [[nodiscard]] const Timeline& timeline() const noexcept { return timeline_; }

 private:
  Selection selection_;
  std::size_t top_;
  std::uint64_t transfers_ = 0;
  std::string key_;  // key of the group to look up
  std::unordered_map<std::string, Group> groups_;
  std::map<std::string, Durations> waits_;
  std::map<std::string, Failed> failures_;
  std::vector<TracedTransfer> slowest_;  // a heap with the fastest of them on top
  Timeline timeline_;
};

}  // namespace hbmwire::tools::trace
