// SPDX-License-Identifier: MIT
#include <sodium.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/memory_key.hpp"

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "group/group_state.hpp"
#include "group/ranks.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;
using State = wire::BroadcastEnd::State;

// Pieces that a rank hands on at a time: one under way and one behind it keep a NIC busy.
constexpr std::size_t kMostPuts = 4;
// Bounds of BroadcastOptions::piece_bytes.
constexpr std::uint64_t kLeastPiece = 4096;
constexpr std::uint64_t kMostPiece = std::uint64_t{1} << 30U;

// The chain stops this long before the deadline, so that the ranks can still say how it went.
constexpr std::chrono::nanoseconds kForTheEnd = 1s;

/// BLAKE2b over a slice, piece by piece, as its device sees the bytes.
class SliceDigest {
 public:
  static Result<SliceDigest> create(const Slice& memory) {
    SliceDigest digest(memory);
    ::crypto_generichash_init(&digest.state_, nullptr, 0, kBytes);
    if (!memory.region->host_bytes().empty()) return digest;
    HBMWIRE_TRY_ASSIGN(digest.buffer_, Buffer::create(*memory.region));
    return digest;
  }

  Result<void> add(std::uint64_t offset, std::uint64_t length, const Wait& wait) {
    const auto host = memory_.region->host_bytes();
    if (!host.empty()) {
      update(host.subspan(memory_.offset_bytes + offset, length));
      return {};
    }
    copy_.resize(length);
    HBMWIRE_TRY(buffer_->read(memory_.offset_bytes + offset, copy_, wait));
    update(copy_);
    return {};
  }

  /// The digest of all that was added. Nothing may be added afterwards.
  [[nodiscard]] auto finish() noexcept {
    decltype(wire::BroadcastEnd::digest) digest{};
    ::crypto_generichash_final(&state_, digest.data(), digest.size());
    return digest;
  }

 private:
  static constexpr std::size_t kBytes = sizeof wire::BroadcastEnd::digest;

  explicit SliceDigest(const Slice& memory) noexcept : memory_(memory) {}

  void update(std::span<const std::byte> bytes) noexcept {
    ::crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                                bytes.size());
  }

  Slice memory_;
  std::optional<Buffer> buffer_;  // of memory that the host does not reach
  std::vector<std::byte> copy_;
  crypto_generichash_state state_{};
};

/// One rank's part in a chain: pieces arrive from the rank before it, in their order, and are
/// handed on to the rank behind it as soon as they are there.
class PieceChain {
 public:
  PieceChain(const Slice& memory, const BroadcastOptions& options) noexcept
      : memory_(memory), piece_bytes_(options.piece_bytes) {}

  [[nodiscard]] std::uint64_t pieces() const noexcept {
    return (memory_.length_bytes + piece_bytes_ - 1) / piece_bytes_;
  }

  void set_before(Endpoint& before) noexcept {
    before_ = &before;
    arrived_ = 0;
  }

  /// Makes this rank the root, which has all pieces from the start.
  void set_root() noexcept { arrived_ = pieces(); }

  void set_behind(Endpoint& behind, RemoteRegion remote) noexcept {
    behind_ = &behind;
    remote_ = remote;
  }

  void set_digest(SliceDigest& digest) noexcept { digest_ = &digest; }

  /// Does what can be done now. True: all is done. Errors: a piece does not arrive
  /// (lacks_pieces()), or can't be handed on.
  Result<bool> advance(const Wait& wait) {
    HBMWIRE_TRY(receive());
    HBMWIRE_TRY(hand_on());
    if (digest_ != nullptr && checked_ < arrived_) {
      HBMWIRE_TRY(digest_->add(offset_of(checked_), length_of(checked_), wait));
      ++checked_;
    }
    return is_over();
  }

  /// Whether advance() would do something now: tell that all is done, digest a piece, put one, take
  /// one that has arrived, end a put, or post the receive of the next piece.
  [[nodiscard]] bool has_work() const noexcept {
    return is_over() || (digest_ != nullptr && checked_ < arrived_) ||
           (behind_ != nullptr && handed_on_ < arrived_ && puts_.size() < kMostPuts) ||
           (incoming_ && incoming_.done()) || (!puts_.empty() && puts_.front().done()) ||
           (before_ != nullptr && !incoming_ && arrived_ < pieces());
  }

  /// Cancels all transfers: no byte moves by this chain afterwards.
  void stop() noexcept {
    for (Transfer& put : puts_) static_cast<void>(put.cancel());
    if (incoming_) static_cast<void>(incoming_.cancel());
    puts_.clear();
    incoming_.reset();
  }

  /// Whether advance() failed because a piece does not arrive from the rank before.
  [[nodiscard]] bool lacks_pieces() const noexcept { return lacks_pieces_; }

 private:
  [[nodiscard]] bool is_over() const noexcept {
    return arrived_ == pieces() && (digest_ == nullptr || checked_ == arrived_) &&
           (behind_ == nullptr || (handed_on_ == arrived_ && puts_.empty()));
  }

  [[nodiscard]] std::uint64_t offset_of(std::uint64_t piece) const noexcept {
    return piece * piece_bytes_;
  }

  [[nodiscard]] std::uint64_t length_of(std::uint64_t piece) const noexcept {
    return std::min(piece_bytes_, memory_.length_bytes - offset_of(piece));
  }

  [[nodiscard]] Slice slice_of(std::uint64_t piece) const noexcept {
    return memory_.region->slice(memory_.offset_bytes + offset_of(piece), length_of(piece));
  }

  Result<void> receive() {
    lacks_pieces_ = true;  // stays so if an error ends this function
    while (before_ != nullptr && arrived_ < pieces()) {
      if (!incoming_) {
        HBMWIRE_TRY_ASSIGN(incoming_, before_->receive_immediate(slice_of(arrived_)));
      }
      if (!incoming_.done()) break;
      HBMWIRE_TRY(incoming_.poll());
      // The immediate of a put is the number of its piece (hand_on()).
      if (incoming_.value() != static_cast<std::uint32_t>(arrived_)) {
        return tl::make_unexpected(
            make_error(Errc::protocol, Stage::complete, "another piece came than the next one"));
      }
      incoming_.reset();
      ++arrived_;
    }
    lacks_pieces_ = false;
    return {};
  }

  Result<void> hand_on() {
    while (!puts_.empty() && puts_.front().done()) {
      HBMWIRE_TRY(puts_.front().poll());
      puts_.pop_front();
    }
    while (behind_ != nullptr && handed_on_ < arrived_ && puts_.size() < kMostPuts) {
      HBMWIRE_TRY_ASSIGN(Transfer put,
                         behind_->put(slice_of(handed_on_),
                                      remote_.slice(offset_of(handed_on_), length_of(handed_on_)),
                                      {.immediate = static_cast<std::uint32_t>(handed_on_)}));
      puts_.push_back(std::move(put));
      ++handed_on_;
    }
    return {};
  }

  Slice memory_;
  std::uint64_t piece_bytes_;
  Endpoint* before_ = nullptr;  // null: the root
  Endpoint* behind_ = nullptr;  // null: the last rank of the chain
  RemoteRegion remote_;
  SliceDigest* digest_ = nullptr;
  std::uint64_t arrived_ = 0;    // pieces that are here
  std::uint64_t handed_on_ = 0;  // pieces that were handed on
  std::uint64_t checked_ = 0;    // pieces that the digest has
  Transfer incoming_;
  std::deque<Transfer> puts_;
  bool lacks_pieces_ = false;
};

using Offers = std::vector<wire::BroadcastOffer>;

Result<Offers> exchange_offers(GroupState& group, const wire::BroadcastOffer& mine,
                               const Wait& wait) {
  HBMWIRE_TRY_ASSIGN(const auto given,
                     group.exchange(wire::encode(mine), /*among_present=*/false, wait));
  Offers offers;
  std::vector<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < given.size(); ++rank) {
    // given[rank] has a value, because the exchange was not among present ranks only.
    HBMWIRE_TRY_ASSIGN(wire::BroadcastOffer offer, wire::decode_broadcast_offer(*given[rank]));
    const bool same = offer.length_bytes == mine.length_bytes && offer.root == mine.root &&
                      offer.piece_bytes == mine.piece_bytes && offer.verify == mine.verify;
    if (!same) others.push_back(rank);
    offers.push_back(std::move(offer));
  }
  if (others.empty()) return offers;
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::complete,
                 "ranks broadcast another length, root, piece or check than this one",
                 rank_text(others), Hint::group_no_agreement));
}

/// Judges the ends that all ranks reported. Every rank returns the same error.
Result<void> judge(const std::vector<std::optional<std::vector<std::byte>>>& given,
                   std::uint32_t root) {
  using Ranks = std::vector<std::uint32_t>;
  Ranks absent;
  Ranks failed;
  Ranks not_reached;
  std::vector<wire::BroadcastEnd> ends(given.size());
  for (std::uint32_t rank = 0; rank < given.size(); ++rank) {
    if (!given[rank]) {
      absent.push_back(rank);
      continue;
    }
    HBMWIRE_TRY_ASSIGN(ends[rank], wire::decode_broadcast_end(*given[rank]));
    if (ends[rank].state == State::failed) failed.push_back(rank);
    if (ends[rank].state == State::not_reached) not_reached.push_back(rank);
  }
  if (!absent.empty()) return tl::make_unexpected(Member::gone_error(Stage::complete, absent));
  // Ranks behind one that failed are not reached because of it, and not to blame.
  const Ranks& blamed = failed.empty() ? not_reached : failed;
  if (!blamed.empty()) {
    return tl::make_unexpected(make_error(Errc::peer_failed, Stage::complete,
                                          "the broadcast stopped at ranks of the group",
                                          rank_text(blamed)));
  }
  Ranks differ;
  for (std::uint32_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].digest != ends[root].digest) differ.push_back(rank);
  }
  if (differ.empty()) return {};
  return tl::make_unexpected(make_error(Errc::data_mismatch, Stage::verify,
                                        "ranks have other bytes than the root after a broadcast",
                                        rank_text(differ)));
}

Result<void> check(const GroupState& group, const Slice& memory, std::uint32_t root,
                   const BroadcastOptions& options) {
  if (root >= group.hello.size) return refuse_options("there is no such rank in the group", "root");
  if (memory.region == nullptr) return refuse_options("a broadcast needs memory", "memory");
  if (options.piece_bytes < kLeastPiece || options.piece_bytes > kMostPiece)
    return refuse_options("a piece has 4 KiB to 1 GiB", "piece_bytes");
  if (memory.offset_bytes > memory.region->size_bytes() ||
      memory.length_bytes > memory.region->size_bytes() - memory.offset_bytes)
    return refuse_options("the slice leaves its region", "memory");
  return {};
}

/// One rank's broadcast, after all ranks have exchanged their offers.
class Broadcast {
 public:
  Broadcast(GroupState& group, const Slice& memory, std::uint32_t root,
            const BroadcastOptions& options) noexcept
      : group_(group),
        memory_(memory),
        root_(root),
        verify_(options.verify),
        chain_(memory, options) {}

  /// Moves the bytes. Returns this rank's report to the others. On failure, also closes the
  /// connections of the chain, so that the ranks before and behind stop, too.
  wire::BroadcastEnd move(const Offers& offers, const Wait& wait) {
    moved_ = guarded(Stage::complete, [&]() -> Result<void> {
      HBMWIRE_TRY(connect(offers, wait));
      return run(wait);
    });
    wire::BroadcastEnd end;
    if (moved_) {
      if (digest_) end.digest = digest_->finish();
      return end;
    }
    end.state = chain_.lacks_pieces() ? State::not_reached : State::failed;
    // The others hear which rank failed; only this one knows why.
    if (end.state == State::failed)
      log_line(LogLevel::warn, [&] { return "broadcast: " + describe(moved_.error()); });
    chain_.stop();
    group_.peers->drop(before(), PeerUse::chain);
    group_.peers->drop(behind(), PeerUse::chain);
    return end;
  }

  /// How move() ended.
  [[nodiscard]] const Result<void>& moved() const noexcept { return moved_; }

 private:
  [[nodiscard]] std::uint32_t size() const noexcept { return group_.hello.size; }

  [[nodiscard]] std::uint32_t rank() const noexcept { return group_.joined.rank; }

  [[nodiscard]] std::uint32_t before() const noexcept { return (rank() + size() - 1) % size(); }

  [[nodiscard]] std::uint32_t behind() const noexcept { return (rank() + 1) % size(); }

  Result<Endpoint*> endpoint(std::uint32_t rank, const Wait& wait) {
    return group_.peers->get(rank, PeerUse::chain, wait, *group_.member);
  }

  Result<void> connect(const Offers& offers, const Wait& wait) {
    if (verify_) {
      HBMWIRE_TRY_ASSIGN(digest_, SliceDigest::create(memory_));
      chain_.set_digest(*digest_);
    }
    if (rank() == root_) {
      chain_.set_root();
    } else {
      HBMWIRE_TRY_ASSIGN(Endpoint* const from, endpoint(before(), wait));
      chain_.set_before(*from);
    }
    if (behind() == root_) return {};  // the last rank of the chain
    HBMWIRE_TRY_ASSIGN(Endpoint* const to, endpoint(behind(), wait));
    HBMWIRE_TRY_ASSIGN(RemoteRegion remote, to->remote(offers[behind()].key));
    chain_.set_behind(*to, remote);
    return {};
  }

  /// Drives the chain to its end. Errors: why it stopped.
  Result<void> run(const Wait& wait) {
    Member& member = *group_.member;
    while (true) {
      HBMWIRE_TRY_ASSIGN(const bool over, chain_.advance(wait));
      if (over) return {};
      if (!member.gone().empty())
        return tl::make_unexpected(Member::gone_error(Stage::complete, member.gone()));
      HBMWIRE_TRY(member.drive(wait, [&] { return chain_.has_work() || !member.gone().empty(); }));
    }
  }

  GroupState& group_;
  Slice memory_;
  std::uint32_t root_;
  bool verify_;
  PieceChain chain_;
  std::optional<SliceDigest> digest_;
  Result<void> moved_;
};

}  // namespace

Result<void> broadcast(GroupState& group, const Slice& memory, std::uint32_t root, const Wait& wait,
                       const BroadcastOptions& options) {
  HBMWIRE_TRY(check(group, memory, root, options));
  std::optional<MemoryKey> key;
  wire::BroadcastOffer mine{.length_bytes = memory.length_bytes,
                            .piece_bytes = options.piece_bytes,
                            .root = root,
                            .verify = options.verify,
                            .key = {}};
  // With the key, the rank before this one puts pieces into this rank's memory. The root has none,
  // because no rank writes to it.
  if (group.joined.rank != root && memory.length_bytes != 0) {
    HBMWIRE_TRY_ASSIGN(key, MemoryKey::pack(*memory.region, {.offset_bytes = memory.offset_bytes,
                                                             .length_bytes = memory.length_bytes,
                                                             .access = Access::remote_write,
                                                             .revocable = true}));
    mine.key.assign(key->bytes().begin(), key->bytes().end());
  }
  HBMWIRE_TRY_ASSIGN(const Offers offers, exchange_offers(group, mine, wait));
  if (memory.length_bytes == 0) return {};

  // A short deadline leaves a tenth of its time for the end.
  const auto left = wait.deadline.when() - Deadline::Clock::now();
  const Wait chain_wait{Deadline(wait.deadline.when() - std::min(kForTheEnd, left / 10)),
                        wait.cancel_fd};
  Broadcast chain(group, memory, root, options);
  const wire::BroadcastEnd end = chain.move(offers, chain_wait);
  key.reset();  // revoked: no late put may change the memory after this call
  // A cancelled rank still tells the others, by a wait without the descriptor that cancelled it.
  const bool cancelled = !chain.moved() && chain.moved().error().code == Errc::cancelled;
  const auto given = group.exchange(wire::encode(end), true, cancelled ? Wait{kForTheEnd} : wait);
  if (cancelled) return chain.moved();
  if (!given) return tl::make_unexpected(given.error());
  HBMWIRE_TRY(judge(*given, root));
  return chain.moved();
}

}  // namespace hbmwire::detail
