// SPDX-License-Identifier: MIT
// Messages in an event loop of the application: poll(2) on the worker's descriptor, messages that
// are handed out with their sender and tag, and a notification when a transfer is over.
//
//   node2$ messages listen 7000
//   node1$ messages node2:7000
#include <hbmwire.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64, QUESTIONS = 10 };

static const int64_t SECOND = 1000000000;

struct end {
  hbmwire_context* context;
  hbmwire_worker* worker;
  hbmwire_region* region;
  hbmwire_listener* listener;
  hbmwire_endpoint* peer;
  unsigned asked;     // questions that this end has sent
  unsigned answered;  // answers that this end has sent, or that have come
};

static void finish(struct end* end) {
  hbmwire_endpoint_free(end->peer);
  hbmwire_listener_free(end->listener);
  hbmwire_region_free(end->region);
  hbmwire_worker_free(end->worker);
  hbmwire_context_free(end->context);
}

// Sends a message. Its handle is not needed, since the worker tells when it is over.
static hbmwire_status say(struct end* end, uint64_t tag, hbmwire_error* error) {
  const hbmwire_slice from = {end->region, 0, BYTES};
  hbmwire_transfer* sent = NULL;
  hbmwire_status status =
      hbmwire_endpoint_send_tagged(end->peer, &from, tag, HBMWIRE_LEVEL_SENT, &sent, error);
  if (status == HBMWIRE_OK) status = hbmwire_transfer_notify(sent, tag, error);
  hbmwire_transfer_free(sent);
  return status;
}

// Takes the messages that have come. `answers`: whether this end sends each of them back.
static hbmwire_status take(struct end* end, int answers, hbmwire_error* error) {
  for (;;) {
    hbmwire_message* message = NULL;
    hbmwire_status status = hbmwire_worker_next_message(end->worker, &message, error);
    if (status != HBMWIRE_OK || message == NULL) return status;
    hbmwire_message_info info;
    hbmwire_message_info_init(&info, sizeof info);
    status = hbmwire_message_get_info(message, &info, error);
    if (status == HBMWIRE_OK && (info.bytes == NULL || info.length_bytes != BYTES))
      status = HBMWIRE_DATA_MISMATCH;
    if (status == HBMWIRE_OK && answers) {
      memcpy(hbmwire_region_host_bytes(end->region), info.bytes, BYTES);
      status = say(end, info.tag, error);
    } else if (status == HBMWIRE_OK) {
      // Answers come in the order of the questions, each with its question's tag.
      if (info.tag != end->answered) status = HBMWIRE_DATA_MISMATCH;
      if (memcmp(info.bytes, hbmwire_region_host_bytes(end->region), BYTES) != 0)
        status = HBMWIRE_DATA_MISMATCH;
      ++end->answered;
    }
    hbmwire_message_free(message);
    if (status != HBMWIRE_OK) return status;
  }
}

// Takes the transfers that are over. In this program the failure of one is fatal.
static hbmwire_status take_done(struct end* end, int answers, hbmwire_error* error) {
  for (;;) {
    bool found = false;
    hbmwire_done done;
    hbmwire_done_init(&done, sizeof done);
    const hbmwire_status status = hbmwire_worker_next_done(end->worker, &done, &found, NULL, error);
    if (status != HBMWIRE_OK || !found) return status;
    if (done.status != HBMWIRE_OK) return done.status;
    // An end that answers sends nothing but answers.
    if (answers) ++end->answered;
  }
}

// One round of the loop: handles messages and finished transfers, then sleeps until there are more.
static hbmwire_status turn(struct end* end, int answers, hbmwire_error* error) {
  hbmwire_status status = take(end, answers, error);
  if (status == HBMWIRE_OK) status = take_done(end, answers, error);
  if (status != HBMWIRE_OK) return status;
  bool may_sleep = false;
  status = hbmwire_worker_arm(end->worker, &may_sleep, error);
  if (status != HBMWIRE_OK || !may_sleep) return status;  // something has just come
  struct pollfd entry = {.fd = hbmwire_worker_fd(end->worker), .events = POLLIN};
  poll(&entry, 1, hbmwire_worker_wake_after_ms(end->worker));
  hbmwire_worker_progress(end->worker);
  return HBMWIRE_OK;
}

static hbmwire_status open_end(struct end* end, hbmwire_error* error) {
  hbmwire_status status = hbmwire_context_create(NULL, &end->context, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_context_allocate_region(end->context, HBMWIRE_MEMORY_HOST, BYTES,
                                           HBMWIRE_ACCESS_LOCAL_WRITE, NULL, &end->region, error);
  if (status != HBMWIRE_OK) return status;
  memset(hbmwire_region_host_bytes(end->region), 42, BYTES);
  return hbmwire_worker_create(end->context, NULL, &end->worker, error);
}

static hbmwire_status ask(struct end* end, const char* peer, hbmwire_error* error) {
  hbmwire_endpoint_options options;
  hbmwire_endpoint_options_init(&options, sizeof options);
  options.messages = HBMWIRE_MESSAGES_HANDED_OUT;
  hbmwire_status status = open_end(end, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_endpoint_connect(end->worker, peer, 10 * SECOND, HBMWIRE_NO_FD, &options,
                                    &end->peer, error);
  for (; status == HBMWIRE_OK && end->asked < QUESTIONS; ++end->asked)
    status = say(end, end->asked, error);
  while (status == HBMWIRE_OK && end->answered < QUESTIONS) status = turn(end, 0, error);
  if (status != HBMWIRE_OK) return status;
  printf("%u answers have come\n", end->answered);
  return hbmwire_endpoint_close(end->peer, 10 * SECOND, HBMWIRE_NO_FD, error);
}

static hbmwire_status answer(struct end* end, int port, hbmwire_error* error) {
  hbmwire_status status = open_end(end, error);
  if (status != HBMWIRE_OK) return status;
  hbmwire_endpoint_options endpoint;
  hbmwire_endpoint_options_init(&endpoint, sizeof endpoint);
  endpoint.messages = HBMWIRE_MESSAGES_HANDED_OUT;
  hbmwire_listener_options options;
  hbmwire_listener_options_init(&options, sizeof options);
  options.port = port;
  options.endpoint = &endpoint;
  status = hbmwire_listener_create(end->worker, &options, &end->listener, error);
  if (status != HBMWIRE_OK) return status;
  printf("%u\n", (unsigned)hbmwire_listener_port(end->listener));
  fflush(stdout);
  while (status == HBMWIRE_OK && end->peer == NULL) {
    status = turn(end, 1, error);
    if (status == HBMWIRE_OK)
      status = hbmwire_listener_try_accept(end->listener, &end->peer, error);
  }
  while (status == HBMWIRE_OK && end->answered < QUESTIONS) status = turn(end, 1, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_endpoint_wait_closed(end->peer, 10 * SECOND, HBMWIRE_NO_FD, error);
  if (status == HBMWIRE_OK) printf("verified\n");
  return status;
}

int main(int argc, char** argv) {
  const int listens = argc == 3 && strcmp(argv[1], "listen") == 0;
  if (!listens && argc != 2) {
    fprintf(stderr, "usage: messages listen PORT | messages NODE:PORT\n");
    return 2;
  }
  struct end end = {0};
  hbmwire_error error;
  hbmwire_error_init(&error, sizeof error);
  const hbmwire_status status =
      listens ? answer(&end, atoi(argv[2]), &error) : ask(&end, argv[1], &error);
  if (status != HBMWIRE_OK) {
    char sentence[512];
    hbmwire_error_describe(&error, sentence, sizeof sentence);
    fprintf(stderr, "messages: %s: %s\n", hbmwire_status_name(status), sentence);
  }
  finish(&end);
  return status == HBMWIRE_OK ? 0 : 1;
}
