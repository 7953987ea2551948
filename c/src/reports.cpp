// SPDX-License-Identifier: MIT
#include <chrono>
#include <string>

#include "hbmwire/transfer.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

constexpr std::int64_t kUnknown = HBMWIRE_UNSET;

std::int64_t nanoseconds_of(std::chrono::steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

std::int64_t nanoseconds_of(const std::optional<std::chrono::steady_clock::time_point>& time) {
  return time ? nanoseconds_of(*time) : kUnknown;
}

hbmwire_status tell_of(const hbmwire_report* report, PathTried TransferReport::*way,
                       hbmwire_path_tried* tried, hbmwire_error* refusal, hbmwire_error* error) {
  return c::run(error, {{report, "report"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(tried, "tried"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    const PathTried& found = (*report->value).*way;
    c::fill(tried, c::tried_of(found));
    c::tell_any(found.refusal, refusal);
    return {};
  });
}

}  // namespace

void hbmwire_report_info_init(hbmwire_report_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_report_get_info(const hbmwire_report* report, hbmwire_report_info* info,
                                       hbmwire_error* error) {
  return c::run(error, {{report, "report"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    const TransferReport& told = *report->value;
    const auto& times = told.times;
    c::fill(info, {.struct_size = 0,
                   .nic = told.nic.c_str(),
                   .peer = told.peer.c_str(),
                   .local_count = told.local.size(),
                   .rail_count = told.rails.size(),
                   .asked_ns = times ? nanoseconds_of(times->asked) : kUnknown,
                   .posted_ns = times ? nanoseconds_of(times->posted) : kUnknown,
                   .over_ns = times ? nanoseconds_of(times->over) : kUnknown,
                   .path = c::number_of(told.path),
                   .protocol = c::number_of(told.protocol),
                   .local_type = c::number_of(told.local_type),
                   .remote_type = c::number_of(told.remote_type),
                   .remote_path = c::number_of(told.remote_path),
                   .reserved = 0});
    return {};
  });
}

size_t hbmwire_report_describe(const hbmwire_report* report, char* text, size_t capacity) {
  return c::copy_text(text, capacity,
                      [&] { return report == nullptr ? std::string() : describe(*report->value); });
}

hbmwire_status hbmwire_report_local(const hbmwire_report* report, size_t index,
                                    hbmwire_path_tried* tried, hbmwire_error* refusal,
                                    hbmwire_error* error) {
  return c::run(error, {{report, "report"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(tried, "tried"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    const auto& local = report->value->local;
    if (index >= local.size()) return c::refuse("the report has no path of this index");
    c::fill(tried, c::tried_of(local[index]));
    c::tell_any(local[index].refusal, refusal);
    return {};
  });
}

hbmwire_status hbmwire_report_copy(const hbmwire_report* report, hbmwire_path_tried* tried,
                                   hbmwire_error* refusal, hbmwire_error* error) {
  return tell_of(report, &TransferReport::copy, tried, refusal, error);
}

hbmwire_status hbmwire_report_ipc(const hbmwire_report* report, hbmwire_path_tried* tried,
                                  hbmwire_error* refusal, hbmwire_error* error) {
  return tell_of(report, &TransferReport::ipc, tried, refusal, error);
}

hbmwire_status hbmwire_report_rail(const hbmwire_report* report, size_t index, const char** nic,
                                   uint64_t* bytes, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {report, "report"}, {nic, "nic"}, {bytes, "bytes"}};
  return c::run(error, needed, [&]() -> Result<void> {
    const auto& rails = report->value->rails;
    if (index >= rails.size()) return c::refuse("the report has no NIC of this index");
    *nic = rails[index].nic.c_str();
    *bytes = rails[index].bytes;
    return {};
  });
}

void hbmwire_report_free(hbmwire_report* report) { delete report; }
