// SPDX-License-Identifier: MIT
// Puts memory of one node's accelerator, or host memory if it has none, into the other node's, and
// gives up at a deadline.
//
//   node2$ put listen 7000
//   node1$ put node2:7000
#include <hbmwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

static const int64_t SECOND = 1000000000;

// Everything that an end has, in one place, so that one function frees it.
struct end {
  hbmwire_context* context;
  hbmwire_worker* worker;
  hbmwire_region* region;
  hbmwire_listener* listener;
  hbmwire_endpoint* peer;
  hbmwire_remote_region* remote;
  hbmwire_transfer* transfer;
  unsigned char* bytes;
};

static void finish(struct end* end) {
  free(end->bytes);
  hbmwire_transfer_free(end->transfer);
  hbmwire_remote_region_free(end->remote);
  hbmwire_endpoint_free(end->peer);
  hbmwire_listener_free(end->listener);
  hbmwire_region_free(end->region);
  hbmwire_worker_free(end->worker);
  hbmwire_context_free(end->context);
}

static hbmwire_memory_type memory_type(const hbmwire_context* context) {
  hbmwire_memory_probe probe;
  hbmwire_memory_probe_init(&probe, sizeof probe);
  const hbmwire_status status =
      hbmwire_context_memory(context, HBMWIRE_MEMORY_GAUDI, &probe, NULL, NULL);
  return status == HBMWIRE_OK && probe.device_count != 0 ? HBMWIRE_MEMORY_GAUDI
                                                         : HBMWIRE_MEMORY_HOST;
}

static hbmwire_status open_end(struct end* end, hbmwire_access access, hbmwire_error* error) {
  hbmwire_status status = hbmwire_context_create(NULL, &end->context, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_context_allocate_region(end->context, memory_type(end->context), BYTES, access,
                                           NULL, &end->region, error);
  if (status != HBMWIRE_OK) return status;
  end->bytes = malloc(BYTES);
  if (end->bytes == NULL) return HBMWIRE_EXHAUSTED;
  return hbmwire_worker_create(end->context, NULL, &end->worker, error);
}

static hbmwire_status put(struct end* end, const char* peer, hbmwire_error* error) {
  hbmwire_status status = open_end(end, HBMWIRE_ACCESS_LOCAL_WRITE, error);
  if (status != HBMWIRE_OK) return status;
  memset(end->bytes, 42, BYTES);
  status =
      hbmwire_region_write(end->region, 0, end->bytes, BYTES, 10 * SECOND, HBMWIRE_NO_FD, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_endpoint_connect(end->worker, peer, 10 * SECOND, HBMWIRE_NO_FD, NULL, &end->peer,
                                    error);
  if (status != HBMWIRE_OK) return status;
  status =
      hbmwire_endpoint_remote(end->peer, "target", 10 * SECOND, HBMWIRE_NO_FD, &end->remote, error);
  if (status != HBMWIRE_OK) return status;

  const hbmwire_slice from = {end->region, 0, BYTES};
  const hbmwire_remote_slice to = {end->remote, 0, BYTES};
  hbmwire_put_options options;
  hbmwire_put_options_init(&options, sizeof options);
  options.level = HBMWIRE_LEVEL_VISIBLE;  // the peer's device sees the bytes, too
  status = hbmwire_endpoint_put(end->peer, &from, &to, &options, &end->transfer, error);
  if (status != HBMWIRE_OK) return status;
  // At the deadline the put is cancelled, so that no byte moves behind it.
  status = hbmwire_transfer_wait(end->transfer, 10 * SECOND, HBMWIRE_NO_FD, error);
  if (status != HBMWIRE_OK) return status;

  hbmwire_report* report = NULL;
  status = hbmwire_transfer_explain(end->transfer, &report, error);
  if (status != HBMWIRE_OK) return status;
  char sentence[512];
  hbmwire_report_describe(report, sentence, sizeof sentence);
  hbmwire_report_free(report);
  printf("%s\n", sentence);
  return hbmwire_endpoint_close(end->peer, 10 * SECOND, HBMWIRE_NO_FD, error);
}

static hbmwire_status serve(struct end* end, int port, hbmwire_error* error) {
  hbmwire_status status = open_end(
      end, HBMWIRE_ACCESS_LOCAL_WRITE | HBMWIRE_ACCESS_REMOTE_WRITE | HBMWIRE_ACCESS_REMOTE_READ,
      error);  // a put that becomes visible reads a byte
  if (status != HBMWIRE_OK) return status;
  hbmwire_listener_options options;
  hbmwire_listener_options_init(&options, sizeof options);
  options.port = port;
  status = hbmwire_listener_create(end->worker, &options, &end->listener, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_listener_advertise(end->listener, "target", end->region, NULL, error);
  if (status != HBMWIRE_OK) return status;
  printf("%u\n", (unsigned)hbmwire_listener_port(end->listener));
  fflush(stdout);
  status = hbmwire_listener_accept(end->listener, 30 * SECOND, HBMWIRE_NO_FD, &end->peer, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_endpoint_wait_closed(end->peer, 30 * SECOND, HBMWIRE_NO_FD, error);
  if (status != HBMWIRE_OK) return status;
  status =
      hbmwire_region_read(end->region, 0, end->bytes, BYTES, 10 * SECOND, HBMWIRE_NO_FD, error);
  if (status != HBMWIRE_OK) return status;
  for (size_t i = 0; i < BYTES; ++i) {
    if (end->bytes[i] != 42) return HBMWIRE_DATA_MISMATCH;
  }
  printf("verified\n");
  return HBMWIRE_OK;
}

int main(int argc, char** argv) {
  const int listens = argc == 3 && strcmp(argv[1], "listen") == 0;
  if (!listens && argc != 2) {
    fprintf(stderr, "usage: put listen PORT | put NODE:PORT\n");
    return 2;
  }
  struct end end = {0};
  hbmwire_error error;
  hbmwire_error_init(&error, sizeof error);
  const hbmwire_status status =
      listens ? serve(&end, atoi(argv[2]), &error) : put(&end, argv[1], &error);
  if (status != HBMWIRE_OK) {
    char sentence[512];
    hbmwire_error_describe(&error, sentence, sizeof sentence);
    fprintf(stderr, "put: %s: %s\n", hbmwire_status_name(status), sentence);
  }
  finish(&end);
  return status == HBMWIRE_OK ? 0 : 1;
}
