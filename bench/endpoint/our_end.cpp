// SPDX-License-Identifier: MIT
#include "bench/endpoint/our_end.hpp"

#include <algorithm>
#include <utility>

#include "hbmwire/memory_key.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::bench {
namespace {

constexpr Access kAccess = Access::local_write | Access::remote_write | Access::remote_read;

Wait patience() { return {std::chrono::seconds(20)}; }

EndpointOptions options(std::optional<std::uint32_t> eager_bytes) {
  EndpointOptions options = keyed_options();
  if (eager_bytes) options.eager_bytes = *eager_bytes;
  return options;
}

}  // namespace

Region register_bytes(const Context& context, const Bytes& bytes) {
  if (bytes.shared() == nullptr)
    return need(context.register_memory(bytes.data(), bytes.size(), kAccess));
  return need(context.register_dmabuf(
      {.fd = bytes.shared()->fd(), .length_bytes = bytes.size(), .mapping = bytes.data()},
      kAccess));
}

EndpointOptions keyed_options() {
  EndpointOptions options;
  options.pre_shared_key.assign(32, std::byte{7});
  return options;
}

void expect_by_nic(const Transfer& transfer) {
  if (transfer.path() == Path::shared_memory)
    throw std::runtime_error("it went another way: " + describe(transfer.explain()));
}

Endpoint connect(const Worker& worker, const Place& place, const EndpointOptions& options) {
  if (!place.listens) {
    const auto port = place.line.receive<std::uint16_t>();
    return need(
        Endpoint::connect(worker, "127.0.0.1:" + std::to_string(port), patience(), options));
  }
  Listener listener = need(Listener::create(worker, {.address = "127.0.0.1", .endpoint = options}));
  place.line.send(listener.port());
  return need(listener.accept(patience()));
}

RemoteRegion exchange(Endpoint& endpoint, const MemoryKey& key, Line& line) {
  KeyBytes ours;
  ours.size = static_cast<std::uint32_t>(key.bytes().size());
  if (ours.size > ours.bytes.size()) throw std::runtime_error("the memory key is too long");
  std::copy(key.bytes().begin(), key.bytes().end(), ours.bytes.begin());
  line.send(ours);
  const auto theirs = line.receive<KeyBytes>();
  const std::span<const std::byte> bytes(theirs.bytes);
  return need(endpoint.remote(need(RemoteKey::unpack(bytes.first(theirs.size)))));
}

const std::vector<TransferPart>& OurEnd::blocks() {
  for (std::size_t i = blocks_.size(); i < kBlocks; ++i) {
    const std::size_t at = Bytes::kBulk + i * kBlockStride;
    blocks_.push_back({region_.slice(at, kBlockBytes), remote_.slice(at, kBlockBytes)});
  }
  return blocks_;
}

const std::pair<BlockTable, RemoteBlockTable>& OurEnd::tables() {
  if (!tables_) {
    constexpr std::size_t kBytes = kBlocks * kBlockStride;
    const std::array here{region_.slice(Bytes::kBulk, kBytes)};
    const std::array there{remote_.slice(Bytes::kBulk, kBytes)};
    tables_.emplace(need(BlockTable::create(here, kBlockBytes)),
                    need(RemoteBlockTable::create(there, kBlockBytes)));
  }
  return *tables_;
}

OurEnd::OurEnd(const Place& place, std::optional<std::uint32_t> eager_bytes,
               std::vector<std::string> nics)
    : bytes_(place.bytes),
      in_(place.in()),
      out_(place.out()),
      context_(need(Context::create({.memory = {}, .nics = std::move(nics)}))),
      worker_(need(Worker::create(context_, {.eager_bytes = std::max(WorkerOptions{}.eager_bytes,
                                                                     eager_bytes.value_or(0))}))),
      region_(register_bytes(context_, bytes_)),
      key_(need(MemoryKey::pack(region_))),
      endpoint_(connect(worker_, place, options(eager_bytes))),
      remote_(exchange(endpoint_, key_, place.line)),
      word_(region_.slice(out_, sizeof(std::uint64_t))),
      remote_word_(remote_.slice(in_, sizeof(std::uint64_t))) {
  // One put shows whether puts go by the NIC. By TCP the peer would have to make progress for it.
  if (endpoint_.nic().info().name == "tcp") return;
  Transfer put = need(endpoint_.put(word_, remote_word_));
  need(put.wait(kPatience));
  expect_by_nic(put);
}

}  // namespace hbmwire::bench
