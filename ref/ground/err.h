/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: one return code and one sentence. Also, foreign text in sentences.
 *
 * A function that can fail returns kv_rc and takes `kv_err *e` last. On failure
 * it writes one sentence (what, where, what to do) and returns its code;
 * `return kv_fail(e, KV_INPUT, "...")` does both. The codes are the exit codes
 * of the programs. `e` may be NULL. The library never prints and never exits.
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
  KV_REFUSED = 6    /* this cell cannot run with these options; no exit code */
} kv_rc;

/* A failure. Owned by the caller; zeroed: none. */
typedef struct kv_err {
  kv_rc rc;
  char text[512]; /* one sentence, no newline, no trailing period needed */
} kv_err;

/* Writes a sentence into *e and returns rc. The sentence is formatted as by
 * printf, passed through kv_plain and cut at 511 bytes. */
kv_rc kv_fail(kv_err *e, kv_rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes foreign text (names of files and tensors, metadata) safe to print.
 * Characters that a terminal would obey, and bytes that are not UTF-8, become
 * \x1b or \u202e; the rest stays. Applying it twice changes nothing more. */
enum {
  KV_PLAIN_MOST = 8
}; /* most bytes of one character in that form, NUL included */

/* Are the n bytes strict UTF-8 (no overlong forms, no surrogates, nothing past
 * U+10FFFF)? */
bool kv_utf8_valid(size_t n, const unsigned char *text);

/* Writes the next character of *text, in that form and NUL-terminated, to out
 * and advances *text. Returns its length, 0 at the end. */
int kv_plain_next(const char **text, char out[KV_PLAIN_MOST]);

/* Writes the whole text in that form to out, which holds `room` >= 1 bytes.
 * Text that does not fit is cut between two characters. Returns out. */
const char *kv_plain(const char *text, size_t room, char *out);

/* Zeroed memory for count elements of size bytes, aligned to 64 bytes, or NULL;
 * checks count * size for overflow. Free it with free(). Large blocks are not
 * touched, so unused parts cost no resident memory. */
void *kv_zalloc(size_t count, size_t size);

/* Returns whole pages of a block to the system, if it has 1 MiB or more. Its
 * contents are lost; it stays allocated. Prompt buffers use it so that their
 * memory does not add to that of decoding. NULL: does nothing. */
void kv_give_back(void *block, size_t bytes);

/* Returns kv_fail with KV_RESOURCE and "not enough memory for WHAT (N bytes)",
 * followed by what to do. */
kv_rc kv_no_memory(kv_err *e, const char *what, size_t bytes);

#endif
