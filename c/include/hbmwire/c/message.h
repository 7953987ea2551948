// SPDX-License-Identifier: MIT
// Messages that come with their sender.
#ifndef HBMWIRE_C_MESSAGE_H
#define HBMWIRE_C_MESSAGE_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A message of an endpoint that hands its messages out. HBMWIRE_MESSAGES_HANDED_OUT selects that,
/// and hbmwire_worker_next_message() gives the messages. It holds one of the places for the peer's
/// messages: let it go soon. Threads: its worker's.
typedef struct hbmwire_message hbmwire_message;

/// Facts about a message.
typedef struct hbmwire_message_info {
  size_t struct_size;     ///< set by hbmwire_message_info_init()
  uint64_t endpoint_id;   ///< hbmwire_endpoint_info::id of the endpoint that it came by
  uint64_t tag;           ///< valid if `has_tag` is 1
  uint64_t length_bytes;  ///< the length of the message
  const void* bytes;      ///< all of it, until the message is freed or received; NULL: not here
  int32_t has_tag;        ///< 0: it was sent without one
  int32_t is_here;        ///< 0: its sender still has it, and hbmwire_message_receive() brings it
} hbmwire_message_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_message_info_init(hbmwire_message_info* info, size_t struct_size);

/// Gives the facts about a message. Errors: HBMWIRE_INVALID_ARGUMENT, it was received.
HBMWIRE_C_API hbmwire_status hbmwire_message_get_info(const hbmwire_message* message,
                                                      hbmwire_message_info* info,
                                                      hbmwire_error* error);

/// Brings the message to `into`. The handle is empty then, and must still be freed. Errors: as
/// hbmwire_endpoint_receive(), and the message stays; HBMWIRE_PEER_FAILED or HBMWIRE_CANCELLED, its
/// endpoint has ended and the message is not here.
HBMWIRE_C_API hbmwire_status hbmwire_message_receive(hbmwire_message* message,
                                                     const hbmwire_slice* into,
                                                     hbmwire_transfer** transfer,
                                                     hbmwire_error* error);

/// Lets the message go. If its bytes are not here and were not received, its send fails at the
/// peer.
HBMWIRE_C_API void hbmwire_message_free(hbmwire_message* message);

#ifdef __cplusplus
}
#endif

#endif
