// SPDX-License-Identifier: MIT
#include "trace/trace_events.hpp"

#include <array>
#include <charconv>
#include <iterator>

#include "hbmwire/version.hpp"

#include "base/node_id.hpp"
#include "base/sysfs.hpp"
#include "registration/path_record.hpp"

namespace hbmwire::detail {

namespace {

template <class Number>
void append_number(std::string& text, Number number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

/// Microseconds with three decimal places, as the format requires. Must not be negative.
void append_us(std::string& text, std::int64_t ns) {
  append_number(text, ns / 1000);
  const auto rest = static_cast<unsigned>(ns % 1000);
  text += '.';
  text += static_cast<char>('0' + rest / 100);
  text += static_cast<char>('0' + rest / 10 % 10);
  text += static_cast<char>('0' + rest % 10);
}

/// The length of the UTF-8 sequence at the beginning of `words` (RFC 3629, section 4); 0 if it is
/// invalid.
std::size_t sequence_at(std::string_view words) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(words[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length > words.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  // Overlong sequences, surrogates, and numbers beyond the last character are invalid.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : length;
}

/// Appends a JSON string. Names of peers come from the application, so they may hold any byte.
void append_string(std::string& text, std::string_view words) {
  constexpr std::string_view kHex = "0123456789abcdef";
  text += '"';
  while (!words.empty()) {
    const auto byte = static_cast<unsigned char>(words.front());
    const std::size_t length = sequence_at(words);
    if (byte == '"' || byte == '\\') {
      text += '\\';
      text += words.front();
    } else if (byte < 0x20 || byte == 0x7f) {
      text += "\\u00";
      text += kHex[byte >> 4U];
      text += kHex[byte & 15U];
    } else if (length == 0) {
      text += "\\ufffd";
    } else {
      text += words.substr(0, length);
    }
    words.remove_prefix(length == 0 ? 1 : length);
  }
  text += '"';
}

std::string_view word_of(WaitedFor cause) noexcept {
  switch (cause) {
    case WaitedFor::nothing:
      return "";
    case WaitedFor::room:
      return "room";
    case WaitedFor::order:
      return "order";
    case WaitedFor::fence:
      return "fence";
    case WaitedFor::mover:
      return "mover";
    case WaitedFor::credit:
      return "credit";
    case WaitedFor::lanes:
      return "lanes";
    case WaitedFor::message:
      return "message";
  }
  return "?";
}

/// Whether the endpoint's connection carries a transfer of this path, by a NIC or by TCP.
constexpr bool is_by_connection(Path path) noexcept {
  return path != Path::copy && path != Path::ipc && path != Path::shared_memory;
}

/// {"ph":"X","name":...,"cat":...,"pid":...,"tid":...,"ts":...,"dur":...,"args":{
void append_slice(std::string& text, std::string_view name, std::string_view category,
                  std::uint32_t process, std::uint32_t track, std::int64_t from_ns,
                  std::int64_t until_ns) {
  text += R"({"ph":"X","name":")";
  text += name;
  text += R"(","cat":")";
  text += category;
  text += R"(","pid":)";
  append_number(text, process);
  text += R"(,"tid":)";
  append_number(text, track);
  text += R"(,"ts":)";
  append_us(text, from_ns);
  text += R"(,"dur":)";
  append_us(text, until_ns - from_ns);
  text += R"(,"args":{)";
}

void append_error(std::string& text, const TraceRecord& record) {
  Error error = make_error(record.code, record.stage, record.call, {}, record.hint);
  error.number = record.error_number;
  error.number_kind = record.number_kind;
  text += R"(,"error":)";
  append_string(text, describe(error, {}));
  text += R"(,"code":)";
  append_string(text, to_string(record.code));
  if (record.hint == Hint::none) return;
  text += R"(,"hint":)";
  append_string(text, to_string(record.hint));
}

}  // namespace

void TraceEvents::begin(std::string& text, std::int64_t now_ns, std::int64_t wall_clock_ns) const {
  const std::string process = std::to_string(process_);
  text += R"([
{"ph":"M","name":"process_name","pid":)" +
          process + R"(,"tid":0,"args":{"name":)";
  append_string(text, read_line("/proc/self/comm") + " on " + host_name());
  text += R"(}},
{"ph":"i","s":"p","name":"trace begins","cat":"trace","pid":)" +
          process + R"(,"tid":0,"ts":)";
  append_us(text, now_ns);
  text += R"(,"args":{"hbmwire":)";
  append_string(text, to_string(version()));
  // Aligns the traces of several machines with each other.
  text += R"(,"wall_clock_us":)";
  append_us(text, wall_clock_ns);
  text += "}},\n";
}

void TraceEvents::set_peer(std::uint32_t connection, const TracePeer& peer) {
  Tracks tracks;
  tracks.name = "worker " + std::to_string(peer.worker) + ": ";
  tracks.name += peer.peer.empty() ? "endpoint " + std::to_string(connection) : peer.peer;
  tracks.who = R"(,"worker":)" + std::to_string(peer.worker) + R"(,"endpoint":)" +
               std::to_string(connection) + R"(,"peer":)";
  append_string(tracks.who, peer.peer);
  tracks.nic = R"(,"nic":)";
  append_string(tracks.nic, peer.nic);
  // The tracks of one endpoint stand together, after those of earlier endpoints.
  tracks.sort = std::uint64_t{connection} << 16U;
  tracks_.insert_or_assign(connection, std::move(tracks));
}

TraceEvents::Tracks& TraceEvents::tracks_of(const TraceRecord& record, std::uint32_t worker) {
  if (record.connection == 0) {
    const auto [found, is_new] = worker_tracks_.try_emplace(worker);
    Tracks& tracks = found->second;
    if (is_new) {
      tracks.name = "worker " + std::to_string(worker);
      tracks.who = R"(,"worker":)" + std::to_string(worker);
    }
    return tracks;
  }
  return tracks_.find(record.connection)->second;
}

void TraceEvents::add_name(std::string& text, const Tracks& tracks, std::uint32_t number) const {
  const auto begin = [&](std::string_view name) {
    text += R"({"ph":"M","name":")";
    text += name;
    text += R"(","pid":)";
    append_number(text, process_);
    text += R"(,"tid":)";
    append_number(text, number);
    text += R"(,"args":{)";
  };
  begin("thread_name");
  text += R"("name":)";
  append_string(text, tracks.count == 1 ? tracks.name
                                        : tracks.name + " (" + std::to_string(tracks.count) + ")");
  text += "}},\n";
  begin("thread_sort_index");
  text += R"("sort_index":)";
  append_number(text, tracks.sort + tracks.count);
  text += "}},\n";
}

/// Chooses a track that has been free since the transfer began; among several, the one that became
/// free last. Makes a new one if there is none.
std::uint32_t TraceEvents::track_for(std::string& text, Tracks& tracks, const TraceRecord& record) {
  auto found = tracks.free.upper_bound(record.times.asked_ns);
  if (found == tracks.free.begin()) {
    const std::uint32_t number = ++last_track_;
    ++tracks.count;
    add_name(text, tracks, number);
    tracks.free.emplace(record.over_ns, number);
    return number;
  }
  auto node = tracks.free.extract(std::prev(found));
  const std::uint32_t number = node.mapped();
  node.key() = record.over_ns;
  tracks.free.insert(std::move(node));
  return number;
}

std::string_view TraceEvents::local_type(std::uint16_t path_record) {
  if (path_record >= local_types_.size()) local_types_.resize(path_record + std::size_t{1});
  std::string_view& type = local_types_[path_record];
  if (type.empty()) {
    const PathRecord* const known = record_at(path_record);
    type = to_string(known == nullptr ? MemoryType::host : known->type);
  }
  return type;
}

void TraceEvents::add(std::string& text, const TraceRecord& record, std::uint32_t worker) {
  Tracks& tracks = tracks_of(record, worker);
  const std::uint32_t track = track_for(text, tracks, record);
  const TraceSlot& times = record.times;
  append_slice(text, record.kind, record.failed ? "transfer,failed" : "transfer", process_, track,
               times.asked_ns, record.over_ns);
  text += R"("bytes":)";
  append_number(text, record.bytes);
  text += R"(,"path":")";
  text += name_of(record.path);
  text += R"(","protocol":")";
  text += to_string(record.protocol);
  text += '"';
  if (*record.by != '\0') {
    text += R"(,"by":")";
    text += record.by;
    text += '"';
  }
  if (is_by_connection(record.path)) text += tracks.nic;
  text += tracks.who;
  if (record.path_record != 0) {
    text += R"(,"local":")";
    text += local_type(record.path_record);
    text += '"';
  }
  if (record.remote_type != TraceRecord::kUnknownType) {
    text += R"(,"remote":")";
    text += to_string(static_cast<MemoryType>(record.remote_type));
    text += '"';
  }
  const bool posted = times.posted_ns != 0;
  if (posted) {
    text += R"(,"posted_us":)";
    append_us(text, times.posted_ns - times.asked_ns);
  }
  const std::string_view cause = word_of(times.waited_for);
  if (!cause.empty()) {
    text += R"(,"wait":")";
    text += cause;
    text += '"';
  }
  if (record.failed) append_error(text, record);
  text += "}},\n";
  if (cause.empty()) return;
  append_slice(text, cause, "wait", process_, track, times.asked_ns,
               posted ? times.posted_ns : record.over_ns);
  text += "}},\n";
}

void TraceEvents::end(std::string& text, std::int64_t now_ns, const TraceCounts& counts,
                      std::string_view failure) const {
  text += R"({"ph":"i","s":"p","name":"trace ends","cat":"trace","pid":)";
  append_number(text, process_);
  text += R"(,"tid":0,"ts":)";
  append_us(text, now_ns);
  text += R"(,"args":{"transfers":)";
  append_number(text, counts.transfers);
  text += R"(,"dropped_busy":)";
  append_number(text, counts.dropped_busy);
  text += R"(,"dropped_full":)";
  append_number(text, counts.dropped_full);
  if (!failure.empty()) {
    text += R"(,"error":)";
    append_string(text, failure);
  }
  text += "}}\n]\n";
}

}  // namespace hbmwire::detail
