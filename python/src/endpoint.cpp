// SPDX-License-Identifier: MIT
#include "endpoint.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "hbmwire/counters.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/nic.hpp"

#include "arguments.hpp"
#include "blocks.hpp"
#include "direct_method.hpp"
#include "held_buffer.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

Endpoint& EndpointObject::open() {
  if (endpoint_ == nullptr) refuse("the endpoint ended with its worker, context or group");
  return *endpoint_;
}

Endpoint& EndpointObject::start() {
  worker()->settle_some();
  return open();
}

void EndpointObject::close(const Deadline& deadline) {
  if (endpoint_ == nullptr) return;
  auto started = endpoint_->start_close(deadline);
  if (!started) raise(started.error());
  TransferObject closing(worker(), std::move(*started));
  // Closing ends by its own deadline, or a little later if the peer is silent.
  closing.wait(Deadline::never());
}

Transfer& ConnectingObject::transfer() {
  if (!pending_) refuse("the connection ended with its worker or context");
  return pending_->transfer();
}

Endpoint ConnectingObject::take() {
  static_cast<void>(transfer());  // raises if it has ended
  return value(pending_->take());
}

Transfer& AskingObject::transfer() {
  if (!pending_) refuse("the question ended with its worker or context");
  return pending_->transfer();
}

RemoteObject AskingObject::take() {
  static_cast<void>(transfer());  // raises if it has ended
  return {std::make_shared<const RemoteRegion>(value(pending_->take()))};
}

namespace {

/// None: no immediate.
std::optional<std::uint32_t> immediate_of(py::handle immediate) {
  if (immediate.is_none()) return std::nullopt;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(number_of(immediate, "immediate", kMost));
}

PutOptions put_options(const py::object& immediate, const py::object& level) {
  return {.level = from_word<CompletionLevel>(level), .immediate = immediate_of(immediate)};
}

py::object put(py::handle self, const Given& given) {
  static const Parameters<4> kParameters("put", 2, 2, {"local", "remote", "immediate", "level"});
  const auto [local, remote, immediate, level] = kParameters.match(given);
  EndpointObject& endpoint = *object_in<EndpointObject>(self);
  const SliceObject from = local_of(local);
  const RemoteSliceObject to = remote_of(remote);
  PutOptions options;
  if (level) options.level = from_word<CompletionLevel>(level);
  if (immediate) options.immediate = immediate_of(immediate);
  Transfer transfer = value(endpoint.start().put(from.slice(), to.slice(), options));
  return py::cast(std::make_unique<TransferObject>(endpoint.worker(), std::move(transfer),
                                                   Keep(from.hold), Keep(to.hold)));
}

constexpr const char* kPut = R"(put($self, local, remote, *, immediate=None, level='arrived')
--

Writes this end's memory into the peer's: a Transfer.

local: a Slice or a Region; remote: a RemoteSlice or a RemoteRegion of as many bytes.
immediate: a number of 32 bits for the peer's receive_immediate(), behind the bytes.
level: 'sent', 'arrived' (the peer's NIC has the bytes) or 'visible' (its device sees them).
Raises InvalidArgument (a slice that leaves its region, ...), PermissionDenied (a path that the
policy excludes, access that was not given), PeerFailed or Cancelled (the endpoint has ended).)";

py::object get(py::handle self, const Given& given) {
  static const Parameters<2> kParameters("get", 2, 2, {"local", "remote"});
  const auto [local, remote] = kParameters.match(given);
  EndpointObject& endpoint = *object_in<EndpointObject>(self);
  const SliceObject into = local_of(local);
  const RemoteSliceObject from = remote_of(remote);
  Transfer transfer = value(endpoint.start().get(into.slice(), from.slice()));
  return py::cast(std::make_unique<TransferObject>(endpoint.worker(), std::move(transfer),
                                                   Keep(into.hold), Keep(from.hold)));
}

constexpr const char* kGet = R"(get($self, local, remote)
--

Reads the peer's memory into this end's, which has to be registered for writing: a Transfer.

Raises as put().)";

// --- many parts at once

/// Options of a put; nothing for a get.
using Putting = std::optional<PutOptions>;

NewTransfer move_blocks(EndpointObject& self, const BlockTableObject& local,
                        const RemoteBlockTableObject& remote, const Columns& pairs,
                        const Putting& putting);

/// Converts the tables that a program gave, and moves their blocks.
NewTransfer move_blocks(EndpointObject& self, const py::object& local, const py::object& remote,
                        const Columns& pairs, const Putting& putting) {
  return move_blocks(self, object_of<BlockTableObject>(local, "local", "a BlockTable"),
                     object_of<RemoteBlockTableObject>(remote, "remote", "a RemoteBlockTable"),
                     pairs, putting);
}

NewTransfer move_blocks(EndpointObject& self, const BlockTableObject& local,
                        const RemoteBlockTableObject& remote, const Columns& pairs,
                        const Putting& putting) {
  const BlockTable& here = local.hold->table;
  const RemoteBlockTable& there = *remote.hold;
  const BlockNumbers& here_numbers = pairs.columns[0];
  const BlockNumbers& there_numbers = pairs.columns[1];
  Endpoint& endpoint = self.start();
  Transfer transfer =
      value(putting ? endpoint.put_blocks(here, here_numbers, there, there_numbers, *putting)
                    : endpoint.get_blocks(here, here_numbers, there, there_numbers));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(local.hold),
                                          Keep(remote.hold), pairs.keep);
}

/// hbmwire.PreparedTransfer.
class PreparedObject : public Part {
 public:
  PreparedObject(SharedWorker worker, PreparedTransfer prepared,
                 std::shared_ptr<const std::vector<Keep>> keeps, std::size_t parts)
      : Part(std::move(worker)),
        keeps_(std::move(keeps)),
        prepared_(std::make_shared<PreparedTransfer>(std::move(prepared))),
        parts_(parts) {}

  void end() noexcept override { prepared_.reset(); }

  NewTransfer start() {
    worker()->settle_some();
    if (!prepared_) refuse("the prepared transfer ended with its worker or context");
    Transfer run = value(prepared_->post());
    return std::make_unique<TransferObject>(worker(), std::move(run), Keep(keeps_),
                                            Keep(prepared_));
  }

  [[nodiscard]] std::size_t size() const noexcept { return parts_; }

 private:
  std::shared_ptr<const std::vector<Keep>> keeps_;
  std::shared_ptr<PreparedTransfer> prepared_;
  std::size_t parts_;
};

std::unique_ptr<PreparedObject> prepare(EndpointObject& self, const py::object& parts,
                                        const Putting& putting) {
  std::vector<TransferPart> all;
  auto keeps = std::make_shared<std::vector<Keep>>();
  for (const py::handle one : items_of(parts, "parts", "pairs of slices are needed")) {
    if (!py::isinstance<py::sequence>(one)) throw wrong_type(one, "parts", "a pair is needed");
    const auto pair = py::reinterpret_borrow<py::sequence>(one);
    if (py::len(pair) != 2) throw py::value_error("each part is a pair of slices, here and there");
    const SliceObject local = local_of(py::object(pair[0]));
    const RemoteSliceObject remote = remote_of(py::object(pair[1]));
    all.push_back({local.slice(), remote.slice()});
    keeps->emplace_back(local.hold);
    keeps->emplace_back(remote.hold);
  }
  Endpoint& endpoint = self.start();
  PreparedTransfer prepared =
      value(putting ? endpoint.prepare_put(all, *putting) : endpoint.prepare_get(all));
  return std::make_unique<PreparedObject>(self.worker(), std::move(prepared), std::move(keeps),
                                          all.size());
}

/// Offsets at both ends, and one length for all parts or one for each.
struct List {
  Columns columns;
  std::optional<std::uint64_t> length;  // the length of all parts; none: they differ

  [[nodiscard]] std::size_t size() const noexcept { return columns.columns[0].size; }

  [[nodiscard]] std::uint64_t here(std::size_t i) const noexcept { return columns.columns[0][i]; }

  [[nodiscard]] std::uint64_t there(std::size_t i) const noexcept { return columns.columns[1][i]; }

  [[nodiscard]] std::uint64_t length_of(std::size_t i) const noexcept {
    return columns.columns.size() > 2 ? columns.columns[2][i] : *length;
  }
};

List list_of(const py::object& parts, const py::object& length) {
  const bool have_one = !length.is_none();
  List list{columns_of(parts, have_one ? 2 : 3), std::nullopt};
  if (list.size() == 0) refuse("a list has at least one part");
  if (have_one) {
    list.length = number_of(length, "length");
    return list;
  }
  const BlockNumbers& lengths = list.columns.columns[2];
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (lengths[i] != lengths[0]) return list;
  }
  list.length = lengths[0];
  return list;
}

/// The offsets divided by `length`; nothing if one of them is no multiple of it.
std::optional<std::vector<std::uint64_t>> divided(const BlockNumbers& offsets,
                                                  std::uint64_t length) {
  // Divisions would dominate the time here, and most lengths are a power of two: shifts instead.
  const bool is_power = std::has_single_bit(length);
  const int shift = std::countr_zero(length);
  std::vector<std::uint64_t> numbers(offsets.size);
  std::uint64_t remainders = 0;  // of all offsets, combined by "or"
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t offset = offsets[i];
    numbers[i] = is_power ? offset >> shift : offset / length;
    remainders |= offset - numbers[i] * length;
  }
  if (remainders != 0) return std::nullopt;
  return numbers;
}

/// Raises InvalidArgument if a part leaves its region.
void check_ranges(const List& list, std::uint64_t here_bytes, std::uint64_t there_bytes) {
  const auto leaves = [](std::uint64_t offset, std::uint64_t length, std::uint64_t bytes) {
    return offset > bytes || length > bytes - offset;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::uint64_t length = list.length_of(i);
    const bool here = leaves(list.here(i), length, here_bytes);
    if (!here && !leaves(list.there(i), length, there_bytes)) continue;
    refuse_text("part " + std::to_string(i) + " leaves the region " + (here ? "here" : "there") +
                ": " + std::to_string(length) + " bytes from " +
                std::to_string(here ? list.here(i) : list.there(i)) + " on, of " +
                std::to_string(here ? here_bytes : there_bytes));
  }
}

/// Block numbers for a list whose parts have one length and lie at multiples of it, with regions
/// cut into blocks from their beginnings. Nothing if the list is not like that.
std::optional<Columns> block_numbers(const List& list) {
  using Pairs = std::array<std::vector<std::uint64_t>, 2>;
  auto here = divided(list.columns.columns[0], *list.length);
  if (!here) return std::nullopt;
  auto there = divided(list.columns.columns[1], *list.length);
  if (!there) return std::nullopt;
  const auto numbers = std::make_shared<const Pairs>(Pairs{std::move(*here), std::move(*there)});
  return Columns{{(*numbers)[0], (*numbers)[1]}, numbers};
}

/// Moves parts of one length, wherever they lie: each part is an area of its own.
NewTransfer move_areas(EndpointObject& self, const SharedRegion& local, const SharedRemote& remote,
                       const List& list, const Putting& putting) {
  std::vector<SliceObject> here;
  std::vector<RemoteSliceObject> there;
  const auto numbers = std::make_shared<std::vector<std::uint64_t>>(list.size());
  std::iota(numbers->begin(), numbers->end(), 0);
  for (std::size_t i = 0; i < list.size(); ++i) {
    here.push_back({local, list.here(i), *list.length});
    there.push_back({remote, list.there(i), *list.length});
  }
  return move_blocks(self, block_table(here, *list.length), remote_block_table(there, *list.length),
                     Columns{{*numbers, *numbers}, numbers}, putting);
}

NewTransfer move_list(EndpointObject& self, const py::object& local_region,
                      const py::object& remote_region, const List& list, const Putting& putting) {
  const SharedRegion hold = object_of<RegionObject>(local_region, "local", "a Region").open();
  const auto& remote = object_of<RemoteObject>(remote_region, "remote", "a RemoteRegion");
  check_ranges(list, hold->region.size_bytes(), remote.hold->length_bytes());
  if (!list.length) {
    // Parts of different lengths go as a prepared list that is used once.
    std::vector<TransferPart> parts;
    parts.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      parts.push_back({hold->region.slice(list.here(i), list.length_of(i)),
                       remote.hold->slice(list.there(i), list.length_of(i))});
    }
    Endpoint& endpoint = self.start();
    const auto prepared = std::make_shared<PreparedTransfer>(
        value(putting ? endpoint.prepare_put(parts, *putting) : endpoint.prepare_get(parts)));
    Transfer run = value(prepared->post());
    return std::make_unique<TransferObject>(self.worker(), std::move(run), Keep(hold),
                                            Keep(remote.hold), Keep(prepared));
  }
  if (*list.length == 0) refuse("parts of no bytes");
  const auto numbers = block_numbers(list);
  if (!numbers) return move_areas(self, hold, remote.hold, list, putting);
  const std::uint64_t length = *list.length;
  const auto whole = [length](std::uint64_t bytes) { return bytes / length * length; };
  return move_blocks(
      self, block_table({{hold, 0, whole(hold->region.size_bytes())}}, length),
      remote_block_table({{remote.hold, 0, whole(remote.hold->length_bytes())}}, length), *numbers,
      putting);
}

// --- messages

/// A slice of a region as it is; bytes are copied into registered memory of the worker.
SliceObject message_of(EndpointObject& self, const py::object& message) {
  if (is_local(message)) return local_of(message);
  const HeldBuffer held(message, PyBUF_C_CONTIGUOUS);
  const std::span<const std::byte> bytes = held.bytes();
  SharedRegion memory = self.worker()->message_memory(bytes.size());
  if (!bytes.empty()) std::memcpy(memory->region.host_bytes().data(), bytes.data(), bytes.size());
  return {std::move(memory), 0, bytes.size()};
}

NewTransfer send(EndpointObject& self, const py::object& message, const py::object& tag,
                 const py::object& level) {
  const SendOptions options{.level = from_word<CompletionLevel>(level)};
  const SliceObject from = message_of(self, message);
  Endpoint& endpoint = self.start();
  Transfer transfer =
      value(tag.is_none() ? endpoint.send(from.slice(), options)
                          : endpoint.send(from.slice(), number_of(tag, "tag"), options));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(from.hold));
}

NewTransfer receive(EndpointObject& self, const py::object& into, const py::object& tag,
                    std::uint64_t mask) {
  const SliceObject to = local_of(into);
  Endpoint& endpoint = self.start();
  Transfer transfer =
      value(tag.is_none() ? endpoint.receive(to.slice())
                          : endpoint.receive(to.slice(), TagMatch{number_of(tag, "tag"), mask}));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(to.hold));
}

NewTransfer receive_immediate(EndpointObject& self, const py::object& written) {
  SliceObject slice;
  if (!written.is_none()) slice = local_of(written);
  Transfer transfer = value(self.start().receive_immediate(slice.hold ? slice.slice() : Slice{}));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(slice.hold));
}

template <class Operation>
NewTransfer atomic(EndpointObject& self, const py::object& at, const Operation& operation) {
  const RemoteSliceObject slice = remote_of(at);
  Transfer transfer = value(operation(self.start(), slice.slice()));
  return std::make_unique<TransferObject>(self.worker(), std::move(transfer), Keep(slice.hold));
}

// --- the peer's memory

/// The peer's memory by a key; nothing for a name, about which the peer has to be asked.
std::optional<RemoteObject> remote_by_key(EndpointObject& self, const py::object& what) {
  if (PyUnicode_Check(what.ptr())) return std::nullopt;
  if (is_local(what)) throw wrong_type(what, "what", "a name, or a key of the peer's, is needed");
  Endpoint& endpoint = self.open();
  RemoteRegion region = py::isinstance<RemoteKey>(what)
                            ? value(endpoint.remote(what.cast<const RemoteKey&>()))
                            : value(endpoint.remote(bytes_of(what, "a name or a key")));
  return RemoteObject{std::make_shared<const RemoteRegion>(region)};
}

std::unique_ptr<AskingObject> ask(EndpointObject& self, const py::object& name,
                                  const py::object& timeout) {
  PendingRegion pending =
      value(self.start().start_remote(text_of(name, "a name"), deadline_of(timeout)));
  return std::make_unique<AskingObject>(self.worker(), std::move(pending));
}

RemoteObject remote(EndpointObject& self, const py::object& what, const py::object& timeout) {
  if (const auto region = remote_by_key(self, what)) return *region;
  const auto asking = ask(self, what, timeout);
  asking->wait(Deadline::never());
  return asking->take();
}

// --- its end

/// Whether the endpoint has ended. Raises why if it failed.
bool is_over(EndpointObject& self) {
  const EndpointPhase phase = self.open().phase();
  if (phase == EndpointPhase::failed) {
    if (const auto why = self.open().error()) raise(*why);
  }
  return phase == EndpointPhase::failed || phase == EndpointPhase::closed;
}

void wait_closed(EndpointObject& self, const Deadline& deadline) {
  if (!drive_until(self.worker(), deadline, [&] { return is_over(self); }))
    raise(out_of_time(self.open().peer()));
}

std::unique_ptr<ConnectingObject> start_reconnect(EndpointObject& self, const py::object& timeout) {
  if (self.is_open() && !self.is_own()) {
    raise(make_error(Errc::not_supported, Stage::connect,
                     "a group makes its endpoints anew: call its endpoint()"));
  }
  PendingEndpoint pending = value(self.start().start_reconnect(deadline_of(timeout)));
  return std::make_unique<ConnectingObject>(self.worker(), std::move(pending));
}

void reconnect(EndpointObject& self, const py::object& timeout) {
  const auto connecting = start_reconnect(self, timeout);
  connecting->wait(Deadline::never());
  self.replace(connecting->take());
}

/// The end of a `with` block: says goodbye unless an exception has ended the block.
void leave(EndpointObject& self, const py::args& exception) {
  if (!self.is_open()) return;
  if (py::object(exception[0]).is_none()) {
    constexpr auto kGoodbye = std::chrono::seconds(10);
    try {
      self.close(Deadline::after(kGoodbye));
    } catch (const py::error_already_set&) {
      self.end();
      throw;
    }
  }
  self.end();
}

std::string show_endpoint(EndpointObject& self) {
  if (!self.is_open()) return "<hbmwire.Endpoint closed>";
  Endpoint& endpoint = self.open();
  return "<hbmwire.Endpoint to " + endpoint.peer() + ", " + std::string(word_of(endpoint.phase())) +
         ", " + std::string(word_of(endpoint.placement())) + ">";
}

// NOLINTNEXTLINE(readability-function-size): a table
void bind_operations(py::class_<EndpointObject>& endpoint) {
  const py::str arrived("arrived");
  const py::str sent("sent");
  add_direct_method<&put>(endpoint, "put", kPut);
  add_direct_method<&get>(endpoint, "get", kGet);
  endpoint
      .def(
          "put_blocks",
          [](EndpointObject& self, const py::object& local, const py::object& remote,
             const py::object& pairs, const py::object& immediate, const py::object& level) {
            return move_blocks(self, local, remote, pairs_of(pairs), put_options(immediate, level));
          },
          py::arg("local"), py::arg("remote"), py::arg("pairs"), py::kw_only(),
          py::arg("immediate") = py::none(), py::arg("level") = arrived,
          R"(Puts many blocks as one Transfer, in no order among them.

pairs: an array of shape (N, 2), of integers of 32 or 64 bits: block here, block there. Or a tuple
of two arrays of shape (N,), which are not copied and must stay as they are until it is over.
Raises as put(), and InvalidArgument for numbers that the tables do not have.)")
      .def(
          "get_blocks",
          [](EndpointObject& self, const py::object& local, const py::object& remote,
             const py::object& pairs) {
            return move_blocks(self, local, remote, pairs_of(pairs), std::nullopt);
          },
          py::arg("local"), py::arg("remote"), py::arg("pairs"),
          "Gets many blocks as one Transfer. `pairs` as for put_blocks().")
      .def(
          "put_list",
          [](EndpointObject& self, const py::object& local, const py::object& remote,
             const py::object& parts, const py::object& length, const py::object& immediate,
             const py::object& level) {
            return move_list(self, local, remote, list_of(parts, length),
                             put_options(immediate, level));
          },
          py::arg("local"), py::arg("remote"), py::arg("parts"), py::kw_only(),
          py::arg("length") = py::none(), py::arg("immediate") = py::none(),
          py::arg("level") = arrived,
          R"(Puts many parts of a region as one Transfer, in no order among them.

parts: an array of shape (N, 3), of integers of 32 or 64 bits: offset here, offset there, length,
in bytes. With `length`, which is then the length of all, of shape (N, 2).
Raises as put(). Parts of different lengths go by a NIC alone: else NotSupported.)")
      .def(
          "get_list",
          [](EndpointObject& self, const py::object& local, const py::object& remote,
             const py::object& parts, const py::object& length) {
            return move_list(self, local, remote, list_of(parts, length), std::nullopt);
          },
          py::arg("local"), py::arg("remote"), py::arg("parts"), py::kw_only(),
          py::arg("length") = py::none(),
          "Gets many parts of a region as one Transfer. `parts` and `length` as for put_list().")
      .def(
          "prepare_put",
          [](EndpointObject& self, const py::object& parts, const py::object& immediate,
             const py::object& level) {
            return prepare(self, parts, put_options(immediate, level));
          },
          py::arg("parts"), py::kw_only(), py::arg("immediate") = py::none(),
          py::arg("level") = arrived,
          "Prepares many puts, as pairs (local, remote) of slices, which PreparedTransfer.start() "
          "starts as one Transfer, again and again. Raises NotSupported if a NIC does not reach "
          "the memory of both ends.")
      .def(
          "prepare_get",
          [](EndpointObject& self, const py::object& parts) {
            return prepare(self, parts, std::nullopt);
          },
          py::arg("parts"), "As prepare_put(), for gets.")
      .def("send", &send, py::arg("message"), py::kw_only(), py::arg("tag") = py::none(),
           py::arg("level") = sent,
           R"(Sends a message: a Transfer.

message: a Slice or a Region; or bytes, which are copied, so they may change at once.
tag: a number of 64 bits; without one the message goes to the first receive without a tag.
level: 'sent', or 'arrived', when a receive of the peer's has taken it.)")
      .def(
          "receive", &receive, py::arg("into"), py::kw_only(), py::arg("tag") = py::none(),
          py::arg("mask") = ~std::uint64_t{0},
          "Receives a message into a Slice or a Region: a Transfer, whose `bytes` are the "
          "message's and whose `value` is its tag. tag, mask: the tag and which of its bits count; "
          "mask=0 takes any tag; without a tag a message without one.")
      .def(
          "receive_immediate", &receive_immediate, py::arg("written") = py::none(),
          "The next immediate of a put: a Transfer with it as `value`. written: device memory that "
          "the peer put into, which is visible to the device when this is over.")
      .def(
          "fetch_add",
          [](EndpointObject& self, const py::object& at, const py::object& given) {
            const std::uint64_t add = number_of(given, "add");
            return atomic(self, at, [&](Endpoint& by, const RemoteSlice& slice) {
              return by.fetch_add(slice, add);
            });
          },
          py::arg("at"), py::arg("add"),
          "Adds to 64 bits of the peer's memory, at a multiple of 8: a Transfer with what was "
          "there before as `value`.")
      .def(
          "compare_swap",
          [](EndpointObject& self, const py::object& at, const py::object& was,
             const py::object& becomes) {
            const std::uint64_t expected = number_of(was, "expected");
            const std::uint64_t desired = number_of(becomes, "desired");
            return atomic(self, at, [&](Endpoint& by, const RemoteSlice& slice) {
              return by.compare_swap(slice, expected, desired);
            });
          },
          py::arg("at"), py::arg("expected"), py::arg("desired"),
          "Writes `desired` to 64 bits of the peer's memory if they are `expected`: a Transfer "
          "with what was there before as `value`.")
      .def(
          "flush",
          [](EndpointObject& self) {
            return std::make_unique<TransferObject>(self.worker(), value(self.start().flush()));
          },
          "A Transfer that is over when all that was started before it has arrived at the peer.")
      .def(
          "fence", [](EndpointObject& self) { value(self.start().fence()); },
          "Operations that are started after it begin only when gets and atomics before it are "
          "over.");
}

// NOLINTNEXTLINE(readability-function-size): a table
void bind_life(py::class_<EndpointObject>& endpoint) {
  endpoint.def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", &leave)
      .def("__aenter__", [](const py::object& self) { return in_aio("immediately", self); })
      .def("__aexit__", [](const py::object& self,
                           const py::args& exception) { return in_aio("leave", self, *exception); })
      .def("__repr__", &show_endpoint)
      .def_property_readonly(
          "id", [](EndpointObject& self) { return self.open().id(); },
          "A number that no other endpoint of this process has.")
      .def_property_readonly(
          "peer", [](EndpointObject& self) { return self.open().peer(); },
          "Address and port of the peer, as it was connected to or accepted.")
      .def(
          "counters", [](EndpointObject& self) { return value(self.open().counters()); },
          "Counters of this connection alone.")
      .def_property_readonly(
          "peer_hello", [](EndpointObject& self) { return to_bytes(self.open().peer_hello()); },
          "The bytes that the peer gave as `hello`. Without a pre-shared key a mere claim.")
      .def_property_readonly(
          "phase",
          [](EndpointObject& self) {
            return word_of(self.is_open() ? self.open().phase() : EndpointPhase::closed);
          },
          "'ready', 'ending', 'failed' or 'closed'.")
      .def_property_readonly(
          "nic", [](EndpointObject& self) { return self.open().nic().info().name; },
          "The NIC that it communicates by.")
      .def_property_readonly(
          "placement", [](EndpointObject& self) { return word_of(self.open().placement()); },
          "Where the peer is: 'same_process', 'same_node' or 'two_nodes'.")
      .def_property_readonly(
          "error",
          [](EndpointObject& self) -> py::object {
            const auto why = self.open().error();
            return why ? exception_of(*why) : py::object(py::none());
          },
          "Why it is ending or failed, as an exception; None.")
      .def_property_readonly(
          "worker", [](EndpointObject& self) { return self.worker(); }, "Its Worker.")
      .def_property_readonly(
          "closed",
          [](EndpointObject& self) {
            return !self.is_open() || self.open().phase() == EndpointPhase::closed;
          },
          "Whether it is closed: by close(), by the peer, or with its worker.")
      .def(
          "remote", &remote, py::arg("what"), py::kw_only(), py::arg("timeout") = 30.0,
          "Memory of the peer. A name (str): what its listener advertises, which asks the peer; it "
          "must make progress. Bytes of a MemoryKey, or a RemoteKey: at once. Raises NotFound, "
          "TimedOut, ProtocolError (not a key), PermissionDenied, PeerFailed (of another process).")
      .def(
          "aremote",
          [](const py::object& self, const py::object& what, const py::object& timeout) {
            return in_aio("remote", self, what, timeout);
          },
          py::arg("what"), py::kw_only(), py::arg("timeout") = 30.0, "remote() for asyncio.")
      .def(
          "wait_closed",
          [](EndpointObject& self, const py::object& timeout) {
            wait_closed(self, deadline_of(timeout));
          },
          py::arg("timeout") = py::none(),
          "Waits until the peer has said goodbye, for an end that only answers. Raises why the "
          "endpoint failed; TimedOut, and it goes on.")
      .def(
          "await_closed",
          [](const py::object& self, const py::object& timeout) {
            return in_aio("wait_closed", self, timeout);
          },
          py::arg("timeout") = py::none(), "wait_closed() for asyncio.")
      .def(
          "close",
          [](EndpointObject& self, const py::object& timeout) { self.close(deadline_of(timeout)); },
          py::arg("timeout") = 10.0,
          "Waits for what is under way, says goodbye and waits for the peer's goodbye. It is "
          "closed whatever happens. Raises TimedOut or PeerFailed if no goodbye came in time.")
      .def(
          "aclose",
          [](const py::object& self, const py::object& timeout) {
            return in_aio("close", self, timeout);
          },
          py::arg("timeout") = 10.0, "close() for asyncio.")
      .def("reconnect", &reconnect, py::arg("timeout") = 30.0,
           "Connects anew to the same peer. Nothing of the old connection is repeated, and its "
           "RemoteRegions have ended. Raises NotSupported (this end was accepted), Busy (it has "
           "neither failed nor closed), and as Context.connect().")
      .def(
          "areconnect",
          [](const py::object& self, const py::object& timeout) {
            return in_aio("reconnect", self, timeout);
          },
          py::arg("timeout") = 30.0, "reconnect() for asyncio.")
      .def("_remote_by_key", &remote_by_key)
      .def("_ask", &ask)
      .def("_start_close",
           [](EndpointObject& self, const py::object& timeout) -> NewTransfer {
             return std::make_unique<TransferObject>(
                 self.worker(), value(self.start().start_close(deadline_of(timeout))));
           })
      .def("_start_reconnect", &start_reconnect)
      .def("_replace", [](EndpointObject& self, ConnectingObject& by) { self.replace(by.take()); })
      .def("_is_over", &is_over)
      .def("_let_go", [](EndpointObject& self) { self.end(); });
}

}  // namespace

void bind_endpoint(py::module_& module) {
  py::class_<PreparedObject>(module, "PreparedTransfer",
                             "Several parts, prepared once, that can be moved many times; one run "
                             "at a time.")
      .def("start", &PreparedObject::start,
           "Starts a run: a Transfer. Raises Busy while a run is under way.")
      .def("__len__", &PreparedObject::size)
      .def("__repr__", [](const PreparedObject& self) {
        return "<hbmwire.PreparedTransfer of " + std::to_string(self.size()) + " parts>";
      });
  py::class_<EndpointObject> endpoint(module, "Endpoint",
                                      R"(A connection to a peer.

Context.connect(), Listener.accept() and Invitation.connect() give one. As a context manager it is
closed at the end. Operations give a Transfer at once; puts, sends and immediates of one endpoint
arrive in the order in which they were started.)");
  bind_operations(endpoint);
  bind_life(endpoint);
  py::class_<ConnectingObject, Waitable>(module, "_Connecting")
      .def("take", [](ConnectingObject& self) -> NewEndpoint {
        return std::make_unique<EndpointObject>(self.worker(), self.take());
      });
  py::class_<AskingObject, Waitable>(module, "_Asking").def("take", &AskingObject::take);
}

}  // namespace hbmwire::python
