# SPDX-License-Identifier: Apache-2.0
#
# Rows that are computed at once, exactly or ahead. The format is list.sh's.
mutant tile_sees_one_less ref/backend/attend.c 'tile check_tiles.sh' \
  'int seen = a->n + r - first;' 'int seen = a->n + r - first - (r == 2);'
mutant begun_unchecked ref/backend/attend.c 'tile' \
  'if (x->best[i] != b->best[i]) return false;' ''
mutant recode_untouched ref/lane/verbs.c 'tile' \
  '    touch(l, entry[i]);
' ''
mutant keep_untouched ref/lane/verbs.c 'tile' \
  'touch(l, same);' 'touch(l, n);'
mutant merge_untouched ref/lane/verbs.c 'tile' \
  'touch(l, into < from ? into : from);' ''
mutant ahead_of_another_lane ref/backend/decode.c 'check_tiles.sh' \
  't < a->t + a->steps && l->touched >= a->entries' 't < a->t + a->steps'
mutant ahead_other_logits ref/backend/decode.c 'check_tiles.sh' \
  '(l->step - 1 - a->t) * l->queries + h' '(l->step - 1 - a->t) * l->queries'
mutant tile_of_last_layer sim/replay/engine/layer.c 'check_tiles.sh' \
  'l->until = 0;' ''
mutant tile_of_last_cell sim/replay/engine/layer.c 'check_tiles.sh' \
  'l->until = first;' ''
mutant ahead_own_first_query ref/backend/decode.c 'laws' \
  'a->t + i / l->queries,' 'a->t,'
