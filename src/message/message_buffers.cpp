// SPDX-License-Identifier: MIT
#include "message/message_buffers.hpp"

#include <algorithm>

#include "transport/lane_datapath.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

namespace {

constexpr std::uint64_t kLine = 64;

std::uint64_t in_lines(std::uint64_t bytes) noexcept { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

MessageBuffers::MessageBuffers(std::uint32_t count, std::uint32_t eager_bytes,
                               std::uint32_t most_kept) noexcept
    : count_(count),
      receive_bytes_(wire::kMessageHeaderBytes +
                     std::max<std::uint32_t>(eager_bytes, wire::kPlaceBytes)),
      most_kept_(most_kept) {}

std::uint64_t MessageBuffers::memory_bytes() const noexcept {
  return count_ * in_lines(receive_bytes_);
}

void MessageBuffers::set_memory(Inbox& inbox, std::byte* memory, std::uint32_t local_key) {
  buffers_.resize(count_);
  for (MessageBuffer& buffer : buffers_) {
    buffer = {.inbox = &inbox, .bytes = memory, .local_key = local_key};
    memory += in_lines(receive_bytes_);
  }
}

Result<void> MessageBuffers::post_all(transport::Lane& lane) {
  for (MessageBuffer& buffer : buffers_) {
    HBMWIRE_TRY(lane.post_receive(transport::to_id(&buffer, transport::Tag::message),
                                  {buffer.bytes, receive_bytes_}, buffer.local_key));
    ++posted_;
  }
  return {};
}

}  // namespace hbmwire::detail
