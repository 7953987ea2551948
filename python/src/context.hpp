// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "hbmwire/context.hpp"

#include "worker.hpp"

namespace hbmwire::python {

/// hbmwire.Context.
class ContextObject {
 public:
  ContextObject(Context context, const WorkerOptions& options)
      : context_(std::move(context)), options_(options) {}

  /// Raises InvalidArgument if it is closed.
  [[nodiscard]] const Context& open() const;

  /// The context's own worker, made at the first call. Raises as WorkerObject::create().
  [[nodiscard]] const SharedWorker& worker();

  [[nodiscard]] SharedWorker create_worker(const WorkerOptions& options);

  [[nodiscard]] const WorkerOptions& options() const noexcept { return options_; }

  /// Closes the context and all its workers.
  void close();

  [[nodiscard]] bool is_closed() const noexcept { return closed_; }

 private:
  Context context_;
  WorkerOptions options_;
  SharedWorker worker_;
  std::vector<std::weak_ptr<WorkerObject>> workers_;
  bool closed_ = false;
};

/// Adds connect(), listen(), invite() and their asyncio forms to hbmwire.Worker.
void bind_connecting(py::class_<WorkerObject, SharedWorker>& worker);

}  // namespace hbmwire::python
