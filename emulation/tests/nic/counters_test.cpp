// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "emulation/tests/nic/endpoint.hpp"

/// The ports' counters in sysfs. Runs with --nics 2 --ports 2. Requests go from port 1 of emu0 to
/// port 2 of emu1.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Counts = std::map<std::string, std::uint64_t>;

const Endpoint::Options kHere{.device = "emu0", .port = 1};
const Endpoint::Options kThere{.device = "emu1", .port = 2};

/// All files in counters/ and hw_counters/ of a port.
Counts read_counts(const std::string& nic, unsigned port) {
  Counts counts;
  const fs::path directory = fs::path(std::getenv("SYSFS_PATH")) / "class/infiniband" / nic /
                             "ports" / std::to_string(port);
  for (const char* group : {"counters", "hw_counters"}) {
    for (const auto& file : fs::directory_iterator(directory / group)) {
      std::uint64_t value = ~0ULL;
      std::ifstream(file.path()) >> value;
      counts[file.path().filename()] = value;
    }
  }
  return counts;
}

/// Counts at a port since this object was made.
class Watch {
 public:
  Watch(std::string nic, unsigned port)
      : nic_(std::move(nic)), port_(port), before_(read_counts(nic_, port_)) {}

  /// The counters that have changed.
  [[nodiscard]] Counts changes() const {
    Counts changes;
    for (const auto& [name, value] : read_counts(nic_, port_)) {
      if (value != before_.at(name)) changes[name] = value - before_.at(name);
    }
    return changes;
  }

 private:
  std::string nic_;
  unsigned port_;
  Counts before_;
};

/// The ports of both NICs: those that the requests use, and the others.
struct Watches {
  Watch here{"emu0", 1};
  Watch there{"emu1", 2};
  Watch other_here{"emu0", 2};
  Watch other_there{"emu1", 1};
};

TEST(Counters, NamesAreThoseOfAnHcasCounters) {
  const Counts counts = read_counts("emu0", 1);
  for (const char* name :
       {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
        "port_xmit_wait", "port_xmit_discards", "port_rcv_errors", "symbol_error", "link_downed",
        "link_error_recovery", "VL15_dropped", "unicast_xmit_packets", "multicast_rcv_packets",
        "out_of_sequence", "packet_seq_err", "duplicate_request", "implied_nak_seq_err"}) {
    EXPECT_TRUE(counts.contains(name)) << name;
  }
  EXPECT_EQ(counts.at("lifespan"), 50U);
}

TEST(Counters, SentBytes) {
  const Watches watches;
  {
    Pair pair(kHere, kThere);
    const Address peer = pair.b.address();
    // The path MTU is 1024: four packets, then one, then one without payload.
    for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, i, 0, 4000, peer), 0);
    ASSERT_EQ(pair.b.post_recv(9, 0, 100), 0);
    ASSERT_EQ(pair.a.send(3, 0, 10), 0);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 4, 0, 0, peer), 0);
    for (unsigned i = 0; i < 5; ++i) expect_completion(pair.a, i);
  }
  // port_xmit_data and port_rcv_data count words of four bytes: (3 * 4000 + 10) / 4.
  EXPECT_EQ(
      watches.here.changes(),
      (Counts{{"port_xmit_data", 3002}, {"port_xmit_packets", 14}, {"unicast_xmit_packets", 14}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"port_rcv_data", 3002},
                                             {"port_rcv_packets", 14},
                                             {"unicast_rcv_packets", 14},
                                             {"rx_write_requests", 4}}));
  EXPECT_EQ(watches.other_here.changes(), Counts{});
  EXPECT_EQ(watches.other_there.changes(), Counts{});
}

TEST(Counters, FetchedBytes) {
  const Watches watches;
  {
    Pair pair(kHere, kThere);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 1, 0, 5000, pair.b.address()), 0);
    expect_completion(pair.a, 1);
    ibv_send_wr add{};
    add.wr_id = 2;
    add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    add.send_flags = IBV_SEND_SIGNALED;
    add.wr.atomic = {pair.b.address().buffer, 1, 0, pair.b.address().rkey};
    ASSERT_EQ(pair.a.post(add, {pair.a.element(0, 8)}), 0);
    expect_completion(pair.a, 2);
  }
  // Requests of one packet each; answers of five packets and of one with eight bytes.
  EXPECT_EQ(watches.here.changes(), (Counts{{"port_xmit_packets", 2},
                                            {"unicast_xmit_packets", 2},
                                            {"port_rcv_data", 1252},
                                            {"port_rcv_packets", 6},
                                            {"unicast_rcv_packets", 6}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"port_rcv_packets", 2},
                                             {"unicast_rcv_packets", 2},
                                             {"port_xmit_data", 1252},
                                             {"port_xmit_packets", 6},
                                             {"unicast_xmit_packets", 6},
                                             {"rx_read_requests", 1},
                                             {"rx_atomic_requests", 1}}));
}

TEST(Counters, AnUnreliableConnection) {
  const Watches watches;
  {
    Endpoint::Options here = kHere;
    Endpoint::Options there = kThere;
    here.type = there.type = IBV_QPT_UC;
    Pair pair(here, there);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 2000, pair.b.address()), 0);
    expect_completion(pair.a, 1);
    ASSERT_EQ(pair.a.send(2, 0, 8), 0);  // no receive is posted
    expect_completion(pair.a, 2);
  }
  // (2000 + 8) / 4 words, in two packets of the WRITE and one of the SEND.
  EXPECT_EQ(
      watches.here.changes(),
      (Counts{{"port_xmit_data", 502}, {"port_xmit_packets", 3}, {"unicast_xmit_packets", 3}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"out_of_buffer", 1},
                                             {"port_rcv_data", 502},
                                             {"port_rcv_packets", 3},
                                             {"unicast_rcv_packets", 3},
                                             {"rx_write_requests", 1}}));
}

/// A UD endpoint that can send and receive, and an address handle.
struct Datagrams : Endpoint {
  explicit Datagrams(Endpoint::Options options)
      : Endpoint([&] {
          options.type = IBV_QPT_UD;
          return options;
        }()),
        port(options.port) {
    connect({});
  }

  Ah handle_to(const ibv_gid& gid) const {
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = port;
    attributes.grh.dgid = gid;
    attributes.grh.sgid_index = kGidIndex;
    return Ah(ibv_create_ah(pd.get(), &attributes));
  }

  int send_to(ibv_ah* ah, std::uint32_t qpn, std::uint64_t id, std::uint32_t length) {
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = ah;
    request.wr.ud.remote_qpn = qpn;
    request.wr.ud.remote_qkey = kQkey;
    return post(request, {element(0, length)});
  }

  std::uint8_t port;
};

TEST(Counters, Datagrams) {
  const Watches watches;
  {
    Datagrams a(kHere);
    Datagrams b(kThere);
    const Ah ah = a.handle_to(b.address().gid);
    ASSERT_EQ(b.post_recv(1, 0, 3000), 0);
    ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 2, 2000), 0);
    expect_completion(b, 1);
    ASSERT_EQ(a.send_to(ah.get(), b.qp->qp_num, 3, 8), 0);  // no receive is posted
    ASSERT_EQ(a.send_to(ah.get(), 0xfffff0, 4, 8), 0);      // there is no such QP
  }
  // All three datagrams leave. The receiver does not count the one for a QP that does not exist.
  EXPECT_EQ(
      watches.here.changes(),
      (Counts{{"port_xmit_data", 504}, {"port_xmit_packets", 3}, {"unicast_xmit_packets", 3}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"out_of_buffer", 1},
                                             {"port_rcv_data", 502},
                                             {"port_rcv_packets", 2},
                                             {"unicast_rcv_packets", 2}}));
}

TEST(Counters, Multicast) {
  ibv_gid group{};
  ASSERT_EQ(::inet_pton(AF_INET6, "ff0e::ffff:e001:0203", group.raw), 1);
  const Watches watches;
  {
    Datagrams a(kHere);
    Datagrams b(kThere);
    Datagrams c(kThere);
    for (Datagrams* member : {&b, &c}) {
      ASSERT_EQ(ibv_attach_mcast(member->qp.get(), &group, 0), 0);
      ASSERT_EQ(member->post_recv(1, 0, 3000), 0);
    }
    const Ah ah = a.handle_to(group);
    ASSERT_EQ(a.send_to(ah.get(), 0xffffff, 2, 400), 0);  // the QP number of multicast
    expect_completion(b, 1);
    expect_completion(c, 1);
    // An attached QP cannot be destroyed.
    for (Datagrams* member : {&b, &c}) ASSERT_EQ(ibv_detach_mcast(member->qp.get(), &group, 0), 0);
  }
  EXPECT_EQ(
      watches.here.changes(),
      (Counts{{"port_xmit_data", 100}, {"port_xmit_packets", 1}, {"multicast_xmit_packets", 1}}));
  // One copy for each member.
  EXPECT_EQ(
      watches.there.changes(),
      (Counts{{"port_rcv_data", 200}, {"port_rcv_packets", 2}, {"multicast_rcv_packets", 2}}));
}

TEST(Counters, AreWrittenWhileAProgramRuns) {
  const Watches watches;
  Pair pair(kHere, kThere);
  for (unsigned round = 1; round <= 3; ++round) {
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, round, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, round);
    const auto end = std::chrono::steady_clock::now() + 2s;
    while (watches.there.changes()["rx_write_requests"] != round &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(5ms);
    }
    EXPECT_EQ(watches.there.changes()["rx_write_requests"], round);
  }
}

TEST(Counters, RemoteAccessErrorsAndFlushes) {
  const Watches watches;
  {
    Pair pair(kHere, kThere);
    for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(pair.b.post_recv(i, 0, 8), 0);
    Address wrong = pair.b.address();
    wrong.rkey ^= 1;
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, wrong), 0);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, wrong), 0);
    expect_completion(pair.a, 1, IBV_WC_REM_ACCESS_ERR);
    expect_completion(pair.a, 2, IBV_WC_WR_FLUSH_ERR);
  }
  EXPECT_EQ(
      watches.here.changes(),
      (Counts{{"req_cqe_error", 1}, {"req_cqe_flush_error", 1}, {"req_remote_access_errors", 1}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"resp_remote_access_errors", 1},
                                             {"resp_cqe_flush_error", 3},
                                             {"rx_write_requests", 1}}));
}

TEST(Counters, ReceivesThatAreTooSmall) {
  const Watches watches;
  {
    Pair pair(kHere, kThere);
    ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
    ASSERT_EQ(pair.a.send(1, 0, 9), 0);
    expect_completion(pair.a, 1, IBV_WC_REM_INV_REQ_ERR);
  }
  EXPECT_EQ(watches.here.changes(),
            (Counts{{"req_cqe_error", 1}, {"req_remote_invalid_request", 1}}));
  EXPECT_EQ(watches.there.changes(),
            (Counts{{"resp_cqe_error", 1}, {"resp_local_length_error", 1}}));
}

TEST(Counters, ReceiversThatAreNotReady) {
  const Watches watches;
  {
    Pair pair(kHere, kThere, {.rnr_retry = 3});
    ASSERT_EQ(pair.a.send(1, 0, 8), 0);
    expect_completion(pair.a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  }
  // The first try and three more.
  EXPECT_EQ(watches.here.changes(), (Counts{{"req_cqe_error", 1}, {"rnr_nak_retry_err", 4}}));
  EXPECT_EQ(watches.there.changes(), (Counts{{"out_of_buffer", 4}}));
}

TEST(Counters, AReceiverThatBecomesReady) {
  const Watches watches;
  {
    Pair pair(kHere, kThere, {.rnr_retry = 7});
    ASSERT_EQ(pair.a.send(1, 0, 8), 0);
    EXPECT_FALSE(pair.a.wait(5ms).has_value());
    ASSERT_EQ(pair.b.post_recv(1, 0, 8), 0);
    expect_completion(pair.a, 1);
  }
  EXPECT_EQ(watches.there.changes(), (Counts{{"out_of_buffer", 1},
                                             {"port_rcv_data", 2},
                                             {"port_rcv_packets", 1},
                                             {"unicast_rcv_packets", 1}}));
}

TEST(Counters, PeersThatDoNotAnswer) {
  const Watches watches;
  {
    Pair pair(kHere, kThere, {.timeout = 8, .retry_count = 3});
    ASSERT_EQ(pair.b.to(IBV_QPS_RESET), 0);
    ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
    expect_completion(pair.a, 1, IBV_WC_RETRY_EXC_ERR);
  }
  EXPECT_EQ(watches.here.changes(), (Counts{{"local_ack_timeout_err", 3}, {"req_cqe_error", 1}}));
  EXPECT_EQ(watches.there.changes(), Counts{});
}

TEST(Counters, AreExactWhenAProgramHasEnded) {
  const Watches watches;
  const pid_t child = ::fork();
  if (child == 0) {
    static Pair* kept = nullptr;  // never destroyed
    kept = new Pair(kHere, kThere);
    for (unsigned i = 0; i < 5; ++i)
      (void)kept->a.rdma(IBV_WR_RDMA_WRITE, i, 0, 8, kept->b.address());
    std::exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(watches.there.changes()["rx_write_requests"], 5U);
  EXPECT_EQ(watches.here.changes()["port_xmit_packets"], 5U);
}

TEST(Counters, AKilledProgramLosesNone) {
  const Watches watches;
  const pid_t child = ::fork();
  if (child == 0) {
    Pair pair(kHere, kThere);
    for (unsigned i = 0; i < 5; ++i)
      (void)pair.a.rdma(IBV_WR_RDMA_WRITE, i, 0, 8, pair.b.address());
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  // The next process that opens a NIC frees the records of the killed one.
  const pid_t next = ::fork();
  if (next == 0) ::_exit(open_device() ? 0 : 1);
  ::waitpid(next, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(watches.there.changes()["rx_write_requests"], 5U);
  EXPECT_EQ(watches.here.changes()["port_xmit_packets"], 5U);
}

TEST(Counters, ThreadsAndProcessesAddUp) {
  constexpr unsigned kProcesses = 3;
  constexpr unsigned kThreads = 2;
  constexpr unsigned kRequests = 2000;
  const Watches watches;
  std::vector<pid_t> children;
  for (unsigned i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        Pair pair(kHere, kThere);
        for (unsigned id = 0; id < kRequests; ++id) {
          if (pair.a.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.b.address()) != 0) ::_exit(2);
          if (!pair.a.wait()) ::_exit(3);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  constexpr std::uint64_t kAll = std::uint64_t{kProcesses} * kThreads * kRequests;
  EXPECT_EQ(watches.here.changes(), (Counts{{"port_xmit_data", 2 * kAll},
                                            {"port_xmit_packets", kAll},
                                            {"unicast_xmit_packets", kAll}}));
  EXPECT_EQ(watches.there.changes()["rx_write_requests"], kAll);
}

}  // namespace
}  // namespace hbmwire::test
