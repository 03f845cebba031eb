/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend "lame" for tests of gpu/host: the executor; it counts calls of the
 * kinds below and lets them fail on demand. After a failure, as
 * gpu/shared/device.h requires, no call has an effect and failed() returns
 * GPUDEVICE_SENTENCE. Lack of memory is no such failure: the call returns NULL,
 * and the device continues.
 *
 *   open once; reset; perhaps fail or refuse; run; counted and held
 */
#ifndef KV_TESTS_GPUDEVICE_H
#define KV_TESTS_GPUDEVICE_H

#include "ref/backend/backend.h"

#define GPUDEVICE_SENTENCE "this is the failure that the test asked for"
#define GPUDEVICE_NONE "there is no memory, as the test asked for"

/* What can fail; counted in calls. */
typedef enum gpudevice_kind {
  GPUDEVICE_MEMORY, /* take, pin */
  GPUDEVICE_COPY,   /* put, get, fetch, clear */
  GPUDEVICE_START,  /* a kernel or a recorded sequence, and recording it */
  GPUDEVICE_WAIT,
  GPUDEVICE_KINDS
} gpudevice_kind;

typedef struct gpudevice_count {
  int64_t call[GPUDEVICE_KINDS]; /* of each kind, all together */
  /* Of single functions of the device's table (gpu/shared/device.h): */
  int64_t puts, gets, fetches, waits, clears, tells, records, replays;
  int64_t windows;
  int64_t sent, read;    /* bytes to the device, and from it */
  int64_t taken, pinned; /* requested bytes of device and of pinned memory */
} gpudevice_count;

/* The backend; NULL if the build has no executor. */
const kv_backend *gpudevice_open(void);
/* Counts from 0, forgets a failure; nothing will fail. */
void gpudevice_reset(void);
/* The same, and the n-th call of a kind (from 0) will fail. */
void gpudevice_fail(gpudevice_kind kind, int64_t n);
/* The same, and the n-th call for memory will return NULL. */
void gpudevice_refuse(int64_t n);
/* Has that call happened, or the failing one? */
bool gpudevice_refused(void);
bool gpudevice_failed(void);
/* The counts since the last reset. */
gpudevice_count gpudevice_counted(void);
/* How many pieces of memory and recorded sequences are not freed. */
int64_t gpudevice_held(void);

#endif
