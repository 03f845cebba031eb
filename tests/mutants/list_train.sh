# SPDX-License-Identifier: Apache-2.0
#
# Training: gradients, references, tables of heads, and what a training that was
# killed goes on from. The format is list.sh's.
mutant train_wrong_slope sim/train/net_bend.c 'train' \
  'd_b[i] = d_y[i] * a[i] * s[i];' 'd_b[i] = d_y[i] * s[i];'
mutant train_forgets_means sim/train/net.c 'train' \
  'r->d_latent[half + i] = -r->d_latent[i];' 'r->d_latent[half + i] = 0;'
mutant train_alone_by_half sim/train/net.c 'train' \
  'int rows = net->alone ? n : 2 * n;' 'int rows = net->alone ? n / 2 : 2 * n;'
mutant train_alone_beside_means sim/train/deltakv.c 'train' \
  'mean ? mean[i] : 0.0f' 'mean ? mean[i] : x[i] / 2'
mutant train_alone_unsaid sim/train/deltakv.c 'training' \
  '"trained_references", "none"' '"trained_references", "nearest"'
mutant train_sees_itself sim/train/nearest.c 'train' \
  'token[visible] < first + i' 'token[visible] <= first + i'
mutant train_unclipped sim/train/adam.c 'train' \
  'return by < 1 ? (float)by : 1.0f;' 'return (float)by;'
mutant train_forgets_moments sim/train/train_keep.c 'training' \
  'void *all[PARTS] = {x->value, x->m, x->v, x->sum};' \
  'void *all[PARTS] = {x->value, x->m, x->m, x->sum};'
mutant train_believes_all sim/train/train_keep.c 'training' \
  'if (!rc && memcmp(&head.of, &of, sizeof of)) rc = of_another(x, e);' ''
mutant train_gate_halved sim/train/duoattention.c 'train' \
  '(double)o->penalty / (2 * share)' '(double)o->penalty / share'
mutant train_needle_anywhere sim/train/headkv.c 'train' \
  'if (among(p, count, n, i)) sum' 'sum'
mutant train_energy_unshared sim/train/palu.c 'train' \
  '(float)((double)energy[i] / total)' '(float)((double)energy[i])'
mutant train_turn_longer sim/train/palu.c 'train' \
  'x[i] *= by;' 'x[i] *= 2 * by;'
