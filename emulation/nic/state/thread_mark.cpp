// SPDX-License-Identifier: MIT
#include "emulation/nic/state/thread_mark.hpp"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulation/common/lock_word.hpp"

namespace hbmwire::emulation::nic {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

pthread_key_t key_with(void (*destructor)(void*)) noexcept {
  pthread_key_t key{};
  pthread_key_create(&key, destructor);
  return key;
}

}  // namespace

// GCC ignores the TLS model of the declaration in the file with the definition.
[[gnu::tls_model("initial-exec")]] constinit thread_local OwnMark::Own OwnMark::own_;

ThreadMarks::Table* ThreadMarks::tables_ = nullptr;
std::uint32_t ThreadMarks::own_ = 0;
const std::byte* ThreadMarks::base_ = nullptr;
std::atomic<std::uint32_t>* ThreadMarks::end_ = nullptr;
std::atomic<std::uint64_t>* ThreadMarks::next_id_ = nullptr;

void fence_all_threads() noexcept { membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

bool ThreadMarks::are_possible() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
}

void ThreadMarks::find(Table* tables, const std::byte* base) noexcept {
  tables_ = tables;
  base_ = base;
}

bool ThreadMarks::attach(std::uint32_t own, std::atomic<std::uint32_t>& end,
                         std::atomic<std::uint64_t>& next_id) noexcept {
  if (membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0) return false;
  own_ = own;
  // Clears the marks of a dead process. `token` is cleared first: a thread that waits for the owner
  // of a mark sees by it that the owner is gone.
  for (ThreadMark& mark : tables_[own]) {
    mark.token.store(0);
    mark.working.store(0);
    for (auto& inside : mark.inside) inside.store(0);
    mark.thread.store(0);
  }
  end.store(0);
  end_ = &end;
  next_id_ = &next_id;
  static const int kRegistered = pthread_atfork(nullptr, nullptr, OwnMark::forget);
  static_cast<void>(kRegistered);
  return true;
}

void ThreadMarks::detach() noexcept { next_id_ = nullptr; }

void OwnMark::forget() noexcept { own_ = {}; }

ThreadMark* OwnMark::claim() noexcept {
  if (ThreadMarks::next_id_ == nullptr) return nullptr;
  own_.token = kNone;
  static const pthread_key_t kKey = key_with(release);
  ThreadMarks::Table& table = ThreadMarks::tables_[ThreadMarks::own_];
  const std::uint64_t thread = LockWord::this_thread();
  for (std::uint32_t at = 0; at < table.size(); ++at) {
    std::uint64_t free = 0;
    if (!table[at].thread.compare_exchange_strong(free, thread)) continue;
    // The thread does no work yet: wait_for_activity() looks only at marks below the end.
    std::uint32_t end = ThreadMarks::end_->load();
    while (end <= at && !ThreadMarks::end_->compare_exchange_weak(end, at + 1)) {
    }
    const std::uint64_t id = ThreadMarks::next_id_->fetch_add(1) + 1;
    own_.token = id * ThreadMarks::kTokenUnit + ThreadMarks::own_ * table.size() + at;
    own_.mark = &table[at];
    // Makes the number even ("in no Activity"): the mark's last owner may have ended inside one.
    own_.mark->working.store(own_.mark->working.load() + own_.mark->working.load() % 2);
    own_.mark->token.store(own_.token);
    pthread_setspecific(kKey, own_.mark);
    break;
  }
  return own_.mark;
}

/// Called when the thread ends.
void OwnMark::release(void* claimed) noexcept {
  auto* const mark = static_cast<ThreadMark*>(claimed);
  if (mark != own_.mark) return;  // in a forked child the mark is the parent's
  mark->token.store(0);
  mark->thread.store(0);
  forget();
}

}  // namespace hbmwire::emulation::nic
