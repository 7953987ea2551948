// SPDX-License-Identifier: MIT
#include "endpoint/prepared_lists.hpp"

#include <algorithm>
#include <utility>

#include "endpoint/endpoint_state.hpp"
#include "endpoint/way.hpp"

namespace hbmwire::detail {

namespace {

using transport::Operation;

/// Appends `operation` in pieces that the NICs take.
void append_pieces(std::vector<Operation>& all, Operation operation, std::uint64_t most) {
  while (operation.length > most) {
    Operation piece = operation;
    piece.length = most;
    all.push_back(piece);
    operation.local += most;
    operation.remote += most;
    operation.length -= most;
  }
  if (operation.length != 0) all.push_back(operation);
}

/// Cuts the requests into chunks. Each chunk is posted in one call, and only its last request is
/// signaled; the others tell only of failures.
void chain(RequestState& request, const transport::Lane& lane, std::span<const Operation> all,
           std::size_t most) {
  request.posted.resize((all.size() + most - 1) / most);
  std::vector<transport::Request> chunk;
  for (Posted& posted : request.posted) {
    const auto operations = all.first(std::min(most, all.size()));
    all = all.subspan(operations.size());
    posted.endpoint = request.endpoint;
    posted.requests = static_cast<std::uint32_t>(operations.size());
    chunk.clear();
    for (const Operation& operation : operations)
      chunk.push_back({operation, to_id(&posted, transport::Tag::part), false});
    chunk.back().id = to_id(&posted, transport::Tag::posted);
    chunk.back().signaled = true;
    request.chunks.push_back(lane.prepare(chunk));
  }
}

void give_immediate(std::vector<Operation>& all, std::uint32_t immediate) {
  if (all.empty()) all.emplace_back();
  all.back().with_immediate = true;
  all.back().immediate = immediate;
}

/// Makes the path of `part` the request's, if it is the worst so far.
void set_worst(RequestState& request, const TransferPart& part) {
  const RegionState* const here =
      part.local.region == nullptr ? nullptr : &state_of(*part.local.region);
  const RemoteRegionState& there = *remote_state_of(part.remote);
  const Path both = std::max(here == nullptr ? Path::host : here->path, there.path);
  if (request.remote != kUnknownRemote && both <= request.path) return;
  request.path = both;
  request.record = here == nullptr ? std::uint16_t{0} : here->record;
  request.remote = remote_side(there.type, there.path);
}

/// Adds a READ of one byte that `write` writes, one for each region. When the READ is over, all
/// bytes of the WRITEs are there.
void read_behind(std::vector<Operation>& reads, const WorkerNic& nic, const Operation& write) {
  const bool is_read = std::ranges::any_of(
      reads, [&](const Operation& read) { return read.remote_key == write.remote_key; });
  if (!is_read) reads.push_back(nic.read_back(write.remote, write.remote_key));
}

}  // namespace

Result<std::unique_ptr<RequestState>> PreparedLists::prepare(std::span<const TransferPart> parts,
                                                             bool put,
                                                             const PutOptions& put_options) {
  if (endpoint_.phase != EndpointPhase::ready || endpoint_.worker->made.is_inherited())
    return tl::make_unexpected(endpoint_.not_ready());
  auto request = std::make_unique<RequestState>();
  request->kind = put ? TransferKind::put : TransferKind::get;
  request->worker = endpoint_.worker;
  request->endpoint = &endpoint_;
  const bool visible = put && put_options.level == CompletionLevel::visible;
  const auto refuse = [&](const char* why, Errc code = Errc::invalid_argument,
                          Hint hint = Hint::none) {
    return tl::make_unexpected(make_error(code, Stage::post, why, endpoint_.peer, hint));
  };
  std::vector<Operation> all;
  std::vector<Operation> reads;          // one for each region that was written
  std::vector<const RegionState*> read;  // regions that are read into
  const transport::Opcode opcode = put ? transport::Opcode::write : transport::Opcode::read;
  const Access needed = put ? Access::remote_write : Access::remote_read;
  for (const TransferPart& part : parts) {
    Operation operation;
    HBMWIRE_TRY(endpoint_.checks.local(operation, part.local));
    HBMWIRE_TRY(endpoint_.checks.remote(operation, part.remote, needed));
    if (!put) HBMWIRE_TRY(check_writable(part.local, endpoint_.peer));
    operation.opcode = opcode;
    if (part.local.length_bytes != part.remote.length_bytes)
      return refuse("the two slices differ in length: take a part of the longer one");
    set_worst(*request, part);
    if (operation.length == 0) continue;
    const RegionState& region = state_of(*part.local.region);
    if (endpoint_.paths.is_staged(region.path) ||
        remote_state_of(part.remote)->path == Path::staged) {
      return refuse("a list is the NIC's, which does not reach memory that is staged",
                    Errc::not_supported);
    }
    endpoint_.checks.note(part.local, remote_state_of(part.remote)->type);
    if (put && is_by_engine(*remote_state_of(part.remote))) request->writes_to_engines = true;
    if (!put && region.path != Path::host && std::ranges::find(read, &region) == read.end()) {
      read.push_back(&region);
      request->to_flush.push_back(operation);
    }
    if (visible && !endpoint_.paths.by_tcp()) {
      HBMWIRE_TRY(check_visible(*remote_state_of(part.remote), endpoint_.peer));
      read_behind(reads, endpoint_.worker_nic, operation);
    }
    request->bytes += operation.length;
    append_pieces(all, operation, endpoint_.sends.most_bytes());
  }
  // At most half of the queue, so that one chunk can be sent while another is posted.
  const std::size_t most = std::max(endpoint_.options.send_depth / 2, 1U);
  if (put && put_options.immediate) {
    give_immediate(all, *put_options.immediate);
    // The immediate is on the last request so far.
    request->immediate_chunk = (all.size() - 1) / most;
  }
  all.insert(all.end(), reads.begin(), reads.end());
  if (all.empty())
    all.emplace_back();  // an empty list gets one empty request, so that its
                         // transfer ends, too
  chain(*request, endpoint_.sends.lane(), all, most);
  requests_.push_back(request.get());
  // Makes room for all requests now: a destructor may have to keep any of them, and cannot
  // allocate.
  left_.reserve(left_.size() + requests_.size());
  ++endpoint_.worker->held;
  return request;
}

PreparedLists::~PreparedLists() {
  for (RequestState* const request : requests_) request->endpoint = nullptr;
}

void PreparedLists::let_go(std::unique_ptr<RequestState> request) noexcept {
  std::erase(requests_, request.get());
  // The send queue still points into a request that is under way.
  if (request->under_way()) left_.push_back(std::move(request));
}

void PreparedLists::drop_left() noexcept {
  std::erase_if(left_, [](const auto& request) { return !request->under_way(); });
}

}  // namespace hbmwire::detail
