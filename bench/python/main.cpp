// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/by_nic.hpp"
#include "bench/common/program.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"
#include "bench/python/cpp_end.hpp"
#include "bench/python/python_end.hpp"

/// hbmwire from Python against hbmwire from C++.
namespace hbmwire::bench {
namespace {

/// An operation that both sides repeat.
struct Work {
  const char* name = "";  // the work's name in puts.py
  void (CppEnd::*run)(std::size_t, unsigned) = nullptr;
  std::size_t memory = 0;  // bytes of memory that it uses
  std::size_t bytes = kWord;
  unsigned count = 1;       // operations that are timed together
  unsigned operations = 1;  // how many operations each of these counts as
  unsigned fewer = 1;       // divides the number of chunks, for work that takes long
  bool answered = false;    // the peer sends, from host memory: the NIC would fetch short messages
                            // of a card's memory, with a round trip for each
};

struct SendAll {
  template <class End>
  void operator()(End& end, std::uint64_t times) const {
    end.send_all(times);
  }
};

class Languages final : public TwoProcesses<PythonEnd, CppEnd, SendAll> {
 public:
  Languages(const Work& work, const Effort& effort)
      : TwoProcesses<PythonEnd, CppEnd, SendAll>(work.answered ? Kind::private_pages : Kind::shared,
                                                 work.memory),
        work_(work),
        chunks_(std::max(effort.chunks / work.fewer, 1U)) {}

  double ours() override {
    if (work_.answered) call(our_end(), chunks_);
    return one_of(our_end().chunk_ns(work_.name, work_.bytes, chunks_, work_.count));
  }

  double theirs() override {
    if (work_.answered) call(their_end(), chunks_);
    return one_of(median_ns(chunks_, [&] { (their_end().*work_.run)(work_.bytes, work_.count); }));
  }

 private:
  /// The time for one operation.
  [[nodiscard]] double one_of(double chunk) const { return chunk / work_.count / work_.operations; }

  Work work_;
  unsigned chunks_;
};

Row row(const char* name, const char* ours, const char* theirs, const Work& work) {
  Row row{.name = name, .ours = ours, .theirs = theirs};
  row.better = Better::lower;
  row.renewed = true;
  row.make = [work](const Effort& effort) { return std::make_unique<Languages>(work, effort); };
  return row;
}

/// A row that shows by how many nanoseconds ours takes longer.
Row longer(Row row, std::optional<double> limit) {
  row.difference = true;
  row.limit = limit;
  return row;
}

/// A row that shows bandwidth.
Row faster(Row row, std::size_t bytes, std::optional<double> limit) {
  row.better = Better::higher;
  row.bytes = bytes;
  row.limit = limit;
  return row;
}

/// A row that shows how many times as long ours takes.
Row slower(Row row, std::optional<double> limit) {
  row.limit = limit;
  return row;
}

Work one_by_one(std::size_t bytes, unsigned count) {
  return {.name = "put", .run = &CppEnd::put, .memory = bytes, .bytes = bytes, .count = count};
}

Work all_blocks(const char* name, void (CppEnd::*run)(std::size_t, unsigned), std::size_t bytes) {
  return {.name = name,
          .run = run,
          .memory = kPages * bytes,
          .bytes = bytes,
          .operations = kPages,
          .fewer = 40};
}

std::vector<Row> all_rows() {
  const Work list{
      .name = "list", .run = &CppEnd::put_list, .memory = kParts * kPartBytes, .count = 2};
  Work awaited = one_by_one(kWord, 256);
  awaited.name = "await";
  const Work gather{.name = "gather",
                    .run = &CppEnd::receive_all,
                    .memory = kReceives * kWord,
                    .operations = kReceives,
                    .fewer = 10,
                    .answered = true};
  return {
      longer(row("put-8", "8 B put and wait", "C++", one_by_one(kWord, 64)), 3000),
      faster(row("put-64k", "64 KiB put and wait", "C++", one_by_one(k64k, 32)), k64k,
             std::nullopt),
      faster(row("put-1m", "1 MiB put and wait", "C++", one_by_one(k1m, 4)), k1m, 0.95),
      faster(row("list-64x64k", "64 parts of 64 KiB, prepared", "C++", list), kParts * kPartBytes,
             0.95),
      slower(row("blocks-100k", "100,000 of 4 KiB, N x 2, a block", "C++, put_blocks",
                 all_blocks("blocks", &CppEnd::put_blocks, kPageBytes)),
             1.15),
      slower(row("list-100k", "the same, N x 3, a block", "C++, put_blocks",
                 all_blocks("parts", &CppEnd::put_blocks, kPageBytes)),
             1.15),
      slower(row("blocks-100k-64", "100,000 of 64 B, N x 2, a block", "C++, put_blocks",
                 all_blocks("blocks", &CppEnd::put_blocks, kRowBytes)),
             std::nullopt),
      slower(row("list-100k-64", "the same, N x 3, a block", "C++, put_blocks",
                 all_blocks("parts", &CppEnd::put_blocks, kRowBytes)),
             std::nullopt),
      slower(row("mixed-100k", "4 and 2 KiB, N x 3, a part", "C++, prepare_put",
                 all_blocks("mixed", &CppEnd::put_mixed, kPageBytes)),
             1.15),
      longer(row("await-8", "8 B put, awaited", "C++, wait", awaited), std::nullopt),
      longer(row("gather-1000", "1,000 receives gathered, each", "C++, next_done", gather),
             std::nullopt),
  };
}

}  // namespace
}  // namespace hbmwire::bench

int main(int argc, char** argv) {
  hbmwire::bench::go_by_nic();
  return hbmwire::bench::run_program(
      argc, argv,
      "hbmwire from Python against hbmwire from C++, by the same NIC. Ratios are medians of pairs\n"
      "of short slices, taken in turn while the machine was steady.",
      hbmwire::bench::all_rows);
}
