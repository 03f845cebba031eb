/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions of the program's own: kv_session_keep. The method is `replay`, its
 * file in memory (traces/decisions/given.h). A layer's prompt enters the engine
 * when its last lane was told, or when the layer is first asked to go on, and
 * not when its last token arrives.
 */
#include "sim/session/session_part.h"

#include "ref/lane/decisions.h"

kv_rc kv_session_take_given(kv_session *s, const kv_spec *spec,
                            kv_asset *file[KV_SPEC_FILES], kv_err *e) {
  const kv_param *p;
  for (int i = 0; (p = kv_method_file(spec->method, i)); i++)
    if (p->reads == &kv_decisions_kind && !*kv_spec_file(spec, i)->path) {
      kv_rc rc =
          kv_given_open(&s->trace, s->trace.shape.prompt_len, &s->given, e);
      file[i] = s->given;
      return rc;
    }
  return KV_OK;
}

kv_rc kv_session_enter(kv_session *s, kv_fed *f, kv_err *e) {
  const kv_team team = {&s->worker, 1, NULL};
  int p = s->cell.shape.prompt_len, first = f->entered;
  fenv_t mode;
  if (first >= p || f->arrived < p) return KV_OK;
  fegetenv(&mode);
  kv_float_ground();
  s->hand = f;
  f->entered = p;
  kv_layer_block(f->layer, 0, first, p - first, &team);
  fesetenv(&mode);
  return f->fault.rc ? kv_fail(e, KV_REFUSED, "%s", f->fault.text) : KV_OK;
}

static kv_rc check(const kv_session *s, const kv_fed *f, int layer, int lane,
                   kv_err *e) {
  int p = s->cell.shape.prompt_len;
  if (!s->given)
    return kv_fail(e, KV_REFUSED,
                   "%s decides itself what its lanes keep: open the session "
                   "with the method replay, without a file, to say it",
                   kv_session_spec(s));
  if (f->fault.rc) return kv_fail(e, KV_REFUSED, "%s", f->fault.text);
  if (lane < 0 || lane >= s->lanes)
    return kv_fail(e, KV_USAGE, "lane %d: there are %d, from 0 on", lane,
                   s->lanes);
  if (f->arrived < p)
    return kv_fail(e, KV_USAGE,
                   "layer %d has seen %d tokens of its prompt of %d: say what "
                   "stays when it has ended",
                   layer, f->arrived, p);
  if (f->entered >= p)
    return kv_fail(e, KV_USAGE,
                   "layer %d has been compressed already: its lanes are told "
                   "once, between the prompt and its first decode step",
                   layer);
  return KV_OK;
}

kv_rc kv_session_keep(kv_session *s, int layer, int lane, int n,
                      const uint32_t *id, kv_err *e) {
  kv_fed *f = NULL;
  if (!s) return kv_session_none(e);
  kv_rc rc = kv_session_find(s, layer, &f, e);
  if (!id) n = 0;
  if (!rc) rc = check(s, f, layer, lane, e);
  if (!rc) rc = kv_given_keep(s->given, (int)(f - s->fed), lane, n, id, e);
  if (rc) return rc;
  int told = 0;
  f->told[lane] = true;
  for (int i = 0; i < s->lanes; i++) told += f->told[i];
  return told == s->lanes ? kv_session_enter(s, f, e) : KV_OK;
}
