/* SPDX-License-Identifier: Apache-2.0
 *
 * slots: one slot for each row, exactly as large as the row, freed as soon as
 * the row is left. There is no slack, so its bytes are the payload that the
 * ledger counts. This is a store that can free single rows: the baseline for
 * other layouts.
 */
#include "sim/replay/layout/layout.h"

#include <stdlib.h>
#include <string.h>

typedef struct slots {
  kv_layout_state books; /* first */
  int points;
  int64_t row[KV_SIDES][KV_SLABS]; /* bytes */
} slots;

static slots *of(kv_layout_state *s) { return (slots *)s; }

static void close_slots(kv_layout_state *s) {
  if (!s) return;
  free(s->freed);
  free(of(s));
}

static kv_rc open_slots(const kv_layout_asked *asked,
                        const kv_layout_room *room, kv_layout_state **out,
                        kv_err *e) {
  size_t points = (size_t)room->points;
  slots *s = kv_zalloc(1, sizeof *s);
  (void)asked;
  *out = NULL;
  if (!s) return kv_no_memory(e, "a layout", sizeof *s);
  s->points = room->points;
  s->books.freed = kv_zalloc(points, sizeof *s->books.freed);
  if (!s->books.freed) {
    close_slots(&s->books);
    return kv_no_memory(e, "a layout", points * sizeof(int64_t));
  }
  for (int side = 0; side < KV_SIDES; side++)
    for (int f = 0; f < KV_CODED + room->needs->codings; f++)
      s->row[side][f] =
          (int64_t)kv_row_bytes(room->shape, room->needs, side, f);
  *out = &s->books;
  return KV_OK;
}

/* The table has the slot of each row. */
static int64_t map(const kv_layout_asked *asked, const kv_layout_room *room,
                   int step, int64_t held) {
  (void)asked, (void)room, (void)step;
  return KV_MAP_ENTRY * held;
}

static void begin(kv_layout_state *s) {
  memset(s->freed, 0, (size_t)of(s)->points * sizeof *s->freed);
  s->pages = s->bytes = s->taken = s->given = 0;
}

static void write_row(kv_layout_state *s, int lane, int side, int format,
                      int32_t place) {
  (void)lane;
  (void)place;
  s->pages++;
  s->taken++;
  s->bytes += of(s)->row[side][format];
}

static void leave_row(kv_layout_state *s, int lane, int side, int format,
                      int32_t place) {
  (void)lane;
  (void)place;
  s->pages--;
  s->given++;
  s->bytes -= of(s)->row[side][format];
  s->freed[s->block] += of(s)->row[side][format];
}

static bool sound(kv_layout_state *s) {
  return s->taken - s->given == s->pages && s->pages >= 0 && s->bytes >= 0;
}

const kv_layout kv_layout_slots = {
    .name = "slots",
    .usage = "slots",
    .help = "a slot for each row, free as soon as the row is: no slack",
    .parse = kv_layout_parse_plain,
    .map = map,
    .open = open_slots,
    .begin = begin,
    .write = write_row,
    .leave = leave_row,
    .sound = sound,
    .close = close_slots};
