/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a folder that `kvreplay vectors` wrote, by its manifest.tsv and with no
 * header of this project, for the programs vectors_*.c, which compute a
 * method's matrices again and compare them by hold(). Each includes this file
 * once. Nothing is freed; a bad folder ends the program with exit code 2.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of the manifest, and its matrix [rows][width]. */
typedef struct matrix {
  char stage[32];        /* what it is: "q", "k", "entries", "keep", ... */
  char type[8];          /* F32, F16, BF16, or a whole-number type */
  char file[160];        /* the file of its bytes, which begin at `offset` */
  int layer, step, head; /* head: query head or lane; step 0: of the layer */
  int again;             /* 0, 1, .. for a stage repeated at a place */
  int rows, width, offset, bytes;
  int32_t *id; /* its bytes */
  float *x;    /* the same as binary32, if they are floats */
} matrix;

enum { MOST = 1 << 14 };
static matrix all[MOST + 1], *end = all; /* all of the manifest: all .. end */
/* Its head: sizes of the trace; lanes of a layer. */
static int prompt, tokens, heads, kv_heads, lanes, d, d_v;
static float scale;
static int
    wrong; /* matrices that differ: the program's exit code is wrong > 0 */

/* Element i of m, whose type is one of the floats. */
static float widen(const matrix *m, int i) {
  uint32_t bf16 = (uint32_t)((uint16_t *)m->id)[i] << 16;
  float x;
  if (strcmp(m->type, "F32") == 0) return ((float *)m->id)[i];
  if (strcmp(m->type, "F16") == 0) return ((_Float16 *)m->id)[i];
  memcpy(&x, &bf16, sizeof x);
  return x;
}

/* Reads the bytes of *m. */
static void read_matrix(matrix *m) {
  FILE *f = fopen(m->file, "rb");
  m->id = calloc(1, m->bytes + 4);
  if (!f || fseek(f, m->offset, SEEK_SET) ||
      fread(m->id, 1, m->bytes, f) != (size_t)m->bytes)
    exit((perror(m->file), 2));
  fclose(f);
  if (!strchr("FB", *m->type)) return;
  m->x = calloc(m->rows * m->width + 1, sizeof *m->x);
  for (int i = 0; i < m->rows * m->width; i++) m->x[i] = widen(m, i);
}

/* Reads the folder argv[1] into the variables above; it becomes the working
 * folder. argc must be at least `least`. */
static void read_folder(int argc, int least, char **argv) {
  if (argc < least) exit((fprintf(stderr, "%s: too few\n", argv[0]), 2));
  FILE *f = chdir(argv[1]) ? NULL : fopen("manifest.tsv", "r");
  if (!f) exit((perror(argv[1]), 2));
  fscanf(f,
         "# kvvectors 1 prompt_len=%d n_tokens=%d n_heads=%d n_kv_heads=%d "
         "lanes=%d d=%d d_v=%d scale=%f # %*[^\n]",
         &prompt, &tokens, &heads, &kv_heads, &lanes, &d, &d_v, &scale);
  for (matrix *m = all;
       m < all + MOST &&
       fscanf(f, "%31s%d%d%d%d%7s%d%d%d%d%159s", m->stage, &m->layer, &m->step,
              &m->head, &m->again, m->type, &m->rows, &m->width, &m->offset,
              &m->bytes, m->file) == 11;
       end = ++m)
    read_matrix(m);
  if (!feof(f) || end == all + MOST) exit((fputs("bad manifest\n", stderr), 2));
  fclose(f);
}

/* The matrix of a stage, step and head that has the layer and the `again` of
 * `by`; NULL: none. */
static matrix *find(const char *stage, const matrix *by, int step, int head) {
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, stage) == 0 && m->layer == by->layer &&
        m->step == step && m->head == head && m->again == by->again)
      return m;
  return NULL;
}

/* The rows of K (stage "k", read "k_read") or V of a lane's entries at the step
 * of `by`, [entries]: as the step reads them if the folder has that, else as
 * recorded. */
static inline const float **rows(const char *stage, const char *read,
                                 const matrix *by, int lane) {
  const matrix *entries = find("entries", by, by->step, lane);
  const matrix *recorded = find(stage, by, 0, lane * kv_heads / lanes);
  const matrix *other = find(read, by, by->step, lane);
  const float **row = calloc(entries->rows + 1, sizeof *row);
  for (int i = 0; i < entries->rows; i++)
    row[i] = other ? other->x + i * other->width
                   : recorded->x + entries->id[i] * recorded->width;
  return row;
}

/* The query [d] of a head at the step of `by`, in the same way. */
static inline const float *query(const matrix *by, int head) {
  const matrix *read = find("q_read", by, by->step, head);
  const matrix *recorded = find("rows", by, 0, -1);
  int row = recorded ? 0 : by->step - 1;
  while (recorded && recorded->id[row] != by->step - 1) row++;
  return read ? read->x : find("q", by, 0, head)->x + row * d;
}

/* Compares x, the bytes of rows 0 .. rows - 1 as computed again, with the
 * matrix of that stage, step and head. Prints its name on standard output if it
 * is the same to the bit; else on standard error, with the first row that
 * differs, and counts it in `wrong`. */
static void hold(const char *stage, const matrix *by, int step, int head,
                 int rows, const void *x) {
  const matrix *m = find(stage, by, step, head);
  size_t size = m && m->rows ? (size_t)(m->bytes / m->rows) : 0;
  int i = 0;
  while (m && i < rows && i < m->rows &&
         !memcmp((char *)m->id + i * size, (char *)x + i * size, size))
    i++;
  int same = m && i == rows && i == m->rows;
  fprintf(same ? stdout : stderr, "%s\t%d\t%d\t%d\t%d", stage, by->layer, step,
          head, by->again);
  if (!same) fprintf(stderr, m ? ": differs in row %d" : ": is not there", i);
  fputc('\n', same ? stdout : stderr);
  wrong += !same;
}
