// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulation/nic/hook/command_hook.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/events.hpp"
#include "emulation/nic/state/inode.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/verbs/objects.hpp"
#include "emulation/nic/verbs/operations.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Fails alloc_context. libibverbs expects it to have closed cmd_fd then.
verbs_context* refuse(int cmd_fd, int error) {
  ::close(cmd_fd);
  return null_with(error);
}

/// The offset in a Context at which the verbs_context of the loaded libibverbs begins.
std::size_t verbs_offset() {
  const std::size_t words = abi::libibverbs().layout->context_words;
  return offsetof(Context, handle) - words * sizeof(std::uint64_t);
}

verbs_context* verbs_of(Context& context) {
  return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(&context) + verbs_offset());
}

/// Whether the layout is as expected. The word in front of ibv_context is verbs_context::sz, the
/// size of the whole, by which the inline functions of verbs.h know its members. libibverbs has
/// just written it.
bool is_laid_out_as_known(const Context& context) {
  const std::size_t bytes = offsetof(Context, handle) + sizeof(ibv_context) - verbs_offset();
  return context.front.back() == bytes;
}

}  // namespace

int planned_failure(Process& process, const char* verb) {
  return process.abandoned() ? EIO : planned_faults(process, verb).error_number;
}

int planned_failure(Process& process, const char* verb, ObjectKind kind) {
  const int error = planned_failure(process, verb);
  return error != 0 ? error : planned_limit(process, kind);
}

verbs_context* open_context(ibv_device* device, int cmd_fd, void* /*private_data*/) {
  Process* process = Process::join();
  if (process == nullptr) return refuse(cmd_fd, errno);
  if (const int error = planned_failure(*process, "ibv_open_device"); error != 0)
    return refuse(cmd_fd, error);
  if (!install_command_hook()) return refuse(cmd_fd, ENOSYS);
  // libibverbs takes the offset in the form of a pointer.
  auto* context = static_cast<Context*>(abi::libibverbs().init_and_alloc_context(
      device, cmd_fd, sizeof(Context), reinterpret_cast<verbs_context*>(verbs_offset()), 0));
  if (context == nullptr) return nullptr;
  if (!is_laid_out_as_known(*context)) {
    // The context is not released, because that would follow pointers at wrong places.
    std::fputs("emulated NIC: the loaded libibverbs lays out its context in an unknown way\n",
               stderr);
    return refuse(cmd_fd, ENOSYS);
  }
  const std::uint64_t async_channel = process->new_id();
  DeviceInfo info = DeviceInfo::read(device->ibdev_path);
  const int async_fd = process->fifos().create(process->slot(), async_channel);
  const std::uint32_t index = async_fd < 0 ? 0
                                           : claim_context(*process, {device->name, info.behaviour},
                                                           info.fabric_ports(), async_channel);
  if (index == 0) {
    const int error = errno;
    if (async_fd >= 0) {
      ::close(async_fd);
      process->fifos().remove(process->slot(), async_channel);
    }
    abi::libibverbs().uninit_context(verbs_of(*context));
    std::free(context);
    return null_with(error);
  }
  context->handle.async_fd = async_fd;
  context->handle.num_comp_vectors = 1;
  context->state = new ContextState(*process, std::move(info), async_channel);
  context->state->index = index;
  abi::libibverbs().set_ops(verbs_of(*context), operations());
  register_command_fd(cmd_fd, context->state);
  process->count(ObjectKind::context, 1);
  return verbs_of(*context);
}

void close_context(ibv_context* handle) {
  Context& context = context_of(handle);
  ContextState* state = context.state;
  unregister_command_fd(handle->cmd_fd);
  if (!state->process.abandoned()) {
    state->remove_all_channels();
    state->process.write_port_files();
    release_context(state->process, state->index);
    state->process.fifos().remove(state->process.slot(), state->async_channel);
    state->process.count(ObjectKind::context, -1);
  }
  abi::libibverbs().uninit_context(verbs_of(context));
  std::free(&context);
  delete state;
}

int ContextState::create_channel() {
  if (const int error = planned_failure(process, "ibv_create_comp_channel"); error != 0) {
    errno = error;
    return -1;
  }
  const std::lock_guard guard(mutex);
  // Removes channels that were closed. A look costs a system call for each, so with many channels
  // it waits until their number has doubled.
  constexpr std::size_t kFew = 64;
  if (channels_.size() <= kFew || channels_.size() >= 2 * pruned_) prune_channels_locked();
  const std::uint64_t id = process.new_id();
  const int fd = process.fifos().create(process.slot(), id);
  if (fd < 0) return fd;
  remove_locked(fd);  // a channel that was closed had the same descriptor
  channels_[fd] = {inode_of(fd), id};
  return fd;
}

std::uint64_t ContextState::find_channel(int fd) {
  const std::lock_guard guard(mutex);
  const auto found = channels_.find(fd);
  if (found == channels_.end()) return 0;
  if (inode_of(fd) == found->second.inode) return found->second.id;
  remove_locked(fd);
  return 0;
}

std::size_t ContextState::count_channels() {
  const std::lock_guard guard(mutex);
  prune_channels_locked();
  return channels_.size();
}

void ContextState::prune_channels_locked() {
  if (process.abandoned()) return;  // the FIFOs belong to the parent
  std::erase_if(channels_, [&](const auto& entry) {
    const auto& [fd, channel] = entry;
    if (inode_of(fd) == channel.inode) return false;
    process.fifos().remove(process.slot(), channel.id);
    return true;
  });
  pruned_ = channels_.size();
}

void ContextState::remove_locked(int fd) {
  const auto found = channels_.find(fd);
  if (found == channels_.end() || process.abandoned()) return;
  process.fifos().remove(process.slot(), found->second.id);
  channels_.erase(found);
}

void ContextState::remove_all_channels() {
  const std::lock_guard guard(mutex);
  for (const auto& [fd, channel] : channels_) process.fifos().remove(process.slot(), channel.id);
  channels_.clear();
}

/// Called by ibv_get_cq_event after its read: the channel has room again for pending events.
void cq_event(ibv_cq* handle) {
  const Cq& cq = cq_of(handle);
  Process& process = *cq.process;
  if (process.abandoned()) return;
  prefetch_poll(process, cq.index);
  if (!any_pending(process)) return;
  const std::lock_guard guard(cq.context->mutex);
  for (const Cq* other : cq.context->cqs) {
    if (other->channel != cq.channel) continue;
    CqRecord& record = process.shared().cqs[other->index];
    if (!may_be_pending(record.completions)) continue;
    const CqHold queue(process, record);
    if (queue.held()) retry_completion(process, process.slot(), record.completions);
  }
}

/// Called by ibv_get_async_event after its read: the FIFO has room again for pending events.
void async_event(ibv_context* context, ibv_async_event* /*event*/) {
  ContextState& state = state_of(context);
  Process& process = state.process;
  if (process.abandoned()) return;
  retry_link_events(process, state.index);
  if (!any_pending(process)) return;
  const std::lock_guard guard(state.mutex);
  for (const Cq* cq : state.cqs) {
    CqRecord& record = process.shared().cqs[cq->index];
    const CqHold queue(process, record);
    if (queue.held()) retry_async(process, process.slot(), record.async);
  }
  for (const Qp* qp : state.qps) {
    QpRecord& record = process.shared().qps[qp->index];
    const Hold queue(record.queue);
    if (queue.held()) retry_async(process, process.slot(), events_of(*qp));
  }
  for (const Srq* srq : state.srqs) {
    SrqRecord& record = process.shared().srqs[srq->index];
    const Hold queue(record.mutex);
    if (queue.held()) retry_async(process, process.slot(), record.events);
  }
}

}  // namespace hbmwire::emulation::nic
