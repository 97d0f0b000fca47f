/* A stand-in for the GPU driver's library, libnvidia-ml.so.1, at the very edge that nvidia-ml-py
 * calls. A file named by FAKE_NVML says at each call how the driver is: one line per GPU,
 *
 *     uuid used_mib total_mib busy temperature ecc users state
 *
 * where state is 0, or the NVML error that each question about the GPU gets (15: GPU is lost). A
 * line "hang" makes every call wait while the file says so, "xid N UUID" is an event, told once,
 * "broken N" is what all calls answer. Without the file there is no driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
       NO_DRIVER = 9, TIMEOUT = 10 };
enum { MOST = 64 };

typedef struct { char uuid[80]; unsigned long long used, total, ecc; unsigned busy, heat, users; int state; } Gpu;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Load;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;

static char handles[MOST][80]; /* a handle points to the UUID that it was given for */
static int xids_told, xids_there;

static int state_of(Gpu *gpus, int *count, int *broken, unsigned *xid, char *xid_of) {
  const char *path = getenv("FAKE_NVML");
  char line[256];
  int hangs;
  do {
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NO_DRIVER;
    int events = 0;
    hangs = *count = *broken = *xid = 0;
    while (fgets(line, sizeof line, file)) {
      Gpu gpu;
      unsigned number;
      char of[80];
      if (!strncmp(line, "hang", 4)) hangs = 1;
      else if (sscanf(line, "broken %d", broken) == 1) continue;
      else if (sscanf(line, "xid %u %79s", &number, of) == 2) {
        if (++events > xids_told && !*xid) { *xid = number; strcpy(xid_of, of); }
      } else if (*count < MOST && sscanf(line, "%79s %llu %llu %u %u %llu %u %d", gpu.uuid, &gpu.used,
                 &gpu.total, &gpu.busy, &gpu.heat, &gpu.ecc, &gpu.users, &gpu.state) == 8)
        gpus[(*count)++] = gpu;
    }
    fclose(file);
    xids_there = events;
    if (hangs) usleep(20000);
  } while (hangs);
  return *broken;
}

static int looked(Gpu *gpus, int *count) {
  int broken;
  unsigned xid;
  char of[80];
  return state_of(gpus, count, &broken, &xid, of);
}

static int find(void *handle, Gpu *found, int *number) {
  Gpu gpus[MOST];
  int count, code = looked(gpus, &count);
  if (code) return code;
  for (int i = 0; i < count; i++)
    if (!strcmp(gpus[i].uuid, (char *)handle)) {
      *found = gpus[i];
      if (number) *number = i;
      return gpus[i].state;
    }
  return 15;
}

static int handle_for(const char *uuid, void **handle) {
  for (int i = 0; i < MOST; i++) {
    if (!handles[i][0]) strcpy(handles[i], uuid);
    if (!strcmp(handles[i], uuid)) { *handle = handles[i]; return OK; }
  }
  return INVALID;
}

int nvmlInitWithFlags(unsigned flags) { Gpu g[MOST]; int n; (void)flags; return looked(g, &n); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "an error of the stand-in"; }
int nvmlDeviceGetCount_v2(unsigned *count) { Gpu g[MOST]; int n = 0, code = looked(g, &n); *count = n; return code; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "595.99"); return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  Gpu gpus[MOST];
  int count, code = looked(gpus, &count);
  if (code) return code;
  return index < (unsigned)count ? handle_for(gpus[index].uuid, handle) : INVALID;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  Gpu gpus[MOST];
  int count, code = looked(gpus, &count);
  if (code) return code;
  for (int i = 0; i < count; i++)
    if (!strcmp(gpus[i].uuid, uuid)) return handle_for(uuid, handle);
  return NOT_FOUND;
}

int nvmlDeviceGetIndex(void *handle, unsigned *index) {
  Gpu gpu;
  int number = 0;
  find(handle, &gpu, &number);
  *index = number;
  return OK;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { snprintf(text, size, "%s", (char *)handle); return OK; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { (void)handle; snprintf(text, size, "Stand-in H200"); return OK; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **whole) { *whole = slice; return OK; }

int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
  Gpu gpu;
  int code = find(handle, &gpu, NULL);
  if (code) return code;
  memory->total = gpu.total << 20;
  memory->used = gpu.used << 20;
  memory->free = memory->total - memory->used;
  return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, Load *load) {
  Gpu gpu;
  int code = find(handle, &gpu, NULL);
  if (!code && !strncmp(gpu.uuid, "MIG-", 4)) return NOT_SUPPORTED;
  if (!code) { load->gpu = gpu.busy; load->memory = 0; }
  return code;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *heat) {
  Gpu gpu;
  int code = find(handle, &gpu, NULL);
  (void)sensor;
  if (!code) *heat = gpu.heat;
  return code;
}

int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *count) {
  Gpu gpu;
  int code = find(handle, &gpu, NULL);
  if (!code && (kind != 1 || counter != 0)) return INVALID;
  if (!code) *count = gpu.ecc;
  return code;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Process *processes) {
  Gpu gpu;
  int code = find(handle, &gpu, NULL);
  if (code) return code;
  if (*count < gpu.users) { *count = gpu.users; return TOO_SMALL; }
  for (unsigned i = 0; i < gpu.users; i++) processes[i] = (Process){.pid = 1000 + i, .memory = 1 << 20};
  *count = gpu.users;
  return OK;
}

int nvmlEventSetCreate(void **set) { /* what happened before isn't told */
  Gpu g[MOST];
  int n, code = looked(g, &n);
  xids_told = xids_there;
  *set = &xids_told;
  return code;
}
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
  (void)handle; (void)set;
  return types == 8 ? OK : INVALID;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
  Gpu gpus[MOST];
  int count, broken;
  unsigned xid;
  char of[80];
  (void)set; (void)timeout_ms;
  int code = state_of(gpus, &count, &broken, &xid, of);
  if (code) return code;
  if (!xid) return TIMEOUT;
  xids_told++;
  *event = (Event){.type = 8, .data = xid};
  return handle_for(of, &event->device);
}
