// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "hbmwire/worker.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

/// Collects the caller's transfers in one array, as the library takes them, for one call.
class Together {
 public:
  Together(hbmwire_transfer* const* handles, std::size_t count) : handles_(handles), all_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (handles[i] != nullptr) all_[i] = std::move(*handles[i]->at);
    }
  }

  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  /// Returns each transfer to its handle. A handle that was named twice is empty here the second
  /// time.
  ~Together() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i]) *handles_[i]->at = std::move(all_[i]);
    }
  }

  [[nodiscard]] std::span<const Transfer> all() const noexcept { return all_; }

 private:
  hbmwire_transfer* const* handles_;
  std::vector<Transfer> all_;
};

Result<void> need_array(hbmwire_transfer* const* transfers, std::size_t count) {
  return count == 0 ? Result<void>() : c::need({{transfers, "transfers"}});
}

}  // namespace

void hbmwire_worker_options_init(hbmwire_worker_options* options, size_t struct_size) {
  const WorkerOptions library;
  hbmwire_worker_options made{};
  made.receive_pool_bytes = library.receive_pool_bytes;
  made.unexpected_bytes = library.unexpected_bytes;
  made.max_transfers = library.max_transfers;
  made.eager_bytes = library.eager_bytes;
  made.threads = HBMWIRE_THREADS_ONE;
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_worker_create(const hbmwire_context* context,
                                     const hbmwire_worker_options* options, hbmwire_worker** worker,
                                     hbmwire_error* error) {
  return c::create(worker, error, {{context, "context"}}, [&]() -> Result<Worker> {
    hbmwire_worker_options defaults;
    hbmwire_worker_options_init(&defaults, sizeof defaults);
    HBMWIRE_TRY_ASSIGN(const hbmwire_worker_options given, c::options_of(options, defaults));
    if (given.threads < HBMWIRE_THREADS_ONE || given.threads > HBMWIRE_THREADS_PROGRESS)
      return c::refuse("a number that no constant of hbmwire.h has", "threads");
    const WorkerOptions wanted{.max_transfers = given.max_transfers,
                               .progress_thread = given.threads == HBMWIRE_THREADS_PROGRESS,
                               .eager_bytes = given.eager_bytes,
                               .receive_pool_bytes = given.receive_pool_bytes,
                               .unexpected_bytes = given.unexpected_bytes,
                               .times = given.times != 0};
    if (given.threads == HBMWIRE_THREADS_ANY)
      return Worker::create(*context->value, wanted, WorkerThreads::any);
    return Worker::create(*context->value, wanted);
  });
}

void hbmwire_worker_free(hbmwire_worker* worker) { delete worker; }

size_t hbmwire_worker_progress(hbmwire_worker* worker) {
  size_t handled = 0;
  c::run(nullptr, {{worker, "worker"}}, [&]() -> Result<void> {
    handled = worker->value->progress();
    return {};
  });
  return handled;
}

int32_t hbmwire_worker_fd(const hbmwire_worker* worker) {
  return worker == nullptr ? -1 : worker->value->fd();
}

hbmwire_status hbmwire_worker_arm(hbmwire_worker* worker, bool* may_sleep, hbmwire_error* error) {
  return c::run(error, {{worker, "worker"}, {may_sleep, "may_sleep"}}, [&]() -> Result<void> {
    *may_sleep = false;
    HBMWIRE_TRY_ASSIGN(*may_sleep, worker->value->arm());
    return {};
  });
}

int32_t hbmwire_worker_wake_after_ms(const hbmwire_worker* worker) {
  if (worker == nullptr) return 0;
  const auto longest = std::numeric_limits<int32_t>::max();
  const auto left = worker->value->wake_after().count();
  return left >= longest ? longest : static_cast<int32_t>(left);
}

void hbmwire_done_init(hbmwire_done* done, size_t struct_size) {
  c::initialise(done, struct_size, {});
}

hbmwire_status hbmwire_worker_next_done(hbmwire_worker* worker, hbmwire_done* done, bool* found,
                                        hbmwire_error* why, hbmwire_error* error) {
  return c::run(error, {{worker, "worker"}, {found, "found"}}, [&]() -> Result<void> {
    *found = false;
    HBMWIRE_TRY(c::need_answer(done, "done"));
    HBMWIRE_TRY(c::need_usable(why, "why"));
    const std::optional<Done> next = worker->value->next_done();
    if (!next) return {};
    const hbmwire_status status = c::tell(next->result ? nullptr : &next->result.error(), why);
    c::fill(done, {.struct_size = 0,
                   .cookie = next->cookie,
                   .bytes = next->bytes,
                   .value = next->value,
                   .status = status,
                   .settled = next->settled ? 1 : 0});
    *found = true;
    return {};
  });
}

hbmwire_status hbmwire_worker_next_message(hbmwire_worker* worker, hbmwire_message** message,
                                           hbmwire_error* error) {
  return c::create_any(message, error, {{worker, "worker"}}, [&] {
    return Result<std::optional<IncomingMessage>>(worker->value->next_message());
  });
}

hbmwire_status hbmwire_worker_wait_any(hbmwire_worker* worker, hbmwire_transfer* const* transfers,
                                       size_t count, int64_t timeout_ns, int32_t cancel_fd,
                                       size_t* index, bool* found, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {worker, "worker"}, {index, "index"}, {found, "found"}};
  return c::run(error, needed, [&]() -> Result<void> {
    *found = false;
    HBMWIRE_TRY(need_array(transfers, count));
    const Together together(transfers, count);
    HBMWIRE_TRY_ASSIGN(const auto first,
                       worker->value->wait_any(together.all(), c::wait_of(timeout_ns, cancel_fd)));
    *found = first.has_value();
    if (first) *index = *first;
    return {};
  });
}

hbmwire_status hbmwire_worker_wait_all(hbmwire_worker* worker, hbmwire_transfer* const* transfers,
                                       size_t count, int64_t timeout_ns, int32_t cancel_fd,
                                       bool* over, hbmwire_error* error) {
  return c::run(error, {{worker, "worker"}, {over, "over"}}, [&]() -> Result<void> {
    *over = false;
    HBMWIRE_TRY(need_array(transfers, count));
    const Together together(transfers, count);
    HBMWIRE_TRY_ASSIGN(*over,
                       worker->value->wait_all(together.all(), c::wait_of(timeout_ns, cancel_fd)));
    return {};
  });
}

hbmwire_status hbmwire_worker_wait(hbmwire_worker* worker, int64_t timeout_ns, int32_t cancel_fd,
                                   hbmwire_error* error) {
  return c::run(error, {{worker, "worker"}},
                [&] { return worker->value->wait(c::wait_of(timeout_ns, cancel_fd)); });
}

hbmwire_status hbmwire_worker_flush(hbmwire_worker* worker, const hbmwire_slice* memory,
                                    hbmwire_transfer** transfer, hbmwire_error* error) {
  return c::create(transfer, error, {{worker, "worker"}}, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const Slice slice, c::slice_of(memory));
    return worker->value->flush(slice);
  });
}
