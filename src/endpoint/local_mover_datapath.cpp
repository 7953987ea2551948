// SPDX-License-Identifier: MIT
#include <bit>
#include <utility>

#include "endpoint/endpoint_state.hpp"

namespace hbmwire::detail {

void LocalMover::start(TransferState& transfer, std::uint32_t remote_key) noexcept {
  transfer.operation.remote_key = remote_key;
  ++transfer.parts;
  if (transfer.endpoint != nullptr) ++transfer.endpoint->moving;
  transfer.next = nullptr;
  (first_waiting == nullptr ? first_waiting : last_waiting->next) = &transfer;
  last_waiting = &transfer;
  post_waiting();
}

void LocalMover::post_waiting() noexcept {
  while (first_waiting != nullptr && outstanding < kJobs && !broken) {
    TransferState& transfer = *first_waiting;
    first_waiting = transfer.next;
    if (const int result = post(transfer); result != 0) {
      const Error error = system_error(Stage::post, "ibv_post_send", result, nic.info().name);
      finish(transfer, transfer.endpoint, &error);
    }
  }
}

int LocalMover::post(TransferState& transfer) noexcept {
  const transport::Operation& operation = transfer.operation;
  MoverJob& job = jobs[head % kJobs];
  ibv_sge whole{.addr = operation.local,
                .length = static_cast<std::uint32_t>(operation.length),
                .lkey = operation.local_key};
  ibv_sge last{
      .addr = operation.local + operation.length - 1, .length = 1, .lkey = operation.local_key};
  ibv_send_wr bring;
  ibv_send_wr flush;
  flush.next = nullptr;
  flush.wr_id = transport::to_id(&job, transport::Tag::moved);
  flush.sg_list = &last;
  flush.num_sge = 1;
  flush.opcode = IBV_WR_RDMA_WRITE;
  flush.send_flags = IBV_SEND_SIGNALED;
  flush.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(&scratch);
  flush.wr.rdma.rkey = scratch_region.get()->rkey;
  ibv_send_wr* first = &flush;
  if (transfer.message != nullptr) {
    bring.next = &flush;
    bring.wr_id = transport::to_id(&job, transport::Tag::moving);
    bring.sg_list = &whole;
    bring.num_sge = 1;
    bring.opcode = IBV_WR_RDMA_READ;
    bring.send_flags = 0;
    bring.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(transfer.message->bytes);
    bring.wr.rdma.rkey = operation.remote_key;
    // What was brought has arrived before a byte of it is read.
    flush.send_flags |= IBV_SEND_FENCE;
    first = &bring;
  }
  const int result = transport::post_one(*asks, *first);
  if (result != 0) return result;
  job.transfer = &transfer;
  job.endpoint = transfer.endpoint;
  ++head;
  ++outstanding;
  return 0;
}

void LocalMover::on_moved(MoverJob& job, const ibv_wc& completion, bool last) noexcept {
  const bool good = completion.status == IBV_WC_SUCCESS;
  if (!good) broken = true;
  // What failed first says why; the last one of a job is told of as flushed then.
  if (!last) {
    job.transfer->then = TransferState::Then::fail;
    job.transfer->worker->errors[job.transfer->worker->index_of(*job.transfer)] =
        verbs::completion_error(completion, nic.info().name);
    return;
  }
  --outstanding;
  if (good) {
    finish(*job.transfer, job.endpoint, nullptr);
  } else {
    const Error error = verbs::completion_error(completion, nic.info().name);
    finish(*job.transfer, job.endpoint, &error);
  }
  post_waiting();
}

void LocalMover::finish(TransferState& transfer, EndpointState* endpoint,
                        const Error* error) noexcept {
  WorkerState& worker = *transfer.worker;
  if (error != nullptr && transfer.then != TransferState::Then::fail) {
    worker.errors[worker.index_of(transfer)] = *error;
    transfer.then = TransferState::Then::fail;
  }
  --transfer.parts;
  if (endpoint != nullptr) {
    --endpoint->moving;
    endpoint->on_moved(transfer);
  } else if (transfer.then == TransferState::Then::fail) {
    worker.fail(transfer, Error(worker.error_of(transfer)), true);
  } else {
    worker.succeed(transfer);
  }
}

}  // namespace hbmwire::detail
