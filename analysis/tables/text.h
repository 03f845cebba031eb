/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of a database, before anybody sees them. Names come from files of
 * others: a control character could steer a terminal, bytes that are no UTF-8
 * make a file invalid, marks of writing direction turn a line around. In
 * everything for people each byte of these stands as \xNN.
 */
#ifndef KV_ANALYSIS_TEXT_H
#define KV_ANALYSIS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the character at t, which is not at its end: 1 to 4. *shown: is it
 * one to print as it is? Where it is no UTF-8: one byte, not shown. */
int kv_text_next(const char *t, bool *shown);
/* Is every character UTF-8? */
bool kv_text_valid(const char *t);

/* Writes what people see. */
void kv_text_write(const char *t, FILE *f);
/* The same into out, at most `most` characters of a terminal; returns how many
 * it has. out has room for 4 * most + 1 bytes. */
int kv_text_fit(const char *t, int most, char *out);
/* Bytes of t that are whole characters, at most `most`: for "%.*s". */
int kv_text_cut(const char *t, int most);

/* Text for HTML and SVG, between tags or in double quotes. */
void kv_text_html(const char *t, FILE *f);
/* A word of a shell's command line, as text for HTML. */
void kv_text_shell_html(const char *t, FILE *f);

#endif
