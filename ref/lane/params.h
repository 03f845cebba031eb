/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the params struct and the rows of a method from one list of parameters,
 * which the method and its CUDA twin include from ref/methods/x.h:
 *
 *   #define PARAMS(P)                                                         \
 *     P(BUDGET, "tokens left after a compression; must be given")             \
 *     P(INT, skip, "2", 0, 1 << 20, "layers", "first layers that stay dense") \
 *     P(CHOICE, rule, "engine", "engine|paper", "how many pages")             \
 *     P(ONLY, float cut) .. a member that open resolves, without a row
 *   KV_PARAMS(PARAMS);                                        the struct params
 *
 *   static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};
 *
 * P(KIND, member, ...) takes the arguments of KV_KIND_PARAM (ref/lane/param.h)
 * after the member, whose name is the parameter's. P(PART, type member, ROWS)
 * declares a member whose rows have another name or are a family's (ref/parts).
 * P(ROW, ..) adds a row for such a member. Hooks and the twin read the struct
 * after open has resolved it. An enum in x.h has the values of the parameter
 * named beside it.
 */
#ifndef KV_REF_PARAMS_H
#define KV_REF_PARAMS_H

#include "ref/lane/param.h"

/* Pass KV_MEMBER as P to get members of the struct, KV_ROW to get rows. */
#define KV_PARAMS(list)                                                        \
  typedef struct params {                                                      \
    list(KV_MEMBER)                                                            \
  } params
#define KV_MEMBER(kind, ...) KV_MEMBER_##kind(__VA_ARGS__)
#define KV_MEMBER_BUDGET(...) int budget;
#define KV_MEMBER_INT(member, ...) int member;
#define KV_MEMBER_REAL(member, ...) float member;
#define KV_MEMBER_SHARE(member, ...) int32_t member;
#define KV_MEMBER_CHOICE(member, ...) int member;
#define KV_MEMBER_TEXT(member, ...) char member[KV_TEXT_MAX];
#define KV_MEMBER_FILE(member, ...) kv_file member;
#define KV_MEMBER_PART(declared, ...) declared;
#define KV_MEMBER_ONLY(declared) declared;
#define KV_MEMBER_ROW(...)
#define KV_ROW(kind, ...) KV_ROW_##kind(__VA_ARGS__)
#define KV_ROW_BUDGET(...) KV_BUDGET_PARAM(params, __VA_ARGS__),
#define KV_ROW_INT(at, ...) KV_INT_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_REAL(at, ...) KV_REAL_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_SHARE(at, ...) KV_SHARE_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_CHOICE(at, ...) KV_CHOICE_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_TEXT(at, ...) KV_TEXT_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_FILE(at, ...) KV_FILE_PARAM(#at, params, at, __VA_ARGS__),
#define KV_ROW_PART(declared, ...) __VA_ARGS__,
#define KV_ROW_ONLY(declared)
#define KV_ROW_ROW(...) __VA_ARGS__,

#endif
