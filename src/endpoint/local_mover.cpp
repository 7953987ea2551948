// SPDX-License-Identifier: MIT
#include "endpoint/local_mover.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::detail {

namespace {

Result<verbs::Mr> admit_to(ibv_pd* pd, void* memory, std::uint64_t bytes, int access,
                           std::string_view nic) {
  return verbs::from_pointer<verbs::Mr>(
      ibv_reg_mr(pd, memory, bytes, static_cast<unsigned>(access)), Stage::register_memory,
      "ibv_reg_mr", nic);
}

}  // namespace

LocalMover::LocalMover(Nic nic_of) : nic(std::move(nic_of)), jobs(kJobs) {
  for (MoverJob& job : jobs) job.mover = this;
}

Result<std::unique_ptr<LocalMover>> LocalMover::create(const Nic& nic,
                                                       transport::CompletionQueue& completions) {
  auto mover = std::make_unique<LocalMover>(nic);
  const NicState& device = nic.state();
  HBMWIRE_TRY(verbs::check_process(device, Stage::open));
  HBMWIRE_TRY_ASSIGN(mover->pd,
                     verbs::from_pointer<verbs::Pd>(ibv_alloc_pd(device.context.get()), Stage::open,
                                                    "ibv_alloc_pd", device.info.name));
  HBMWIRE_TRY_ASSIGN(mover->scratch_region,
                     admit_to(mover->pd.get(), &mover->scratch, sizeof mover->scratch,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, device.info.name));
  HBMWIRE_TRY(mover->connect(completions));
  return mover;
}

Result<void> LocalMover::connect(transport::CompletionQueue& on) {
  completions = &on;
  HBMWIRE_TRY_ASSIGN(
      asks, transport::Lane::create(nic, on, {.send_depth = kRequests, .receive_depth = 1}));
  HBMWIRE_TRY_ASSIGN(
      answers,
      transport::Lane::create(
          nic, on, {.send_depth = 1, .receive_depth = 1, .inline_bytes = 0, .pd = pd.get()}));
  verbs::Wiring wiring;
  const NicLimits& limits = nic.state().limits;
  wiring.reads_out = static_cast<std::uint8_t>(std::clamp(limits.reads_out, 1, 16));
  wiring.reads_in = static_cast<std::uint8_t>(std::clamp(limits.reads_in, 1, 16));
  wiring.reads_out = std::min(wiring.reads_out, wiring.reads_in);
  for (const bool other : {false, true}) {
    transport::Lane& lane = other ? *answers : *asks;
    wiring.local = lane.local;
    wiring.remote = (other ? *asks : *answers).local;
    HBMWIRE_TRY(lane.connect(wiring));
  }
  return {};
}

Result<verbs::Mr> LocalMover::admit(std::byte* memory, std::uint64_t bytes) const {
  HBMWIRE_TRY(verbs::check_process(nic.state(), Stage::register_memory));
  return admit_to(pd.get(), memory, bytes, IBV_ACCESS_REMOTE_READ, nic.info().name);
}

void LocalMover::mend() noexcept {
  if (!broken || outstanding != 0) return;
  asks.reset();
  answers.reset();
  if (const auto connected = connect(*completions); !connected) {
    log_line(LogLevel::warn, describe(connected.error()));
    return;
  }
  head = 0;
  broken = false;
  post_waiting();
}

}  // namespace hbmwire::detail
