// SPDX-License-Identifier: MIT
#ifndef HBMWIRE_H
#define HBMWIRE_H

/// The C interface of hbmwire: puts, gets and messages between accelerator memories of two nodes.
/// The tutorial is docs/c.md. These rules hold for every function:
///
/// Handles (hbmwire_context and so on) are opaque. The program owns those that a function gives by
/// a pointer to a pointer, and ends each with its own _free(), which takes NULL as well. Handles
/// that a function returns are owned by the object that was asked, and end with it; to free one
/// does nothing. A handle that was freed may not be used again.
///
/// A function that can fail returns a hbmwire_status, HBMWIRE_OK or the kind of the failure, and
/// has a `hbmwire_error*` last, which the program owns and may be NULL. No exception leaves the
/// library. Where a function fails, pointers that it would give are NULL. A required argument that
/// is NULL is HBMWIRE_INVALID_ARGUMENT. Functions without a status give 0, false, -1 or NULL then.
///
/// Structures of options and answers begin with `struct_size`, which their _init() sets, and all
/// members besides to the defaults. Without options (NULL) all have their defaults. A library that
/// is newer than the program gives its further options their defaults; an older one refuses options
/// that it does not know, unless they are 0, and leaves members of answers that it does not know
/// as they are. Strings end with a NUL; text that is asked for is cut to the capacity that is
/// given, and the function returns the length that it has.
///
/// A `timeout_ns` counts from the call on: 0 is over at once, and a negative one (HBMWIRE_FOREVER)
/// never. A `cancel_fd` ends the wait with HBMWIRE_CANCELLED when it becomes readable;
/// HBMWIRE_NO_FD: none. It stays the program's.
///
/// A worker with its listeners, endpoints and transfers is used by one thread at a time, unless it
/// was made for several; all else may be used by several threads at once, unless it says otherwise.
#include "hbmwire/c/attach.h"
#include "hbmwire/c/blocks.h"
#include "hbmwire/c/buffer.h"
#include "hbmwire/c/context.h"
#include "hbmwire/c/counters.h"
#include "hbmwire/c/domain.h"
#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
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
