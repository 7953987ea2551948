// SPDX-License-Identifier: MIT
#include "hbmwire/counters.hpp"

#include <algorithm>

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

static_assert(c::number_of(TransferKind::immediate) == HBMWIRE_KIND_IMMEDIATE);
static_assert(c::number_of(TransferKind::task) == HBMWIRE_KIND_TASK);
static_assert(kTimeBuckets == HBMWIRE_TIME_BUCKETS);

namespace {

/// Writes the labels of a series into a caller's structure.
template <class Series>
Series labelled(Series series, const TransferLabels& labels) noexcept {
  series.kind = c::number_of(labels.kind);
  series.path = c::number_of(labels.path);
  series.local_type = c::number_of(labels.local);
  series.remote_type = c::number_of(labels.remote);
  return series;
}

/// Fills in the series at `index` of `all`; `tell` converts it.
template <class Answer, class Series, class Tell>
hbmwire_status tell_series(const hbmwire_counters* counters, std::vector<Series> Counters::*all,
                           size_t index, Answer* answer, hbmwire_error* error, const Tell& tell) {
  return c::run(error, {{counters, "counters"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(answer, "series"));
    const std::vector<Series>& series = (*counters->value).*all;
    if (index >= series.size()) return c::refuse("an index that is not less than the count");
    c::fill(answer, tell(series[index]));
    return {};
  });
}

}  // namespace

const char* hbmwire_transfer_kind_name(hbmwire_transfer_kind kind) {
  const auto known = c::enum_of(kind, TransferKind::task, "kind");
  return known ? to_string(*known).data() : "?";
}

hbmwire_status hbmwire_process_counters(hbmwire_counters** counters, hbmwire_error* error) {
  return c::create(counters, error, {}, [] { return process_counters(); });
}

hbmwire_status hbmwire_context_counters(const hbmwire_context* context, hbmwire_counters** counters,
                                        hbmwire_error* error) {
  return c::create(counters, error, {{context, "context"}},
                   [&] { return context->value->counters(); });
}

hbmwire_status hbmwire_worker_counters(const hbmwire_worker* worker, hbmwire_counters** counters,
                                       hbmwire_error* error) {
  return c::create(counters, error, {{worker, "worker"}},
                   [&] { return worker->value->counters(); });
}

hbmwire_status hbmwire_endpoint_counters(const hbmwire_endpoint* endpoint,
                                         hbmwire_counters** counters, hbmwire_error* error) {
  return c::create(counters, error, {{endpoint, "endpoint"}},
                   [&] { return endpoint->value->counters(); });
}

void hbmwire_counters_info_init(hbmwire_counters_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_counters_get_info(const hbmwire_counters* counters,
                                         hbmwire_counters_info* info, hbmwire_error* error) {
  return c::run(error, {{counters, "counters"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    const Counters& all = *counters->value;
    c::fill(info, {.struct_size = 0,
                   .transfer_count = all.transfers.size(),
                   .failure_count = all.failures.size(),
                   .times_count = all.times.size(),
                   .started = all.started,
                   .under_way = all.under_way,
                   .queued = all.queued,
                   .credit_waits = all.credit_waits,
                   .retries = all.retries,
                   .endpoints = all.endpoints,
                   .endpoints_failed = all.endpoints_failed,
                   .cache_hits = all.registrations.hits,
                   .cache_misses = all.registrations.misses,
                   .cache_evictions = all.registrations.evictions,
                   .registrations = all.registrations.registrations,
                   .live = all.registrations.live,
                   .live_bytes = all.registrations.live_bytes});
    return {};
  });
}

void hbmwire_transfer_counters_init(hbmwire_transfer_counters* series, size_t struct_size) {
  c::initialise(series, struct_size, {});
}

hbmwire_status hbmwire_counters_transfers(const hbmwire_counters* counters, size_t index,
                                          hbmwire_transfer_counters* series, hbmwire_error* error) {
  return tell_series(counters, &Counters::transfers, index, series, error,
                     [](const TransferCounters& one) {
                       hbmwire_transfer_counters told{};
                       told.nic = one.nic.c_str();
                       told.peer = one.peer.c_str();
                       told.operations = one.operations;
                       told.bytes = one.bytes;
                       return labelled(told, one.labels);
                     });
}

void hbmwire_failure_counters_init(hbmwire_failure_counters* series, size_t struct_size) {
  c::initialise(series, struct_size, {});
}

hbmwire_status hbmwire_counters_failures(const hbmwire_counters* counters, size_t index,
                                         hbmwire_failure_counters* series, hbmwire_error* error) {
  return tell_series(counters, &Counters::failures, index, series, error,
                     [](const FailureCounters& one) {
                       hbmwire_failure_counters told{};
                       told.nic = one.nic.c_str();
                       told.peer = one.peer.c_str();
                       told.operations = one.operations;
                       // HBMWIRE_OK is number 0, so the library's codes follow by one more.
                       told.code = c::number_of(one.code) + 1;
                       return told;
                     });
}

int64_t hbmwire_time_bucket_bound_ns(size_t bucket) {
  // The bound keeps time_bucket_bound() from overflowing.
  return c::number_of_ns(time_bucket_bound(std::min(bucket, kTimeBuckets)));
}

void hbmwire_transfer_times_init(hbmwire_transfer_times* series, size_t struct_size) {
  c::initialise(series, struct_size, {});
}

hbmwire_status hbmwire_counters_times(const hbmwire_counters* counters, size_t index,
                                      hbmwire_transfer_times* series, hbmwire_error* error) {
  return tell_series(counters, &Counters::times, index, series, error,
                     [](const TransferTimesHistogram& one) {
                       hbmwire_transfer_times told{};
                       std::ranges::copy(one.transfers, told.transfers);
                       told.count = one.count();
                       told.sum_ns = one.sum.count();
                       return labelled(told, one.labels);
                     });
}

void hbmwire_counters_free(hbmwire_counters* counters) { delete counters; }

hbmwire_status hbmwire_published_find(uint32_t process, hbmwire_published** published,
                                      hbmwire_error* error) {
  return c::create(published, error, {}, [&] { return PublishedProcess::find(process); });
}

hbmwire_status hbmwire_published_list(uint32_t* processes, size_t capacity, size_t* count,
                                      hbmwire_error* error) {
  return c::run(error, {{count, "count"}}, [&]() -> Result<void> {
    if (processes == nullptr && capacity != 0)
      return c::refuse("there is room for processes, but no memory");
    HBMWIRE_TRY_ASSIGN(const auto all, PublishedProcess::find_all());
    for (std::size_t i = 0; i < std::min(all.size(), capacity); ++i)
      processes[i] = all[i].process();
    *count = all.size();
    return {};
  });
}

bool hbmwire_published_is_running(const hbmwire_published* published) {
  return published != nullptr && published->value->is_running();
}

hbmwire_status hbmwire_published_read(const hbmwire_published* published,
                                      hbmwire_counters** counters, hbmwire_error* error) {
  return c::create(counters, error, {{published, "published"}}, [&]() -> Result<Counters> {
    HBMWIRE_TRY_ASSIGN(PublishedCounters read, published->value->read());
    return std::move(read.counters);
  });
}

void hbmwire_published_free(hbmwire_published* published) { delete published; }

hbmwire_status hbmwire_nic_counters(const char* nic,
                                    void (*use)(void* context, uint32_t port, const char* name,
                                                uint64_t value),
                                    void* context, hbmwire_error* error) {
  return c::run(error, {{nic, "nic"}}, [&]() -> Result<void> {
    if (use == nullptr) return c::refuse("a pointer is NULL", "use");
    for (const NicCounter& one : nic_counters(nic))
      use(context, one.port, one.name.c_str(), one.value);
    return {};
  });
}
