// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulation/common/posted_writes.hpp"
#include "emulation/common/publish_export.hpp"
#include "emulation/common/world.hpp"
#include "emulation/tests/nic/endpoint.hpp"

namespace hbmwire::test {

/// A card of the node without an owner, as its engines and as NICs see its memory. Its first kBytes
/// can be registered, as a Gaudi's.
class EmulatedCard {
 public:
  static constexpr std::uint64_t kBytes = 1 << 20;
  static constexpr std::uint64_t kIova = 0x1001001800000000;  // not an address of this process

  EmulatedCard() {
    const auto world = emulation::World::from_environment();
    if (!world) throw std::runtime_error("not below hbmwire emulate");
    hbm_ = (world->card("gaudi", 0) / "hbm").string();
    posted_ = (world->card("gaudi", 0) / "posted").string();
    const Fd file(::open(hbm_.c_str(), O_RDWR | O_CLOEXEC));
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    constexpr int kOld = 'o';
    std::memset(memory_, kOld, kBytes);
    writes_ = emulation::PostedWrites::open(posted_);
    EXPECT_NE(writes_, nullptr);
  }

  EmulatedCard(const EmulatedCard&) = delete;
  EmulatedCard& operator=(const EmulatedCard&) = delete;

  ~EmulatedCard() {
    writes_->clear();
    ::munmap(memory_, kBytes);
  }

  [[nodiscard]] emulation::PostedWrites& writes() const { return *writes_; }

  /// Registers the card's memory through a dma-buf, as an exporter would return it.
  [[nodiscard]] Mr register_at(const Endpoint& endpoint) const {
    const emulation::ExportSegment whole{0, kBytes};
    return register_pieces(endpoint, std::span(&whole, 1));
  }

  /// Registers a dma-buf of some ranges of the card's memory, one after the other.
  [[nodiscard]] Mr register_pieces(const Endpoint& endpoint,
                                   std::span<const emulation::ExportSegment> pieces) const {
    emulation::PublishedExport made;
    EXPECT_EQ(emulation::publish_export({"card", hbm_, posted_, pieces}, made), 0);
    std::size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.length_bytes;
    return Mr(
        ibv_reg_dmabuf_mr(endpoint.pd.get(), 0, bytes, kIova, made.reference.get(), kAllAccess));
  }

  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return memory_ + offset; }

  /// The byte that a NIC finds at an offset.
  [[nodiscard]] char nics_see(std::uint64_t offset) const {
    return static_cast<char>(memory_[offset]);
  }

  /// The byte that the card's own engines find at an offset.
  [[nodiscard]] char engines_see(std::uint64_t offset) const {
    std::byte byte{};
    writes_->engine_reads({offset, 1, memory_ + offset}, &byte);
    return static_cast<char>(byte);
  }

 private:
  std::string hbm_;
  std::string posted_;
  std::byte* memory_ = nullptr;
  std::shared_ptr<emulation::PostedWrites> writes_;
};

/// The card's memory, as a peer addresses it.
inline Address address_of(const Mr& mr) {
  Address address;
  address.buffer = EmulatedCard::kIova;
  address.rkey = mr->rkey;
  return address;
}

/// A part of the card's memory, for a request.
inline ibv_sge element_of(const Mr& mr, std::uint64_t offset, std::uint32_t length) {
  return {EmulatedCard::kIova + offset, length, mr->lkey};
}

}  // namespace hbmwire::test
