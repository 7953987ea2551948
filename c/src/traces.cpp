// SPDX-License-Identifier: MIT
#include "hbmwire/trace.hpp"

#include "handles.hpp"

using namespace hbmwire;

void hbmwire_trace_counts_init(hbmwire_trace_counts* counts, size_t struct_size) {
  c::initialise(counts, struct_size, {});
}

hbmwire_status hbmwire_trace_start(const char* file, uint64_t most_bytes, hbmwire_trace** trace,
                                   hbmwire_error* error) {
  return c::create(trace, error, {{file, "file"}}, [&] {
    TraceOptions options{.file = file};
    if (most_bytes != 0) options.most_bytes = most_bytes;
    return Trace::start(options);
  });
}

hbmwire_status hbmwire_trace_stop(hbmwire_trace* trace, hbmwire_trace_counts* counts,
                                  hbmwire_error* error) {
  return c::run(error, {{trace, "trace"}}, [&]() -> Result<void> {
    if (counts != nullptr) HBMWIRE_TRY(c::need_answer(counts, "counts"));
    HBMWIRE_TRY_ASSIGN(const TraceCounts told, trace->value->stop());
    if (counts != nullptr) {
      c::fill(counts, {.struct_size = 0,
                       .transfers = told.transfers,
                       .dropped_busy = told.dropped_busy,
                       .dropped_full = told.dropped_full});
    }
    return {};
  });
}

const char* hbmwire_trace_file(const hbmwire_trace* trace) {
  return trace == nullptr ? "" : trace->value->file().c_str();
}

void hbmwire_trace_free(hbmwire_trace* trace) { delete trace; }
