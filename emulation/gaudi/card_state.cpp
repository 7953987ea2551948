// SPDX-License-Identifier: MIT
#include "emulation/gaudi/card_state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::uint64_t kMagic = 0x0001'5441'5453'4d48;  // "HMSTAT", version 1

int initialise_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  if (const int error = pthread_mutexattr_init(&attributes); error != 0) return error;
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return error;
}

// Maps the state with the file's flock held, because two processes may be the first at once. The
// mutex is initialised only once, because an earlier process may still have the file mapped.
StateContent* map_and_prepare(int fd) {
  struct stat status {};

  if (::fstat(fd, &status) != 0) return nullptr;
  if (status.st_size < static_cast<off_t>(sizeof(StateContent)) &&
      ::ftruncate(fd, static_cast<off_t>(sizeof(StateContent))) != 0) {
    return nullptr;
  }
  void* address = ::mmap(nullptr, sizeof(StateContent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return nullptr;
  auto* content = static_cast<StateContent*>(address);
  if (content->magic == kMagic) return content;
  if (const int error = initialise_mutex(content->mutex); error != 0) {
    ::munmap(address, sizeof(StateContent));
    errno = error;
    return nullptr;
  }
  content->magic = kMagic;
  return content;
}

}  // namespace

std::unique_ptr<CardState> CardState::attach(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  StateContent* content = result == 0 ? map_and_prepare(fd) : nullptr;
  const int error = errno;
  ::flock(fd, LOCK_UN);  // close() does not unlock it, because the mapping keeps the file open
  ::close(fd);
  errno = error;
  if (content == nullptr) return nullptr;
  return std::unique_ptr<CardState>(new CardState(content));
}

CardState::~CardState() { ::munmap(content_, sizeof(StateContent)); }

StateLock::StateLock(CardState& state) : content_(state.content()) {
  if (pthread_mutex_lock(&content_.mutex) == EOWNERDEAD) pthread_mutex_consistent(&content_.mutex);
}

StateLock::~StateLock() { pthread_mutex_unlock(&content_.mutex); }

void clear_content(StateContent& content) {
  for (auto& slot : content.exports) give_back(slot);
  for (auto& slot : content.mappings) give_back(slot);
  for (auto& slot : content.allocations) give_back(slot);
  content.unmanaged_bytes = 0;
}

}  // namespace hbmwire::emulation::gaudi
