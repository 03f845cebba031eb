/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that counts and fails on demand: the executor behind a table of its
 * own, and a backend "lame" over it. A failure is remembered as
 * gpu/shared/device.h demands: from then on nothing has an effect and failed()
 * says the sentence. That there is no memory is none.
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
  int64_t call[GPUDEVICE_KINDS];
  int64_t puts, gets, fetches, waits, clears, tells, records, replays;
  int64_t windows;
  int64_t sent, read;    /* bytes */
  int64_t taken, pinned; /* bytes asked for of device and pinned memory */
} gpudevice_count;

/* NULL where there is no executor. */
const kv_backend *gpudevice_open(void);
/* Counts from zero, nothing fails. */
void gpudevice_reset(void);
/* And the n-th call of a kind (from 0) will. */
void gpudevice_fail(gpudevice_kind kind, int64_t n);
/* Or the n-th asking for memory is answered with none, and nothing fails. */
void gpudevice_refuse(int64_t n);
bool gpudevice_refused(void);
bool gpudevice_failed(void);
gpudevice_count gpudevice_counted(void);
/* What was taken, pinned or recorded and not given back. */
int64_t gpudevice_held(void);

#endif
