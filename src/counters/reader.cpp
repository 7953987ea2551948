// SPDX-License-Identifier: MIT
#include "counters/reader.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/guarded.hpp"
#include "counters/store.hpp"

namespace hbmwire::counters {

namespace {

/// A copy of one block, aligned so that its type may be read.
struct alignas(64) Copied {
  explicit Copied(std::span<const std::byte> block) noexcept {
    std::memcpy(bytes.data(), block.data(), kBlockBytes);
  }

  template <class Block>
  [[nodiscard]] const Block& as() const noexcept {
    return *reinterpret_cast<const Block*>(bytes.data());
  }

  std::array<std::byte, kBlockBytes> bytes;
};

template <std::size_t N>
std::string text_of(const Text<N>& text) {
  std::string found(text.begin(), std::ranges::find(text, '\0'));
  for (char& each : found) {
    if (each < ' ' || each > '~') each = '?';
  }
  return found;
}

/// The sum of both times; the largest duration if they do not fit one.
std::chrono::nanoseconds sum_of(std::chrono::nanoseconds time, std::uint64_t more_ns) noexcept {
  const auto left = static_cast<std::uint64_t>((std::chrono::nanoseconds::max() - time).count());
  return time + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(more_ns, left)));
}

/// Sums of series, found by their labels in a map, because a process may have very many.
template <class Series, class Labels>
class Sums {
 public:
  /// The series with these labels; if there is none, adds `otherwise`.
  Series& of(const Labels& labels, const Series& otherwise) {
    const auto [at, is_new] = places_.try_emplace(labels, all_.size());
    if (is_new) all_.push_back(otherwise);
    return all_[at->second];
  }

  [[nodiscard]] std::vector<Series> take() noexcept { return std::move(all_); }

 private:
  std::vector<Series> all_;
  std::map<Labels, std::size_t> places_;
};

/// Adds up the blocks that belong to one owner.
class Reader {
 public:
  explicit Reader(const Owner& wanted) noexcept : wanted_(wanted) {}

  void add(const TrafficBlock& block) {
    if (!is_wanted(block.head)) return;
    const std::string nic = text_of(block.nic);
    const std::string peer = text_of(block.peer);
    std::uint64_t over = 0;  // transfers that have ended
    for (const TrafficBlock::Cell& cell : block.cells) {
      TransferLabels labels;
      if (!PackedLabels(cell.labels.value()).unpack(labels)) continue;
      TransferCounters& one = transfers_.of({cell.labels.value(), nic, peer},
                                            {.labels = labels, .nic = nic, .peer = peer});
      one.operations += cell.operations.value();
      one.bytes += cell.bytes.value();
      over += cell.operations.value();
    }
    for (std::size_t code = 0; code < block.failures.size(); ++code) {
      const std::uint64_t failed = block.failures[code].value();
      if (failed == 0) continue;
      failures_
          .of({code, nic, peer},
              {.code = Errc{static_cast<std::uint8_t>(code)}, .nic = nic, .peer = peer})
          .operations += failed;
      over += failed;
    }
    read_.started += block.started.value();
    // Transfers that end during the reading may be counted as ended, but not yet as started.
    read_.under_way += block.started.value() - std::min(over, block.started.value());
    read_.queued += block.queued.value();
    read_.credit_waits += block.credit_waits.value();
    read_.endpoints_failed += block.broken.value();
    if (block.head.owner.endpoint != 0) ++read_.endpoints;
  }

  void add(const TimesBlock& block) {
    // Times exist for workers, not for endpoints.
    if (wanted_.endpoint != 0 || !is_wanted(block.head)) return;
    for (const TimesBlock::Series& series : block.series) {
      TransferLabels labels;
      if (!PackedLabels(series.labels.value()).unpack(labels)) continue;
      TransferTimesHistogram& one = times_.of(series.labels.value(), {.labels = labels});
      one.sum = sum_of(one.sum, series.sum_ns.value());
      for (std::size_t i = 0; i < kTimeBuckets; ++i)
        one.transfers[i] += series.transfers[i].value();
    }
  }

  [[nodiscard]] Counters take() noexcept {
    read_.transfers = transfers_.take();
    read_.failures = failures_.take();
    read_.times = times_.take();
    return std::move(read_);
  }

 private:
  using SeriesName = std::tuple<std::uint64_t, std::string, std::string>;

  [[nodiscard]] bool is_wanted(const BlockHead& head) const noexcept {
    const auto matches = [](std::uint32_t wanted, std::uint32_t is) {
      return wanted == 0 || wanted == is;
    };
    return matches(wanted_.context, head.owner.context) &&
           matches(wanted_.worker, head.owner.worker) &&
           matches(wanted_.endpoint, head.owner.endpoint);
  }

  const Owner wanted_;
  Counters read_;  // without the three members below
  Sums<TransferCounters, SeriesName> transfers_;
  Sums<FailureCounters, SeriesName> failures_;
  Sums<TransferTimesHistogram, std::uint64_t> times_;
};

bool is_process_block(const ProcessBlock& block) noexcept {
  return block.head.type.load(std::memory_order_relaxed) == BlockType::process &&
         block.magic == kMagic;
}

tl::unexpected<Error> refuse(const char* why, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::probe, why, {}, hint));
}

}  // namespace

std::uint32_t process_of(std::span<const std::byte> blocks) noexcept {
  if (blocks.size() < kBlockBytes) return 0;
  const Copied first(blocks);
  const auto& process = first.as<ProcessBlock>();
  return is_process_block(process) ? process.process : 0;
}

std::uint64_t changes_of(std::span<const std::byte> blocks) noexcept {
  if (blocks.size() < kBlockBytes) return 0;
  return Copied(blocks).as<ProcessBlock>().changes.load(std::memory_order_relaxed);
}

Result<PublishedCounters> read_counters(std::span<const std::byte> blocks, const Owner& wanted) {
  if (blocks.size() < kBlockBytes) return refuse("the file of counters has no first block");
  const Copied first(blocks);
  const auto& process = first.as<ProcessBlock>();
  if (!is_process_block(process)) return refuse("the file of counters does not begin as one");
  if (process.layout != kLayout)
    return refuse("the counters are of another version of hbmwire", Hint::other_version);
  Reader reader(wanted);
  for (std::size_t at = kBlockBytes; at + kBlockBytes <= blocks.size(); at += kBlockBytes) {
    const Copied block(blocks.subspan(at));
    switch (block.as<BlockHead>().type.load(std::memory_order_relaxed)) {
      case BlockType::traffic:
        reader.add(block.as<TrafficBlock>());
        break;
      case BlockType::times:
        reader.add(block.as<TimesBlock>());
        break;
      default:
        break;
    }
  }
  PublishedCounters all{.process = process.process,
                        .program = text_of(process.program),
                        // Not before 1970, so that the time since then fits a duration.
                        .since = std::chrono::system_clock::time_point(
                            std::chrono::nanoseconds(std::max(process.since_ns, std::int64_t{0}))),
                        .counters = reader.take()};
  if (wanted.worker == 0 && wanted.endpoint == 0) {
    const std::uint64_t ever = process.registrations.value();
    all.counters.retries = process.retries.value();
    all.counters.registrations = {.hits = process.hits.value(),
                                  .misses = process.misses.value(),
                                  .evictions = process.evictions.value(),
                                  .registrations = ever,
                                  .live = ever - std::min(ever, process.deregistrations.value()),
                                  .live_bytes = process.live_bytes.value()};
  }
  return all;
}

Result<Counters> read_own(const Owner& wanted) {
  return guarded(Stage::probe, [&]() -> Result<Counters> {
    Store& store = Store::get();
    store.put_look_ups();
    HBMWIRE_TRY_ASSIGN(auto all, read_counters(store.copy(), wanted));
    return std::move(all.counters);
  });
}

}  // namespace hbmwire::counters
