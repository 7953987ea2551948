// SPDX-License-Identifier: MIT
#include <stdexcept>

#include "bench/common/iperf.hpp"
#include "bench/common/ucx.hpp"
#include "bench/endpoint/our_end.hpp"
#include "bench/endpoint/two_processes.hpp"
#include "bench/movers/rows.hpp"

/// Rows of an endpoint without a NIC, whose bytes go by TCP over the loopback device, as those of
/// iperf3 and UCX do.
namespace hbmwire::bench {
namespace {

constexpr std::size_t k1m = 1 << 20;

struct TcpEnd : OurEnd {
  explicit TcpEnd(const Place& place) : OurEnd(place, {}, {"none"}) {}
};

/// The peer's process takes the bytes that are put into its memory, and answers the word that comes
/// after them.
struct TakePuts {
  template <class End>
  void operator()(End& end, std::uint64_t /*times*/) const {
    const std::uint64_t value = end.next_word();
    end.drive_until_word(value);
    end.write_word(value);
  }
};

class Bandwidth final : public TwoProcesses<TcpEnd, NoEnd, TakePuts> {
 public:
  Bandwidth(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, k1m, std::move(peer)),
        count_(effort.quick ? kWindow : 1024) {}

  double ours() override {
    TcpEnd& end = our_end();
    call(end, 1);  // the peer makes progress in TakePuts until the word has come
    const double before = now_ns();
    end.run(k1m, count_);
    if (end.last_path() != Path::tcp) throw std::runtime_error("it went another way than by TCP");
    // The word arrives after all puts, and the answer after the word.
    const std::uint64_t value = end.next_word();
    end.write_word(value);
    end.drive_until_word(value);
    const double each = (now_ns() - before) / count_;
    end.finish();
    return each;
  }

  double theirs() override { return k1m / iperf_bytes_per_ns(std::uint64_t{count_} * k1m); }

 private:
  unsigned count_;
};

class Latency final : public TwoProcesses<TcpEnd, NoEnd, AnswerMessages> {
 public:
  Latency(const Effort& effort, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)),
        chunks_(effort.chunks * 5),  // as the row put-8 (kRoundsOfChunk)
        iterations_(effort.quick ? 400 : 20'000) {}

  double ours() override {
    call(our_end(), std::uint64_t{chunks_} * kRoundsOfChunk);
    return message_ns(our_end(), chunks_);
  }

  double theirs() override { return ucx_perftest({"tag_lat", iterations_, "tcp"}).median_ns; }

 private:
  unsigned chunks_;
  unsigned iterations_;
};

/// Forks the peer now, while the rows are made: TwoProcesses::forked() says why.
template <class Measured>
std::function<std::unique_ptr<Contest>(const Effort&)> maker(std::size_t bulk) {
  return [peer = Measured::forked(Kind::private_pages, bulk)](const Effort& effort) {
    return std::make_unique<Measured>(effort, peer);
  };
}

}  // namespace

std::vector<Row> tcp_rows() {
  Row bandwidth{.name = "tcp-1m", .ours = "1 MiB puts by TCP", .theirs = "iperf3, one stream"};
  bandwidth.limit = 0.8;
  bandwidth.aim = 1.0;
  bandwidth.bytes = k1m;
  bandwidth.make = maker<Bandwidth>(k1m);
  Row latency{.name = "tcp-8", .ours = "8 B tagged message by TCP", .theirs = "UCX tag_lat, tcp"};
  latency.better = Better::lower;
  latency.limit = 1.0;
  latency.make = maker<Latency>(kWord);
  return {bandwidth, latency};
}

}  // namespace hbmwire::bench
