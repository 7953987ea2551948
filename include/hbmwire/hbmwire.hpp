// SPDX-License-Identifier: MIT
#pragma once

/// The library, for most programs. Seven types carry a transfer:
///
///   Context   the devices of this machine; allocates memory and registers it
///   Region    registered memory
///   Worker    makes progress, one for each thread that communicates
///   Listener  where peers connect
///   Endpoint  a connection to a peer: put, get, send, receive
///   Transfer  an operation: wait() for it, and ask how it went
///   Result    a value, or the Error that explains why there is none
///
/// Headers that fewer programs need. This header does not include them:
///
///   nic.hpp                    RDMA devices, and registering with one of them
///   buffer.hpp                 many copies between a region and the host
///   memory_key.hpp             keys that the application carries to a peer
///   registration.hpp           registrations of memory that comes and goes
///   attach.hpp                 memory of another process of this node
///   group.hpp                  processes that a launcher has started, and how they meet
///   counters.hpp               counts of bytes moved, by path, and of failures
///   memory_domain.hpp          devices, and one device's memory: export, copies, observers
///   trace.hpp                  a file with the history of each transfer
///   topology.hpp, settings.hpp, log.hpp, host_port.hpp
///   low_level/connection.hpp   one queue pair
///   low_level/native.hpp       the verbs objects below a Nic
///   low_level/tcp.hpp          TCP with deadlines
#include "hbmwire/blocks.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/pending.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/transfer.hpp"
#include "hbmwire/version.hpp"
#include "hbmwire/worker.hpp"
