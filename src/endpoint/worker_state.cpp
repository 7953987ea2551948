// SPDX-License-Identifier: MIT
#include "endpoint/worker_state.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "endpoint/endpoint_state.hpp"
#include "verbs/calls.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

constexpr int kCompletionQueueEntries = 16384;  // of some 64 bytes each

/// The channel's events are read without blocking, whoever polls its descriptor.
Result<void> make_non_blocking(int fd, std::string_view subject) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return tl::make_unexpected(system_error(Stage::open, "fcntl", errno, subject));
}

Result<WorkerNic> open_nic(const Context& context, const Nic& nic, std::size_t transfers,
                           int epoll) {
  NicState& device = nic.state();
  HBMWIRE_TRY(verbs::check_process(device, Stage::open));
  HBMWIRE_TRY_ASSIGN(auto channel, verbs::from_pointer<verbs::CompletionChannel>(
                                       ibv_create_comp_channel(device.context.get()), Stage::open,
                                       "ibv_create_comp_channel", device.info.name));
  HBMWIRE_TRY(make_non_blocking(channel.get()->fd, device.info.name));
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, channel.get()->fd, &event) != 0)
    return tl::make_unexpected(system_error(Stage::open, "epoll_ctl", errno, device.info.name));
  HBMWIRE_TRY_ASSIGN(
      const Allocation memory,
      context.allocate(MemoryType::host, transfers * sizeof(std::uint64_t) + kSpareBytes));
  HBMWIRE_TRY_ASSIGN(Region results,
                     nic.register_memory(memory, Access::local_write | Access::remote_write));
  return WorkerNic{nic, std::move(channel), std::move(results), {}};
}

}  // namespace

WorkerState::WorkerState(Context context_of, const WorkerOptions& options_of)
    : context(std::move(context_of)), options(options_of) {}

WorkerState::~WorkerState() = default;

Result<std::shared_ptr<WorkerState>> WorkerState::create(const Context& context,
                                                         const WorkerOptions& options) {
  if (options.max_transfers == 0) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "a worker has at least one transfer", "max_transfers"));
  }
  HBMWIRE_TRY_ASSIGN(const std::vector<Nic> nics, context.open_nics());
  const std::shared_ptr<WorkerState> worker(new WorkerState(context, options),
                                            [](WorkerState* state) { state->orphan(); });
  worker->epoll = Fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!worker->epoll) return tl::make_unexpected(system_error(Stage::open, "epoll_create1", errno));
  worker->transfers = std::vector<TransferState>(options.max_transfers);
  worker->errors = std::vector<Error>(options.max_transfers);
  for (auto transfer = worker->transfers.rbegin(); transfer != worker->transfers.rend();
       ++transfer) {
    transfer->worker = worker.get();
    worker->put_back(*transfer);
  }
  for (const Nic& nic : nics) {
    HBMWIRE_TRY_ASSIGN(WorkerNic opened,
                       open_nic(context, nic, options.max_transfers, worker->epoll.get()));
    worker->nics.push_back(std::move(opened));
  }
  return worker;
}

std::uint64_t WorkerState::result_of(const TransferState& transfer) const noexcept {
  const auto* results =
      std::bit_cast<const std::uint64_t*>(transfer.endpoint->worker_nic.results.address());
  return results[index_of(transfer)];
}

void WorkerState::fail(TransferState& transfer, const Error& error, bool settled) noexcept {
  transfer.status = TransferState::Status::failed;
  transfer.settled = settled;
  transfer.endpoint = nullptr;
  errors[index_of(transfer)] = error;
  if (!transfer.held) put_back(transfer);
}

Result<transport::CompletionQueue*> WorkerState::completions_for(WorkerNic& nic, int places) {
  for (const auto& queue : nic.completions) {
    if (queue->has_room(places)) return queue.get();
  }
  HBMWIRE_TRY_ASSIGN(auto queue, transport::CompletionQueue::create(
                                     nic.nic.state().shared_from_this(), nic.channel.get(),
                                     std::max(kCompletionQueueEntries, places)));
  nic.completions.push_back(std::move(queue));
  return nic.completions.back().get();
}

void WorkerState::adopt(std::shared_ptr<EndpointState> endpoint) {
  endpoints.push_back(std::move(endpoint));
}

std::size_t WorkerState::tick() noexcept {
  now = Clock::now();
  // An endpoint that has ended may go while the others are looked after.
  for (std::size_t i = 0; i < endpoints.size();) {
    EndpointState& endpoint = *endpoints[i];
    endpoint.look_after(now);
    if (endpoint.gone()) {
      endpoints.erase(endpoints.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return 0;
}

Result<bool> WorkerState::arm() {
  for (const WorkerNic& nic : nics) {
    for (const auto& queue : nic.completions) HBMWIRE_TRY(queue->arm());
  }
  // A completion between the last poll and the arming raises no event.
  return progress() == 0;
}

Result<void> WorkerState::sleep(const Wait& wait) {
  std::array<pollfd, 2> fds{{{epoll.get(), POLLIN, 0}, {wait.cancel_fd, POLLIN, 0}}};
  const int timeout_ms =
      std::min(wait.deadline.poll_timeout_ms(), static_cast<int>(wake_after().count()));
  if (options.progress_thread) mutex.unlock();
  const int ready = ::poll(fds.data(), fds.size(), timeout_ms);
  const int error_number = errno;
  if (options.progress_thread) mutex.lock();
  if (ready < 0 && error_number != EINTR)
    return tl::make_unexpected(system_error(Stage::complete, "poll", error_number));
  if (ready > 0 && fds[1].revents != 0)
    return tl::make_unexpected(make_error(Errc::cancelled, Stage::complete, "waiting"));
  for (const WorkerNic& nic : nics) {
    ibv_cq* cq = nullptr;
    void* of = nullptr;
    while (ibv_get_cq_event(nic.channel.get(), &cq, &of) == 0)
      static_cast<transport::CompletionQueue*>(of)->took_event();
  }
  if (ready <= 0) tick();
  if (ready <= 0 && wait.deadline.passed()) {
    return tl::make_unexpected(make_error(Errc::timed_out, Stage::complete,
                                          "not over within the time allowed", {}, Hint::peer_slow));
  }
  return {};
}

void WorkerState::cancel(TransferState& transfer, const Error& why) noexcept {
  transfer.endpoint->fail(why, &transfer);
}

Result<void> WorkerState::drive_to_end(const TransferState& transfer) {
  // Bounded by EndpointOptions::peer_timeout; the wait itself is for the case that this is wrong.
  return drive({Deadline::after(1h), -1},
               [&] { return transfer.status != TransferState::Status::active; });
}

std::chrono::milliseconds WorkerState::wake_after() const noexcept {
  // What is looked after by the clock is bounded by seconds.
  return endpoints.empty() ? 1000ms : 50ms;
}

void WorkerState::orphan() noexcept {
  // Endpoints say goodbye, which takes a moment and no longer.
  const auto until = Clock::now() + 100ms;
  for (const auto& endpoint : endpoints) endpoint->abandon();
  while (!made.is_inherited() && !endpoints.empty() && Clock::now() < until) {
    progress();
    tick();
  }
  endpoints.clear();
  nics.clear();
  orphaned = true;
  if (held == 0) end();
}

}  // namespace hbmwire::detail
