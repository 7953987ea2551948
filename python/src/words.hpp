// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <string_view>
#include <utility>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

/// Enumerators as words that Python programs write and read, spelt as in C++.
namespace hbmwire::python {

namespace py = pybind11;

template <class Enum>
using Word = std::pair<Enum, std::string_view>;

/// The words of an enumeration, and the name of an argument of that type.
template <class Enum>
struct Words;

template <>
struct Words<MemoryType> {
  static constexpr std::string_view kKind = "type of memory";
  static constexpr std::array<Word<MemoryType>, 5> kAll{{{MemoryType::host, "host"},
                                                         {MemoryType::gaudi, "gaudi"},
                                                         {MemoryType::cuda, "cuda"},
                                                         {MemoryType::rocm, "rocm"},
                                                         {MemoryType::dmabuf, "dmabuf"}}};
};

template <>
struct Words<Path> {
  static constexpr std::string_view kKind = "path";
  static constexpr std::array<Word<Path>, 9> kAll{{{Path::host, "host"},
                                                   {Path::zero_copy, "zero_copy"},
                                                   {Path::peer_memory, "peer_memory"},
                                                   {Path::nic_loopback, "nic_loopback"},
                                                   {Path::staged, "staged"},
                                                   {Path::copy, "copy"},
                                                   {Path::tcp, "tcp"},
                                                   {Path::ipc, "ipc"},
                                                   {Path::shared_memory, "shared_memory"}}};
};

template <>
struct Words<Access> {
  static constexpr std::string_view kKind = "access";
  static constexpr std::array<Word<Access>, 4> kAll{{{Access::local_write, "local_write"},
                                                     {Access::remote_write, "remote_write"},
                                                     {Access::remote_read, "remote_read"},
                                                     {Access::remote_atomic, "remote_atomic"}}};
};

template <>
struct Words<CompletionLevel> {
  static constexpr std::string_view kKind = "level";
  static constexpr std::array<Word<CompletionLevel>, 3> kAll{
      {{CompletionLevel::sent, "sent"},
       {CompletionLevel::arrived, "arrived"},
       {CompletionLevel::visible, "visible"}}};
};

template <>
struct Words<Protocol> {
  static constexpr std::string_view kKind = "protocol";
  static constexpr std::array<Word<Protocol>, 6> kAll{
      {{Protocol::direct, "direct"},
       {Protocol::inlined, "inlined"},
       {Protocol::eager, "eager"},
       {Protocol::rendezvous_read, "rendezvous_read"},
       {Protocol::rendezvous_write, "rendezvous_write"},
       {Protocol::proxied, "proxied"}}};
};

template <>
struct Words<EndpointPhase> {
  static constexpr std::string_view kKind = "phase";
  static constexpr std::array<Word<EndpointPhase>, 4> kAll{{{EndpointPhase::ready, "ready"},
                                                            {EndpointPhase::ending, "ending"},
                                                            {EndpointPhase::failed, "failed"},
                                                            {EndpointPhase::closed, "closed"}}};
};

template <>
struct Words<Placement> {
  static constexpr std::string_view kKind = "placement";
  static constexpr std::array<Word<Placement>, 3> kAll{{{Placement::same_process, "same_process"},
                                                        {Placement::same_node, "same_node"},
                                                        {Placement::two_nodes, "two_nodes"}}};
};

template <>
struct Words<MessageMode> {
  static constexpr std::string_view kKind = "mode of messages";
  static constexpr std::array<Word<MessageMode>, 2> kAll{
      {{MessageMode::matched, "matched"}, {MessageMode::handed_out, "handed_out"}}};
};

template <>
struct Words<LogLevel> {
  static constexpr std::string_view kKind = "log level";
  static constexpr std::array<Word<LogLevel>, 5> kAll{{{LogLevel::off, "off"},
                                                       {LogLevel::error, "error"},
                                                       {LogLevel::warn, "warn"},
                                                       {LogLevel::info, "info"},
                                                       {LogLevel::debug, "debug"}}};
};

template <>
struct Words<MemoryOptions::Owner> {
  static constexpr std::string_view kKind = "owner";
  static constexpr std::array<Word<MemoryOptions::Owner>, 3> kAll{
      {{MemoryOptions::Owner::automatic, "automatic"},
       {MemoryOptions::Owner::synapse, "synapse"},
       {MemoryOptions::Owner::hl_thunk, "hl_thunk"}}};
};

template <>
struct Words<HostMemoryOptions::Pages> {
  static constexpr std::string_view kKind = "size of pages";
  static constexpr std::array<Word<HostMemoryOptions::Pages>, 3> kAll{
      {{HostMemoryOptions::Pages::normal, "normal"},
       {HostMemoryOptions::Pages::huge_2m, "huge_2m"},
       {HostMemoryOptions::Pages::huge_1g, "huge_1g"}}};
};

template <>
struct Words<Stage> {
  static constexpr std::string_view kKind = "stage";
  static constexpr std::array<Word<Stage>, 12> kAll{{{Stage::configure, "configure"},
                                                     {Stage::probe, "probe"},
                                                     {Stage::open, "open"},
                                                     {Stage::allocate, "allocate"},
                                                     {Stage::export_dmabuf, "export_dmabuf"},
                                                     {Stage::register_memory, "register_memory"},
                                                     {Stage::connect, "connect"},
                                                     {Stage::post, "post"},
                                                     {Stage::complete, "complete"},
                                                     {Stage::copy, "copy"},
                                                     {Stage::verify, "verify"},
                                                     {Stage::file, "file"}}};
};

template <>
struct Words<Errc> {
  static constexpr std::string_view kKind = "code";
  static constexpr std::array<Word<Errc>, 12> kAll{{{Errc::invalid_argument, "invalid_argument"},
                                                    {Errc::not_found, "not_found"},
                                                    {Errc::not_supported, "not_supported"},
                                                    {Errc::permission_denied, "permission_denied"},
                                                    {Errc::busy, "busy"},
                                                    {Errc::exhausted, "exhausted"},
                                                    {Errc::timed_out, "timed_out"},
                                                    {Errc::peer_failed, "peer_failed"},
                                                    {Errc::protocol, "protocol"},
                                                    {Errc::data_mismatch, "data_mismatch"},
                                                    {Errc::cancelled, "cancelled"},
                                                    {Errc::system, "system"}}};
};

/// The word of an enumerator.
template <class Enum>
[[nodiscard]] constexpr std::string_view word_of(Enum value) noexcept {
  for (const auto& [other, word] : Words<Enum>::kAll) {
    if (other == value) return word;
  }
  return "?";
}

/// The text of a Python string; it lives as long as the string. Raises TypeError.
[[nodiscard]] std::string_view text_of(py::handle word, std::string_view kind);

/// Raises ValueError, which lists the valid words.
[[noreturn]] void refuse_word(std::string_view word, std::string_view kind, const py::list& words);

/// The enumerator of a word. Raises TypeError, ValueError.
template <class Enum>
[[nodiscard]] Enum from_word(py::handle word) {
  const std::string_view text = text_of(word, Words<Enum>::kKind);
  for (const auto& [value, name] : Words<Enum>::kAll) {
    if (name == text) return value;
  }
  py::list words;
  for (const auto& [value, name] : Words<Enum>::kAll) words.append(py::str(name));
  refuse_word(text, Words<Enum>::kKind, words);
}

/// The rights of a set, as a frozenset of words.
[[nodiscard]] py::frozenset words_of(Access access);

}  // namespace hbmwire::python
