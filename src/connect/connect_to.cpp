// SPDX-License-Identifier: MIT
#include "connect/connect_to.hpp"

#include "connect/connecting.hpp"

namespace hbmwire::detail {

Result<std::shared_ptr<EndpointState>> connect_to(const std::shared_ptr<WorkerState>& worker,
                                                  std::string_view where, const Wait& wait,
                                                  const EndpointOptions& options, bool again) {
  const WorkerLock lock(*worker);
  HBMWIRE_TRY_ASSIGN(const auto task,
                     Connecting::start(worker, where, wait.deadline, options, again));
  task->go_by_clock();
  if (const auto driven = worker->drive(wait, [&] { return task->over(); }); !task->over())
    task->give_up(driven.error());
  if (task->error()) return tl::make_unexpected(*task->error());
  return task->take();
}

}  // namespace hbmwire::detail
