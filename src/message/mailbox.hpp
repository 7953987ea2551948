// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "endpoint/transfer_state.hpp"
#include "registration/memory_key_state.hpp"
#include "verbs/handles.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

struct EndpointState;

/// A place for a message, in registered host memory.
struct MessageBuffer {
  EndpointState* endpoint = nullptr;
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
};

/// Entries one after the other, by their own `next`. Holds nothing.
template <class T>
struct Chain {
  T* first = nullptr;
  T* last = nullptr;

  [[nodiscard]] bool empty() const noexcept { return first == nullptr; }

  void append(T& entry) noexcept {
    entry.next = nullptr;
    (first == nullptr ? first : last->next) = &entry;
    last = &entry;
  }

  /// Not of an empty one.
  T& take_first() noexcept {
    T& entry = *first;
    first = entry.next;
    return entry;
  }

  /// Takes out the first entry that `fits`; null: none does.
  template <class Fits>
  T* take(const Fits& fits) noexcept {
    T* before = nullptr;
    for (T* entry = first; entry != nullptr; before = entry, entry = entry->next) {
      if (!fits(*entry)) continue;
      (before == nullptr ? first : before->next) = entry->next;
      if (last == entry) last = before;
      return entry;
    }
    return nullptr;
  }
};

/// A message, or word of one, that has no receive yet; or whose bytes are on their way to a device.
struct UnexpectedMessage {
  UnexpectedMessage* next = nullptr;
  wire::MessageHeader header;
  std::byte* bytes = nullptr;       // `header.length` of them, where it carries any
  MessageBuffer* buffer = nullptr;  // that holds them, or
  std::uint32_t units = 0;          // of UnexpectedPool, from `bytes` on
};

/// Memory for messages that wait, in units, of which a message takes neighbours: what is in one
/// piece goes by one memcpy, and by one READ to a device.
class UnexpectedPool {
 public:
  static constexpr std::uint64_t kUnitBytes = 256;

  UnexpectedPool() = default;

  UnexpectedPool(std::byte* memory, std::uint32_t units) : memory_(memory), taken_(units) {}

  [[nodiscard]] static std::uint32_t units_for(std::uint64_t bytes) noexcept {
    return static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
  }

  /// Null where there are not as many beside each other.
  std::byte* take(std::uint32_t units) noexcept;
  void give_back(const std::byte* at, std::uint32_t units) noexcept;

 private:
  std::byte* memory_ = nullptr;
  std::vector<std::uint8_t> taken_;  // one each, so that a run is found without shifting bits
  std::uint32_t from_ = 0;           // where the next look begins
  std::uint32_t free_ = static_cast<std::uint32_t>(taken_.size());
};

/// Transfers that wait for the peer's word, by the id that the peer gives back: a place and how
/// often that was used, so that word of an earlier one is known as such.
class Slots {
 public:
  explicit Slots(std::uint32_t count);

  [[nodiscard]] bool full() const noexcept { return free_ == kNone; }

  [[nodiscard]] std::uint32_t open(TransferState& transfer) noexcept {
    Slot& slot = slots_[free_];
    const std::uint32_t place = free_;
    free_ = slot.next;
    slot.transfer = &transfer;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  /// Null: there is none of that id.
  [[nodiscard]] TransferState* find(std::uint32_t id) const noexcept {
    const std::uint32_t place = place_of(id);
    if (place >= slots_.size() || slots_[place].uses != id >> 16U) return nullptr;
    return slots_[place].transfer;
  }

  /// One that is open.
  void close(std::uint32_t id) noexcept {
    Slot& slot = slots_[place_of(id)];
    slot.transfer = nullptr;
    ++slot.uses;
    slot.next = free_;
    free_ = place_of(id);
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  /// 0: nothing is open there.
  [[nodiscard]] std::uint32_t id_at(std::uint32_t place) const noexcept {
    const Slot& slot = slots_[place];
    if (slot.transfer == nullptr) return 0;
    return place + 1 + (static_cast<std::uint32_t>(slot.uses) << 16U);
  }

  [[nodiscard]] static std::uint32_t place_of(std::uint32_t id) noexcept {
    return (id & 0xffffU) - 1;
  }

  /// Closes all, and hands over whose they were.
  template <class Use>
  void clear(const Use& use) noexcept {
    for (std::uint32_t place = 0; place < slots_.size(); ++place) {
      TransferState* const transfer = slots_[place].transfer;
      if (transfer == nullptr) continue;
      close(place + 1);
      use(*transfer, place);
    }
  }

  [[nodiscard]] bool empty() const noexcept {
    for (const Slot& slot : slots_) {
      if (slot.transfer != nullptr) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;

  struct Slot {
    TransferState* transfer = nullptr;
    std::uint32_t next = kNone;
    std::uint16_t uses = 0;
  };

  std::vector<Slot> slots_;
  std::uint32_t free_ = kNone;
};

/// A queue of a fixed size.
template <class T>
class Ring {
 public:
  explicit Ring(std::uint32_t at_least);

  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }

  [[nodiscard]] bool full() const noexcept { return end_ - begin_ == entries_.size(); }

  [[nodiscard]] T& front() noexcept { return entries_[begin_ & mask()]; }

  void push(const T& entry) noexcept { entries_[end_++ & mask()] = entry; }

  void pop() noexcept { ++begin_; }

  void clear() noexcept { begin_ = end_; }

 private:
  [[nodiscard]] std::uint32_t mask() const noexcept {
    return static_cast<std::uint32_t>(entries_.size()) - 1;
  }

  std::vector<T> entries_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

/// What an endpoint knows of messages and immediates. All of it is made when it is connected.
///
/// Credits: the peer may send `lent` messages and immediates. One that was taken makes `owed`,
/// which our next message tells; when half of them are owed a message of its own does. A large
/// message, and one whose sender waits, keeps its credit until it is over, so that what its sender
/// says in between needs none. What its receiver answers needs none either: the sender has places
/// for answers, and no more large messages under way than these.
struct Mailbox {
  Mailbox(std::uint32_t receive_depth, std::uint32_t answers_in);

  struct Immediate {
    std::uint32_t value = 0;
    std::uint32_t bytes = 0;
  };

  // No NIC has the application's pages: the kernel copies their bytes (base/guarded_copy.hpp).
  bool guarded = false;
  bool pressing = false;  // answers, urgent ones or credits wait to be posted
  std::uint32_t read_count = 0;
  std::uint32_t owed = 0;
  std::uint32_t lent = 0;
  std::uint32_t enough_owed = 0;   // for a message of its own
  std::uint32_t most_credits = 0;  // the peer's receive_depth
  std::uint32_t held = 0;          // buffers with messages that wait
  std::uint32_t most_held = 0;     // before messages are copied into the pool

  /// Buffers whose messages were read: posted again together, which costs less than one by one, and
  /// nothing between a message and what answers it. There are so many more than credits ask for.
  static constexpr std::uint32_t kMostRead = 8;
  std::array<MessageBuffer*, kMostRead> read{};

  Chain<TransferState> plain_receives;
  Chain<TransferState> tagged_receives;
  Chain<TransferState> immediate_receives;
  Chain<UnexpectedMessage> plain_unexpected;
  Chain<UnexpectedMessage> tagged_unexpected;
  Ring<Immediate> immediates;

  Chain<TransferState> urgent;  // READs and WRITEs of rendezvous, which wait for nobody's credit
  Ring<wire::MessageHeader> answers;
  Slots sent;      // messages whose receiver has something to say
  Slots clearing;  // receives whose sender writes
  std::vector<std::unique_ptr<MemoryKeyState>> keys;  // made for those, by their place

  std::vector<UnexpectedMessage> records;
  UnexpectedMessage* free_record = nullptr;
  UnexpectedPool unexpected_pool;

  std::byte* headers = nullptr;  // kHeaderPlace bytes for each place of EndpointState::ring
  std::uint32_t headers_key = 0;
  verbs::Mr for_mover;            // all of the buffers, as LoopbackMover reads them
  bool copied_to_device = false;  // to be warned about
  bool warned = false;

  static constexpr std::uint64_t kHeaderPlace = 128;
  /// Bytes of a message that go behind its header there.
  static constexpr std::uint64_t kBesideHeader = kHeaderPlace - wire::kMessageHeaderBytes;

  [[nodiscard]] Chain<TransferState>& receives(bool tagged) noexcept {
    return tagged ? tagged_receives : plain_receives;
  }

  [[nodiscard]] Chain<UnexpectedMessage>& unexpected(bool tagged) noexcept {
    return tagged ? tagged_unexpected : plain_unexpected;
  }

  /// Whether something of a message is under way that only the peer can end.
  [[nodiscard]] bool under_way() const noexcept {
    return pressing || !urgent.empty() || !sent.empty() || !clearing.empty();
  }
};

}  // namespace hbmwire::detail
