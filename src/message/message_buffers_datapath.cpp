// SPDX-License-Identifier: MIT
#include "message/message_buffers.hpp"
#include "transport/lane_datapath.hpp"

namespace hbmwire::detail {

int MessageBuffers::post_again(transport::Lane& lane, MessageBuffer& buffer) noexcept {
  read_[read_count_++] = &buffer;
  return read_count_ == kMostRead ? post_read(lane) : 0;
}

int MessageBuffers::post_read(transport::Lane& lane) noexcept {
  std::array<transport::Receive, kMostRead> receives;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const MessageBuffer& buffer = *read_[i];
    receives[i] = {transport::to_id(&buffer, transport::Tag::message),
                   {.address = reinterpret_cast<std::uint64_t>(buffer.bytes),
                    .length = receive_bytes_,
                    .key = buffer.local_key}};
  }
  read_count_ = 0;
  std::size_t posted = 0;
  const int result = lane.post_receives(receives, posted);
  // Those before one that is refused are posted, and come back.
  posted_ += static_cast<std::uint32_t>(posted);
  return result;
}

}  // namespace hbmwire::detail
