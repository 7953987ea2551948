// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/memory_key.hpp"

/// Attaching: a process gives a region's dma-buf to processes of its node. The number of a
/// descriptor means nothing in another process, so the descriptor travels over a unix(7) socket,
/// and the kernel makes a new one for the receiver. See docs/attach.md.
namespace hbmwire {

class Context;

namespace detail {
class AttachService;
struct Internals;
struct PublicationState;
}  // namespace detail

/// Memory that other processes may attach to while this object exists. Move-only; may be destroyed
/// by any thread, and after its listener. A moved-from object may only be assigned to or destroyed.
/// Holds the memory and its dma-buf: destroy it before the memory's owner unmaps the memory.
class HBMWIRE_API AttachPublication {
 public:
  AttachPublication(AttachPublication&& other) noexcept;
  AttachPublication& operator=(AttachPublication&& other) noexcept;
  AttachPublication(const AttachPublication&) = delete;
  AttachPublication& operator=(const AttachPublication&) = delete;

  /// Withdraws the memory: no further process gets the dma-buf. A process that has the dma-buf
  /// already keeps it.
  ~AttachPublication();

  /// The address that attach() takes in the other process. Valid as long as this object.
  [[nodiscard]] const AttachAddress& address() const noexcept;

 private:
  friend struct detail::Internals;

  explicit AttachPublication(std::unique_ptr<detail::PublicationState> state) noexcept;

  std::unique_ptr<detail::PublicationState> state_;
};

/// Gives dma-bufs to processes of the same node and user. Move-only. Thread-safe. It starts no
/// thread: the program polls fd() and calls progress(). A child by fork(2) can't use it, and does
/// not disturb the parent; the child's copy of the socket keeps the name taken until the child ends
/// or execs.
class HBMWIRE_API AttachListener {
 public:
  /// Listens on an abstract socket with a random name. Errors: Stage::connect (no more
  /// descriptors).
  static Result<AttachListener> create();

  AttachListener(AttachListener&&) noexcept;
  AttachListener& operator=(AttachListener&&) noexcept;
  AttachListener(const AttachListener&) = delete;
  AttachListener& operator=(const AttachListener&) = delete;
  ~AttachListener();

  /// Lets other processes attach to all of the region's memory; only to read it, unless its peers
  /// may write (Access::remote_write). Keeps the memory and its dma-buf, but not the registration.
  /// Other processes get the descriptor of the whole dma-buf, which may hold more than the region
  /// (see docs/attach.md). Errors: Errc::not_supported (host memory has no dma-buf),
  /// Stage::export_dmabuf.
  [[nodiscard]] Result<AttachPublication> publish(const Region& region) const;

  /// Readable when progress() has something to do; for poll(2), epoll(7), or any event loop. Owned
  /// by the listener.
  [[nodiscard]] int fd() const noexcept;

  /// Answers clients that have asked, and drops clients that have been silent for 5 seconds. Never
  /// blocks. A client's mistake is no error here. Errors: Errc::not_supported (in a child by
  /// fork(2)), Stage::connect (errors of the kernel).
  Result<void> progress() const;

 private:
  explicit AttachListener(std::shared_ptr<detail::AttachService> service) noexcept;

  std::shared_ptr<detail::AttachService> service_;
};

/// Memory of another process of this node.
struct AttachedMemory {
  /// An import in this process, as of Context::import_dmabuf(), at an address of its own. The
  /// memory stays until the last copy of this and everything registered of it have gone, even if
  /// the exporter has freed it or has died.
  Allocation memory;
  MemoryType type = MemoryType::dmabuf;   ///< its type at the exporter
  std::uint64_t exporter_address = 0;     ///< the address of its first byte there
  std::uint64_t exporter_generation = 0;  ///< as DmabufRange::generation there
  bool writable = true;                   ///< false: it can be registered for reading alone
};

/// Asks the process that has published the memory for its dma-buf, and imports that. Blocks until
/// the exporter has answered, which must call progress(). No descriptor stays open if the exporter
/// sends something else. Errors: Stage::connect: Errc::invalid_argument (a malformed address),
/// peer_failed (no process listens, or it ended meanwhile), permission_denied (another user's),
/// not_found (withdrawn), protocol, timed_out, cancelled; and those of Context::import_dmabuf().
HBMWIRE_API Result<AttachedMemory> attach(const Context& context, const AttachAddress& from,
                                          const Wait& wait);

}  // namespace hbmwire
