// SPDX-License-Identifier: MIT
#pragma once

// All of the public API.
#include "hbmwire/attach.hpp"
#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/deadline.hpp"
#include "hbmwire/endpoint.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/host_port.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/native.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"
#include "hbmwire/topology.hpp"
#include "hbmwire/transfer.hpp"
#include "hbmwire/worker.hpp"
