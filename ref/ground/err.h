/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: one return code and one sentence; and foreign text in sentences.
 *
 * A function that can fail returns kv_rc and takes `kv_err *e` last. On
 * failure it writes one sentence - what, where, what to do - and returns its
 * code; `return kv_fail(e, KV_INPUT, "...")` does both. The codes are the
 * exit codes of the programs. A null `e` is allowed: the code remains.
 * The library never prints and never exits.
 */
#ifndef KV_REF_ERR_H
#define KV_REF_ERR_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kv_rc {
  KV_OK = 0,
  KV_DIFFERENT = 1, /* compared, and different */
  KV_USAGE = 2,     /* the command line or a parameter is wrong */
  KV_INPUT = 3,     /* an input file is bad */
  KV_RESOURCE = 4,  /* memory, disk, database or device */
  KV_INTERNAL = 5,  /* a broken invariant: our fault */
  KV_REFUSED = 6    /* this cell cannot run as asked; never an exit code */
} kv_rc;

/* A failure. Owned by the caller; zeroed: none. */
typedef struct kv_err {
  kv_rc rc;
  char text[512]; /* one sentence, no newline, no trailing period needed */
} kv_err;

/* Writes the sentence, made as by printf, shown as kv_plain shows it and cut at
 * 511 bytes, into *e and returns rc. */
kv_rc kv_fail(kv_err *e, kv_rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Foreign text (names of files and tensors, metadata) for people: what a
 * terminal would obey instead of showing it, and bytes that are not UTF-8,
 * become \x1b or \u202e; all else stays. Text that went through it once is
 * not changed by a second time. */
enum {
  KV_PLAIN_MOST = 8
}; /* bytes of a character so shown, its end included */

/* True if the n bytes are strict UTF-8: no overlong forms, no surrogates,
 * nothing past U+10FFFF. */
bool kv_utf8_valid(size_t n, const unsigned char *text);

/* Writes the next character of *text, so shown, with a NUL into out and moves
 * *text on; returns its length, 0 at the end. */
int kv_plain_next(const char **text, char out[KV_PLAIN_MOST]);

/* All of it into out, which has room for so many bytes, at least 1, and is cut
 * between two characters where that is not enough. Returns out. */
const char *kv_plain(const char *text, size_t room, char *out);

/* Zeroed memory for count elements of size bytes, aligned to 64 bytes, or
 * NULL; count * size is checked. Freed with free(). Large blocks are not
 * touched, so what is never used costs no resident memory. */
void *kv_zalloc(size_t count, size_t size);

/* For bytes that will be rewritten before they are read again: whole pages of
 * them, from 1 MiB on, go back to the system, so that a prompt's memory does
 * not stand beside what decoding needs. Fewer stay as they are. NULL: nothing.
 */
void kv_give_back(void *block, size_t bytes);

/* kv_fail with KV_RESOURCE and "not enough memory for WHAT (N bytes)", which
 * goes on with what to do. */
kv_rc kv_no_memory(kv_err *e, const char *what, size_t bytes);

#endif
