// SPDX-License-Identifier: MIT
#include <sched.h>

#include <exception>

#include "emulation/tests/survival/bounded.hpp"
#include "emulation/tests/survival/storm_connector.hpp"
#include "emulation/tests/survival/storm_session.hpp"

namespace hbmwire::test {
namespace {

/// A worker's side of its sessions with one other worker.
class Link {
 public:
  Link(Board& board, std::size_t self, std::size_t peer, Random& random)
      : board_(board),
        mine_(board.mail[self][peer]),
        theirs_(board.mail[peer][self]),
        kind_(static_cast<Session::Kind>((self + peer) % 4)),  // the same for both ends
        random_(random) {}

  void step() {
    if (session_ == nullptr) {
      begin();
    } else if (!session_->connected()) {
      look_for_peer();
    } else if (!session_->step()) {
      end();
    }
  }

  void end() {
    mine_.id.store(0);
    mine_.connected_to.store(0);
    if (session_ != nullptr) session_->finish();
    session_.reset();
  }

 private:
  /// Makes a session and tells the peer.
  void begin() {
    try {
      session_ = std::make_unique<Session>(kind_, board_.last_id.fetch_add(1) + 1, random_, board_);
    } catch (const std::exception&) {
      return;  // a stopped process is in the way
    }
    mine_.address = session_->address();
    mine_.id.store(session_->id());
  }

  /// Connects to the peer's session if there is one.
  void look_for_peer() {
    const std::uint64_t id = theirs_.id.load();
    const Address address = theirs_.address;
    if (id == 0 || theirs_.id.load() != id) return;  // the address may be half written
    // The peer's session is still connected to an earlier one of this worker, so it will end.
    const std::uint64_t to = theirs_.connected_to.load();
    if (to != 0 && to != session_->id()) return;
    if (!session_->connect(address, id)) return end();
    mine_.connected_to.store(id);
  }

  Board& board_;
  Mailbox& mine_;
  Mailbox& theirs_;
  Session::Kind kind_;
  Random& random_;
  std::unique_ptr<Session> session_;
};

}  // namespace

int run_worker(Board& board, std::size_t self, std::uint64_t seed) {
  const Watchdog watchdog;
  Random random(seed);
  std::vector<Link> links;
  for (std::size_t peer = 0; peer < kWorkers; ++peer) {
    Mailbox& mine = board.mail[self][peer];
    mine.id.store(0);  // left by a killed predecessor
    mine.connected_to.store(0);
    if (peer != self) links.emplace_back(board, self, peer, random);
  }
  Connector connector(board, self, random);
  while (!board.stop.load()) {
    links[below(random, links.size())].step();
    connector.step();
    if (below(random, 16) == 0) ::sched_yield();
  }
  for (Link& link : links) link.end();
  connector.finish();
  return 0;
}

}  // namespace hbmwire::test
