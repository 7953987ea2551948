// SPDX-License-Identifier: MIT
#include "bench/common/ucx.hpp"
#include "bench/endpoint/fabric_end.hpp"
#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/rows.hpp"
#include "bench/endpoint/two_processes.hpp"

/// Rows of tagged messages, against UCX and libfabric on the same NIC, in memory that they
/// register.
namespace hbmwire::bench {
namespace {

/// `usual` messages; for a quick run a fiftieth of them, and enough to have kMessages under way.
unsigned part_of(const Effort& effort, unsigned usual) {
  return effort.quick ? usual / 50 + kMessages : usual;
}

template <class Theirs>
class Latency : public TwoProcesses<OurEnd, Theirs, AnswerMessages> {
 public:
  static constexpr std::size_t kBulk = kWord;

  Latency(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses<OurEnd, Theirs, AnswerMessages>(Kind::private_pages, kWord, std::move(peer)),
        chunks_(effort.chunks * 2),
        iterations_(part_of(effort, 20'000)) {}

  double ours() override { return call_and_time(this->our_end()); }

  double theirs() override {
    if constexpr (std::is_same_v<Theirs, NoEnd>) {
      return ucx_perftest({"tag_lat", iterations_, kTransport}).median_ns;
    } else {
      return call_and_time(this->their_end());
    }
  }

 private:
  template <class End>
  double call_and_time(End& end) {
    this->call(end, std::uint64_t{chunks_} * kRoundsOfChunk);
    return message_ns(end, chunks_);
  }

  unsigned chunks_;
  unsigned iterations_;
};

template <class Theirs, std::size_t kBytes>
class Bandwidth : public TwoProcesses<OurEnd, Theirs, TakeMessages<kBytes>> {
 public:
  static constexpr std::size_t kBulk = kBytes;

  Bandwidth(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses<OurEnd, Theirs, TakeMessages<kBytes>>(Kind::private_pages, kBytes,
                                                           std::move(peer)),
        count_(part_of(effort, kBytes < k1m ? 4000 : 400)) {}

  double ours() override { return call_and_time(this->our_end()); }

  double theirs() override {
    if constexpr (std::is_same_v<Theirs, NoEnd>) {
      return ucx_perftest({"tag_bw", count_, kTransport, kBytes, kMessages}).average_ns;
    } else {
      return call_and_time(this->their_end());
    }
  }

 private:
  template <class End>
  double call_and_time(End& end) {
    // A warm-up, as ucx_perftest makes one just before it counts.
    stream(end, std::min(kUcxWarmUp, count_));
    return stream(end, count_);
  }

  template <class End>
  double stream(End& end, unsigned count) {
    this->call(end, count);
    return stream_ns(end, kBytes, count);
  }

  unsigned count_;
};

/// `bytes` of a message for a row that shows bandwidth; 0 for a row that shows latency.
template <class Measured>
Row tag_row(const char* name, const char* ours, const char* theirs, std::size_t bytes) {
  Row row{.name = name, .ours = ours, .theirs = theirs};
  row.better = bytes == 0 ? Better::lower : Better::higher;
  row.limit = bytes == 0 ? kLatencyBound : kBandwidthBound;
  row.bytes = bytes;
  row.make = [peer = Measured::forked(Kind::private_pages, Measured::kBulk)](const Effort& effort) {
    return std::make_unique<Measured>(effort, peer);
  };
  return row;
}

}  // namespace

std::vector<Row> tag_rows() {
  using Fabric = FabricEnd;
  return {
      tag_row<Latency<NoEnd>>("ucx-tag-8", "8 B tagged message", "UCX tag_lat", 0),
      tag_row<Bandwidth<NoEnd, k64k>>("ucx-tag-64k", "64 KiB tagged messages", "UCX tag_bw", k64k),
      tag_row<Bandwidth<NoEnd, k1m>>("ucx-tag-1m", "1 MiB tagged messages", "UCX tag_bw", k1m),
      tag_row<Latency<Fabric>>("fabric-tag-8", "8 B tagged message", "fi_tinject", 0),
      tag_row<Bandwidth<Fabric, k64k>>("fabric-tag-64k", "64 KiB tagged messages", "fi_tsend",
                                       k64k),
      tag_row<Bandwidth<Fabric, k1m>>("fabric-tag-1m", "1 MiB tagged messages", "fi_tsend", k1m),
  };
}

}  // namespace hbmwire::bench
