// SPDX-License-Identifier: MIT
#include "counters/store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>

#include "base/guarded.hpp"
#include "base/one_of_process.hpp"
#include "base/sysfs.hpp"
#include "counters/tally.hpp"

namespace hbmwire::counters {

namespace {

constexpr std::size_t kSegmentBytes = 64 * kBlockBytes;
static_assert(kSegmentBytes % 65536 == 0, "whole pages, whatever their size");

// A child by fork(2) goes on counting from its parent's numbers, so that inherited objects are not
// taken for its own.
std::atomic<std::uint32_t> last_context{0};
std::atomic<std::uint32_t> last_worker{0};

/// The name for all peers beyond those that have their own series.
constexpr std::string_view kOtherPeers = "other";

template <std::size_t N>
void set_text(Text<N>& text, std::string_view from) noexcept {
  text = {};
  std::ranges::copy(from.substr(0, N), text.begin());
}

tl::unexpected<Error> failed(const char* call) {
  return tl::make_unexpected(
      system_error(Stage::configure, call, errno, "the file of counters (HBMWIRE_STATS)"));
}

LookUps sum(const LookUps& a, const LookUps& b) noexcept {
  return {.hits = a.hits + b.hits,
          .misses = a.misses + b.misses,
          .evictions = a.evictions + b.evictions};
}

/// Counts move between blocks during its life. A reader that notices this reads again.
class Moving {
 public:
  explicit Moving(ProcessBlock& process) noexcept : process_(process) { change(); }

  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;

  ~Moving() { change(); }

 private:
  void change() noexcept { process_.changes.fetch_add(1, std::memory_order_acq_rel); }

  ProcessBlock& process_;
};

}  // namespace

Store& Store::get() {
  static constinit OneOfProcess<Store> store;
  return store.get();
}

Store::Store() {
  process_ = &take<ProcessBlock>({});
  process_->process = static_cast<std::uint32_t>(::getpid());
  process_->since_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  set_text(process_->program, read_line("/proc/self/comm"));
}

Store::~Store() {
  for (const std::span<std::byte> segment : segments_) ::munmap(segment.data(), segment.size());
}

void Store::grow() {
  const std::size_t blocks = (segments_.size() + 1) * (kSegmentBytes / kBlockBytes);
  segments_.reserve(segments_.size() + 1);
  free_.reserve(blocks);
  traffic_.reserve(blocks);
  times_.reserve(blocks);
  const auto offset = static_cast<off_t>(segments_.size() * kSegmentBytes);
  // Allocates the whole segment now. A page that could not be had later would end the process by a
  // signal.
  if (file_ && ::fallocate(file_.get(), 0, offset, kSegmentBytes) != 0) throw std::bad_alloc();
  const int flags = file_ ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const memory = ::mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, flags,
                              file_ ? file_.get() : -1, file_ ? offset : 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  segments_.emplace_back(static_cast<std::byte*>(memory), kSegmentBytes);
  // From the last block to the first, because take() begins at the list's end.
  for (std::size_t at = kSegmentBytes; at != 0; at -= kBlockBytes)
    free_.push_back(&segments_.back()[at - kBlockBytes]);
}

Result<void> Store::publish() {
  Fd file(::memfd_create(kFileName.data(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return failed("memfd_create");
  const std::size_t length = segments_.size() * kSegmentBytes;
  if (::fallocate(file.get(), 0, 0, static_cast<off_t>(length)) != 0) return failed("fallocate");
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return failed("fcntl(F_ADD_SEALS)");
  off_t offset = 0;
  for (const std::span<std::byte> segment : segments_) {
    if (std::cmp_not_equal(::pwrite(file.get(), segment.data(), segment.size(), offset),
                           segment.size()))
      return failed("pwrite");
    offset += static_cast<off_t>(segment.size());
  }
  // The file takes the place of the segments: blocks keep their addresses.
  offset = 0;
  for (const std::span<std::byte> segment : segments_) {
    if (::mmap(segment.data(), segment.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               file.get(), offset) == MAP_FAILED)
      return failed("mmap");
    offset += static_cast<off_t>(segment.size());
  }
  file_ = std::move(file);
  published_.store(true, std::memory_order_relaxed);
  return {};
}

void Store::add(LookUpSource& source) {
  const std::scoped_lock lock(sources_mutex_);
  sources_.push_back(&source);
}

void Store::remove(LookUpSource& source) noexcept {
  const std::scoped_lock lock(sources_mutex_);
  if (std::erase(sources_, &source) == 0) return;
  gone_ = sum(gone_, source.look_ups());
}

void Store::put_look_ups() noexcept {
  const std::scoped_lock lock(sources_mutex_);
  LookUps all = gone_;
  for (LookUpSource* const source : sources_) all = sum(all, source->look_ups());
  process_->hits.set(all.hits);
  process_->misses.set(all.misses);
  process_->evictions.set(all.evictions);
}

void Store::put_look_ups(std::chrono::steady_clock::time_point now) noexcept {
  constexpr auto kBetween = std::chrono::milliseconds(200);
  if (!published_.load(std::memory_order_relaxed)) return;
  {
    const std::scoped_lock lock(sources_mutex_);
    if (now < put_ + kBetween) return;
    put_ = now;
  }
  put_look_ups();
}

template <class Block>
Block& Store::take(const Owner& owner) {
  if (free_.empty()) grow();
  auto* const block = new (free_.back()) Block;
  free_.pop_back();
  block->head.owner = owner;
  block->head.type.store(Block::kType, std::memory_order_release);
  return *block;
}

template <class Block>
void Store::give_back(Block& block) noexcept {
  block.head.type.store(BlockType::free, std::memory_order_release);
  free_.push_back(reinterpret_cast<std::byte*>(&block));
}

Result<std::uint32_t> Store::begin_context(const StatisticsSettings& settings) {
  return guarded(Stage::configure, [&]() -> Result<std::uint32_t> {
    const std::scoped_lock lock(mutex_);
    if (!has_context_) {
      has_context_ = true;
      most_peers_ = settings.peers;
      peers_.reserve(std::min<std::uint64_t>(most_peers_, 1024));
    }
    if (settings.publish && !file_) HBMWIRE_TRY(publish());
    return last_context.fetch_add(1, std::memory_order_relaxed) + 1;
  });
}

bool Store::claim_series(std::string_view peer) {
  const std::size_t hash = std::hash<std::string_view>{}(peer);
  if (std::ranges::find(peers_, hash) != peers_.end()) return true;
  if (peers_.size() >= most_peers_) return false;
  peers_.push_back(hash);
  return true;
}

std::uint32_t Store::next_worker() noexcept {
  return last_worker.fetch_add(1, std::memory_order_relaxed) + 1;
}

TrafficBlock& Store::take_traffic(const Owner& owner, std::string_view nic, std::string_view peer) {
  const std::scoped_lock lock(mutex_);
  if (!peer.empty() && !claim_series(peer)) peer = kOtherPeers;
  auto& block = take<TrafficBlock>(owner);
  set_text(block.nic, nic);
  set_text(block.peer, peer);
  if (owner.endpoint == 0) traffic_.push_back(&block);
  return block;
}

TimesBlock& Store::take_times(const Owner& owner) {
  const std::scoped_lock lock(mutex_);
  return *times_.emplace_back(&take<TimesBlock>(owner));
}

/// Merges the block into another one with the same owner and names, if there is one.
void Store::keep(TrafficBlock& block) noexcept {
  const auto same = std::ranges::find_if(traffic_, [&](const TrafficBlock* other) {
    return other != &block && other->head.owner == block.head.owner && other->nic == block.nic &&
           other->peer == block.peer;
  });
  if (same == traffic_.end()) {
    if (std::ranges::find(traffic_, &block) == traffic_.end()) traffic_.push_back(&block);
    return;
  }
  merge(**same, block);
  std::erase(traffic_, &block);
  give_back(block);
}

/// Merges each series into that of another block with the same owner and labels; a series without a
/// counterpart stays where it is.
void Store::keep(TimesBlock& block) noexcept {
  bool is_empty = true;
  for (TimesBlock::Series& series : block.series) {
    if (series.labels.value() == 0) continue;
    TimesBlock::Series* same = nullptr;
    for (TimesBlock* const other : times_) {
      if (other == &block || other->head.owner != block.head.owner) continue;
      const auto found = std::ranges::find(other->series, series.labels.value(),
                                           [](const auto& each) { return each.labels.value(); });
      if (found != other->series.end()) same = &*found;
    }
    if (same == nullptr) {
      is_empty = false;
      continue;
    }
    same->sum_ns.add(series.sum_ns.value());
    for (std::size_t i = 0; i < kTimeBuckets; ++i)
      same->transfers[i].add(series.transfers[i].value());
    series.sum_ns.set(0);
    for (Counter& each : series.transfers) each.set(0);
  }
  if (!is_empty) return;
  std::erase(times_, &block);
  give_back(block);
}

/// Counts of owner `number` become those of owner 0.
void Store::keep_all(std::uint32_t Owner::*of, std::uint32_t number) noexcept {
  const Moving moving(*process_);
  const auto keep_each = [&](auto& blocks) {
    // From the end, because keep() removes the given block or none.
    for (std::size_t i = blocks.size(); i-- != 0;) {
      if (blocks[i]->head.owner.*of != number) continue;
      blocks[i]->head.owner.*of = 0;
      keep(*blocks[i]);
    }
  };
  keep_each(traffic_);
  keep_each(times_);
}

void Store::end_endpoint(TrafficBlock& block) noexcept {
  const std::scoped_lock lock(mutex_);
  const Moving moving(*process_);
  block.head.owner.endpoint = 0;
  keep(block);
}

void Store::end_worker(std::uint32_t worker) noexcept {
  const std::scoped_lock lock(mutex_);
  keep_all(&Owner::worker, worker);
}

void Store::end_context(std::uint32_t context) noexcept {
  const std::scoped_lock lock(mutex_);
  keep_all(&Owner::context, context);
}

std::vector<std::byte> Store::copy() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::byte> all(segments_.size() * kSegmentBytes);
  std::size_t to = 0;
  for (const std::span<std::byte> segment : segments_) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(segment.data());
    for (std::size_t i = 0; i < segment.size() / sizeof(std::uint64_t); ++i) {
      // Other threads are counting meanwhile.
      const std::uint64_t word = __atomic_load_n(words + i, __ATOMIC_RELAXED);
      std::memcpy(&all[to], &word, sizeof word);
      to += sizeof word;
    }
  }
  return all;
}

}  // namespace hbmwire::counters
