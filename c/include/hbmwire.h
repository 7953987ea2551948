// SPDX-License-Identifier: MIT
#ifndef HBMWIRE_H
#define HBMWIRE_H

/// The C interface of hbmwire: puts, gets and messages between accelerator memories of two nodes.
/// The tutorial is docs/c.md. These rules hold for every function:
///
/// Handles (hbmwire_context and so on) are opaque. The program owns a handle that a function gives
/// by a pointer to a pointer, and ends it with the handle's own _free(), which also takes NULL. A
/// handle that a function returns, and that of hbmwire_group_endpoint(), belongs to the object that
/// was asked, and ends with it; freeing such a handle does nothing. A freed handle must not be used
/// again.
///
/// A function that can fail returns a hbmwire_status: HBMWIRE_OK, or the kind of the failure. Its
/// last argument is a `hbmwire_error*`, which the program owns and which may be NULL. No exception
/// leaves the library. When a function fails, the pointers that it gives are NULL. A required
/// argument that is NULL is HBMWIRE_INVALID_ARGUMENT; functions without a status then return 0,
/// false, -1 or NULL.
///
/// Structures of options and answers begin with `struct_size`. Their _init() sets it, and sets all
/// other members to their defaults. NULL in place of options means the defaults. A library that is
/// newer than the program gives its further options their defaults. An older library refuses
/// options that it does not know, unless they are 0, and does not change members of answers that it
/// does not know. Strings end with a NUL. Text for the program is cut to the capacity that the
/// program gives; the function returns the full length.
///
/// A `timeout_ns` counts from the call on: 0 ends at once, and a negative one (HBMWIRE_FOREVER)
/// never ends. A `cancel_fd` ends the wait with HBMWIRE_CANCELLED when it becomes readable;
/// HBMWIRE_NO_FD: none. It stays the program's.
///
/// One thread at a time may use a worker with its listeners, endpoints and transfers, unless the
/// worker was made for several threads. Several threads at once may use everything else, unless it
/// says otherwise.
#include "hbmwire/c/attach.h"
#include "hbmwire/c/blocks.h"
#include "hbmwire/c/buffer.h"
#include "hbmwire/c/context.h"
#include "hbmwire/c/counters.h"
#include "hbmwire/c/domain.h"
#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/group.h"
#include "hbmwire/c/hint.h"
#include "hbmwire/c/invitation.h"
#include "hbmwire/c/listener.h"
#include "hbmwire/c/log.h"
#include "hbmwire/c/memory.h"
#include "hbmwire/c/memory_key.h"
#include "hbmwire/c/message.h"
#include "hbmwire/c/nic.h"
#include "hbmwire/c/pending.h"
#include "hbmwire/c/region.h"
#include "hbmwire/c/registration.h"
#include "hbmwire/c/settings.h"
#include "hbmwire/c/transfer.h"
#include "hbmwire/c/types.h"
#include "hbmwire/c/version.h"
#include "hbmwire/c/worker.h"

#endif
