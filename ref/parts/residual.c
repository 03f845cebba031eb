/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens are references, and coding of the others: ref/parts/residual.h.
 */
#include "ref/parts/residual.h"

static kv_rc check_latent(const char *method, const kv_residual *o, kv_err *e) {
  int n = o->by.latent, group = o->group ? o->group : 8;
  if (o->latent != KV_LATENT_INT4 && o->group)
    return kv_fail(
        e, KV_REFUSED,
        "%s: group=%d has no effect unless latents are int4; leave it out",
        method, o->group);
  if (!o->by.there || o->latent != KV_LATENT_INT4 || n % group == 0)
    return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: latent vectors of %s have %d elements, but latent=int4 "
                 "packs multiples of %d; choose another group or latent=fp16",
                 method, o->file.asset->path, n, group);
}

static kv_rc check(const char *method, const kv_residual *o, kv_err *e) {
  if (o->self && o->refs == KV_REFS_RECON)
    return kv_fail(
        e, KV_REFUSED,
        "%s: self=yes and refs=recon contradict each other, since a decoded "
        "reference cannot be its own reference; use refs=raw",
        method);
  if (o->references == KV_REFERENCES_NONE && !o->file.asset)
    return kv_fail(e, KV_REFUSED,
                   "%s: references=none and compressor=none leave nothing of a "
                   "token; drop one of them",
                   method);
  if (o->kept && (o->self || o->refs == KV_REFS_RECON))
    return kv_fail(e, KV_REFUSED,
                   "%s: kept=int4 needs references that are stored as K and V, "
                   "but %s codes them as latent vectors; leave one out",
                   method, o->self ? "self=yes" : "refs=recon");
  return check_latent(method, o, e);
}

static int most_references(const kv_shape *s, const kv_residual *o,
                           int compressions) {
  int64_t n = (int64_t)o->sink + s->n_tokens / o->stride + compressions + 1;
  if (o->references == KV_REFERENCES_NONE) return 1;
  return (int)(n < s->n_tokens ? n : s->n_tokens);
}

static void fill_in(const kv_shape *s, kv_residual *o, int compressions,
                    kv_needs *needs) {
  bool all = o->self || o->refs == KV_REFS_RECON;
  size_t own = (size_t)kv_vector_width(s) * kv_dtype_size(s->dtype);
  kv_delta d = {.latent = o->by.latent,
                .type = o->by.there ? o->latent : KV_LATENT_NONE,
                .group = o->group,
                .nearest =
                    o->references == KV_REFERENCES_NONE ? 0 : o->nearest};
  o->how[KV_CODED_LATENT] = o->how[KV_CODED_REFERENCE] = d;
  o->how[KV_CODED_REFERENCE].reference = true;
  o->how[KV_CODED_REFERENCE].raw = o->refs == KV_REFS_RAW ? (int32_t)own : 0;
  o->four = (kv_minmax){4, s->d > s->d_v ? s->d : s->d_v, KV_RULE_STORED};
  needs->rope = true;
  needs->codings = all || o->kept ? KV_RESIDUAL_CODINGS : KV_CODED_REFERENCE;
  for (int i = 0; i < needs->codings; i++)
    needs->coding[i] =
        KV_CODING(&kv_format_delta, &o->how[i], true, KV_BOTH_SIDES);
  if (o->kept)
    needs->coding[KV_CODED_KEPT] =
        KV_CODING(&kv_format_token, &o->four, false, KV_BOTH_SIDES);
  o->most = most_references(s, o, compressions);
  needs->work = kv_latents_work(s, &o->by, o->most);
}

kv_rc kv_open_residual(const kv_shape *shape, const char *method,
                       kv_residual *o, int compressions,
                       bool (*skip)(const void *ctx, int layer),
                       const void *ctx, kv_needs *needs, kv_err *e) {
  kv_rc rc =
      kv_open_compressor(shape, method, o->file.asset, skip, ctx, &o->by, e);
  if (!rc) rc = check(method, o, e);
  if (!rc) fill_in(shape, o, compressions, needs);
  return rc;
}

void kv_residual_keep(const kv_at *at, kv_lane *const *lane, int lanes,
                      const kv_residual *o, int from, int end, bool whole) {
  int format = kv_coded(at, KV_CODED_KEPT);
  for (int g = 0; g < lanes && o->kept; g++)
    for (int32_t i = from == o->sink ? 0 : from; i < end; i++)
      if (whole || kv_is_reference(o, i, from))
        kv_recode(lane[g], 1, &i, format, format);
}

typedef struct compression {
  const kv_at *at;
  kv_lane *const *lane;
  int lanes;
  const kv_residual *o;
  int host;
  kv_references r;
  kv_latent_batch b;
} compression;

/* A reference that is kept in 4 bits is stored in that form only. */
static void add_reference(compression *s, int i, bool recorded) {
  float *x = kv_references_add(s->at, &s->r, i);
  if (recorded && !s->o->kept)
    kv_vector_recorded(s->at, s->lane, s->lanes, i, x);
  else
    kv_vector_stored(s->at, s->lane, s->lanes, i, x);
  kv_references_norm(s->at, &s->r);
}

/* Collects the references among the entries below `end`, uncoded ones and ones
 * coded as references. */
static void gather(compression *s, int end) {
  for (int i = 0; i < end && s->o->references != KV_REFERENCES_NONE; i++) {
    int f = s->lane[0]->k[i].format;
    if (f == KV_RAW || f == kv_coded(s->at, KV_CODED_REFERENCE))
      add_reference(s, i, s->o->refs == KV_REFS_RAW);
  }
}

/* Entry i enters the batch, or stays uncoded. Returns whether the batch ends
 * with it, because its decoded row is a reference of the next entry. */
static bool take(compression *s, int i, bool reference) {
  bool recon = s->o->refs == KV_REFS_RECON;
  kv_latent_batch *b = &s->b;
  if (reference && !recon) add_reference(s, i, true);
  if (reference && !recon && !s->o->self) return false;
  if (s->r.n == 0 && s->o->references != KV_REFERENCES_NONE) {
    add_reference(s, i, true); /* with refs=recon, the first reference */
    return false;
  }
  b->entry[b->n] = i;
  b->seen[b->n] = s->r.n;
  b->format[b->n] =
      kv_coded(s->at, reference ? KV_CODED_REFERENCE : KV_CODED_LATENT);
  b->n++;
  return reference && recon;
}

static void code(compression *s) {
  kv_latents_code(s->at, s->lane, s->lanes, &s->o->by, &s->r, &s->b);
  for (int g = 0; g < s->lanes && s->host >= 0; g++)
    kv_retier(s->lane[g], s->b.n, s->b.entry, s->host);
  s->b.n = 0;
}

void kv_residual_compress(const kv_at *at, kv_lane *const *lane, int lanes,
                          const kv_residual *o, int from, int end, int host) {
  compression s = {at, lane, lanes, o, host, .b = {.n = 0}};
  kv_references_open(at, o->most, &s.r);
  gather(&s, from);
  for (int i = from; i < end; i++) {
    bool last = take(&s, i, kv_is_reference(o, i, from));
    bool full = last || s.b.n == KV_LATENT_TILE || i + 1 == end;
    if (full && s.b.n) code(&s);
    if (last) add_reference(&s, i, false);
  }
}
