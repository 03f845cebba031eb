/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of `kvreplay vectors`, read by its manifest.tsv with nothing of
 * ours, for the vectors_*.c. hold() sets what was computed again against it:
 * what is the same to the bit is named on stdout, what is not on stderr, with
 * the first row that differs. Nothing is freed; the programs are short.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct matrix {
  char stage[32], type[8], file[160];
  int layer, step, head, again, rows, width, offset, bytes;
  int32_t *id; /* its bytes */
  float *x;    /* widened, where they are floats */
} matrix;

enum { MOST = 1 << 14 };
static matrix all[MOST + 1], *end = all;
static int prompt, tokens, heads, kv_heads, lanes, d, d_v, wrong;
static float scale;

static float widen(const matrix *m, int i) {
  uint32_t bf16 = (uint32_t)((uint16_t *)m->id)[i] << 16;
  float x;
  if (strcmp(m->type, "F32") == 0) return ((float *)m->id)[i];
  if (strcmp(m->type, "F16") == 0) return ((_Float16 *)m->id)[i];
  memcpy(&x, &bf16, sizeof x);
  return x;
}

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

/* argv[1]; there must be so many arguments. */
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

/* Of a stage, in the layer of another; or NULL. */
static matrix *find(const char *stage, const matrix *by, int step, int head) {
  for (matrix *m = all; m < end; m++)
    if (strcmp(m->stage, stage) == 0 && m->layer == by->layer &&
        m->step == step && m->head == head && m->again == by->again)
      return m;
  return NULL;
}

/* The rows of k or v of a lane's entries, as a step reads them. */
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

/* A query as a step reads it. */
static inline const float *query(const matrix *by, int head) {
  const matrix *read = find("q_read", by, by->step, head);
  const matrix *recorded = find("rows", by, 0, -1);
  int row = recorded ? 0 : by->step - 1;
  while (recorded && recorded->id[row] != by->step - 1) row++;
  return read ? read->x : find("q", by, 0, head)->x + row * d;
}

/* x is what the matrix at this step of `by`, of this head, must hold. */
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
