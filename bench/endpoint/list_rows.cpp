// SPDX-License-Identifier: MIT
#include "bench/endpoint/put_contests.hpp"
#include "bench/endpoint/raw_end.hpp"
#include "bench/endpoint/rows.hpp"

/// A list of 1,024 blocks of 256 B, prepared once, in memory as a card's.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kListBytes = kBlocks * kBlockStride;

/// Nanoseconds a block.
template <class Work>
double block_ns(unsigned chunks, const Work& work) {
  work();
  return median_ns(chunks, work) / kBlocks;
}

class ListAgainstChains final : public TwoProcesses<OurEnd, RawEnd, Sleep> {
 public:
  explicit ListAgainstChains(const Effort& effort)
      : TwoProcesses(Kind::shared, kListBytes), chunks_(effort.chunks) {}

  double ours() override {
    return block_ns(chunks_, [&] { our_end().run_lists(1); });
  }

  double theirs() override {
    return block_ns(chunks_, [&] { their_end().run_lists(1); });
  }

 private:
  unsigned chunks_;
};

/// By numbers, which are other ones each time for all that the two know.
class PairsAgainstChains final : public TwoProcesses<OurEnd, RawEnd, Sleep> {
 public:
  explicit PairsAgainstChains(const Effort& effort)
      : TwoProcesses(Kind::shared, kListBytes), chunks_(effort.chunks) {}

  double ours() override {
    return block_ns(chunks_, [&] { our_end().run_pairs(1); });
  }

  double theirs() override {
    return block_ns(chunks_, [&] { their_end().run_pairs(1); });
  }

 private:
  unsigned chunks_;
};

class PairsAgainstCopies final : public TwoProcesses<OurEnd, NoEnd, Sleep> {
 public:
  explicit PairsAgainstCopies(const Effort& effort)
      : TwoProcesses(Kind::shared, kListBytes), chunks_(effort.chunks) {}

  double ours() override {
    return block_ns(chunks_, [&] { our_end().run_pairs(1); });
  }

  double theirs() override {
    return block_ns(chunks_, [&] { our_end().copy_pairs(); });
  }

 private:
  unsigned chunks_;
};

class ListAgainstPuts final : public TwoProcesses<OurEnd, NoEnd, Sleep> {
 public:
  explicit ListAgainstPuts(const Effort& effort)
      : TwoProcesses(Kind::shared, kListBytes), chunks_(effort.chunks) {}

  double ours() override {
    return block_ns(chunks_, [&] { our_end().run_lists(1); });
  }

  double theirs() override {
    return block_ns(chunks_, [&] { our_end().run_blocks(1); });
  }

 private:
  unsigned chunks_;
};

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
