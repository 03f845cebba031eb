/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes texts of a database safe to show. Names come from other people's files:
 * control characters could steer a terminal, bytes that are not UTF-8 make a
 * file invalid, marks of writing direction can reverse a line. The functions
 * below write each byte of these as \xNN.
 */
#ifndef KV_ANALYSIS_TEXT_H
#define KV_ANALYSIS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Length in bytes, 1 to 4, of the character at t, which is not the text's end.
 * *shown: it may be printed unchanged. Not UTF-8: one byte, not shown. */
int kv_text_next(const char *t, bool *shown);
/* Is every character UTF-8? */
bool kv_text_valid(const char *t);

/* Writes a text for a terminal or a file, unsafe bytes as \xNN. */
void kv_text_write(const char *t, FILE *f);
/* The same into out, at most `most` characters, \xNN counted as four; returns
 * how many. out holds 4 * most + 1 bytes. */
int kv_text_fit(const char *t, int most, char *out);
/* How many bytes of t, at most `most`, are whole characters: for "%.*s". */
int kv_text_cut(const char *t, int most);

/* Writes a text for HTML and SVG, between tags or in double quotes. */
void kv_text_html(const char *t, FILE *f);
/* Writes a word of a shell's command line, quoted, as text for HTML. */
void kv_text_shell_html(const char *t, FILE *f);

#endif
