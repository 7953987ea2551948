// SPDX-License-Identifier: MIT
#include <type_traits>

#include "bench/endpoint/put_contests.hpp"
#include "bench/endpoint/raw_end.hpp"
#include "bench/endpoint/rows.hpp"

/// Rows of a list of 1,024 blocks of 256 B, prepared once, in memory like a card's.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kListBytes = kBlocks * kBlockStride;

/// Nanoseconds for one block.
template <class Work>
double block_ns(unsigned chunks, const Work& work) {
  work();  // not timed: the first call prepares the list
  return median_ns(chunks, work) / kBlocks;
}

/// `kOurs` of our end against `kTheirs` of their end; with NoEnd our end does `kTheirs`, too. Each
/// call moves one list.
template <class TheirEnd, auto kOurs, auto kTheirs>
class BlockContest final : public TwoProcesses<OurEnd, TheirEnd, Sleep> {
 public:
  explicit BlockContest(const Effort& effort)
      : TwoProcesses<OurEnd, TheirEnd, Sleep>(Kind::shared, kListBytes), chunks_(effort.chunks) {}

  double ours() override {
    return block_ns(chunks_, [&] { (this->our_end().*kOurs)(1); });
  }

  double theirs() override {
    return block_ns(chunks_, [&] {
      if constexpr (std::is_same_v<TheirEnd, NoEnd>) {
        (this->our_end().*kTheirs)(1);
      } else {
        (this->their_end().*kTheirs)(1);
      }
    });
  }

 private:
  unsigned chunks_;
};

using ListAgainstChains = BlockContest<RawEnd, &OurEnd::run_lists, &RawEnd::run_lists>;
using ListAgainstPuts = BlockContest<NoEnd, &OurEnd::run_lists, &OurEnd::run_blocks>;
// By pairs of numbers. Neither side knows that the numbers repeat, so both treat them as new each
// time.
using PairsAgainstChains = BlockContest<RawEnd, &OurEnd::run_pairs, &RawEnd::run_pairs>;
using PairsAgainstCopies = BlockContest<NoEnd, &OurEnd::run_pairs, &OurEnd::copy_pairs>;

template <class Measured>
Row list_row(const char* name, const char* theirs, std::optional<double> limit) {
  Row row{.name = name, .ours = "a list of 1,024 blocks of 256 B, a block", .theirs = theirs};
  row.better = Better::lower;
  row.limit = limit;
  row.renewed = true;
  row.make = [](const Effort& effort) { return std::make_unique<Measured>(effort); };
  return row;
}

}  // namespace

std::vector<Row> list_rows() {
  return {list_row<ListAgainstChains>("list-256", "raw verbs, chains of 64", 1.15),
          list_row<PairsAgainstChains>("pairs-256", "raw verbs, chains of 64 aimed anew", 1.15),
          list_row<PairsAgainstCopies>("pairs-256-memcpy", "memcpy", std::nullopt),
          list_row<ListAgainstPuts>("list-256-single", "a put for each block", 1.0)};
}

}  // namespace hbmwire::bench
