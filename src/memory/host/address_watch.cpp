// SPDX-License-Identifier: MIT
#include "memory/host/address_watch.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/forks.hpp"
#include "base/guarded.hpp"
#include "memory/host/counted_ranges.hpp"
#include "memory/host/event_reader.hpp"
#include "memory/host/quiet_thread.hpp"
#include "memory/host/subscribers.hpp"

namespace hbmwire::memory::host {

namespace {

// The time from the event of a madvise(2) to the last page that it discards: a wake-up and the walk
// through the pages, microseconds to milliseconds. This is a thousand times as much, because the
// thread may have to wait for a CPU. Its cost: for a second, discarded pages are registered anew at
// each use.
constexpr std::chrono::nanoseconds kDiscarding = std::chrono::seconds(1);

// Changes within this time are swept together.
constexpr std::chrono::milliseconds kSweepPause{1};

std::uint64_t normal_page_bytes() noexcept {
  static const auto kBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

// The sizes of huge pages of x86-64 and arm64. The kernel watches such memory only by whole huge
// pages, and no call tells the page size of a mapping.
constexpr std::array<std::uint64_t, 4> kHugePageBytes{
    std::uint64_t{1} << 16U, std::uint64_t{1} << 21U, std::uint64_t{1} << 25U,
    std::uint64_t{1} << 30U};

/// Whether the pages have no hole. MS_ASYNC does nothing except to look at all mappings.
bool all_mapped(AddressRange pages) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel is asked about an address.
  return ::msync(reinterpret_cast<void*>(pages.begin), pages.end - pages.begin, MS_ASYNC) == 0;
}

Error refusal(int error_number) noexcept {
  Error error = system_error(Stage::register_memory, "ioctl(UFFDIO_REGISTER)", error_number, {},
                             Hint::memory_not_watched);
  // EINVAL: this kind of memory cannot be watched. EPERM: shared memory that this process may not
  // write.
  if (error_number == EINVAL || error_number == EPERM) error.code = Errc::not_supported;
  return error;
}

Error not_watching() noexcept {
  return make_error(Errc::not_supported, Stage::register_memory,
                    "the userfaultfd is the parent's, or was closed");
}

}  // namespace

/// The state that the AddressWatch shares with its sweeper.
struct AddressWatch::Impl {
  explicit Impl(std::atomic<std::uint64_t>& changed) noexcept : reader(changed) {}

  [[nodiscard]] bool is_ours() const noexcept { return process == forks(); }

  Result<void> watch(AddressRange range);
  int watch_pages(AddressRange range, AddressRange& pages) const noexcept;
  std::optional<AddressRange> forget_huge(AddressRange range) noexcept;
  void unwatch_uncounted(AddressRange pages);
  void leave_moved();
  static void* sweep(void* impl);
  void stop() noexcept;

  const unsigned process = forks();
  EventReader reader;
  QuietThread sweeper;
  // The number of the reader's changes that were swept. Used by the sweeper, and then by stop().
  std::uint64_t swept = 0;
  std::atomic<bool> stopping{false};
  std::shared_ptr<Subscribers> subscribers = std::make_shared<Subscribers>();
  std::shared_ptr<const void> inherited_before;  // see Place

  // Held during the system calls that watch and unwatch, so that counts and kernel agree. The
  // reader never takes it.
  std::mutex mutex;
  CountedRanges counts;
  // The ranges of huge pages that are watched, each by the range that was requested.
  std::multimap<std::pair<std::uint64_t, std::uint64_t>, AddressRange> huge;
};

namespace {

// One object for the whole process, because a mapping can belong to only one userfaultfd: two
// caches that registered the same memory would take it from each other. Its first user makes it,
// and it ends with its last user. This Place itself is never destroyed, because others may ask for
// it while a program exits.
struct Place {
  std::mutex creating;
  // Held only to copy the members below, and during fork(2), so that the child finds them whole.
  std::mutex pointers;
  std::weak_ptr<AddressWatch> watch;
  // The objects that children by fork(2) have inherited. They can never be destroyed, because
  // threads of the parent may have held their locks.
  std::shared_ptr<const void> inherited;
};

Place& place() {
  static Place& only = *new Place;
  return only;
}

[[maybe_unused]] const bool kForksHandled =
    (place(), ::pthread_atfork([] { place().pointers.lock(); }, [] { place().pointers.unlock(); },
                               [] {
                                 place().pointers.unlock();
                                 // Another thread may have held it during the fork(2).
                                 new (&place().creating) std::mutex;
                               })) == 0;

std::shared_ptr<AddressWatch> existing() {
  const std::lock_guard lock(place().pointers);
  return place().watch.lock();
}

}  // namespace

Result<std::shared_ptr<AddressWatch>> AddressWatch::get() {
  const std::lock_guard creating(place().creating);
  if (auto watch = existing(); watch && watch->impl_->is_ours()) return watch;
  auto watch = std::make_shared<AddressWatch>();
  HBMWIRE_TRY(watch->start());
  std::weak_ptr<AddressWatch> pointer = watch;
  const std::lock_guard lock(place().pointers);
  place().watch.swap(pointer);
  return watch;
}

AddressWatch::AddressWatch() : impl_(std::make_shared<Impl>(changed_)) {}

AddressWatch::~AddressWatch() {
  if (impl_->is_ours()) {
    impl_->stop();
    return;
  }
  const std::lock_guard lock(place().pointers);
  impl_->inherited_before = std::move(place().inherited);
  place().inherited = std::move(impl_);
}

Result<void> AddressWatch::start() {
  HBMWIRE_TRY(impl_->reader.start());
  auto argument = std::make_unique<std::shared_ptr<Impl>>(impl_);
  HBMWIRE_TRY(impl_->sweeper.start(&Impl::sweep, argument.get()));
  (void)argument.release();  // now owned by the thread
  return {};
}

void AddressWatch::Impl::stop() noexcept {
  stopping.store(true);
  reader.wake();
  if (sweeper.is_this())
    sweeper.detach();  // it keeps Impl alive, and checks `stopping` when its call returns
  else if (sweeper.runs())
    sweeper.join();
  leave_moved();
  {
    // Closing ends all watching, unless a child by a bare clone(2) still has the descriptor.
    const std::lock_guard lock(mutex);
    counts.find_covered([&](AddressRange pages) { reader.userfaultfd().unwatch(pages); });
  }
  reader.stop();
}

Result<void> AddressWatch::watch(AddressRange range) {
  if (!impl_->is_ours() || impl_->reader.lost()) return tl::make_unexpected(not_watching());
  // Programs have the lower half of all addresses; rounding those up to huge pages cannot wrap.
  if (range.begin >= range.end || range.end > kAllAddresses.end / 2)
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                          "such a range of addresses can't be watched"));
  return impl_->watch(range);
}

Result<void> AddressWatch::Impl::watch(AddressRange range) {
  AddressRange pages;
  const std::lock_guard lock(mutex);
  if (const int error = watch_pages(range, pages); error != 0) {
    if (error == ENOMEM) unwatch_uncounted(pages);  // the kernel may have watched a part
    return tl::make_unexpected(refusal(error));
  }
  or_undo(
      [&] {
        if (pages != whole_pages(range, normal_page_bytes()))
          huge.emplace(std::pair(range.begin, range.end), pages);
        or_undo([&] { counts.add(pages); }, [&] { forget_huge(range); });
      },
      [&] { unwatch_uncounted(pages); });
  return {};
}

/// Returns 0 or an errno, and sets `pages` to what was asked for. Always asks the kernel, even if
/// the range is counted already: the address may belong to another mapping now.
int AddressWatch::Impl::watch_pages(AddressRange range, AddressRange& pages) const noexcept {
  pages = whole_pages(range, normal_page_bytes());
  int error = reader.userfaultfd().watch(pages);
  for (const std::uint64_t page_bytes : kHugePageBytes) {
    if (error != EINVAL) break;
    pages = whole_pages(range, page_bytes);
    error = reader.userfaultfd().watch(pages);
  }
  if (error == 0 && !all_mapped(whole_pages(range, normal_page_bytes()))) return ENOMEM;
  return error;
}

void AddressWatch::Impl::unwatch_uncounted(AddressRange pages) {
  counts.find_uncovered(pages, [&](AddressRange part) { reader.userfaultfd().unwatch(part); });
}

/// The range of huge pages that was watched in place of `range`; no value if there is none.
std::optional<AddressRange> AddressWatch::Impl::forget_huge(AddressRange range) noexcept {
  const auto found = huge.find({range.begin, range.end});
  if (found == huge.end()) return std::nullopt;
  const AddressRange pages = found->second;
  huge.erase(found);
  return pages;
}

void AddressWatch::unwatch(AddressRange range) noexcept {
  if (!impl_->is_ours()) return;
  const std::lock_guard lock(impl_->mutex);
  AddressRange pages = whole_pages(range, normal_page_bytes());
  if (const auto watched = impl_->forget_huge(range)) pages = *watched;
  impl_->counts.remove(pages,
                       [&](AddressRange part) { impl_->reader.userfaultfd().unwatch(part); });
}

AddressWatch::Cursor AddressWatch::now() const noexcept {
  // In this order: an event that comes in between counts as one from before the cursor, which it
  // is.
  const std::uint64_t settled = impl_->reader.queued();
  return {settled, impl_->reader.changes().end()};
}

void AddressWatch::collect(Cursor& cursor, void (*use)(void* context, AddressRange range),
                           void* context) {
  const std::uint64_t settled = changed();
  const EventReader& reader = impl_->reader;
  if (!impl_->is_ours()) return use(context, kAllAddresses);
  reader.wait_until_queued(settled);
  const std::uint64_t end = reader.changes().end();
  for (std::uint64_t index = cursor.next; index != end; ++index) {
    const auto event = reader.changes().at(index);
    use(context, event ? event->range : kAllAddresses);
    if (!event) break;
  }
  cursor = {settled, end};
}

namespace {

std::chrono::nanoseconds discarded_at(const EventReader::Discards::Event& event) noexcept {
  return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(event.detail));
}

}  // namespace

bool AddressWatch::being_discarded(AddressRange range) const noexcept {
  const EventReader& reader = impl_->reader;
  if (!impl_->is_ours() || reader.lost()) return true;
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  for (std::uint64_t index = reader.discards().end(); index != 0; --index) {
    const auto event = reader.discards().at(index - 1);
    if (!event) return true;  // more discards than the ring can hold
    if (discarded_at(*event) + kDiscarding < now) return false;
    if (overlap(event->range, range)) return true;
  }
  return false;
}

bool AddressWatch::unmapping_under_way() const noexcept {
  return !impl_->is_ours() || impl_->reader.lost() ||
         impl_->reader.userfaultfd().change_under_way();
}

AddressWatch::Subscription AddressWatch::subscribe(std::function<void()> changed) {
  return impl_->subscribers->add(std::move(changed));
}

/// Pages that were moved are watched at their new place, although no caller asked for that: stops
/// it.
void AddressWatch::Impl::leave_moved() {
  for (const std::uint64_t end = reader.changes().end(); swept != end; ++swept) {
    const auto event = reader.changes().at(swept);
    if (!event || event->detail == 0) continue;
    const std::lock_guard lock(mutex);
    unwatch_uncounted({event->detail, event->detail + (event->range.end - event->range.begin)});
  }
}

void* AddressWatch::Impl::sweep(void* argument) {
  ::pthread_setname_np(::pthread_self(), "hbmwire-sweep");
  const std::unique_ptr<std::shared_ptr<Impl>> holder(
      static_cast<std::shared_ptr<Impl>*>(argument));
  Impl& impl = **holder;
  for (std::uint32_t seen = 0; !impl.stopping.load();) {
    impl.reader.news().wait(seen, std::memory_order_acquire);
    if (impl.stopping.load()) break;
    std::this_thread::sleep_for(kSweepPause);
    seen = impl.reader.news().load(std::memory_order_acquire);
    impl.leave_moved();
    impl.subscribers->call();
  }
  return nullptr;
}

}  // namespace hbmwire::memory::host
