/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainers, each in sim/train/NAME.c; the table is in trainers.c.
 */
#ifndef KV_SIM_TRAINERS_H
#define KV_SIM_TRAINERS_H

#include "sim/train/trainer.h"

extern const kv_trainer kv_trainer_deltakv, kv_trainer_duoattention,
    kv_trainer_headkv, kv_trainer_less, kv_trainer_palu;

#endif
