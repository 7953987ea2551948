// SPDX-License-Identifier: MIT
#include "emulation/nic/hook/command_hook.hpp"

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "emulation/nic/abi/libibverbs.hpp"
#include "emulation/nic/hook/got_slot.hpp"
#include "emulation/nic/verbs/objects.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// The open devices by the descriptors of their files.
struct Registry {
  std::mutex mutex;
  std::map<int, ContextState*> contexts;
};

Registry& registry() {
  static auto* const kOnly = new Registry;
  return *kOnly;
}

/// Answers a command as write() does. Only the one that makes a completion channel is known.
ssize_t answer(ContextState& context, const void* command, std::size_t size) {
  ib_uverbs_cmd_hdr header{};
  ib_uverbs_create_comp_channel request{};
  if (size < sizeof header + sizeof request) {
    errno = EOPNOTSUPP;
    return -1;
  }
  std::memcpy(&header, command, sizeof header);
  if (header.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) {
    errno = EOPNOTSUPP;
    return -1;
  }
  std::memcpy(&request, static_cast<const std::byte*>(command) + sizeof header, sizeof request);
  const int fd = context.create_channel();
  if (fd < 0) return -1;
  const ib_uverbs_create_comp_channel_resp response{static_cast<__u32>(fd)};
  std::memcpy(reinterpret_cast<void*>(request.response), &response, sizeof response);
  return static_cast<ssize_t>(size);
}

ssize_t write_for_libibverbs(int fd, const void* data, std::size_t size) {
  {
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    if (const auto found = all.contexts.find(fd); found != all.contexts.end()) {
      return answer(*found->second, data, size);
    }
  }
  return ::write(fd, data, size);
}

}  // namespace

bool install_command_hook() {
  // The libibverbs to redirect is the object that has the plugin's registration function: that copy
  // calls the plugin.
  static const bool kInstalled =
      replace_import(reinterpret_cast<const void*>(abi::libibverbs().register_driver), "write",
                     reinterpret_cast<void*>(&write_for_libibverbs));
  return kInstalled;
}

void register_command_fd(int fd, ContextState* context) {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  all.contexts[fd] = context;
}

void unregister_command_fd(int fd) {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  all.contexts.erase(fd);
}

std::size_t count_channels() {
  Registry& all = registry();
  const std::lock_guard guard(all.mutex);
  std::size_t count = 0;
  for (const auto& [fd, context] : all.contexts) count += context->count_channels();
  return count;
}

}  // namespace hbmwire::emulation::nic
