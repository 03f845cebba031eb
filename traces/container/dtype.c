/* SPDX-License-Identifier: Apache-2.0
 *
 * The table behind traces/container/dtype.h: names and widths of the types of
 * the safetensors format, which gains some now and then. Unknown names are
 * errors.
 */
#include "traces/container/dtype.h"

#include <assert.h>
#include <string.h>

static const struct {
  const char *name;
  unsigned bits;
} kind[KV_ST_DTYPES] = {
    [KV_ST_BOOL] = {"BOOL", 8},
    [KV_ST_F4] = {"F4", 4},
    [KV_ST_F6_E2M3] = {"F6_E2M3", 6},
    [KV_ST_F6_E3M2] = {"F6_E3M2", 6},
    [KV_ST_U8] = {"U8", 8},
    [KV_ST_I8] = {"I8", 8},
    [KV_ST_F8_E5M2] = {"F8_E5M2", 8},
    [KV_ST_F8_E4M3] = {"F8_E4M3", 8},
    [KV_ST_F8_E8M0] = {"F8_E8M0", 8},
    [KV_ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [KV_ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [KV_ST_I16] = {"I16", 16},
    [KV_ST_U16] = {"U16", 16},
    [KV_ST_F16] = {"F16", 16},
    [KV_ST_BF16] = {"BF16", 16},
    [KV_ST_I32] = {"I32", 32},
    [KV_ST_U32] = {"U32", 32},
    [KV_ST_F32] = {"F32", 32},
    [KV_ST_C64] = {"C64", 64},
    [KV_ST_F64] = {"F64", 64},
    [KV_ST_I64] = {"I64", 64},
    [KV_ST_U64] = {"U64", 64},
};

const char *kv_st_dtype_name(kv_st_dtype type) {
  assert(type < KV_ST_DTYPES && "a type of the table");
  return kind[type].name;
}

unsigned kv_st_dtype_bits(kv_st_dtype type) {
  assert(type < KV_ST_DTYPES && "a type of the table");
  return kind[type].bits;
}

kv_st_dtype kv_st_dtype_find(const char *name) {
  unsigned i = 0;
  while (i < KV_ST_DTYPES && strcmp(kind[i].name, name) != 0) i++;
  return (kv_st_dtype)i;
}
