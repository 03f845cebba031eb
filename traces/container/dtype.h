/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of the safetensors format, for its reader and its writer
 * (header.h and writer.h in this folder). A trace uses only F16, BF16, F32, I32
 * and I64.
 */
#ifndef KV_TRACES_DTYPE_H
#define KV_TRACES_DTYPE_H

typedef enum kv_st_dtype {
  KV_ST_BOOL,
  KV_ST_F4,
  KV_ST_F6_E2M3,
  KV_ST_F6_E3M2,
  KV_ST_U8,
  KV_ST_I8,
  KV_ST_F8_E5M2,
  KV_ST_F8_E4M3,
  KV_ST_F8_E8M0,
  KV_ST_F8_E4M3FNUZ,
  KV_ST_F8_E5M2FNUZ,
  KV_ST_I16,
  KV_ST_U16,
  KV_ST_F16,
  KV_ST_BF16,
  KV_ST_I32,
  KV_ST_U32,
  KV_ST_F32,
  KV_ST_C64,
  KV_ST_F64,
  KV_ST_I64,
  KV_ST_U64,
  KV_ST_DTYPES /* how many there are */
} kv_st_dtype;

/* Its name in a header ("F8_E4M3"; static) and its width in bits: 8 for BOOL, 4
 * for F4. Asserts that it is one of the types above. */
const char *kv_st_dtype_name(kv_st_dtype type);
unsigned kv_st_dtype_bits(kv_st_dtype type);

/* The type of that name (case matters), or KV_ST_DTYPES. */
kv_st_dtype kv_st_dtype_find(const char *name);

#endif
