// SPDX-License-Identifier: MIT
#include "tools/perf/all/local_end.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <utility>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/path.hpp"

#include "tools/common/stopwatch.hpp"

namespace hbmwire::tools::perf::all {
namespace {

// Puts under way to one end: enough to keep a link busy while one of them completes.
constexpr std::size_t kDepth = 8;

/// The paths on which a NIC carries the bytes. All others would measure this node's memory.
PathPolicy by_nic() {
  return {.allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged}};
}

/// The failure with the NIC and the memory that it is about.
Failure about(const FoundEnd& found, const Failure& why) {
  Failure failure = why;
  failure.text =
      fmt::format("{} with {}: {}", found.end.nic,
                  found.end.device.empty() ? found.end.memory : found.end.device, why.text);
  return failure;
}

}  // namespace

LocalEnd::LocalEnd(Context context, Worker worker, Listener listener, Buffer buffer, MemoryKey key,
                   EndLayout layout, Fd stop)
    : context_(std::move(context)),
      layout_(layout),
      worker_(std::move(worker)),
      buffer_(std::move(buffer)),
      key_(std::move(key)),
      staging_(layout.message_bytes),
      listener_(std::move(listener)),
      stop_(std::move(stop)) {}

Outcome<std::unique_ptr<LocalEnd>> LocalEnd::try_open(const FoundEnd& found,
                                                      const EndLayout& layout) {
  ContextOptions wanted;
  wanted.memory = {MemoryType::host};
  if (found.type != MemoryType::host) wanted.memory.push_back(found.type);
  wanted.nics = {found.end.nic};
  wanted.paths = by_nic();
  HBMWIRE_TRY_ASSIGN(Context context, Context::create(wanted));
  // Peers write while this process makes no call.
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context, {.progress_thread = true}));
  MemoryOptions device;
  device.device = found.pci_address;
  constexpr Access kAccess = Access::local_write | Access::remote_write | Access::remote_read;
  HBMWIRE_TRY_ASSIGN(const Region region,
                     context.allocate_region(found.type, layout.total_bytes(), kAccess, device));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(region));
  HBMWIRE_TRY_ASSIGN(MemoryKey key, MemoryKey::pack(region));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker));
  Fd stop{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!stop) return fail(fmt::format("open: eventfd: {}", std::strerror(errno)));
  std::unique_ptr<LocalEnd> end(new LocalEnd(std::move(context), std::move(worker),
                                             std::move(listener), std::move(buffer), std::move(key),
                                             layout, std::move(stop)));
  end->acceptor_ = std::thread([raw = end.get()] { raw->accept(); });
  return end;
}

Outcome<std::unique_ptr<LocalEnd>> LocalEnd::open(const FoundEnd& found, const EndLayout& layout) {
  auto end = try_open(found, layout);
  if (!end) return tl::make_unexpected(about(found, end.error()));
  return end;
}

LocalEnd::~LocalEnd() {
  const std::uint64_t one = 1;
  // The `!` is there because GCC warns of an ignored result in spite of the cast.
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  if (acceptor_.joinable()) acceptor_.join();
}

void LocalEnd::accept() noexcept {
  // The library logs why it refuses a peer.
  while (true) {
    auto endpoint = listener_.accept({Deadline::after(std::chrono::hours(1)), stop_.get()});
    if (endpoint) {
      accepted_.push_back(std::move(*endpoint));
    } else if (endpoint.error().code != Errc::timed_out) {
      return;
    }
  }
}

Outcome<RemoteEnd> LocalEnd::remote() const {
  HBMWIRE_TRY_ASSIGN(auto addresses, listener_.addresses());
  const auto bytes = key_.bytes();
  return RemoteEnd{std::move(addresses), {bytes.begin(), bytes.end()}};
}

std::string LocalEnd::path() const { return std::string(to_string(buffer_.region().path())); }

Outcome<void> LocalEnd::connect(std::size_t id, const RemoteEnd& remote, const Wait& wait) {
  if (links_.contains(id)) return {};
  std::optional<Failure> last;
  for (const std::string& address : remote.addresses) {
    auto endpoint = Endpoint::connect(worker_, address, wait);
    if (!endpoint) {
      last = Failure(endpoint.error());
      if (endpoint.error().code == Errc::cancelled || wait.deadline.passed()) break;
      continue;
    }
    HBMWIRE_TRY_ASSIGN(RemoteRegion region, endpoint->remote(remote.key));
    // The first put makes the queue pairs.
    const std::uint64_t at = layout_.set_up_offset();
    // Every end keeps these bytes last in its region.
    const std::uint64_t there = region.length_bytes() - EndLayout::kSetUpBytes;
    HBMWIRE_TRY_ASSIGN(Transfer put,
                       endpoint->put(buffer_.region().slice(at, EndLayout::kSetUpBytes),
                                     region.slice(there, EndLayout::kSetUpBytes)));
    HBMWIRE_TRY(put.wait(wait));
    links_.emplace(id, Link{std::move(*endpoint), region});
    return {};
  }
  if (last) return tl::make_unexpected(*last);
  return fail("connect: the end has told no address that others reach");
}

Outcome<void> LocalEnd::fill_source(const Pattern& pattern, const Wait& wait) {
  generate(pattern, 0, staging_);
  HBMWIRE_TRY(buffer_.write(0, staging_, wait));
  return {};
}

Outcome<void> LocalEnd::poison_slot(std::uint64_t slot, const Pattern& pattern, const Wait& wait) {
  generate_poison(pattern, 0, staging_);
  HBMWIRE_TRY(buffer_.write(layout_.slot_offset(slot), staging_, wait));
  return {};
}

Outcome<Comparison> LocalEnd::compare_slot(std::uint64_t slot, const Pattern& pattern,
                                           const Wait& wait) {
  HBMWIRE_TRY(buffer_.read(layout_.slot_offset(slot), staging_, wait));
  std::vector<std::byte> expected(staging_.size());
  generate(pattern, 0, expected);
  return compare(expected, staging_, 0);
}

Outcome<Moved> LocalEnd::put_for(std::size_t id, std::uint64_t slot, std::chrono::nanoseconds time,
                                 std::chrono::nanoseconds patience, int cancel_fd) {
  const auto link = links_.find(id);
  if (link == links_.end()) return fail("connect: the ends are not connected");
  Endpoint& endpoint = link->second.endpoint;
  const Slice from = buffer_.region().slice(0, layout_.message_bytes);
  const RemoteSlice to =
      link->second.remote.slice(layout_.slot_offset(slot), layout_.message_bytes);
  const Deadline until = Deadline::after(time);
  const Stopwatch stopwatch;
  std::deque<Transfer> puts;
  Moved moved;
  const auto finish_first = [&]() -> Outcome<void> {
    HBMWIRE_TRY(puts.front().wait(Wait{Deadline::after(patience), cancel_fd}));
    moved.bytes += layout_.message_bytes;
    // The last put tells the path for all.
    if (puts.size() == 1 && moved.path.empty()) moved.path = describe(puts.front().explain());
    puts.pop_front();
    return {};
  };
  do {
    if (puts.size() == kDepth) HBMWIRE_TRY(finish_first());
    HBMWIRE_TRY_ASSIGN(Transfer put, endpoint.put(from, to));
    puts.push_back(std::move(put));
  } while (!until.passed());
  while (!puts.empty()) HBMWIRE_TRY(finish_first());
  moved.seconds = static_cast<double>(stopwatch.nanoseconds()) / 1e9;
  return moved;
}

}  // namespace hbmwire::tools::perf::all
