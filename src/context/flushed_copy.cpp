// SPDX-License-Identifier: MIT
#include "context/flushed_copy.hpp"

#include <utility>

namespace hbmwire {

/// The copy that the caller polls. Its destructor removes a step that has not begun.
class FlushedCopies::Copy final : public PendingCopy::Work {
 public:
  Copy(FlushedCopies& copies, std::shared_ptr<Step> step, std::shared_ptr<const void> keep)
      : copies_(copies), keep_(std::move(keep)), step_(std::move(step)) {}

  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  ~Copy() override { std::erase(copies_.waiting_, step_); }

  Result<bool> poll() override {
    copies_.drive();
    if (!step_->copy) return false;
    if (!*step_->copy) return tl::make_unexpected(step_->copy->error());
    return (*step_->copy)->poll();
  }

 private:
  FlushedCopies& copies_;
  std::shared_ptr<const void> keep_;
  std::shared_ptr<Step> step_;
};

Result<PendingCopy> FlushedCopies::start(MemoryDomain& domain, const Request& request,
                                         PendingCopy flush, std::shared_ptr<const void> keep) {
  auto step = std::make_shared<Step>();
  step->domain = &domain;
  step->request = request;
  step->flush = std::move(flush);
  // Made before the step is queued. If its allocation failed after that, the step would stay in the
  // queue and later access the caller's bytes.
  auto copy = std::make_unique<Copy>(*this, step, std::move(keep));
  waiting_.push_back(std::move(step));
  HBMWIRE_TRY_ASSIGN(const bool done, copy->poll());
  if (done) return PendingCopy();
  return PendingCopy(std::move(copy));
}

void FlushedCopies::drive() {
  while (!waiting_.empty()) {
    Step& step = *waiting_.front();
    const auto flushed = step.flush.poll();
    if (flushed && !*flushed) return;
    const Request& request = step.request;
    if (!flushed) {
      step.copy = tl::make_unexpected(flushed.error());
    } else if (request.to.empty()) {
      step.copy = step.domain->start_copy_in(request.address, request.from);
    } else {
      step.copy = step.domain->start_copy_out(request.address, request.to);
    }
    waiting_.pop_front();
  }
}

}  // namespace hbmwire
