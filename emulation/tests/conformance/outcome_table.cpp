// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/outcomes.hpp"

namespace hbmwire::conformance {
namespace {

// Outcomes of requests that fail at the requester, at the responder, or at both.
constexpr const char* kFailsHere = "sent=LOC_PROT received=- a=ERR b=RTS changed=-";
constexpr const char* kActsAndFailsHere = "sent=LOC_PROT received=- a=ERR b=RTS changed=b";
constexpr const char* kStopsSending = "sent=LOC_PROT received=- a=SQE b=RTS changed=-";
constexpr const char* kNoAccess = "sent=REM_ACCESS received=- a=ERR b=ERR changed=-";
constexpr const char* kNoAccessTold = "sent=REM_ACCESS received=LOC_ACCESS a=ERR b=ERR changed=-";
constexpr const char* kInvalid = "sent=REM_INV_REQ received=- a=ERR b=ERR changed=-";
constexpr const char* kTooLong = "sent=REM_INV_REQ received=LOC_LEN a=ERR b=ERR changed=-";
constexpr const char* kBadReceive = "sent=REM_OP received=LOC_PROT a=ERR b=ERR changed=-";
constexpr const char* kNoAnswer = "sent=RETRY_EXC received=- a=ERR b=RESET changed=-";
constexpr const char* kFlushed = "sent=FLUSH received=- a=ERR b=RTS changed=-";
constexpr const char* kDropped = "sent=SUCCESS received=- a=RTS b=RTS changed=-";
constexpr const char* kRefused = "post=EINVAL received=- a=RTS b=RTS changed=-";

// Outcomes of requests that succeed.
constexpr const char* kReceived = "sent=SUCCESS received=SUCCESS a=RTS b=RTS changed=b";
constexpr const char* kWritten = "sent=SUCCESS received=- a=RTS b=RTS changed=b";
constexpr const char* kRead = "sent=SUCCESS received=- a=RTS b=RTS changed=a";
constexpr const char* kSwapped = "sent=SUCCESS received=- a=RTS b=RTS changed=ab";
constexpr const char* kTold = "sent=SUCCESS received=SUCCESS a=RTS b=RTS changed=-";

constexpr const char* kSendPair = "SEND SEND_IMM";
constexpr const char* kSenderSet = "SEND SEND_IMM WRITE WRITE_IMM";
constexpr const char* kWrites = "WRITE WRITE_IMM";
constexpr const char* kAtomics = "CAS FADD";
constexpr const char* kSilentAccesses = "WRITE READ CAS FADD";
constexpr const char* kEveryOperation = "SEND SEND_IMM WRITE WRITE_IMM READ CAS FADD";

// Reasons why the expectation differs from rxe's outcome.
constexpr const char* kOwnElement =
    "11.6.2 and mlx5: a wrong element of the requester is a Local Protection Error";
constexpr const char* kReceiveStatus =
    "11.6.2 and mlx5: Local Length Error, Local Protection Error; rxe takes both for a malformed "
    "work request";
constexpr const char* kImmediate =
    "11.6.2: Local Access Error is the status of a receive whose WRITE with immediate met a "
    "protection error; rxe gives the requester's status";
constexpr const char* kClassE =
    "11.6.2: Local Length Error, of a receive that is too small; rxe gives Remote Invalid Request "
    "Error";
constexpr const char* kTakenLast =
    "chapter 9: the key is checked with the first packet of a WRITE, its receive is taken with the "
    "last; rxe takes the receive of a single packet before it looks at the key";
constexpr const char* kLongDatagram =
    "mlx4 and mlx5: Local Length Error; C10-93.1.1 asks for a silent success, which hides the loss";
constexpr const char* kAtomicChecks =
    "chapter 9: the responder finds a misaligned address, and 11.6.2: a Local Length Error is the "
    "completion's; librxe checks before it posts, and rxe ignores what is above 8 bytes";

}  // namespace

std::span<const OutcomeRow> outcome_table() {
  using enum Transport;
  static constexpr OutcomeRow kTable[] = {
      {rc, "Nothing", kSendPair, kReceived},
      {rc, "Nothing", "WRITE", kWritten},
      {rc, "Nothing", "WRITE_IMM", kReceived},
      {rc, "Nothing", "READ", kRead},
      {rc, "Nothing", kAtomics, kSwapped},
      {rc, "OwnKeyWrong", kSenderSet, kFailsHere, kFlushed, kOwnElement},
      {rc, "OwnKeyWrong", "READ", kFailsHere},
      {rc, "OwnKeyWrong", kAtomics, kActsAndFailsHere},
      {rc, "OwnDomainWrong", kSenderSet, kFailsHere, kFlushed, kOwnElement},
      {rc, "OwnDomainWrong", "READ", kFailsHere},
      {rc, "OwnDomainWrong", kAtomics, kActsAndFailsHere},
      {rc, "OwnRangePastEnd", kSenderSet, kFailsHere, kFlushed, kOwnElement},
      {rc, "OwnRangePastEnd", "READ", kFailsHere},
      {rc, "OwnRangePastEnd", kAtomics, kActsAndFailsHere},
      {rc, "OwnMemoryReadOnly", "SEND SEND_IMM WRITE_IMM", kReceived},
      {rc, "OwnMemoryReadOnly", "WRITE", kWritten},
      {rc, "OwnMemoryReadOnly", "READ", kFailsHere},
      {rc, "OwnMemoryReadOnly", kAtomics, kActsAndFailsHere},
      {rc, "PeerKeyWrong", kSilentAccesses, kNoAccess},
      {rc, "PeerKeyWrong", "WRITE_IMM", kNoAccessTold,
       "sent=REM_ACCESS received=REM_ACCESS a=ERR b=ERR changed=-", kImmediate},
      {rc, "PeerKeyWrongOfSrq", "WRITE_IMM", kNoAccessTold,
       "sent=REM_ACCESS received=REM_ACCESS a=ERR b=ERR changed=-", kImmediate},
      {rc, "PeerDomainWrong", kSilentAccesses, kNoAccess},
      {rc, "PeerDomainWrong", "WRITE_IMM", kNoAccessTold,
       "sent=REM_ACCESS received=REM_ACCESS a=ERR b=ERR changed=-", kImmediate},
      {rc, "PeerRangePastEnd", kSilentAccesses, kNoAccess},
      {rc, "PeerRangePastEnd", "WRITE_IMM", kNoAccessTold,
       "sent=REM_ACCESS received=REM_ACCESS a=ERR b=ERR changed=-", kImmediate},
      {rc, "PeerRightMissing", kSilentAccesses, kNoAccess},
      {rc, "PeerRightMissing", "WRITE_IMM", kNoAccessTold,
       "sent=REM_ACCESS received=REM_ACCESS a=ERR b=ERR changed=-", kImmediate},
      {rc, "PeerQpRefuses", kSilentAccesses, kInvalid},
      {rc, "PeerQpRefuses", "WRITE_IMM", "sent=REM_INV_REQ received=FLUSH a=ERR b=ERR changed=-"},
      {xrc, "PeerQpRefuses", "WRITE_IMM", kInvalid},  // receives stay in the SRQ
      {rc, "BothKeysWrong", kWrites, kFailsHere, kFlushed, kOwnElement},
      {rc, "BothKeysWrong", "READ CAS FADD", kNoAccess},
      {rc, "NoBytesWrongKeys", "SEND SEND_IMM WRITE_IMM", kTold},
      {rc, "NoBytesWrongKeys", "WRITE READ", kDropped},
      {rc, "ReceiveTooSmall", kSendPair, kTooLong,
       "sent=REM_OP received=LOC_QP_OP a=ERR b=ERR changed=-", kReceiveStatus},
      {rc, "ReceiveTooSmall", "WRITE_IMM", kReceived},
      {rc, "ReceiveTooSmallOfSrq", kSendPair, kTooLong,
       "sent=REM_OP received=LOC_QP_OP a=ERR b=ERR changed=-", kReceiveStatus},
      {rc, "ReceiveKeyWrong", kSendPair, kBadReceive,
       "sent=REM_OP received=LOC_QP_OP a=ERR b=ERR changed=-", kReceiveStatus},
      {rc, "ReceiveKeyWrong", "WRITE_IMM", kReceived},
      {rc, "ReceiveMemoryReadOnly", kSendPair, kBadReceive,
       "sent=REM_OP received=LOC_QP_OP a=ERR b=ERR changed=-", kReceiveStatus},
      {rc, "NoReceive", "SEND SEND_IMM WRITE_IMM",
       "sent=RNR_RETRY_EXC received=- a=ERR b=RTS changed=-"},
      {rc, "AtomicMisaligned", kAtomics, kInvalid, kRefused, kAtomicChecks},
      {rc, "AtomicOf4Bytes", kAtomics, "sent=LOC_LEN received=- a=ERR b=RTS changed=-", kRefused,
       kAtomicChecks},
      {rc, "AtomicOf16Bytes", kAtomics, "sent=LOC_LEN received=- a=ERR b=RTS changed=-", kSwapped,
       kAtomicChecks},
      {rc, "PeerReset", kEveryOperation, kNoAnswer},
      {rc, "PeerInError", kEveryOperation, "sent=RETRY_EXC received=- a=ERR b=ERR changed=-"},
      {rc, "OwnQpInError", kEveryOperation, kFlushed},
      {rc, "InlineTooLong", kSenderSet, kRefused},

      {uc, "Nothing", "SEND SEND_IMM WRITE_IMM", kReceived},
      {uc, "Nothing", "WRITE", kWritten},
      {uc, "OwnKeyWrong", kSenderSet, kStopsSending, kFlushed, kOwnElement},
      {uc, "OwnDomainWrong", kSenderSet, kStopsSending, kFlushed, kOwnElement},
      {uc, "OwnRangePastEnd", kSenderSet, kStopsSending, kFlushed, kOwnElement},
      {uc, "OwnMemoryReadOnly", "SEND SEND_IMM WRITE_IMM", kReceived},
      {uc, "OwnMemoryReadOnly", "WRITE", kWritten},
      {uc, "PeerKeyWrong", kWrites, kDropped},
      {uc, "PeerKeyWrongOfSrq", "WRITE_IMM", kDropped,
       "sent=SUCCESS received=REM_ACCESS a=RTS b=RTS changed=-", kTakenLast},
      {uc, "PeerDomainWrong", kWrites, kDropped},
      {uc, "PeerRangePastEnd", kWrites, kDropped},
      {uc, "PeerRightMissing", kWrites, kDropped},
      {uc, "PeerQpRefuses", kWrites, kDropped},
      {uc, "BothKeysWrong", kWrites, kStopsSending, kFlushed, kOwnElement},
      {uc, "NoBytesWrongKeys", "SEND SEND_IMM WRITE_IMM", kTold},
      {uc, "NoBytesWrongKeys", "WRITE", kDropped},
      {uc, "ReceiveTooSmall", kSendPair, kDropped,
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {uc, "ReceiveTooSmall", "WRITE_IMM", kReceived},
      {uc, "ReceiveTooSmallOfSrq", kSendPair, "sent=SUCCESS received=LOC_LEN a=RTS b=RTS changed=-",
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {uc, "ReceiveKeyWrong", kSendPair, "sent=SUCCESS received=LOC_PROT a=RTS b=ERR changed=-",
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {uc, "ReceiveKeyWrong", "WRITE_IMM", kReceived},
      {uc, "ReceiveMemoryReadOnly", kSendPair,
       "sent=SUCCESS received=LOC_PROT a=RTS b=ERR changed=-",
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {uc, "NoReceive", "SEND SEND_IMM WRITE_IMM", kDropped},
      {uc, "PeerReset", kSenderSet, "sent=SUCCESS received=- a=RTS b=RESET changed=-"},
      {uc, "PeerInError", kSenderSet, "sent=SUCCESS received=- a=RTS b=ERR changed=-"},
      {uc, "OwnQpInError", kSenderSet, kFlushed},
      {uc, "InlineTooLong", kSenderSet, kRefused},

      {ud, "Nothing", kSendPair, kReceived},
      {ud, "OwnKeyWrong", kSendPair, kStopsSending, kFlushed, kOwnElement},
      {ud, "OwnDomainWrong", kSendPair, kStopsSending, kFlushed, kOwnElement},
      {ud, "OwnRangePastEnd", kSendPair, kStopsSending, kFlushed, kOwnElement},
      {ud, "OwnMemoryReadOnly", kSendPair, kReceived},
      {ud, "NoBytesWrongKeys", kSendPair, kReceived},  // the 40 bytes of the header
      {ud, "ReceiveTooSmall", kSendPair, kDropped},
      {ud, "ReceiveTooSmallOfSrq", kSendPair, "sent=SUCCESS received=LOC_LEN a=RTS b=RTS changed=-",
       "sent=SUCCESS received=REM_INV_REQ a=RTS b=RTS changed=-", kClassE},
      {ud, "ReceiveKeyWrong", kSendPair, "sent=SUCCESS received=LOC_PROT a=RTS b=ERR changed=-",
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {ud, "ReceiveMemoryReadOnly", kSendPair,
       "sent=SUCCESS received=LOC_PROT a=RTS b=ERR changed=-",
       "sent=SUCCESS received=LOC_QP_OP a=RTS b=ERR changed=-", kReceiveStatus},
      {ud, "NoReceive", kSendPair, kDropped},
      {ud, "QkeyWrong", kSendPair, kDropped},
      {ud, "LongerThanAPacket", kSendPair, "sent=LOC_LEN received=- a=SQE b=RTS changed=-",
       kDropped, kLongDatagram},
      {ud, "PeerReset", kSendPair, "sent=SUCCESS received=- a=RTS b=RESET changed=-"},
      {ud, "PeerInError", kSendPair, "sent=SUCCESS received=- a=RTS b=ERR changed=-"},
      {ud, "OwnQpInError", kSendPair, kFlushed},
      {ud, "InlineTooLong", kSendPair, kRefused},
  };
  return kTable;
}

}  // namespace hbmwire::conformance
