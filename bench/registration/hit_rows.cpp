// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <bit>
#include <cstdio>
#include <string>

#include "bench/common/peer.hpp"
#include "bench/registration/hits.hpp"
#include "bench/registration/rows.hpp"

/// Rows of look-ups that find a registration.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kEnough = 120'000;  // more than any row uses

/// A hit may cost half as much as UCX's; the aim is a third.
constexpr double kLimit = 0.5;
constexpr double kAim = 0.3;

/// The same region again and again.
class SameRegion final : public Contest {
 public:
  SameRegion(const Context& context, const Effort& effort)
      : chunks_(effort.chunks), pieces_(context, 10, kPieceBytes), ours_(context, kEnough) {
    fill(ours_, pieces_);
    fill(theirs_, pieces_);
  }

  double ours() override { return measure(ours_); }

  double theirs() override { return measure(theirs_); }

 private:
  /// All hits are on one piece; it does not matter which.
  template <class Cache>
  double measure(const Cache& cache) const {
    return median_ns(chunks_, [&] { use_one(cache, pieces_, 3); }) / kHitsInAChunk;
  }

  unsigned chunks_;
  Pieces pieces_;
  OurCache ours_;
  UcxCache theirs_{kEnough, nullptr};
};

/// The application's own memory, which is watched as long as its registration is kept.
class WatchedRegion final : public Contest {
 public:
  WatchedRegion(const Context& context, const Effort& effort, OurCache::Watch watch)
      : chunks_(effort.chunks), ours_(context, kEnough, watch) {
    memory_ =
        ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) fail("mmap");
    ours_.use(address(), kPieceBytes);
    theirs_.use(address(), kPieceBytes);
  }

  WatchedRegion(const WatchedRegion&) = delete;
  WatchedRegion& operator=(const WatchedRegion&) = delete;
  WatchedRegion(WatchedRegion&&) = delete;
  WatchedRegion& operator=(WatchedRegion&&) = delete;

  ~WatchedRegion() override { ::munmap(memory_, kPieceBytes); }

  double ours() override { return measure(ours_); }

  double theirs() override { return measure(theirs_); }

  /// Whether the registration is kept: a kernel may not allow watching.
  [[nodiscard]] bool is_kept() {
    ours_.use(address(), kPieceBytes);
    return ours_.statistics().hits != 0;
  }

 private:
  [[nodiscard]] std::uint64_t address() const { return std::bit_cast<std::uint64_t>(memory_); }

  template <class Cache>
  double measure(const Cache& cache) const {
    return median_ns(chunks_,
                     [&] {
                       for (unsigned i = 0; i < kHitsInAChunk; ++i)
                         cache.use(address(), kPieceBytes);
                     }) /
           kHitsInAChunk;
  }

  unsigned chunks_;
  void* memory_ = nullptr;
  OurCache ours_;
  UcxCache theirs_{kEnough, nullptr};
};

/// Random ones of many regions.
class ManyRegions final : public Contest {
 public:
  ManyRegions(const Context& context, const Effort& effort, std::size_t count)
      : chunks_(effort.chunks), pieces_(context, count, kPieceBytes), ours_(context, kEnough) {
    fill(ours_, pieces_);
    fill(theirs_, pieces_);
  }

  double ours() override { return measure(ours_); }

  double theirs() override { return measure(theirs_); }

 private:
  template <class Cache>
  double measure(const Cache& cache) {
    return median_ns(chunks_, [&] { use_any(cache, pieces_, steps_); }) / kHitsInAChunk;
  }

  unsigned chunks_;
  Pieces pieces_;
  OurCache ours_;
  UcxCache theirs_{kEnough, nullptr};
  Steps steps_{pieces_.count(), 1};
};

/// Our own cache with many regions, against the same cache with few.
class ManyAndFew final : public Contest {
 public:
  ManyAndFew(const Context& context, const Effort& effort)
      : chunks_(effort.chunks),
        pieces_(context, 100'000, kPieceBytes),
        many_(context, kEnough),
        few_(context, kEnough) {
    fill(many_, pieces_);
    for (std::size_t i = 0; i < kFew; ++i) few_.use(pieces_.address(i), kPieceBytes);
  }

  double ours() override { return measure(many_, of_many_); }

  double theirs() override { return measure(few_, of_few_); }

 private:
  static constexpr std::size_t kFew = 10;

  double measure(const OurCache& cache, Steps& steps) const {
    return median_ns(chunks_, [&] { use_any(cache, pieces_, steps); }) / kHitsInAChunk;
  }

  unsigned chunks_;
  Pieces pieces_;
  OurCache many_;
  OurCache few_;
  Steps of_many_{pieces_.count(), 1};
  Steps of_few_{kFew, 1};
};

Row hit_row(std::string name, std::string what) {
  Row row;
  row.name = std::move(name);
  row.ours = std::move(what);
  row.theirs = "UCX 1.13";
  row.better = Better::lower;
  row.limit = kLimit;
  row.aim = kAim;
  return row;
}

}  // namespace

std::vector<Row> hit_rows(const Context& context) {
  std::vector<Row> rows;
  rows.push_back(hit_row("hit", "hit, the same region"));
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<SameRegion>(context, effort);
  };
  // Measures nothing here: only asks whether this kernel allows watching.
  if (WatchedRegion(context, Effort{}, OurCache::Watch::yes).is_kept()) {
    rows.push_back(hit_row("hit-watched", "hit, application's host memory"));
    rows.back().make = [context](const Effort& effort) {
      return std::make_unique<WatchedRegion>(context, effort, OurCache::Watch::yes);
    };
    rows.push_back(hit_row("hit-strict", "hit, the same, asking the kernel"));
    rows.back().limit.reset();
    rows.back().aim.reset();
    rows.back().make = [context](const Effort& effort) {
      return std::make_unique<WatchedRegion>(context, effort, OurCache::Watch::strict);
    };
  } else {
    std::fputs("host memory can't be watched here (userfaultfd): no row hit-watched\n", stderr);
  }

  struct Size {
    std::size_t count;
    const char* name;
    const char* in_words;
  };

  for (const Size& size : {Size{10, "10", "10"}, Size{1000, "1k", "1,000"},
                           Size{10'000, "10k", "10,000"}, Size{100'000, "100k", "100,000"}}) {
    rows.push_back(hit_row(std::string("hit-") + size.name,
                           std::string("hit, any of ") + size.in_words + " regions"));
    rows.back().make = [context, n = size.count](const Effort& effort) {
      return std::make_unique<ManyRegions>(context, effort, n);
    };
  }
  rows.push_back(hit_row("spread", "hit, any of 100,000 regions"));
  rows.back().theirs = "ours, any of 10";
  rows.back().limit = 2.0;
  rows.back().aim.reset();
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<ManyAndFew>(context, effort);
  };
  return rows;
}

}  // namespace hbmwire::bench
