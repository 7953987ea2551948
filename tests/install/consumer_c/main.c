// SPDX-License-Identifier: MIT
// A C program, built against the installed library: it registers, writes and reads memory of a
// Gaudi card.
#include <hbmwire.h>
#include <stdio.h>
#include <string.h>

static hbmwire_status run(hbmwire_context* context, hbmwire_error* error) {
  static const int64_t second = 1000000000;
  hbmwire_region* region = NULL;
  hbmwire_status status = hbmwire_context_allocate_region(
      context, HBMWIRE_MEMORY_GAUDI, 4096, HBMWIRE_ACCESS_LOCAL_WRITE, NULL, &region, error);
  if (status != HBMWIRE_OK) return status;
  char here[16] = {0};
  status = hbmwire_region_write(region, 0, "by the C way", 13, second, HBMWIRE_NO_FD, error);
  if (status == HBMWIRE_OK)
    status = hbmwire_region_read(region, 0, here, sizeof here, second, HBMWIRE_NO_FD, error);
  if (status == HBMWIRE_OK && strcmp(here, "by the C way") != 0) status = HBMWIRE_DATA_MISMATCH;
  hbmwire_region_info info;
  hbmwire_region_info_init(&info, sizeof info);
  if (status == HBMWIRE_OK) status = hbmwire_region_get_info(region, &info, error);
  if (status == HBMWIRE_OK) printf("consumer in C: %s\n", hbmwire_path_name(info.path));
  hbmwire_region_free(region);
  return status;
}

int main(void) {
  hbmwire_error error;
  hbmwire_error_init(&error, sizeof error);
  hbmwire_context* context = NULL;
  hbmwire_status status = hbmwire_context_create(NULL, &context, &error);
  if (status == HBMWIRE_OK) status = run(context, &error);
  if (status != HBMWIRE_OK) {
    char sentence[512];
    hbmwire_error_describe(&error, sentence, sizeof sentence);
    fprintf(stderr, "consumer in C: %s\n", sentence);
  }
  hbmwire_context_free(context);
  return status == HBMWIRE_OK ? 0 : 1;
}
