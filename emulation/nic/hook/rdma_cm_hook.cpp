// SPDX-License-Identifier: MIT
#include "emulation/nic/hook/rdma_cm_hook.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <mutex>

#include "emulation/common/world.hpp"
#include "emulation/nic/abi/libibverbs.hpp"
#include "emulation/nic/hook/got_slot.hpp"
#include "emulation/nic/rdma_cm/commands.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/state/inode.hpp"
#include "emulation/nic/state/planned_faults.hpp"

namespace hbmwire::emulation::nic {
namespace {

constexpr const char* kDevice = "/dev/infiniband/rdma_cm";

struct OpenChannel {
  Cm* cm = nullptr;
  std::uint32_t channel = 0;
  std::uint64_t inode = 0;  // of its FIFO; differs if the application closed it
};

struct Channels {
  std::mutex mutex;
  std::map<int, OpenChannel> channels;
  std::size_t looked_through = 0;  // the number of channels at the last look at all of them
};

Channels& channels_of_process() {
  static auto* const kOnly = new Channels;
  return *kOnly;
}

void end_channel(const OpenChannel& open) {
  // In a forked child the ids belong to the parent.
  if (open.cm->process.abandoned()) return;
  Process& process = open.cm->process;
  const auto end = [&process, channel = open.channel] {
    const CmLock lock(process);
    if (lock.held()) destroy_channel(process, channel);
    return lock.held();
  };
  if (!end()) process.owe(end);
}

/// Returns null if `fd` is not an event channel, or not any more. The lock of `all` is held.
const OpenChannel* find_locked(Channels& all, int fd) {
  const auto found = all.channels.find(fd);
  if (found == all.channels.end()) return nullptr;
  if (inode_of(fd) == found->second.inode) return &found->second;
  end_channel(found->second);
  all.channels.erase(found);
  return nullptr;
}

/// Ends channels that were closed directly. A look costs a system call for each channel, so with
/// many channels it waits until their number has doubled.
void drop_closed_locked(Channels& all) {
  constexpr std::size_t kFew = 64;
  if (all.channels.size() > kFew && all.channels.size() < 2 * all.looked_through) return;
  all.looked_through = all.channels.size();
  for (auto at = all.channels.begin(); at != all.channels.end();) {
    const int fd = at->first;
    ++at;
    find_locked(all, fd);
  }
}

/// Returns -1 with errno on failure.
int open_channel() {
  Channels& all = channels_of_process();
  const std::lock_guard guard(all.mutex);
  Cm* const cm = Cm::join();
  if (cm == nullptr) return -1;
  if (const int planned = planned_faults(cm->process, "rdma_create_event_channel").error_number;
      planned != 0) {
    errno = planned;
    return -1;
  }
  drop_closed_locked(all);
  const std::uint64_t fifo = cm->process.new_id();
  const int fd = cm->process.fifos().create(cm->process.slot(), fifo);
  if (fd < 0) return -1;
  CmTables& tables = cm->tables();
  std::uint32_t channel = 0;
  int error = ENOMEM;
  {
    const CmLock lock(cm->process);
    if (!lock.held()) error = EAGAIN;
    if (lock.held()) channel = tables.channel_use.claim();
    // Claimed, with neither events nor ids.
    if (channel != 0) tables.channels[channel] = {1, cm->process.slot(), fifo, 0, 0, 0, 0};
  }
  if (channel == 0) {
    cm->process.fifos().remove(cm->process.slot(), fifo);
    ::close(fd);
    errno = error;
    return -1;
  }
  find_locked(all, fd);  // ends a channel that was closed directly and had the same descriptor
  all.channels[fd] = {cm, channel, inode_of(fd)};
  return fd;
}

ChannelFile find_channel(int fd) {
  Channels& all = channels_of_process();
  const std::lock_guard guard(all.mutex);
  const OpenChannel* const open = find_locked(all, fd);
  if (open != nullptr) return {open->channel, fd};
  return {0, ::fcntl(fd, F_GETFD) < 0 ? -1 : fd};
}

int open_for_librdmacm(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode =
      static_cast<mode_t>((flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, unsigned) : 0U);
  va_end(arguments);
  if (std::strcmp(path, kDevice) != 0 || !World::from_environment()) {
    return ::open(path, flags, mode);
  }
  return open_channel();
}

int fstat_for_librdmacm(int fd, struct stat* status) {
  const int result = ::fstat(fd, status);
  if (result != 0 || find_channel(fd).channel == 0) return result;
  // librdmacm checks that the file is a character device. These are the numbers of /dev/null.
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = makedev(1, 3);
  return 0;
}

/// The fstat() of objects that were linked with a C library before 2.33.
int old_fstat_for_librdmacm(int /*version*/, int fd, struct stat* status) {
  return fstat_for_librdmacm(fd, status);
}

ssize_t write_for_librdmacm(int fd, const void* data, std::size_t size) {
  OpenChannel open;
  {
    Channels& all = channels_of_process();
    const std::lock_guard guard(all.mutex);
    if (const OpenChannel* const found = find_locked(all, fd)) open = *found;
  }
  if (open.channel == 0) return ::write(fd, data, size);
  if (open.cm->process.abandoned()) {
    errno = EIO;
    return -1;
  }
  const ssize_t result = execute_command(*open.cm, {open.channel, fd}, data, size, find_channel);
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

int close_for_librdmacm(int fd) {
  {
    Channels& all = channels_of_process();
    const std::lock_guard guard(all.mutex);
    if (const OpenChannel* const found = find_locked(all, fd)) {
      end_channel(*found);
      all.channels.erase(fd);
    }
  }
  return ::close(fd);
}

void redirect_librdmacm() {
  for (const void* inside : find_exporters("rdma_create_event_channel")) {
    for (const char* name : {"open", "open64"}) {
      replace_import(inside, name, reinterpret_cast<void*>(&open_for_librdmacm));
    }
    for (const char* name : {"fstat", "fstat64"}) {
      replace_import(inside, name, reinterpret_cast<void*>(&fstat_for_librdmacm));
    }
    for (const char* name : {"__fxstat", "__fxstat64"}) {
      replace_import(inside, name, reinterpret_cast<void*>(&old_fstat_for_librdmacm));
    }
    replace_import(inside, "write", reinterpret_cast<void*>(&write_for_librdmacm));
    replace_import(inside, "close", reinterpret_cast<void*>(&close_for_librdmacm));
  }
}

DIR* opendir_for_libibverbs(const char* path) {
  redirect_librdmacm();
  return ::opendir(path);
}

void before_fork() { channels_of_process().mutex.lock(); }

void after_fork() { channels_of_process().mutex.unlock(); }

}  // namespace

void install_rdma_cm_hook() {
  replace_import(reinterpret_cast<const void*>(abi::libibverbs().register_driver), "opendir",
                 reinterpret_cast<void*>(&opendir_for_libibverbs));
  redirect_librdmacm();
  // fork(2) runs its handlers in the reverse order of registration. So it takes the channels' lock
  // before the lock of Process::join(), as open_channel() does.
  Process::watch_forks();
  ::pthread_atfork(before_fork, after_fork, after_fork);
}

}  // namespace hbmwire::emulation::nic
