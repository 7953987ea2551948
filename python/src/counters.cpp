// SPDX-License-Identifier: MIT
#include "hbmwire/counters.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <limits>
#include <string>

#include "errors.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// For example "put host -> gaudi by zero_copy".
std::string series_text(const TransferLabels& labels) {
  const std::string remote(labels.remote ? word_of(*labels.remote) : "?");
  return std::string(to_string(labels.kind)) + " " + std::string(word_of(labels.local)) + " -> " +
         remote + " by " + std::string(word_of(labels.path));
}

/// Adds the labels of a series to its class.
template <class Series>
py::class_<Series> with_labels(py::class_<Series> series) {
  return series
      .def_property_readonly(
          "kind", [](const Series& self) { return to_string(self.labels.kind); },
          "'put', 'get', 'send', 'receive', 'atomic', 'flush', 'immediate' or 'task'.")
      .def_property_readonly(
          "path", [](const Series& self) { return word_of(self.labels.path); },
          "The path that was taken.")
      .def_property_readonly(
          "local", [](const Series& self) { return word_of(self.labels.local); },
          "The type of this end's memory.")
      .def_property_readonly(
          "remote",
          [](const Series& self) -> py::object {
            if (!self.labels.remote) return py::none();
            return py::str(word_of(*self.labels.remote));
          },
          "The type of the peer's memory; None: this end did not learn it.");
}

py::list buckets_of(const TransferTimesHistogram& times) {
  py::list all;
  for (std::size_t i = 0; i < kTimeBuckets; ++i) {
    if (times.transfers[i] == 0) continue;
    const bool bounded = i + 1 < kTimeBuckets;
    all.append(py::make_tuple(
        bounded ? seconds_of(time_bucket_bound(i)) : std::numeric_limits<double>::infinity(),
        times.transfers[i]));
  }
  return all;
}

void bind_series(py::module_& module) {
  with_labels(py::class_<TransferCounters>(module, "TransferCounters",
                                           "Transfers of one series that have succeeded."))
      .def("__repr__",
           [](const TransferCounters& self) {
             return "<hbmwire.TransferCounters " + series_text(self.labels) + ", " +
                    std::to_string(self.bytes) + " bytes>";
           })
      .def_readonly("nic", &TransferCounters::nic, "The endpoint's first NIC.")
      .def_readonly("peer", &TransferCounters::peer, "Address of the peer, or 'other'.")
      .def_readonly("operations", &TransferCounters::operations, "How many have succeeded.")
      .def_readonly("nbytes", &TransferCounters::bytes, "Their bytes.");
  py::class_<FailureCounters>(module, "FailureCounters", "Transfers that have failed.")
      .def("__repr__",
           [](const FailureCounters& self) {
             return "<hbmwire.FailureCounters " + std::string(word_of(self.code)) + ", " +
                    std::to_string(self.operations) + ">";
           })
      .def_property_readonly(
          "code", [](const FailureCounters& self) { return word_of(self.code); },
          "Why, as Error.code.")
      .def_readonly("nic", &FailureCounters::nic, "As TransferCounters.nic.")
      .def_readonly("peer", &FailureCounters::peer, "As TransferCounters.peer.")
      .def_readonly("operations", &FailureCounters::operations, "How many have failed so.");
  with_labels(py::class_<TransferTimesHistogram>(
                  module, "TimesHistogram",
                  "Times of transfers that succeeded: of one in 64, or of all with times=True."))
      .def("__repr__",
           [](const TransferTimesHistogram& self) {
             return "<hbmwire.TimesHistogram " + series_text(self.labels) + ", " +
                    std::to_string(self.count()) + " transfers>";
           })
      .def_property_readonly("count", &TransferTimesHistogram::count, "Transfers that were timed.")
      .def_property_readonly(
          "sum", [](const TransferTimesHistogram& self) { return seconds_of(self.sum); },
          "Seconds, of all of them.")
      .def_property_readonly("buckets", &buckets_of,
                             "Pairs (seconds at most, transfers), without empty buckets.");
  py::class_<RegistrationCounters>(module, "RegistrationCounters",
                                   "Registered memory, and look-ups of registration caches.")
      .def("__repr__",
           [](const RegistrationCounters& self) {
             return "<hbmwire.RegistrationCounters " + std::to_string(self.live) + " live>";
           })
      .def_readonly("hits", &RegistrationCounters::hits, "Look-ups that found a registration.")
      .def_readonly("misses", &RegistrationCounters::misses, "Look-ups that registered anew.")
      .def_readonly("evictions", &RegistrationCounters::evictions, "Gone for a budget.")
      .def_readonly("registrations", &RegistrationCounters::registrations, "Regions, ever.")
      .def_readonly("live", &RegistrationCounters::live, "Regions that are registered now.")
      .def_readonly("live_bytes", &RegistrationCounters::live_bytes, "Bytes of these.");
}

}  // namespace

void bind_counters(py::module_& module) {
  bind_series(module);
  py::class_<Counters>(module, "Counters", "Counts since the process began. They do not change.")
      .def("__repr__",
           [](const Counters& self) {
             return "<hbmwire.Counters " + std::to_string(self.started) + " transfers, " +
                    std::to_string(self.under_way) + " under way>";
           })
      .def_readonly("transfers", &Counters::transfers, "A TransferCounters for each series.")
      .def_readonly("failures", &Counters::failures, "FailureCounters by cause.")
      .def_readonly("times", &Counters::times, "A TimesHistogram for each series.")
      .def_readonly("started", &Counters::started, "Transfers that were begun.")
      .def_readonly("under_way", &Counters::under_way, "Neither succeeded nor failed yet.")
      .def_readonly("queued", &Counters::queued, "Transfers that could not be posted at once.")
      .def_readonly("credit_waits", &Counters::credit_waits,
                    "How often messages began to wait for the peer's receives.")
      .def_readonly("retries", &Counters::retries, "Attempts to connect that were made again.")
      .def_readonly("endpoints", &Counters::endpoints, "Connected or ending now.")
      .def_readonly("endpoints_failed", &Counters::endpoints_failed, "Failed connections.")
      .def_readonly("registrations", &Counters::registrations, "A RegistrationCounters.");
  module.def(
      "counters", [] { return value(process_counters()); },
      "Counters of all contexts of this process.");
}

}  // namespace hbmwire::python
