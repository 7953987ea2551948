// SPDX-License-Identifier: MIT
#include <cstdio>
#include <memory>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"

#include "matrix_side.hpp"

namespace hbmwire::matrix {

namespace {

constexpr std::uint64_t kNumber = 0x1000;
constexpr std::uint64_t kAdded = 5;
constexpr std::uint64_t kSwapped = 77;

class Leader {
 public:
  Leader(const Context& context, std::uint16_t port)
      : context_(context),
        channel_(Channel::connect(port)),
        worker_(must(Worker::create(context))),
        endpoint_(must(Endpoint::connect(
            worker_, "127.0.0.1:" + std::to_string(channel_.hear<std::uint16_t>()),
            {Deadline::after(kPatience), -1}))) {}

  ~Leader() {
    try {
      channel_.say(Command{});
    } catch (const std::exception&) {
      // The other side has already ended, and its error was printed.
    }
  }

  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  void run(const Row& row) {
    const unsigned theirs = 2 * seed_;
    const unsigned own = theirs + 1;
    ++seed_;
    const Operation what = kOperations[row[operation]];
    const bool gets = what == Operation::get || what == Operation::get_list;
    Command command{
        .what = Command::What::prepare, .row = row, .seed = theirs, .expected_number = kNumber};
    tell(command);
    const RemoteKey key = must(RemoteKey::unpack(channel_.hear_bytes()));
    const RemoteRegion remote = must(endpoint_.remote(key));
    // Arriving bytes have the seed of the side that sent them. If none arrive, own bytes stay.
    Memory memory(context_, kMemoryTypes[row[gets ? target : source]], kSizes[row[size]]);
    memory.fill(own);
    std::optional<PreparedTransfer> list;  // destroyed before its memory
    Transfer transfer = start(what, memory, remote, list);
    must(transfer.wait(kPatience));
    prove_path(row, transfer, memory, remote);
    command.what = Command::What::check;
    if (is_atomic(what)) {
      if (transfer.value() != kNumber) throw std::runtime_error("what was there is another number");
      command.expected_number = what == Operation::fetch_add ? kNumber + kAdded : kSwapped;
    }
    tell(command);
    memory.expect(own, gets ? theirs : own);
  }

 private:
  void tell(const Command& command) {
    channel_.say(command);
    const auto wrong = channel_.hear_bytes();
    if (!wrong.empty())
      throw std::runtime_error(
          std::string(reinterpret_cast<const char*>(wrong.data()), wrong.size()));
  }

  Transfer start(Operation what, Memory& memory, const RemoteRegion& remote,
                 std::optional<PreparedTransfer>& list) {
    const RemoteSlice all = remote.slice(Memory::kGuard, memory.slice().length_bytes);
    switch (what) {
      case Operation::put:
        return must(endpoint_.put(memory.slice(), all, {.level = CompletionLevel::visible}));
      case Operation::get:
        return must(endpoint_.get(memory.slice(), all));
      case Operation::fetch_add:
        return must(endpoint_.fetch_add(all, kAdded));
      case Operation::compare_swap:
        return must(endpoint_.compare_swap(all, kNumber, kSwapped));
      case Operation::put_immediate:
        return must(endpoint_.put(memory.slice(), all, {.immediate = kImmediate}));
      case Operation::send:
        return must(endpoint_.send(memory.slice()));
      case Operation::send_tagged:
        return must(endpoint_.send(memory.slice(), kTag));
      case Operation::put_list:
        list.emplace(must(
            endpoint_.prepare_put(parts_of(memory, remote), {.level = CompletionLevel::visible})));
        break;
      case Operation::get_list:
        list.emplace(must(endpoint_.prepare_get(parts_of(memory, remote))));
        break;
    }
    // Posted a second time, which is the purpose of prepared lists.
    must(must(list->post()).wait(kPatience));
    return must(list->post());
  }

  /// Seven parts of different lengths, in reverse order. With few bytes some are empty.
  static std::vector<TransferPart> parts_of(const Memory& memory, const RemoteRegion& remote) {
    constexpr std::uint64_t kParts = 7;
    const std::uint64_t size = memory.slice().length_bytes;
    const auto border = [&](std::uint64_t i) { return size * i * i / (kParts * kParts); };
    std::vector<TransferPart> parts;
    for (std::uint64_t i = kParts; i-- != 0;) {
      const std::uint64_t length = border(i + 1) - border(i);
      parts.push_back({.local = memory.part(border(i), length),
                       .remote = remote.slice(Memory::kGuard + border(i), length)});
    }
    return parts;
  }

  static bool is_put_or_get(const Row& row, const Memory& memory) {
    const Operation what = kOperations[row[operation]];
    const bool one_sided =
        what == Operation::put || what == Operation::get || what == Operation::put_immediate;
    return one_sided && memory.slice().length_bytes != 0;
  }

  /// Whether both are host memories of two processes, between which the CPU copies.
  static bool is_shared(const Row& row, const Memory& memory, const RemoteRegion& remote) {
    return kPlaces[row[place]] == Place::processes && is_put_or_get(row, memory) &&
           memory.region().allocation().domain().device().type == MemoryType::host &&
           remote.type() == MemoryType::host;
  }

  /// Whether an engine copies within the process. All devices have one; an imported dma-buf has
  /// none.
  static bool is_copied(const Row& row, const Memory& memory, const RemoteRegion& remote) {
    if (kPlaces[row[place]] != Place::threads || !is_put_or_get(row, memory)) return false;
    const MemoryType here = memory.region().allocation().domain().device().type;
    const auto has_engine = [](MemoryType type) {
      return type != MemoryType::host && type != MemoryType::dmabuf;
    };
    if (here == MemoryType::host) return has_engine(remote.type());
    return has_engine(here) && (remote.type() == MemoryType::host || remote.type() == here);
  }

  void prove_path(const Row& row, const Transfer& transfer, const Memory& memory,
                  const RemoteRegion& remote) {
    const Operation what = kOperations[row[operation]];
    if (what == Operation::send || what == Operation::send_tagged) return;
    const Path here = is_atomic(what) ? Path::host : memory.region().path();
    const TransferReport report = transfer.explain();
    const Path worst = std::max(here, remote.path());
    const bool loops = worst == Path::zero_copy && kPlaces[row[place]] != Place::nodes;
    const Path expected = is_copied(row, memory, remote)   ? Path::copy
                          : is_shared(row, memory, remote) ? Path::shared_memory
                          : loops                          ? Path::nic_loopback
                                                           : worst;
    if (transfer.path() != expected || report.path != expected ||
        report.remote_path != remote.path() || report.remote_type != remote.type() ||
        report.nic != endpoint_.nic().info().name || report.peer != endpoint_.peer()) {
      throw std::runtime_error("the report is wrong: " + describe(report));
    }
    const bool device = remote.type() != MemoryType::host;
    if ((remote.path() == Path::zero_copy) != device)
      throw std::runtime_error("the peer's memory goes by " +
                               std::string(to_string(remote.path())));
  }

  const Context& context_;
  Channel channel_;
  Worker worker_;
  Endpoint endpoint_;
  unsigned seed_ = 0;
};

}  // namespace

std::size_t lead(const Context& context, std::uint16_t port, const std::vector<Row>& rows) {
  std::size_t failed = 0;
  std::size_t at = 0;
  auto leader = std::make_unique<Leader>(context, port);
  for (const Row& row : rows) {
    const auto begun = std::chrono::steady_clock::now();
    std::string outcome = "ok";
    try {
      leader->run(row);
    } catch (const std::exception& error) {
      outcome = std::string("FAILED: ") + error.what();
      ++failed;
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun;
    std::printf("%zu/%zu %s: %s, %.2f s\n", ++at, rows.size(), to_string(row).c_str(),
                outcome.c_str(), time.count());
    std::fflush(stdout);
  }
  return failed;
}

}  // namespace hbmwire::matrix
