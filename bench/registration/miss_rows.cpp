// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <bit>

#include "hbmwire/fd.hpp"

#include "bench/common/peer.hpp"
#include "bench/registration/hits.hpp"
#include "bench/registration/rows.hpp"

/// Rows of misses: each look-up registers a piece, and deregisters the piece that was used longest
/// ago. Pieces come in turn, and are more than the cache has room for.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kMissBytes = 64 << 10;
constexpr std::size_t kMissPieces = 128;
constexpr std::size_t kRoom = 64;
constexpr unsigned kMissesInAChunk = 8;

template <class Body>
double median_miss_ns(unsigned chunks, Body miss) {
  std::size_t index = 0;
  return median_ns(chunks,
                   [&] {
                     for (unsigned i = 0; i < kMissesInAChunk; ++i) miss(index++ % kMissPieces);
                   }) /
         kMissesInAChunk;
}

/// Host memory: our cache against UCX's with ibv_reg_mr(3) below it; if `raw`, against
/// ibv_reg_mr(3) alone.
class HostMiss final : public Contest {
 public:
  HostMiss(const Context& context, const Effort& effort, bool raw)
      : chunks_(effort.chunks),
        raw_(raw),
        pieces_(context, kMissPieces, kMissBytes),
        ours_(context, kRoom) {}

  double ours() override {
    return median_miss_ns(chunks_,
                          [&](std::size_t i) { ours_.use(pieces_.address(i), kMissBytes); });
  }

  double theirs() override {
    return median_miss_ns(chunks_, [&](std::size_t i) {
      if (!raw_) return ucx_.use(pieces_.address(i), kMissBytes);
      RawNic::deregister(nic_.register_host(std::bit_cast<void*>(pieces_.address(i)), kMissBytes));
    });
  }

 private:
  unsigned chunks_;
  bool raw_;
  Pieces pieces_;
  OurCache ours_;
  RawNic nic_;
  UcxCache ucx_{kRoom, &nic_};
};

/// Parts of a dma-buf: a memfd, which the emulated NIC takes for a dma-buf.
class DmabufMiss : public Contest {
 public:
  DmabufMiss(const Context& context, const Effort& effort)
      : chunks_(effort.chunks), ours_(context, kRoom) {
    file_ = Fd(::memfd_create("bench", MFD_CLOEXEC));
    if (!file_ || ::ftruncate(file_.get(), kMissPieces * kMissBytes) != 0) fail("memfd_create");
  }

  double ours() override {
    return median_miss_ns(chunks_, [&](std::size_t i) {
      ours_.use({.fd = file_.get(), .offset_bytes = i * kMissBytes, .length_bytes = kMissBytes});
    });
  }

  double theirs() override { return raw_ns(); }

 protected:
  double raw_ns() {
    return median_miss_ns(chunks_, [&](std::size_t i) {
      const std::uint64_t offset = i * kMissBytes;
      RawNic::deregister(nic_.register_dmabuf(file_.get(), offset, kMissBytes, kAddress + offset));
    });
  }

  // The iova of the dma-buf's beginning. No memory needs to be mapped there.
  static constexpr std::uint64_t kAddress = std::uint64_t{1} << 40U;

  unsigned chunks_;
  RawNic nic_;

 private:
  Fd file_;
  OurCache ours_;
};

/// The NIC alone: registering a dma-buf, against registering host memory.
class Raw final : public DmabufMiss {
 public:
  Raw(const Context& context, const Effort& effort)
      : DmabufMiss(context, effort), pieces_(context, kMissPieces, kMissBytes) {}

  double ours() override { return raw_ns(); }

  double theirs() override {
    return median_miss_ns(chunks_, [&](std::size_t i) {
      RawNic::deregister(nic_.register_host(std::bit_cast<void*>(pieces_.address(i)), kMissBytes));
    });
  }

 private:
  Pieces pieces_;
};

Row plain_row(const char* name, const char* ours, const char* theirs) {
  Row row;
  row.name = name;
  row.ours = ours;
  row.theirs = theirs;
  row.better = Better::lower;
  return row;
}

}  // namespace

std::vector<Row> miss_rows(const Context& context) {
  std::vector<Row> rows;
  rows.push_back(plain_row("miss", "miss and eviction, 64 KiB", "UCX 1.13"));
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<HostMiss>(context, effort, false);
  };
  rows.push_back(plain_row("miss-raw", "miss and eviction, 64 KiB", "ibv_reg_mr, dereg"));
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<HostMiss>(context, effort, true);
  };
  rows.push_back(plain_row("miss-dmabuf", "miss and eviction, of a dma-buf", "ibv_reg_dmabuf_mr"));
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<DmabufMiss>(context, effort);
  };
  rows.push_back(plain_row("raw", "ibv_reg_dmabuf_mr, ibv_dereg_mr", "ibv_reg_mr, dereg"));
  rows.back().make = [context](const Effort& effort) {
    return std::make_unique<Raw>(context, effort);
  };
  return rows;
}

}  // namespace hbmwire::bench
