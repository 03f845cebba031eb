/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of layouts, and the values of --layout. A new layout needs a row
 * here, its words below, and a file.
 */
#include "sim/replay/layout/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kv_layout *const layouts[] = {
    &kv_layout_slots, &kv_layout_pages, &kv_layout_unified,
    &kv_layout_base,  &kv_layout_ls,    &kv_layout_la,
    &kv_layout_hs,    &kv_layout_ha,    NULL};

const char kv_layout_choices[] =
    "slots|pages:16|pages:16:layer|pages:16:model|unified|"
    "unified:code|base|ls:sparse|ls:max|la:sparse|la:max|hs:sparse|"
    "hs:max|ha:sparse|ha:max";

const char kv_layout_help[] =
    "also account for memory layouts. slots: one slot per row. "
    "pages:N[:lane|layer|model]: pages of N tokens, with a table for "
    "each lane, each layer or the model. unified[:paper|code]: LeanKV's "
    "pages of two precisions. Or indices that one graph of kernels can "
    "use: base (one set of tokens for all lanes), ls, la (one per "
    "layer), hs, ha (one per lane); with :sparse (masks; for ls and la "
    ":masks=layer, one per layer) or :max (rewritten; with :masks=lane "
    "only if entries leave). :tp=N counts the fullest of N ranks that "
    "share the KV heads";

void kv_layout_list_free(kv_layout_list *l) {
  free(l->item);
  *l = (kv_layout_list){0};
}

kv_rc kv_layout_parse_plain(const char *settings, kv_layout_asked *out,
                            kv_err *e) {
  if (settings)
    return kv_fail(e, KV_USAGE, "layout %s has no settings, but got \"%s\"",
                   out->layout->name, settings);
  out->page = 1;
  snprintf(out->name, sizeof out->name, "%s", out->layout->name);
  return KV_OK;
}

static kv_rc parse(const char *text, kv_layout_asked *out, kv_err *e) {
  size_t n = strcspn(text, ":");
  *out = (kv_layout_asked){0};
  for (int i = 0; layouts[i]; i++) {
    const kv_layout *l = layouts[i];
    if (strlen(l->name) != n || strncmp(l->name, text, n)) continue;
    out->layout = l;
    return l->parse(text[n] ? text + n + 1 : NULL, out, e);
  }
  return kv_fail(e, KV_USAGE,
                 "no layout is called \"%.40s\"; choose slots, "
                 "pages:N[:lane|layer|model], unified[:paper|code], base, or "
                 "ls, la, hs or ha with :sparse or :max",
                 text);
}

static kv_rc add(const char *text, kv_layout_list *out, kv_err *e) {
  kv_layout_asked asked;
  kv_rc rc = parse(text, &asked, e);
  if (rc) return rc;
  for (int i = 0; i < out->n; i++)
    if (!strcmp(out->item[i].name, asked.name))
      return kv_fail(e, KV_USAGE, "layout %s is named twice; name it once",
                     asked.name);
  kv_layout_asked *grown =
      realloc(out->item, ((size_t)out->n + 1) * sizeof *grown);
  if (!grown) return kv_no_memory(e, "layouts", sizeof *grown);
  out->item = grown;
  out->item[out->n++] = asked;
  return KV_OK;
}

kv_rc kv_layouts_parse(const char *text, kv_layout_list *out, kv_err *e) {
  char *copy = strdup(text);
  kv_rc rc = copy ? KV_OK : kv_no_memory(e, "layouts", strlen(text) + 1);
  char *at = copy;
  while (!rc && at) {
    char *comma = strchr(at, ',');
    if (comma) *comma = 0;
    rc = add(at, out, e);
    at = comma ? comma + 1 : NULL;
  }
  free(copy);
  return rc;
}
