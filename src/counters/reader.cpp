// SPDX-License-Identifier: MIT
#include "counters/reader.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/guarded.hpp"
#include "counters/store.hpp"

namespace hbmwire::counters {

namespace {

/// One block, where its type may be read.
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

/// What of a series is one of `all`, which has it from here on.
template <class Series, class IsSame>
Series& one_of(std::vector<Series>& all, const IsSame& is_same, const Series& otherwise) {
  const auto found = std::ranges::find_if(all, is_same);
  return found != all.end() ? *found : all.emplace_back(otherwise);
}

class Reader {
 public:
  explicit Reader(const Owner& wanted) noexcept : wanted_(wanted) {}

  void add(const TrafficBlock& block) {
    if (!is_wanted(block.head)) return;
    const std::string nic = text_of(block.nic);
    const std::string peer = text_of(block.peer);
    std::uint64_t over = 0;
    for (const TrafficBlock::Cell& cell : block.cells) {
      TransferLabels labels;
      if (!PackedLabels(cell.labels.value()).unpack(labels)) continue;
      TransferCounters& one =
          one_of(read.transfers,
                 [&](const auto& each) {
                   return each.labels == labels && each.nic == nic && each.peer == peer;
                 },
                 {.labels = labels, .nic = nic, .peer = peer});
      one.operations += cell.operations.value();
      one.bytes += cell.bytes.value();
      over += cell.operations.value();
    }
    for (std::size_t code = 0; code < block.failures.size(); ++code) {
      const std::uint64_t failed = block.failures[code].value();
      if (failed == 0) continue;
      one_of(read.failures,
             [&](const auto& each) {
               return each.code == Errc{static_cast<std::uint8_t>(code)} && each.nic == nic &&
                      each.peer == peer;
             },
             {.code = Errc{static_cast<std::uint8_t>(code)}, .nic = nic, .peer = peer})
          .operations += failed;
      over += failed;
    }
    read.started += block.started.value();
    // What ended while this was read may be counted as over and not yet as begun.
    read.under_way += block.started.value() - std::min(over, block.started.value());
    read.queued += block.queued.value();
    read.credit_waits += block.credit_waits.value();
    read.endpoints_failed += block.broken.value();
    if (block.head.owner.endpoint != 0) ++read.endpoints;
  }

  void add(const TimesBlock& block) {
    // Times are a worker's.
    if (wanted_.endpoint != 0 || !is_wanted(block.head)) return;
    for (const TimesBlock::Series& series : block.series) {
      TransferLabels labels;
      if (!PackedLabels(series.labels.value()).unpack(labels)) continue;
      TransferTimesHistogram& one = one_of(
          read.times, [&](const auto& each) { return each.labels == labels; }, {.labels = labels});
      one.sum += std::chrono::nanoseconds(static_cast<std::int64_t>(series.sum_ns.value()));
      for (std::size_t i = 0; i < kTimeBuckets; ++i)
        one.transfers[i] += series.transfers[i].value();
    }
  }

  Counters read;

 private:
  [[nodiscard]] bool is_wanted(const BlockHead& head) const noexcept {
    const auto matches = [](std::uint32_t wanted, std::uint32_t is) {
      return wanted == 0 || wanted == is;
    };
    return matches(wanted_.context, head.owner.context) &&
           matches(wanted_.worker, head.owner.worker) &&
           matches(wanted_.endpoint, head.owner.endpoint);
  }

  const Owner wanted_;
};

tl::unexpected<Error> refuse(const char* why, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(Errc::protocol, Stage::probe, why, {}, hint));
}

}  // namespace

std::uint64_t changes_of(std::span<const std::byte> blocks) noexcept {
  if (blocks.size() < kBlockBytes) return 0;
  return Copied(blocks).as<ProcessBlock>().changes.load(std::memory_order_relaxed);
}

Result<PublishedCounters> read_counters(std::span<const std::byte> blocks, const Owner& wanted) {
  if (blocks.size() < kBlockBytes) return refuse("the file of counters has no first block");
  const Copied first(blocks);
  const auto& process = first.as<ProcessBlock>();
  if (process.head.type.load(std::memory_order_relaxed) != BlockType::process ||
      process.magic != kMagic)
    return refuse("the file of counters does not begin as one");
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
  PublishedCounters all{
      .process = process.process,
      .program = text_of(process.program),
      .since = std::chrono::system_clock::time_point(std::chrono::nanoseconds(process.since_ns)),
      .counters = std::move(reader.read)};
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
