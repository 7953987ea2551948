// SPDX-License-Identifier: MIT
// Brings a megabyte of rank 0 to all processes that a launcher has started: mpirun, srun, torchrun,
// an indexed job of Kubernetes.
//
//   $ mpirun -n 4 broadcast
#include <hbmwire.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 1 << 20 };

static const int64_t SECOND = 1000000000;

struct rank {
  hbmwire_context* context;
  hbmwire_worker* worker;
  hbmwire_group* group;
  hbmwire_region* weights;
};

// Handles may be freed in any order; NULL is none.
static void finish(struct rank* rank) {
  hbmwire_group_free(rank->group);
  hbmwire_region_free(rank->weights);
  hbmwire_worker_free(rank->worker);
  hbmwire_context_free(rank->context);
}

static hbmwire_status open_rank(struct rank* rank, hbmwire_error* error) {
  hbmwire_status status = hbmwire_context_create(NULL, &rank->context, error);
  if (status != HBMWIRE_OK) return status;
  status = hbmwire_worker_create(rank->context, NULL, &rank->worker, error);
  if (status != HBMWIRE_OK) return status;
  return hbmwire_context_allocate_region(rank->context, HBMWIRE_MEMORY_HOST, BYTES,
                                         HBMWIRE_ACCESS_REMOTE_WRITE, NULL, &rank->weights, error);
}

static hbmwire_status run(struct rank* rank, hbmwire_error* error) {
  hbmwire_status status =
      hbmwire_group_create(rank->worker, 60 * SECOND, HBMWIRE_NO_FD, NULL, &rank->group, error);
  if (status != HBMWIRE_OK) return status;
  unsigned char* const bytes = hbmwire_region_host_bytes(rank->weights);
  if (hbmwire_group_rank(rank->group) == 0) memset(bytes, 7, BYTES);
  const hbmwire_slice memory = {rank->weights, 0, BYTES};
  status =
      hbmwire_group_broadcast(rank->group, &memory, 0, 60 * SECOND, HBMWIRE_NO_FD, NULL, error);
  if (status != HBMWIRE_OK) return status;
  if (bytes[0] != 7 || memcmp(bytes, bytes + 1, BYTES - 1) != 0) return HBMWIRE_DATA_MISMATCH;
  printf("rank %u of %u, by %s: verified\n", hbmwire_group_rank(rank->group),
         hbmwire_group_size(rank->group), hbmwire_group_launcher(rank->group));
  // Waits for the others: they would take a rank that leaves during their call for a failed one.
  return hbmwire_group_barrier(rank->group, 60 * SECOND, HBMWIRE_NO_FD, error);
}

int main(void) {
  struct rank rank = {0};
  hbmwire_error error;
  hbmwire_error_init(&error, sizeof error);
  hbmwire_status status = open_rank(&rank, &error);
  if (status == HBMWIRE_OK) status = run(&rank, &error);
  if (status != HBMWIRE_OK) {
    char sentence[512];
    hbmwire_error_describe(&error, sentence, sizeof sentence);
    fprintf(stderr, "broadcast: %s: %s\n", hbmwire_status_name(status), sentence);
  }
  finish(&rank);
  return status == HBMWIRE_OK ? 0 : 1;
}
