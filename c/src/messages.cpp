// SPDX-License-Identifier: MIT
#include "hbmwire/incoming_message.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<void> need_message(const hbmwire_message& message) {
  if (*message.value) return {};
  return c::refuse("the message was received already");
}

}  // namespace

void hbmwire_message_info_init(hbmwire_message_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_message_get_info(const hbmwire_message* message, hbmwire_message_info* info,
                                        hbmwire_error* error) {
  return c::run(error, {{message, "message"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    HBMWIRE_TRY(need_message(*message));
    const IncomingMessage& told = *message->value;
    const auto tag = told.tag();
    c::fill(info, {.struct_size = 0,
                   .endpoint_id = told.endpoint_id(),
                   .tag = tag.value_or(0),
                   .length_bytes = told.length_bytes(),
                   .bytes = told.is_here() ? told.bytes().data() : nullptr,
                   .has_tag = tag ? 1 : 0,
                   .is_here = told.is_here() ? 1 : 0});
    return {};
  });
}

hbmwire_status hbmwire_message_receive(hbmwire_message* message, const hbmwire_slice* into,
                                       hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{message, "message"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY(need_message(*message));
    HBMWIRE_TRY_ASSIGN(const Slice slice, c::slice_of(into));
    return message->value->receive(slice);
  });
}

void hbmwire_message_free(hbmwire_message* message) { delete message; }
