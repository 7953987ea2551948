// SPDX-License-Identifier: MIT
// Loads the library at run time, if it is installed, and shows the devices that it finds. Such a
// program also runs without the library, and needs only its header to be compiled.
//
//   $ load                      # libhbmwire_c.so.0, wherever the system has it
//   $ load ./libhbmwire_c.so.0
#include <dlfcn.h>
#include <hbmwire.h>
#include <stdio.h>
#include <stdlib.h>

// The functions that this program uses. hbmwire.h declares each of them, and has the types.
static struct {
  void (*error_init)(hbmwire_error*, size_t);
  size_t (*error_describe)(const hbmwire_error*, char*, size_t);
  void (*versions_init)(hbmwire_versions*, size_t);
  hbmwire_status (*get_versions)(hbmwire_versions*, hbmwire_error*);
  hbmwire_status (*context_create)(const hbmwire_context_options*, hbmwire_context**,
                                   hbmwire_error*);
  void (*context_free)(hbmwire_context*);
  hbmwire_status (*context_nics)(const hbmwire_context*, hbmwire_nics**, hbmwire_error*);
  size_t (*nics_count)(const hbmwire_nics*);
  void (*nic_device_init)(hbmwire_nic_device*, size_t);
  hbmwire_status (*nics_get)(const hbmwire_nics*, size_t, hbmwire_nic_device*, hbmwire_error*,
                             hbmwire_error*);
  void (*nics_free)(hbmwire_nics*);
} api;

// In POSIX a pointer to a function fits a pointer to an object; C itself does not promise that.
static void find(void* library, const char* name, void* function, size_t size) {
  void* const found = dlsym(library, name);
  if (found == NULL || size != sizeof found) {
    fprintf(stderr, "load: %s\n", dlerror());
    exit(1);
  }
  *(void**)function = found;
}

#define FIND(library, name) find(library, "hbmwire_" #name, &api.name, sizeof api.name)

static hbmwire_status show(hbmwire_context* context, hbmwire_error* error) {
  hbmwire_nics* nics = NULL;
  hbmwire_status status = api.context_nics(context, &nics, error);
  for (size_t i = 0; status == HBMWIRE_OK && i < api.nics_count(nics); ++i) {
    hbmwire_nic_device nic;
    api.nic_device_init(&nic, sizeof nic);
    status = api.nics_get(nics, i, &nic, NULL, error);
    if (status == HBMWIRE_OK) printf("%s: %zu ports\n", nic.name, nic.port_count);
  }
  api.nics_free(nics);
  return status;
}

int main(int argc, char** argv) {
  void* const library = dlopen(argc == 2 ? argv[1] : "libhbmwire_c.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "load: without hbmwire: %s\n", dlerror());
    return 1;
  }
  FIND(library, error_init);
  FIND(library, error_describe);
  FIND(library, versions_init);
  FIND(library, get_versions);
  FIND(library, context_create);
  FIND(library, context_free);
  FIND(library, context_nics);
  FIND(library, nics_count);
  FIND(library, nic_device_init);
  FIND(library, nics_get);
  FIND(library, nics_free);

  hbmwire_error error;
  api.error_init(&error, sizeof error);
  hbmwire_versions versions;
  api.versions_init(&versions, sizeof versions);
  hbmwire_status status = api.get_versions(&versions, &error);
  if (status == HBMWIRE_OK)
    printf("hbmwire %d.%d.%d\n", (int)versions.major, (int)versions.minor, (int)versions.patch);
  hbmwire_context* context = NULL;
  if (status == HBMWIRE_OK) status = api.context_create(NULL, &context, &error);
  if (status == HBMWIRE_OK) status = show(context, &error);
  api.context_free(context);
  if (status != HBMWIRE_OK) {
    char sentence[512];
    api.error_describe(&error, sentence, sizeof sentence);
    fprintf(stderr, "load: %s\n", sentence);
  }
  dlclose(library);
  return status == HBMWIRE_OK ? 0 : 1;
}
