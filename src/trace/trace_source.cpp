// SPDX-License-Identifier: MIT
#include "trace/trace_source.hpp"

#include "trace/tracer.hpp"

namespace hbmwire::detail {

void TraceSource::join(std::size_t transfers, SharedFlag& attends) {
  transfers_ = transfers;
  attends_ = &attends;
  Tracer::of_process().add(*this);
}

void TraceSource::leave() noexcept {
  Tracer* const tracer = std::exchange(tracer_, nullptr);
  if (tracer != nullptr && !tracer->is_foreign()) tracer->remove(*this);
}

void TraceSource::add_peer(std::uint32_t connection, const std::string& nic,
                           const std::string& peer) {
  if (tracer_ == nullptr || tracer_->is_foreign()) return;
  tracer_->add_peer(connection, {.nic = nic, .peer = peer, .worker = number_});
}

void TraceSource::remove_peer(std::uint32_t connection) noexcept {
  if (tracer_ != nullptr && !tracer_->is_foreign()) tracer_->remove_peer(connection);
}

}  // namespace hbmwire::detail
