// SPDX-License-Identifier: MIT
#include "tools/doctor/remote/link_pair.hpp"

#include <fmt/format.h>

namespace hbmwire::tools::doctor {
namespace {

Json to_json(const LinkEnd& end) {
  return {{"memory", end.memory},
          {"device", end.device},
          {"device_address", end.device_address},
          {"nic", end.nic},
          {"nic_address", end.nic_address},
          {"path", end.path},
          {"distance", end.distance}};
}

Json to_json(const LinkRate& rate) {
  return {{"by_write_bytes_per_second", rate.by_write}, {"by_read_bytes_per_second", rate.by_read}};
}

/// The values that both views of a pair share.
Pair figures_of(const LinkPair& pair) {
  Pair figures;
  figures.outcome = pair.outcome;
  figures.verified_bytes = pair.verified_bytes;
  figures.wrong_bytes = pair.wrong_bytes;
  figures.write_bytes_per_second = pair.out.judged;
  figures.read_bytes_per_second = pair.back.judged;
  figures.latency_ns = pair.latency_ns;
  figures.possible_bytes_per_second = pair.possible_bytes_per_second;
  figures.limit = pair.limit;
  figures.error = pair.error;
  return figures;
}

}  // namespace

std::string_view to_string(Side side) noexcept { return side == Side::here ? "here" : "there"; }

Side opposite(Side side) noexcept { return side == Side::here ? Side::there : Side::here; }

void LinkPair::refuse(const PairError& why, Side at) {
  outcome = why.code == to_string(Errc::busy) ? PairOutcome::untried : PairOutcome::refused;
  error = why;
  side = at;
  noticed_by = at;
}

bool is_same_pair(const LinkPair& one, const LinkPair& other) noexcept {
  return one.here.nic == other.here.nic && one.there.nic == other.there.nic &&
         one.here.memory == other.here.memory && one.there.memory == other.there.memory;
}

Json to_json(const LinkPair& pair) {
  return {{"here", to_json(pair.here)},
          {"there", to_json(pair.there)},
          {"outcome", to_string(pair.outcome)},
          {"out", to_json(pair.out)},
          {"back", to_json(pair.back)},
          {"latency_ns", pair.latency_ns},
          {"possible_bytes_per_second", pair.possible_bytes_per_second},
          {"limit", pair.limit},
          {"mtu_bytes", pair.mtu_bytes},
          {"verified_bytes", pair.verified_bytes},
          {"wrong_bytes", pair.wrong_bytes},
          {"error", to_json(pair.error)},
          {"error_side", pair.side ? Json(to_string(*pair.side)) : Json(nullptr)},
          {"noticed_by", pair.error ? Json(to_string(pair.noticed_by)) : Json(nullptr)}};
}

Pair cell_of(const LinkPair& pair, bool by_nics) {
  Pair cell = figures_of(pair);
  cell.memory = by_nics ? pair.here.nic : pair.here.memory;
  cell.by = by_nics ? pair.there.nic : pair.there.memory;
  cell.path = pair.here.memory == "host" ? pair.there.path : pair.here.path;
  return cell;
}

Pair seen_from(const LinkPair& pair, Side side, const std::string& peer) {
  const LinkEnd& own = pair.end(side);
  const LinkEnd& far = pair.end(opposite(side));
  const std::string other = side == Side::here ? peer : "here";
  Pair seen = figures_of(pair);
  seen.name = fmt::format("here {} by {} - {} {} by {}", pair.here.memory, pair.here.nic, peer,
                          pair.there.memory, pair.there.nic);
  seen.memory = fmt::format("{} {} by {}", other, far.memory, far.nic);
  if (seen.error)
    seen.error->text =
        fmt::format("{}: {}", pair.noticed_by == Side::here ? "here" : peer, seen.error->text);
  seen.device = own.device;
  seen.device_address = own.device_address;
  seen.by = own.nic;
  seen.by_address = own.nic_address;
  seen.path = own.path;
  seen.distance = own.distance;
  return seen;
}

}  // namespace hbmwire::tools::doctor
