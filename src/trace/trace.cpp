// SPDX-License-Identifier: MIT
#include "hbmwire/trace.hpp"

#include <utility>

#include "base/guarded.hpp"
#include "base/internals.hpp"
#include "trace/tracer.hpp"

namespace hbmwire {

namespace {

/// Ends the trace if it is on. If the file could not be written, the log says why.
void end(std::unique_ptr<detail::TraceState> state) noexcept {
  if (!state) return;
  static_cast<void>(guarded(Stage::complete, [&] { return state->tracer->stop(state->number); }));
}

}  // namespace

Trace::Trace(std::unique_ptr<detail::TraceState> state) noexcept : state_(std::move(state)) {}

Trace::Trace(Trace&& other) noexcept = default;

Trace& Trace::operator=(Trace&& other) noexcept {
  if (this != &other) end(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Trace::~Trace() { end(std::move(state_)); }

Result<Trace> Trace::start(const TraceOptions& options) {
  return guarded(Stage::configure, [&]() -> Result<Trace> {
    auto state = std::make_unique<detail::TraceState>();
    state->tracer = &detail::Tracer::of_process();
    HBMWIRE_TRY_ASSIGN(std::tie(state->number, state->file), state->tracer->start(options));
    return handle_of<Trace>(std::move(state));
  });
}

Result<TraceCounts> Trace::stop() {
  return guarded(Stage::complete, [&] { return state_->tracer->stop(state_->number); });
}

const std::string& Trace::file() const noexcept { return state_->file; }

}  // namespace hbmwire
