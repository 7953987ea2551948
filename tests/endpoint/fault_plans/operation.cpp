// SPDX-License-Identifier: MIT
#include "operation.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "subject.hpp"

namespace hbmwire::test {

namespace {

using Kind = Operation::Kind;

/// Kinds that programs use often occur several times.
constexpr std::array<Kind, 20> kChoices{
    Kind::put,           Kind::put,      Kind::put,      Kind::put,      Kind::get,
    Kind::get,           Kind::get,      Kind::add,      Kind::swap,     Kind::put_immediate,
    Kind::put_immediate, Kind::list_put, Kind::list_put, Kind::list_get, Kind::plain,
    Kind::plain,         Kind::plain,    Kind::tagged,   Kind::tagged,   Kind::echo};

/// The blocks are small, so a list by numbers has many of them.
constexpr std::uint64_t kBlockBytes = 48;

}  // namespace

std::byte content_of(std::uint64_t number, std::uint64_t i) {
  return static_cast<std::byte>(1 + (number * 131 + i * 7) % 255);
}

CompletionLevel Starter::level() {
  return scenario_.below(4) == 0 ? CompletionLevel::visible : CompletionLevel::arrived;
}

Result<Operation> Starter::start(Endpoint& endpoint, std::uint64_t number) {
  Operation operation;
  operation.kind = kChoices.at(scenario_.below(kChoices.size()));
  operation.number = number;
  operation.slot = 1 + number % (kSlots - 1);
  operation.bytes = scenario_.below(scenario_.below(2) == 0 ? 100 : kSlotBytes + 1);
  if (operation.writes_target() || operation.is_message()) {
    auto* const bytes =
        reinterpret_cast<std::byte*>(region_.address() + operation.slot * kSlotBytes);
    for (std::uint64_t i = 0; i < operation.bytes; ++i) bytes[i] = content_of(number, i);
  }
  HBMWIRE_TRY_ASSIGN(operation.transfer, post(endpoint, operation));
  if (operation.kind == Kind::plain) ++plain_;
  if (operation.kind == Kind::tagged) ++tagged_;
  // Destroying the handle of a list in flight ends nothing.
  if (scenario_.below(2) == 0) operation.prepared.reset();
  return operation;
}

Result<Transfer> Starter::post(Endpoint& endpoint, Operation& operation) {
  const std::uint64_t at = operation.slot * kSlotBytes;
  const Slice local = region_.slice(at, operation.bytes);
  const RemoteSlice remote = target_.slice(at, operation.bytes);
  const auto number = static_cast<std::uint32_t>(operation.number);
  switch (operation.kind) {
    case Kind::put:
      return endpoint.put(local, remote, {.level = level()});
    case Kind::put_immediate:
      return endpoint.put(local, remote, {.level = level(), .immediate = number});
    case Kind::get:
      return endpoint.get(local, remote);
    case Kind::add:
      return endpoint.fetch_add(target_.slice(0, 8), 1);
    case Kind::swap:
      return endpoint.compare_swap(target_.slice(8, 8), number, number + 1U);
    case Kind::list_put:
    case Kind::list_get: {
      PutOptions options{.level = level()};
      if (scenario_.below(3) == 0) options.immediate = number;
      const bool by_numbers = operation.bytes >= kBlockBytes && scenario_.below(2) == 0;
      return by_numbers ? post_blocks(endpoint, operation, options)
                        : post_list(endpoint, operation, options);
    }
    case Kind::plain:
    case Kind::tagged: {
      operation.taken = scenario_.below(2) == 0;
      const SendOptions options{operation.taken ? CompletionLevel::arrived : CompletionLevel::sent};
      const bool tagged = operation.kind == Kind::tagged;
      operation.ordinal = tagged ? tagged_ : plain_;
      return tagged ? endpoint.send(local, operation.ordinal, options)
                    : endpoint.send(local, options);
    }
    case Kind::echo:
      // The number of a tagged message that was sent, will be sent, or will never be sent.
      operation.ordinal = scenario_.below(tagged_ + 2);
      return endpoint.receive(region_.slice(at, kSlotBytes), TagMatch{operation.ordinal});
  }
  return tl::make_unexpected(Error{});
}

Result<Transfer> Starter::post_list(Endpoint& endpoint, Operation& operation,
                                    const PutOptions& options) {
  std::vector<TransferPart> parts;
  const std::uint64_t begin = operation.slot * kSlotBytes;
  for (std::uint64_t at = 0; at < operation.bytes;) {
    const std::uint64_t length = std::min(1 + scenario_.below(1000), operation.bytes - at);
    parts.push_back({region_.slice(begin + at, length), target_.slice(begin + at, length)});
    at += length;
  }
  auto prepared = operation.kind == Kind::list_put ? endpoint.prepare_put(parts, options)
                                                   : endpoint.prepare_get(parts);
  if (!prepared) return tl::make_unexpected(prepared.error());
  operation.prepared.emplace(std::move(*prepared));
  return operation.prepared->post();
}

/// All whole blocks of the slot, in random order.
Result<Transfer> Starter::post_blocks(Endpoint& endpoint, Operation& operation,
                                      const PutOptions& options) {
  const std::uint64_t at = operation.slot * kSlotBytes;
  operation.bytes -= operation.bytes % kBlockBytes;
  const std::array here{region_.slice(at, operation.bytes)};
  const std::array there{target_.slice(at, operation.bytes)};
  HBMWIRE_TRY_ASSIGN(BlockTable from, BlockTable::create(here, kBlockBytes));
  HBMWIRE_TRY_ASSIGN(RemoteBlockTable to, RemoteBlockTable::create(there, kBlockBytes));
  operation.blocks = std::make_unique<BlockList>(BlockList{std::move(from), std::move(to), {}});
  BlockList& list = *operation.blocks;
  for (std::uint32_t i = 0; i < list.here.size(); ++i) list.numbers.push_back(i);
  for (std::size_t i = list.numbers.size(); i > 1; --i)
    std::swap(list.numbers[i - 1], list.numbers[scenario_.below(i)]);
  if (operation.kind == Kind::list_get)
    return endpoint.get_blocks(list.here, list.numbers, list.there, list.numbers);
  return endpoint.put_blocks(list.here, list.numbers, list.there, list.numbers, options);
}

}  // namespace hbmwire::test
