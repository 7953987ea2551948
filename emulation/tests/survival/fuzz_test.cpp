// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "emulation/tests/survival/bounded.hpp"
#include "emulation/tests/survival/fuzz_model.hpp"
#include "emulation/tests/survival/length.hpp"
#include "emulation/tests/survival/seed.hpp"

/// Random requests with valid, stale, foreign and malformed keys, and with ranges near the bounds.
/// After each request all memory of all parties is compared with a model.
namespace hbmwire::test {
namespace {

/// Memory that both processes see at the same address, but that the NIC takes for private memory.
class SharedArea {
 public:
  SharedArea() : fd_(::memfd_create("area", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd_.get(), kAreaBytes), 0);
    base_ = ::mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(base_, MAP_FAILED);
  }

  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  ~SharedArea() { ::munmap(base_, kAreaBytes); }

  [[nodiscard]] unsigned char* bytes() const { return static_cast<unsigned char*>(base_); }

  [[nodiscard]] Area area() const { return {reinterpret_cast<std::uint64_t>(base_), fd_.get()}; }

 private:
  Fd fd_;
  void* base_;
};

/// The child's body: sends its address and follows commands until `end`.
void obey(const Line& line, const Area& area) {
  FuzzSide side(area);
  line.send(side.address());
  for (;;) {
    const auto command = line.receive<Command>();
    line.send(side.execute(command));
    if (command.kind == Command::end) return;
  }
}

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed)
      : random_(seed),
        child_([&](const Line& line) { obey(line, areas_[1].area()); }),
        here_(areas_[0].area()) {
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < kAreaBytes; ++i)
        areas_[side].bytes()[i] = static_cast<unsigned char>(random_());
      sides_[side].memory.assign(areas_[side].bytes(), areas_[side].bytes() + kAreaBytes);
    }
    addresses_ = {here_.address(), child_.line().receive<Address>()};
    connect();
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::uint32_t window = 0; window < 2; ++window) rebind(side, window);
    }
  }

  /// Makes a random request, and compares its result and all memory with the model.
  void round() {
    const std::size_t side = below(random_, 2);
    if (below(random_, 64) == 0) rebind(side, static_cast<std::uint32_t>(below(random_, 2)));
    const FuzzRequest request = any_request(side);
    FuzzRequest receive;
    const bool consumes = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM ||
                          request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (consumes) {
      receive = any_elements(1 - side, 600);
      ASSERT_EQ(tell(1 - side, {Command::receive, {}, receive}).error, 0);
    }
    const auto effect =
        effect_of(request, receive, sides_[side], sides_[1 - side], areas_[side].area());
    const Reply reply = tell(side, {Command::send, {}, request});
    ASSERT_EQ(reply.error, 0);
    const bool succeeds = effect && effect->succeeds;
    ASSERT_EQ(reply.status == IBV_WC_SUCCESS, succeeds)
        << ibv_wc_status_str(reply.status) << ", opcode " << request.opcode;
    if (effect) apply(*effect, side);
    if (succeeds) {
      ++succeeded_;
    } else {
      connect();
      ++refused_;
    }
    compare(request);
  }

  void end() {
    tell(1, {});  // Command::end
    EXPECT_EQ(child_.join(), 0);
    std::printf("%u requests succeeded, %u were refused\n", succeeded_, refused_);
    EXPECT_GT(succeeded_, 0U);
    EXPECT_GT(refused_, 0U);
  }

 private:
  Reply tell(std::size_t side, const Command& command) {
    Watchdog::enter("a request");
    Reply reply;
    if (side == 0) {
      reply = here_.execute(command);
    } else {
      child_.line().send(command);
      reply = child_.line().receive<Reply>();
    }
    sides_[side].grants = reply.grants;
    return reply;
  }

  void connect() {
    for (std::size_t side = 0; side < 2; ++side)
      ASSERT_EQ(tell(side, {Command::connect, addresses_[1 - side]}).error, 0);
  }

  void rebind(std::size_t side, std::uint32_t window) {
    Command command{Command::rebind};
    command.window = window;
    command.from = below(random_, kAreaBytes - 512);
    command.to = command.from + 1 + below(random_, 511);
    tell(side, command);
  }

  /// Elements of a list may name the same bytes. The order in which a NIC fills them is not
  /// specified, so such a byte may have the value from any of these elements.
  void apply(const Effect& effect, std::size_t side) {
    std::array<std::vector<bool>, 2> named{std::vector<bool>(kAreaBytes),
                                           std::vector<bool>(kAreaBytes)};
    for (const Effect::Write& write : effect.writes) {
      const std::size_t whose = write.here ? side : 1 - side;
      for (std::size_t i = 0; i < write.bytes.size(); ++i) {
        const std::size_t at = write.offset + i;
        unsigned char& byte = sides_[whose].memory[at];
        const bool stays = named[whose][at] && areas_[whose].bytes()[at] == byte;
        if (!stays) byte = write.bytes[i];
        named[whose][at] = true;
      }
    }
  }

  void compare(const FuzzRequest& request) {
    for (std::size_t side = 0; side < 2; ++side) {
      ASSERT_EQ(std::memcmp(areas_[side].bytes(), sides_[side].memory.data(), kAreaBytes), 0)
          << "side " << side << " differs after opcode " << request.opcode;
    }
  }

  /// Mostly `key`; sometimes a random one, one with a wrong bit, or that of the next record,
  /// because a key has the record's index above its lowest 8 bits.
  std::uint32_t any_key(std::uint32_t key) {
    switch (below(random_, 24)) {
      case 0:
        return static_cast<std::uint32_t>(random_());
      case 1:
        return key ^ 1U << below(random_, 32);
      case 2:
        return key + 0x100;
      default:
        return key;
    }
  }

  /// Sets a range of a grant. Sometimes it exceeds the grant's end or beginning by little, or lies
  /// anywhere, or wraps around.
  void any_range(const Grant& grant, std::uint64_t longest, std::uint64_t& address,
                 std::uint64_t& length) {
    length = below(random_, 4) == 0 ? below(random_, 9) : below(random_, longest);
    const std::uint64_t last = grant.length > length ? grant.length - length : 0;
    switch (below(random_, 16)) {
      case 0:
        address = grant.address + last + below(random_, 4) - 1;
        break;
      case 1:
        address = grant.address - 2 + below(random_, 4);
        break;
      case 2:
        address = random_();
        break;
      case 3:
        address = ~std::uint64_t{0} - below(random_, 8);
        break;
      default:
        address = grant.address + below(random_, last + 1);
    }
  }

  FuzzRequest any_elements(std::size_t side, std::uint64_t longest) {
    FuzzRequest request;
    request.elements = static_cast<std::uint32_t>(below(random_, kFuzzElements + 1));
    for (std::size_t i = 0; i < request.elements; ++i) {
      std::size_t which = below(random_, kGrants);
      if (below(random_, 8) != 0) which = below(random_, 2) * 7;  // mostly a valid one: 0 or 7
      const Grant& grant = sides_[side].grants.all[which];
      std::uint64_t length = 0;
      any_range(grant, longest, request.sge[i].addr, length);
      request.sge[i].length = static_cast<std::uint32_t>(length);
      request.sge[i].lkey = any_key(grant.key);
    }
    return request;
  }

  FuzzRequest any_request(std::size_t side) {
    static constexpr std::array kOpcodes{IBV_WR_SEND,
                                         IBV_WR_SEND_WITH_IMM,
                                         IBV_WR_RDMA_WRITE,
                                         IBV_WR_RDMA_WRITE_WITH_IMM,
                                         IBV_WR_RDMA_READ,
                                         IBV_WR_ATOMIC_CMP_AND_SWP,
                                         IBV_WR_ATOMIC_FETCH_AND_ADD};
    FuzzRequest request = any_elements(side, 300);
    request.opcode = kOpcodes[below(random_, kOpcodes.size())];
    const bool atomic = request.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP;
    const bool may_be_inline = !atomic && request.opcode != IBV_WR_RDMA_READ;
    if (may_be_inline && below(random_, 4) == 0) make_inline(request, side);
    if (atomic && below(random_, 8) != 0) {
      request.elements = 1;
      request.sge[0].length = 8;
    }
    const Grants& theirs = sides_[1 - side].grants;
    const Grant& grant = theirs.all[below(random_, kGrants)];
    std::uint64_t length = 0;
    any_range(grant, 300, request.remote_address, length);
    if (atomic && below(random_, 8) != 0) request.remote_address &= ~std::uint64_t{7};
    // A key of the other side, or a key of our own, which is foreign there.
    const Grant& other = sides_[side].grants.all[below(random_, kGrants)];
    request.rkey = any_key(below(random_, 16) == 0 ? other.key : grant.key);
    request.compare_add = below(random_, 2) == 0 ? 0 : random_();
    request.swap = random_();
    return request;
  }

  /// Inline data is the program's own memory: keys are ignored, but the addresses must be mapped.
  void make_inline(FuzzRequest& request, std::size_t side) {
    request.flags = IBV_SEND_INLINE;
    for (std::size_t i = 0; i < request.elements; ++i) {
      request.sge[i].length %= 61;
      request.sge[i].addr = areas_[side].area().base + below(random_, kAreaBytes - 64);
    }
  }

  Watchdog watchdog_;
  Random random_;
  std::array<SharedArea, 2> areas_;
  Child child_;
  FuzzSide here_;
  std::array<Modelled, 2> sides_;
  std::array<Address, 2> addresses_;
  unsigned succeeded_ = 0;
  unsigned refused_ = 0;
};

TEST(Fuzz, NoByteChangesWithoutAccess) {
  Fuzz fuzz(seed_of_run());
  for (unsigned i = 0; i < kFuzzRounds && !::testing::Test::HasFatalFailure(); ++i) fuzz.round();
  fuzz.end();
}

}  // namespace
}  // namespace hbmwire::test
