// SPDX-License-Identifier: MIT
#include "registration/exports.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guarded.hpp"
#include "base/log.hpp"
#include "base/one_of_process.hpp"
#include "base/random.hpp"
#include "registration/shared_keys.hpp"

namespace hbmwire::detail {

/// One hold, shared by its holder and a thread that ends the key.
struct ExportUse {
  Result<bool> poll() {
    if (error) return tl::make_unexpected(*error);
    auto done = copy.poll();
    if (!done) error = done.error();
    return done;
  }

  /// Waits until the engine has ended the copy; keeps an error for the holder. Returns false if the
  /// CPU is using the memory, so there is no copy to wait for.
  bool finish() {
    const std::scoped_lock lock(mutex);
    if (!watches) return false;
    // Waits as long as the copy takes, because the memory must not go before. wait() needs some
    // deadline, so it is called again each hour. -1: nothing cancels it.
    Result<void> waited;
    do {
      waited = copy.wait({Deadline::after(std::chrono::hours(1)), -1});
    } while (!waited && waited.error().code == Errc::timed_out);
    if (!waited) error = waited.error();
    return true;
  }

  std::mutex mutex;  // guards the members below; taken after the entry's mutex
  PendingCopy copy;
  bool watches = false;
  std::optional<Error> error;
};

/// One exported piece of memory, and the holds on it. The Export, its holds and the table of
/// exports share it.
struct ExportEntry {
  explicit ExportEntry(ExportedMemory exported) : memory(std::move(exported)) {}

  /// Waits for the engines that use the memory. Returns false if a CPU uses it, too.
  bool finish_copies() {
    bool all = true;
    for (ExportUse* const use : uses) all &= use->finish();
    return all;
  }

  MadeHere made;
  std::mutex mutex;                 // guards the members below
  std::condition_variable changed;  // a use has ended, or watches a copy
  std::vector<ExportUse*> uses;
  bool ended = false;
  std::uint32_t shared = 0;              // number from SharedKeys::add(); 0: none
  std::optional<ExportedMemory> memory;  // set until the key has ended
};

namespace {

/// All exports of this process. A child by fork(2) has none of its parent's exports, because it
/// must not grant access to the parent's memory.
class Exports {
 public:
  std::uint64_t add(const std::shared_ptr<ExportEntry>& entry) {
    const std::scoped_lock lock(mutex_);
    std::uint64_t token = new_token();
    while (token == 0 || !entries_.emplace(token, entry).second) token = new_token();
    if (shared_) share(token, *entry);
    return token;
  }

  [[nodiscard]] SharedKeys* shared() {
    const std::scoped_lock lock(mutex_);
    return shared_.get();
  }

  Result<SharedFileName> share_all(std::chrono::nanoseconds patience) {
    const std::scoped_lock lock(mutex_);
    patience_ = std::max(patience_, patience);
    if (!shared_) {
      HBMWIRE_TRY_ASSIGN(shared_, SharedKeys::create());
      for (const auto& [token, entry] : entries_) share(token, *entry);
    }
    return shared_->name();
  }

  /// Ends what share() has announced to other processes.
  Result<void> unshare(std::uint32_t number, std::uint64_t token,
                       std::optional<ExportedMemory> memory, bool waits) {
    std::unique_lock lock(mutex_);
    const std::chrono::nanoseconds patience = waits ? patience_ : std::chrono::nanoseconds(0);
    SharedKeys& shared = *shared_;  // lives as long as the process
    lock.unlock();
    return shared.remove(number, token, std::move(memory), patience);
  }

  void remove(std::uint64_t token) noexcept {
    const std::scoped_lock lock(mutex_);
    entries_.erase(token);
  }

  [[nodiscard]] std::shared_ptr<ExportEntry> find(std::uint64_t token) {
    const std::scoped_lock lock(mutex_);
    const auto entry = entries_.find(token);
    return entry == entries_.end() ? nullptr : entry->second;
  }

 private:
  [[nodiscard]] std::uint64_t new_token() {
    return shared_ ? shared_->token_for(random_number()) : random_number();
  }

  void share(std::uint64_t token, ExportEntry& entry) {
    const std::scoped_lock lock(entry.mutex);
    if (!entry.ended) entry.shared = shared_->add(token, *entry.memory);
  }

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ExportEntry>> entries_;
  std::unique_ptr<SharedKeys> shared_;   // made when the first endpoint may need it
  std::chrono::nanoseconds patience_{};  // the longest that share_all() was given
};

constinit OneOfProcess<Exports> exports_of_process;

tl::unexpected<Error> refuse(Errc code, const char* why, Hint hint = Hint::none) {
  return tl::make_unexpected(make_error(code, Stage::post, why, {}, hint));
}

tl::unexpected<Error> refuse_ended() {
  return refuse(Errc::permission_denied, "the key was revoked, has expired or was given up",
                Hint::memory_key_expired);
}

std::shared_ptr<ExportEntry> find_export(std::uint64_t token) noexcept {
  Exports* const exports = exports_of_process.existing();
  return exports == nullptr ? nullptr : exports->find(token);
}

bool has_expired(const ExportedMemory& memory) noexcept {
  return memory.expires && *memory.expires <= ExportedMemory::Clock::now();
}

void end_or_log(Export& exported) noexcept {
  if (const auto ended = exported.end(); !ended)
    log_line(LogLevel::error, [&] { return describe(ended.error()); });
}

}  // namespace

Export::Export(ExportedMemory memory) : entry_(std::make_shared<ExportEntry>(std::move(memory))) {
  token_ = exports_of_process.get().add(entry_);
}

Export& Export::operator=(Export&& other) noexcept {
  if (this == &other) return *this;
  end_or_log(*this);
  token_ = std::exchange(other.token_, 0);
  entry_ = std::move(other.entry_);
  return *this;
}

Export::~Export() { end_or_log(*this); }

SharedKeys* shared_exports() noexcept {
  Exports* const exports = exports_of_process.existing();
  return exports == nullptr ? nullptr : exports->shared();
}

Result<SharedFileName> share_exports(std::chrono::nanoseconds patience) {
  return guarded(Stage::allocate, [&] { return exports_of_process.get().share_all(patience); });
}

std::shared_ptr<MemoryDomain> Export::domain_of(std::uint64_t token) {
  const auto entry = find_export(token);
  if (!entry) return nullptr;
  const std::scoped_lock lock(entry->mutex);
  if (entry->ended || has_expired(*entry->memory)) return nullptr;
  return entry->memory->allocation.domain().shared_from_this();
}

std::uint32_t Export::shared() const noexcept {
  if (!entry_) return 0;
  const std::scoped_lock lock(entry_->mutex);
  return entry_->shared;
}

Result<void> Export::end(bool waits) noexcept {
  if (!entry_ || entry_->made.is_inherited()) return {};
  Exports& exports = *exports_of_process.existing();
  exports.remove(token_);
  std::optional<ExportedMemory> last;  // destroyed without the lock
  std::unique_lock lock(entry_->mutex);
  entry_->ended = true;
  // Waits for the engines in this thread. The holder cannot be left to poll, because its thread may
  // be this one.
  entry_->changed.wait(lock, [&] { return entry_->finish_copies(); });
  entry_->memory.swap(last);
  const std::uint32_t shared = entry_->shared;
  lock.unlock();
  if (shared == 0) return {};
  HBMWIRE_TRY(guarded(Stage::register_memory,
                      [&] { return exports.unshare(shared, token_, std::move(last), waits); }));
  lock.lock();
  entry_->shared = 0;
  return {};
}

ExportHold::ExportHold(std::shared_ptr<ExportEntry> entry, std::unique_ptr<ExportUse> use) noexcept
    : entry_(std::move(entry)), use_(std::move(use)) {}

ExportHold::ExportHold(ExportHold&&) noexcept = default;

ExportHold::~ExportHold() {
  if (!entry_ || entry_->made.is_inherited()) return;
  {
    const std::scoped_lock lock(use_->mutex);
    use_->copy = PendingCopy();
  }
  const std::scoped_lock lock(entry_->mutex);
  std::erase(entry_->uses, use_.get());
  entry_->changed.notify_all();
}

Result<ExportHold> ExportHold::take(std::uint64_t token, Access needed, std::uint64_t address,
                                    std::uint64_t length_bytes) {
  return guarded(Stage::post, [&]() -> Result<ExportHold> {
    const auto entry = find_export(token);
    if (!entry) return refuse_ended();
    auto use = std::make_unique<ExportUse>();
    const std::scoped_lock lock(entry->mutex);
    if (entry->ended || has_expired(*entry->memory)) return refuse_ended();
    const ExportedMemory& memory = *entry->memory;
    if (!has(memory.access, needed)) {
      return refuse(Errc::permission_denied, "the key does not give this access",
                    Hint::memory_key_access);
    }
    const std::uint64_t offset = address - memory.address;
    if (address < memory.address || offset > memory.length_bytes ||
        length_bytes > memory.length_bytes - offset) {
      return refuse(Errc::invalid_argument, "the range leaves the key's");
    }
    entry->uses.push_back(use.get());
    return ExportHold(entry, std::move(use));
  });
}

const ExportedMemory& ExportHold::memory() const noexcept { return *entry_->memory; }

void ExportHold::watch(PendingCopy copy) noexcept {
  const std::scoped_lock lock(entry_->mutex);
  const std::scoped_lock of_use(use_->mutex);
  use_->copy = std::move(copy);
  use_->watches = true;
  entry_->changed.notify_all();
}

Result<bool> ExportHold::poll() {
  const std::unique_lock lock(use_->mutex, std::try_to_lock);
  if (!lock) return false;  // another thread ends the key and waits for the engine
  return use_->poll();
}

}  // namespace hbmwire::detail
