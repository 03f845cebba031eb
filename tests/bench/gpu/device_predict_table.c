/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model of device_predict.h says of every theme, as a table.
 */
#include "tests/bench/gpu/device_predict.h"

/* low, high: the goal; both 0: there is none. */
static void line(FILE *to, const char *what, predicted p, double low,
                 double high) {
  int met = (low <= 0 || p.value >= low) && (high <= 0 || p.value <= high);
  char goal[32] = "";
  if (low > 0 || high > 0)
    snprintf(goal, sizeof goal, "%s %-6.4g %s",
             low > 0 ? ">=" : "<=", low > 0 ? low : high,
             met ? "met" : "missed");
  fprintf(to, "%-40s %7.4f  %-17s %s", what, p.value, goal, p.bound);
  if (p.k > 0) fprintf(to, "; K %.1f, V %.1f an element", p.k, p.v);
  fputc('\n', to);
}

static void kivi_lines(FILE *to, const predict_device *d, int group) {
  char what[64];
  double most;
  predicted p = predict_kivi(d, group, 64, 32768, &most);
  snprintf(what, sizeof what, "KIVI 2 bit: faster / fewer, group %d", group);
  line(to, what, p, group == 1 ? GOAL_KIVI : 0, 0);
  fprintf(to, "%-40s %7.4f\n", "  if only instructions cost time", most);
}

/* lanes: 1 GiB of fp16 rows, as theme paged has them. */
static void paged_lines(FILE *to, const predict_device *d, int tokens,
                        int group) {
  for (int low = 0; low < 2; low++) {
    char what[64];
    predict_pages p = predict_paged(d, low, group, (1 << 21) / tokens, tokens);
    snprintf(what, sizeof what, "pages %s %d: faster / fewer, group %d",
             low ? "K4V2" : "K8V4", tokens, group);
    line(to, what, p.faster, group == 1 ? GOAL_PAGED : 0, 0);
    if (group == 1) continue;
    snprintf(what, sizeof what, "  of memory %.0f us, fma %.0f us",
             p.memory * 1e6, p.fma * 1e6);
    line(to, what, p.reached, GOAL_PAGED_8, 0);
  }
}

static void compact_lines(FILE *to, const predict_device *d) {
  static const int requests[] = {1, 8, 64};
  for (int i = 0; i < 3; i++) {
    char what[64];
    double seconds;
    predicted p = predict_compact(d, requests[i], &seconds);
    snprintf(what, sizeof what, "compaction, %d request%s, %.0f us / step",
             requests[i], i ? "s" : "", seconds * 1e6);
    line(to, what, p, 0, GOAL_COMPACT);
  }
}

static void regular_lines(FILE *to, const predict_device *d) {
  for (int tokens = 2048; tokens <= 20480; tokens += 18432) {
    char what[64];
    predict_indices p = predict_regular(d, tokens);
    predicted share = {p.share, "", 0, 0}, paid = {p.paid, "", 0, 0};
    snprintf(what, sizeof what, "rewritten / all places, %d", tokens);
    line(to, what, share, 0, tokens > 10000 ? GOAL_REGULAR : 0);
    line(to, "  has paid after so many steps", paid, 0, GOAL_PAID);
  }
}

/* The step of theme delta. */
static void delta_line(FILE *to, const predict_device *d) {
  predict_delta x = predict_rebuilt(d, 5736);
  predicted p = {x.seconds / x.peak, x.bound, 0, 0};
  line(to, "residual latents / their fma at the peak", p, 0, 0);
}

void predict_print(FILE *to, const predict_device *d) {
  const struct {
    int group;
    double goal;
  } at[] = {{1, GOAL_ATTEND}, {4, GOAL_ATTEND}, {8, GOAL_ATTEND_8}};
  char what[64];
  fprintf(to,
          "\npredicted, not measured: %s, %d SMs, %.2f GHz, copy %.0f GB/s\n"
          "%-40s %7s  goal\n",
          d->name, d->sms, d->clock / 1e9, d->copy / 1e9, "", "ratio");
  for (int i = 0; i < 3; i++) {
    snprintf(what, sizeof what, "attention fp16 / copy, group %d", at[i].group);
    line(to, what, predict_attend(d, at[i].group, 64, 32768, NULL), at[i].goal,
         0);
  }
  for (int i = 0; i < 3; i++) kivi_lines(to, d, at[i].group);
  for (int tokens = 1024; tokens <= 32768; tokens *= 32)
    for (int i = 0; i < 3; i++) paged_lines(to, d, tokens, at[i].group);
  compact_lines(to, d);
  regular_lines(to, d);
  delta_line(to, d);
  line(to, "top 4,096 of 131,072 / read", predict_top(d, 256, 131072), GOAL_TOP,
       0);
  line(to, "compression of h2o, every step / step",
       predict_compress(d, 256, 4096, 1), 0, GOAL_COMPRESS);
  line(to, "compression of h2o, every 128 steps / step",
       predict_compress(d, 256, 4096, 128), 0, GOAL_RARE);
}
