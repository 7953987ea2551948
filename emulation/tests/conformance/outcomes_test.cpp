// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/outcomes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <sstream>

/// Requests with one wrong parameter. For each operation of each transport it checks both
/// completions, both states and the sides whose memory has changed.
namespace hbmwire::conformance {
namespace {

struct Operation {
  const char* name;
  ibv_wr_opcode opcode;
  bool takes_receive;
};

constexpr Operation kOperations[] = {{"SEND", IBV_WR_SEND, true},
                                     {"SEND_IMM", IBV_WR_SEND_WITH_IMM, true},
                                     {"WRITE", IBV_WR_RDMA_WRITE, false},
                                     {"WRITE_IMM", IBV_WR_RDMA_WRITE_WITH_IMM, true},
                                     {"READ", IBV_WR_RDMA_READ, false},
                                     {"CAS", IBV_WR_ATOMIC_CMP_AND_SWP, false},
                                     {"FADD", IBV_WR_ATOMIC_FETCH_AND_ADD, false}};

bool takes_receive(ibv_wr_opcode opcode) {
  return std::any_of(std::begin(kOperations), std::end(kOperations),
                     [&](const Operation& operation) {
                       return operation.opcode == opcode && operation.takes_receive;
                     });
}

std::string status_name(const std::optional<ibv_wc>& completion) {
  static constexpr const char* kNames[] = {
      "SUCCESS",   "LOC_LEN",       "LOC_QP_OP",    "LOC_EEC_OP",  "LOC_PROT",   "FLUSH",
      "MW_BIND",   "BAD_RESP",      "LOC_ACCESS",   "REM_INV_REQ", "REM_ACCESS", "REM_OP",
      "RETRY_EXC", "RNR_RETRY_EXC", "LOC_RDD",      "REM_INV_RD",  "REM_ABORT",  "INV_EECN",
      "INV_EEC",   "FATAL",         "RESP_TIMEOUT", "GENERAL"};
  if (!completion) return "-";
  const auto status = static_cast<std::size_t>(completion->status);
  return status < std::size(kNames) ? kNames[status] : std::to_string(status);
}

/// Posts the receive and the request of a scene, and returns the outcome in the form of OutcomeRow.
/// Waits up to a second for the expected outcome, because states and memory may change late.
std::string play(Scene& scene, const std::string& expected) {
  Side& a = scene.link.a;
  Side& b = scene.link.b;
  for (std::size_t at = 0; at < 16; ++at) {
    a.buffer[at] = static_cast<unsigned char>(0xa0 + at);
    b.buffer[at] = static_cast<unsigned char>(0xb0 + at);
  }
  // A UD receive gets a header, which may be zeros. Other bytes here make its arrival a change.
  std::fill_n(b.buffer.begin() + Scene::kReceiveOffset, kGrhBytes, 0xcc);
  // The value that is compared must be equal, or nothing would be swapped.
  if (scene.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    std::uint64_t word = 0;
    std::memcpy(&word, b.buffer.data(), sizeof word);
    scene.request.wr.atomic.compare_add = word;
  }
  const std::vector<unsigned char> a_before = a.buffer;
  const std::vector<unsigned char> b_before = b.buffer;
  if (scene.has_receive) {
    EXPECT_EQ(b.receive(2, scene.receive), 0);
  }
  std::string outcome;
  if (const int error = a.post(scene.request, scene.elements); error != 0) {
    outcome = std::string("post=") + ::strerrorname_np(error);
  } else {
    outcome = "sent=" + status_name(wait_completion(a.send_cq.get()));
  }
  constexpr std::chrono::milliseconds kAWhile{20};
  const bool is_silent = expected.find("received=-") != std::string::npos;
  const auto received = wait_completion(b.recv_cq.get(), is_silent ? kAWhile : kPatience);
  outcome += " received=" + status_name(received);
  std::string whole;
  wait_until(
      [&] {
        whole = outcome + " a=" + name_of(a.state()) + " b=" + name_of(b.state()) + " changed=";
        if (a.buffer != a_before) whole += "a";
        if (b.buffer != b_before) whole += "b";
        if (whole.back() == '=') whole += "-";
        return whole == expected;
      },
      std::chrono::milliseconds(1000));
  return whole;
}

struct Case {
  Transport transport;
  const OutcomeRow* row;
  Operation operation;
};

/// The operations that a row names. Unknown names are left out.
std::vector<Operation> operations_of(const OutcomeRow& row) {
  std::vector<Operation> found;
  std::istringstream words(row.opcodes);
  for (std::string word; words >> word;) {
    const auto* const operation =
        std::find_if(std::begin(kOperations), std::end(kOperations),
                     [&](const Operation& candidate) { return word == candidate.name; });
    if (operation != std::end(kOperations)) found.push_back(*operation);
  }
  return found;
}

bool has_row(Transport transport, const char* fault, const Operation& operation) {
  const auto table = outcome_table();
  return std::any_of(table.begin(), table.end(), [&](const OutcomeRow& row) {
    const std::vector<Operation> operations = operations_of(row);
    return row.transport == transport && std::strcmp(row.fault, fault) == 0 &&
           std::any_of(operations.begin(), operations.end(),
                       [&](const Operation& own) { return own.opcode == operation.opcode; });
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const OutcomeRow& row : outcome_table()) {
    for (const Operation& operation : operations_of(row)) {
      cases.push_back({row.transport, &row, operation});
      if (row.transport == Transport::rc && !has_row(Transport::xrc, row.fault, operation))
        cases.push_back({Transport::xrc, &row, operation});
    }
  }
  return cases;
}

std::string outcome_name(const testing::TestParamInfo<Case>& info) {
  return std::string(name_of(info.param.transport)) + "_" + info.param.row->fault + "_" +
         info.param.operation.name;
}

class Outcomes : public ConformanceOf<Case> {};

TEST_P(Outcomes, AreThoseOfTheTable) {
  source(
      "outcome_table.cpp; IBTA vol. 1, chapter 9, requester and responder error behaviour; 11.6.2, "
      "completion return status");
  const Case& row = GetParam();
  HBMWIRE_NEED(lacks(nic, row.transport));
  const ibv_wr_opcode opcode = row.operation.opcode;
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    HBMWIRE_NEED(nic.lacks_atomics());
  }
  const std::vector<Fault> all = faults();
  const auto fault = std::find_if(all.begin(), all.end(), [&](const Fault& candidate) {
    return std::strcmp(candidate.name, row.row->fault) == 0;
  });
  ASSERT_NE(fault, all.end()) << "no such fault: " << row.row->fault;
  Scene scene(nic, row.transport, fault->options, opcode);
  if (fault->apply != nullptr) fault->apply(scene);
  const bool as_rxe = settings().as_rxe && row.row->rxe != nullptr;
  const std::string expected = as_rxe ? row.row->rxe : row.row->expected;
  EXPECT_EQ(play(scene, expected), expected);
}

INSTANTIATE_TEST_SUITE_P(All, Outcomes, testing::ValuesIn(all_cases()), outcome_name);

TEST(OutcomeTable, HasEachCaseOnceAndAReasonForEachDifference) {
  source("outcome_table.cpp itself");
  std::set<std::string> names;
  for (const OutcomeRow& row : outcome_table()) {
    std::istringstream words(row.opcodes);
    const auto count = std::distance(std::istream_iterator<std::string>(words), {});
    EXPECT_EQ(operations_of(row).size(), static_cast<std::size_t>(count)) << row.opcodes;
    EXPECT_EQ(row.rxe == nullptr, row.why == nullptr) << row.fault << " of " << row.opcodes;
    for (const Operation& operation : operations_of(row)) {
      const std::string name =
          std::string(name_of(row.transport)) + " " + row.fault + " " + operation.name;
      EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    }
  }
}

}  // namespace

Scene::Scene(const Nic& the_nic, Transport transport, const LinkOptions& options,
             ibv_wr_opcode the_opcode)
    : nic(the_nic),
      opcode(the_opcode),
      link(the_nic, transport, options),
      request(link.request(the_opcode, 1)),
      elements{link.a.element(0, 8)},
      receive{link.b.element(kReceiveOffset, link.headroom() + 64)},
      has_receive(takes_receive(the_opcode)) {
  request.imm_data = 7;
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) request.wr.atomic.swap = 7;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) request.wr.atomic.compare_add = 5;
}

}  // namespace hbmwire::conformance
