// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "hbmwire/perf_messages.hpp"

#include "wire/codec.hpp"

namespace hbmwire::wire {

void put(Writer& out, const PerfRequest& m);
void put(Writer& out, const PerfSide& m);
void put(Writer& out, const PerfQueues& m);
void put(Writer& out, const PerfReport& m);

PerfRequest get(Reader& in, std::in_place_type_t<PerfRequest> tag);
PerfSide get(Reader& in, std::in_place_type_t<PerfSide> tag);
PerfQueues get(Reader& in, std::in_place_type_t<PerfQueues> tag);
PerfReport get(Reader& in, std::in_place_type_t<PerfReport> tag);

}  // namespace hbmwire::wire
