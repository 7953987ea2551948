// SPDX-License-Identifier: MIT
#include "words.hpp"

#include <cstring>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/region.hpp"
#include "hbmwire/topology.hpp"
#include "hbmwire/transfer.hpp"

namespace hbmwire::c {
namespace {

// Numbers of the C interface never change. If the library reorders an enumeration, these checks
// fail, and the values must no longer be cast.
static_assert(number_of(Errc::invalid_argument) + 1 == HBMWIRE_INVALID_ARGUMENT);
static_assert(number_of(Errc::exhausted) + 1 == HBMWIRE_EXHAUSTED);
static_assert(number_of(Errc::peer_failed) + 1 == HBMWIRE_PEER_FAILED);
static_assert(number_of(Errc::system) + 1 == HBMWIRE_SYSTEM);
static_assert(number_of(Stage::connect) == HBMWIRE_STAGE_CONNECT);
static_assert(number_of(Stage::file) == HBMWIRE_STAGE_FILE);
static_assert(number_of(NumberKind::gai_error) == HBMWIRE_NUMBER_GAI_ERROR);
static_assert(number_of(NumberKind::protocol_versions) == HBMWIRE_NUMBER_PROTOCOL_VERSIONS);
static_assert(number_of(MemoryType::dmabuf) == HBMWIRE_MEMORY_DMABUF);
static_assert(number_of(Path::staged) == HBMWIRE_PATH_STAGED);
static_assert(number_of(Path::shared_memory) == HBMWIRE_PATH_SHARED_MEMORY);
static_assert(number_of(kAllAccess) == (HBMWIRE_ACCESS_LOCAL_WRITE | HBMWIRE_ACCESS_REMOTE_WRITE |
                                        HBMWIRE_ACCESS_REMOTE_READ | HBMWIRE_ACCESS_REMOTE_ATOMIC));
static_assert(number_of(CompletionLevel::visible) == HBMWIRE_LEVEL_VISIBLE);
static_assert(number_of(Protocol::rendezvous_read) == HBMWIRE_PROTOCOL_RENDEZVOUS_READ);
static_assert(number_of(Protocol::proxied) == HBMWIRE_PROTOCOL_PROXIED);
static_assert(number_of(Placement::two_nodes) == HBMWIRE_PLACEMENT_TWO_NODES);
static_assert(number_of(EndpointPhase::closed) == HBMWIRE_PHASE_CLOSED);
static_assert(number_of(Distance::unknown) == HBMWIRE_DISTANCE_UNKNOWN);
static_assert(number_of(LogLevel::debug) == HBMWIRE_LOG_DEBUG);
static_assert(sizeof(hbmwire_error::subject) == sizeof(Error::subject));

/// The word of an enumerator; empty for another number. The library's words are literals, which end
/// with a NUL.
template <class Enum>
const char* word_of(std::int32_t number, Enum last) noexcept {
  const bool is_known = number >= 0 && number <= static_cast<std::int32_t>(last);
  return is_known ? to_string(static_cast<Enum>(number)).data() : "";
}

bool is_hint(hbmwire_hint hint) noexcept {
  return hint >= 0 && hint <= UINT8_MAX && !to_string(static_cast<Hint>(hint)).empty();
}

}  // namespace

hbmwire_error number_of(const Error& error) noexcept {
  hbmwire_error told{};
  // HBMWIRE_OK is 0, so the library's codes follow by one more.
  told.code = static_cast<hbmwire_status>(error.code) + 1;
  told.stage = number_of(error.stage);
  told.hint = number_of(error.hint);
  told.number_kind = number_of(error.number_kind);
  told.number = error.number;
  told.call = error.call;
  std::memcpy(told.subject, error.subject, sizeof told.subject);
  return told;
}

Error error_of(const hbmwire_error& error) noexcept {
  Error made;
  if (error.code >= HBMWIRE_INVALID_ARGUMENT && error.code <= HBMWIRE_SYSTEM)
    made.code = static_cast<Errc>(error.code - 1);
  if (error.stage >= 0 && error.stage <= HBMWIRE_STAGE_FILE)
    made.stage = static_cast<Stage>(error.stage);
  if (error.number_kind >= 0 && error.number_kind <= HBMWIRE_NUMBER_PROTOCOL_VERSIONS)
    made.number_kind = static_cast<NumberKind>(error.number_kind);
  if (is_hint(error.hint)) made.hint = static_cast<Hint>(error.hint);
  made.number = error.number;
  if (error.call != nullptr) made.call = error.call;
  // Keeps the NUL in the last byte, whatever the caller's structure has there.
  std::memcpy(made.subject, error.subject, sizeof made.subject - 1);
  return made;
}

}  // namespace hbmwire::c

using namespace hbmwire;
using hbmwire::c::word_of;

const char* hbmwire_memory_type_name(hbmwire_memory_type type) {
  return word_of(type, MemoryType::dmabuf);
}

const char* hbmwire_path_name(hbmwire_path path) { return word_of(path, Path::shared_memory); }

const char* hbmwire_level_name(hbmwire_level level) {
  return word_of(level, CompletionLevel::visible);
}

const char* hbmwire_protocol_name(hbmwire_protocol protocol) {
  return word_of(protocol, Protocol::proxied);
}

const char* hbmwire_placement_name(hbmwire_placement placement) {
  return word_of(placement, Placement::two_nodes);
}

const char* hbmwire_phase_name(hbmwire_phase phase) {
  return word_of(phase, EndpointPhase::closed);
}

const char* hbmwire_distance_name(hbmwire_distance distance) {
  return word_of(distance, Distance::unknown);
}

const char* hbmwire_log_level_name(hbmwire_log_level level) {
  return word_of(level, LogLevel::debug);
}

const char* hbmwire_status_name(hbmwire_status status) {
  return status == HBMWIRE_OK ? "success" : word_of(status - 1, Errc::system);
}

const char* hbmwire_stage_name(hbmwire_stage stage) { return word_of(stage, Stage::file); }

const char* hbmwire_hint_name(hbmwire_hint hint) {
  return c::is_hint(hint) ? to_string(static_cast<Hint>(hint)).data() : "";
}

const char* hbmwire_hint_text(hbmwire_hint hint) {
  if (!c::is_hint(hint)) return "";
  // The text of Hint::none is a view of nothing.
  const char* const text = hint_text(static_cast<Hint>(hint)).data();
  return text == nullptr ? "" : text;
}

hbmwire_hint hbmwire_hint_from_name(const char* name) {
  if (name == nullptr) return -1;
  const auto hint = hint_from_name(name);
  return hint ? c::number_of(*hint) : -1;
}
