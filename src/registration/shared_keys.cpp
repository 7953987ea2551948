// SPDX-License-Identifier: MIT
#include "registration/shared_keys.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "hbmwire/deadline.hpp"

#include "base/guarded.hpp"
#include "base/incarnation.hpp"

namespace hbmwire::detail {

namespace {

using namespace std::chrono_literals;

/// Maps the file, which is full of zeros.
template <class File>
Result<File*> map(const SharedFile& file) {
  void* const memory =
      ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (memory == MAP_FAILED)
    return tl::make_unexpected(system_error(Stage::allocate, "mmap", errno, "shared keys"));
  return static_cast<File*>(memory);
}

}  // namespace

bool process_has_ended(std::uint32_t process) noexcept {
  const Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0)));
  if (!handle) return errno == ESRCH || errno == EINVAL;  // EINVAL: no process has such a number
  pollfd end{handle.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

Result<std::unique_ptr<SharedKeys>> SharedKeys::create() {
  std::unique_ptr<SharedKeys> made(new SharedKeys);
  made->states_.resize(kSharedKeys);
  made->tokens_.resize(kSharedKeys);
  HBMWIRE_TRY_ASSIGN(made->holds_file_, SharedFile::create(sizeof(SharedHoldFile)));
  HBMWIRE_TRY_ASSIGN(made->holds_, map<SharedHoldFile>(made->holds_file_));
  HBMWIRE_TRY_ASSIGN(made->keys_file_, SharedFile::create(sizeof(SharedKeyFile),
                                                          {.flags = 0,
                                                           .mark = shared_keys_mark(incarnation()),
                                                           .to_be_read_only = true}));
  HBMWIRE_TRY_ASSIGN(made->keys_, map<SharedKeyFile>(made->keys_file_));
  // The existing mapping stays writable.
  HBMWIRE_TRY(made->keys_file_.let_others_read_alone());
  made->keys_->address = reinterpret_cast<std::uint64_t>(&made->incarnation_);
  made->keys_->holds = made->holds_file_.name;
  made->keys_->magic = kSharedKeysMagic;
  return made;
}

SharedKeys::~SharedKeys() {
  if (keys_ != nullptr) ::munmap(keys_, sizeof *keys_);
  if (holds_ != nullptr) ::munmap(holds_, sizeof *holds_);
}

void SharedKeys::publish(SharedKeyEntry& entry, std::uint64_t token,
                         const ExportedMemory& memory) noexcept {
  MemoryDomain& domain = memory.allocation.domain();
  const auto handle = domain.is_shareable() ? domain.ipc_handle(memory.address, memory.length_bytes)
                                            : tl::make_unexpected(Error{});
  constexpr auto kRelaxed = std::memory_order_relaxed;
  entry.token.store(token, kRelaxed);
  entry.address.store(memory.address, kRelaxed);
  entry.length_bytes.store(memory.length_bytes, kRelaxed);
  entry.access.store(static_cast<std::uint32_t>(memory.access), kRelaxed);
  entry.is_shared.store(handle ? 1 : 0, kRelaxed);
  entry.set_handle(handle.value_or(IpcHandle{}));
}

std::uint64_t SharedKeys::token_for(std::uint64_t random) noexcept {
  // The low bits of a token are the place at which add() begins to look.
  static_assert(std::has_single_bit(kSharedKeys));
  const std::scoped_lock lock(mutex_);
  while (first_free_ < kSharedKeys && states_[first_free_] % 2 != 0) ++first_free_;
  return first_free_ == kSharedKeys ? random
                                    : (random & ~std::uint64_t{kSharedKeys - 1}) | first_free_;
}

std::uint32_t SharedKeys::add(std::uint64_t token, const ExportedMemory& memory) {
  if (memory.allocation.domain().device().type != MemoryType::host) return 0;
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t i = 0; i < kSharedKeyPlaces; ++i) {
    const auto place = static_cast<std::uint32_t>((token + i) % kSharedKeys);
    if (is_taken(place)) continue;
    SharedKeyEntry& entry = keys_->keys[place];
    publish(entry, token, memory);
    tokens_[place] = token;
    entry.state.store(++states_[place], std::memory_order_release);
    return place + 1;
  }
  return 0;
}

const SharedHold* SharedKeys::take_hold(std::uint64_t owner, std::uint32_t endpoint) noexcept {
  const std::uint32_t used = std::min(holds_->used.load(), kSharedHolds);
  for (std::uint32_t i = 0; i < used; ++i) {
    SharedHold& hold = holds_->holds[i];
    std::uint32_t told = SharedHold::kTold;
    if (hold.owner.load() == owner && hold.endpoint.load(std::memory_order_relaxed) == endpoint &&
        hold.told.compare_exchange_strong(told, SharedHold::kTaken))
      return &hold;
  }
  return nullptr;
}

/// Whether a living process holds the key.
bool SharedKeys::is_held(std::uint32_t number) const noexcept {
  const std::uint32_t used = std::min(holds_->used.load(), kSharedHolds);
  for (std::uint32_t i = 0; i < used; ++i) {
    const SharedHold& hold = holds_->holds[i];
    if (hold.key.load() == number && !process_has_ended(hold.process())) return true;
  }
  return false;
}

void SharedKeys::look() {
  if (!keeps_.load(std::memory_order_relaxed)) return;
  std::vector<Kept> last;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  last.reserve(kept_.size());
  std::erase_if(kept_, [&](Kept& kept) {
    const bool is_free = !kept.is_awaited && !is_held(kept.number);
    if (is_free) last.push_back(std::move(kept));
    return is_free;
  });
  keeps_ = !kept_.empty();
}

bool SharedKeys::is_taken(std::uint32_t place) const noexcept {
  if (states_[place] % 2 != 0) return true;
  return std::ranges::any_of(kept_, [&](const Kept& kept) {
    return kept.number == place + 1 && (kept.is_awaited || is_held(kept.number));
  });
}

/// Marks the key as ended. Each waiting remove() has an entry in kept_, so that no new key takes
/// the place before it has looked. Returns false if there is nothing to wait for: an earlier
/// remove() gave up, and the place has another key since.
bool SharedKeys::close(std::uint32_t number, std::uint64_t token,
                       std::optional<ExportedMemory> memory) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t& state = states_[number - 1];
  if (tokens_[number - 1] != token) return false;
  if (state % 2 == 0) {
    // Two threads end the key. This one has the memory, but came second.
    const auto kept = std::ranges::find(kept_, token, &Kept::token);
    if (memory && kept != kept_.end() && !kept->memory) kept->memory = std::move(memory);
    return true;
  }
  kept_.push_back({number, token, std::move(memory), /*is_awaited=*/true});
  keeps_ = true;
  first_free_ = std::min(first_free_, number - 1);
  // Pairs with Neighbour's hold: either Neighbour sees that the key has ended, or this sees the
  // hold.
  keys_->keys[number - 1].state.store(++state);
  return true;
}

Result<void> SharedKeys::remove(std::uint32_t number, std::uint64_t token,
                                std::optional<ExportedMemory> memory,
                                std::chrono::nanoseconds patience) {
  if (!close(number, token, std::move(memory))) return {};
  constexpr auto kShort = 20us;
  constexpr auto kLong = 1000us;
  const auto until = Deadline::later(std::chrono::steady_clock::now(), patience);
  auto pause = kShort;
  bool held = is_held(number);
  while (held && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLong);
    held = is_held(number);
  }
  std::vector<Kept> last;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  const auto kept = std::ranges::find(kept_, token, &Kept::token);
  if (kept == kept_.end()) return {};  // another thread that ended the key was faster
  if (held) {
    kept->is_awaited = false;
    return tl::make_unexpected(make_error(
        Errc::timed_out, Stage::register_memory,
        "a process of this node uses the memory and has stopped: the memory is kept meanwhile", {},
        Hint::peer_unsettled));
  }
  last.push_back(std::move(*kept));
  kept_.erase(kept);
  return {};
}

}  // namespace hbmwire::detail
