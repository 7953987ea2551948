// SPDX-License-Identifier: MIT
#include "bench/python/cpp_end.hpp"

#include <array>
#include <stdexcept>

#include "bench/endpoint/our_end.hpp"

namespace hbmwire::bench {

CppEnd::CppEnd(const Place& place)
    : bytes_(place.bytes),
      in_(place.in()),
      out_(place.out()),
      context_(need(Context::create())),
      worker_(need(Worker::create(context_))),
      region_(register_bytes(context_, bytes_)),
      key_(need(MemoryKey::pack(region_))),
      endpoint_(connect(worker_, place, keyed_options())),
      remote_(exchange(endpoint_, key_, place.line)) {
  for (std::size_t i = 0; i < kPages; ++i) {
    here_.push_back(i);
    there_.push_back(kPages - 1 - i);
  }
  // One put shows whether puts go by the NIC.
  Transfer put =
      need(endpoint_.put(region_.slice(out_, sizeof round_), remote_.slice(in_, sizeof round_)));
  need(put.wait(kPatience));
  expect_by_nic(put);
}

void CppEnd::put(std::size_t bytes, unsigned count) {
  const Slice from = region_.slice(Bytes::kBulk, bytes);
  const RemoteSlice to = remote_.slice(Bytes::kBulk, bytes);
  for (; count != 0; --count) need(need(endpoint_.put(from, to)).wait(kPatience));
}

void CppEnd::put_list(std::size_t /*bytes*/, unsigned count) {
  if (!list_) {
    std::vector<TransferPart> parts;
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t from = Bytes::kBulk + i * kPartBytes;
      const std::size_t to = Bytes::kBulk + (kParts - 1 - i) * kPartBytes;
      parts.push_back({region_.slice(from, kPartBytes), remote_.slice(to, kPartBytes)});
    }
    list_.emplace(need(endpoint_.prepare_put(parts)));
  }
  for (; count != 0; --count) need(need(list_->post()).wait(kPatience));
}

void CppEnd::put_blocks(std::size_t bytes, unsigned count) {
  if (!tables_) {
    const std::array here{region_.slice(Bytes::kBulk, kPages * bytes)};
    const std::array there{remote_.slice(Bytes::kBulk, kPages * bytes)};
    tables_.emplace(need(BlockTable::create(here, bytes)),
                    need(RemoteBlockTable::create(there, bytes)));
  }
  for (; count != 0; --count) {
    Transfer blocks = need(endpoint_.put_blocks(tables_->first, here_, tables_->second, there_));
    need(blocks.wait(kPatience));
  }
}

std::vector<TransferPart> CppEnd::mixed_parts() const {
  std::vector<TransferPart> parts;
  parts.reserve(kPages);
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::size_t length = i % 2 == 0 ? kPageBytes : kPageBytes / 2;
    parts.push_back({region_.slice(Bytes::kBulk + here_[i] * kPageBytes, length),
                     remote_.slice(Bytes::kBulk + there_[i] * kPageBytes, length)});
  }
  return parts;
}

void CppEnd::put_mixed(std::size_t /*bytes*/, unsigned count) {
  for (; count != 0; --count) {
    PreparedTransfer list = need(endpoint_.prepare_put(mixed_parts()));
    need(need(list.post()).wait(kPatience));
  }
}

void CppEnd::receive_all(std::size_t bytes, unsigned count) {
  for (; count != 0; --count) {
    for (std::size_t i = 0; i < kReceives; ++i)
      need(endpoint_.receive(region_.slice(Bytes::kBulk + i * bytes, bytes))).notify(i);
    // Tells the peer that all receives are under way.
    bytes_.word(out_).store(++round_, std::memory_order_relaxed);
    need(need(endpoint_.put(region_.slice(out_, sizeof round_), remote_.slice(in_, sizeof round_)))
             .wait(kPatience));
    for (std::size_t left = kReceives; left != 0;) {
      if (auto done = worker_.next_done()) {
        need(std::move(done->result));
        --left;
      }
    }
  }
}

void CppEnd::send_all(std::uint64_t times) {
  std::array<Transfer, kWindow> window;
  const auto finish = [&](Transfer& transfer) {
    if (transfer) need(transfer.wait(kPatience));
  };
  for (; times != 0; --times) {
    ++round_;
    // The peer's receives are under way.
    bytes_.wait_for(in_, round_);
    for (std::size_t i = 0; i < kReceives; ++i) {
      Transfer& transfer = window[i % kWindow];
      finish(transfer);
      transfer = need(endpoint_.send(region_.slice(Bytes::kBulk, sizeof round_)));
    }
    for (Transfer& transfer : window) finish(transfer);
  }
}

}  // namespace hbmwire::bench
