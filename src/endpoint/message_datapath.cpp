// SPDX-License-Identifier: MIT
#include "endpoint/endpoint_state.hpp"
#include "wire/message_header.hpp"

namespace hbmwire::detail {

Result<void> EndpointState::post_receives() {
  const std::uint64_t bytes = wire::kMessageHeaderBytes + options.eager_bytes;
  for (MessageBuffer& buffer : buffers) {
    HBMWIRE_TRY(post_receive(*data, buffer, bytes, transport::Tag::message));
    ++receives_posted;
  }
  return {};
}

void EndpointState::on_message(MessageBuffer& /*buffer*/, const ibv_wc& completion) noexcept {
  --receives_posted;
  if (completion.status != IBV_WC_SUCCESS) {
    fail(verbs::completion_error(completion, peer), nullptr);
    return;
  }
}

}  // namespace hbmwire::detail
