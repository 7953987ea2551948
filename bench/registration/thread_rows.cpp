// SPDX-License-Identifier: MIT
#include "bench/registration/company.hpp"
#include "bench/registration/hits.hpp"
#include "bench/registration/rows.hpp"

/// Rows of two threads on two CPUs: one is timed while the other does the same.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kThreadBytes = 4096;
constexpr std::size_t kThreadPieces = 64;
constexpr std::size_t kOurs = 3;       // index of the region of the timed thread
constexpr std::size_t kCompanys = 40;  // index of a region that only the other thread uses

/// The figure that a row shows.
enum class Told : std::uint8_t {
  time,      // the time of a hit while the other thread works
  slowdown,  // that time, divided by the time of a hit without the other thread
};

class TwoThreads final : public Contest {
 public:
  TwoThreads(const Context& context, const Effort& effort, std::size_t companys_region, Told told)
      : chunks_(effort.chunks),
        told_(told),
        pieces_(context, kThreadPieces, kThreadBytes),
        ours_(context, 2 * kThreadPieces),
        with_ours_([this, companys_region] { use_one(ours_, pieces_, companys_region); }),
        with_theirs_([this, companys_region] { use_one(theirs_, pieces_, companys_region); }) {
    fill(ours_, pieces_);
    fill(theirs_, pieces_);
  }

  double ours() override { return measure(ours_, with_ours_); }

  double theirs() override { return measure(theirs_, with_theirs_); }

 private:
  template <class Cache>
  double measure(const Cache& cache, Company& company) const {
    const auto timed = [&] {
      return median_ns(chunks_, [&] { use_one(cache, pieces_, kOurs); }) / kHitsInAChunk;
    };
    const double alone = told_ == Told::slowdown ? timed() : 1;
    company.start();
    const double together = timed();
    company.stop();
    return together / alone;
  }

  unsigned chunks_;
  Told told_;
  Pieces pieces_;
  OurCache ours_;
  UcxCache theirs_{2 * kThreadPieces, nullptr};
  Company with_ours_;
  Company with_theirs_;
};

struct Kind {
  const char* name;
  const char* what;
  std::size_t companys_region;
  Told told;
};

}  // namespace

std::vector<Row> thread_rows(const Context& context) {
  std::vector<Row> rows;
  for (const Kind& kind :
       {Kind{"two-same", "hit, two threads, same region", kOurs, Told::time},
        Kind{"two-own", "hit, two threads, own regions", kCompanys, Told::time},
        Kind{"scale-same", "slower by company, same region", kOurs, Told::slowdown},
        Kind{"scale-own", "slower by company, own regions", kCompanys, Told::slowdown}}) {
    Row row;
    row.name = kind.name;
    row.ours = kind.what;
    row.theirs = "UCX 1.13";
    row.better = Better::lower;
    row.factor = kind.told == Told::slowdown;
    row.limit = row.factor ? 1.0 : 0.5;
    if (!row.factor) row.aim = 0.3;
    row.make = [context, kind](const Effort& effort) {
      return std::make_unique<TwoThreads>(context, effort, kind.companys_region, kind.told);
    };
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace hbmwire::bench
