/* SPDX-License-Identifier: Apache-2.0
 *
 * The papers of methods as BibTeX, made from what kv_method.paper says:
 *
 *     NAMES YEAR, TITLE, arXiv:NUMBER      or, if it is not there,
 *     NAMES YEAR, TITLE, OpenReview:NAME
 *
 * NAMES is "Zhang et al.", "Xiao and Han" or "Ada Lovelace, Xiao and Han";
 * TITLE may contain commas; "; " separates papers. A method without a paper has
 * "none" or "none: WHY". For `kvreplay methods --bibtex`. kv_bibtex_write and
 * tests use the parser.
 */
#ifndef KV_SIM_BIBTEX_H
#define KV_SIM_BIBTEX_H

#include "ref/ground/err.h"
#include "ref/lane/method.h"
#include <stdio.h>

enum { KV_PAPER_MOST = 512 }; /* bytes of names or title; longer ones are cut */

typedef struct kv_paper {
  char key[64];                /* zhang2023h2o: family name, year, and the
                                  title's first word except a, an, the */
  char authors[KV_PAPER_MOST]; /* as in BibTeX: Zhang and others */
  char title[KV_PAPER_MOST];   /* in braces, special characters of TeX escaped
                                */
  char year[5];
  char eprint[24]; /* its number or name in the archive */
  int archive;     /* 0 arXiv, 1 OpenReview */
} kv_paper;

/* Reads the paper at *text, which is not NULL, and advances *text to the next
 * one, NULL after the last. method: its name, for messages. KV_USAGE: the paper
 * is not written as above; *text still advances. */
kv_rc kv_paper_next(const char *method, const char **text, kv_paper *out,
                    kv_err *e);

/* A kv_method.paper's reason for having none, or ""; NULL: it names a paper. */
const char *kv_paper_none(const char *text);

/* Writes the n methods' papers, each once, below a line that names its methods.
 * A method without a paper, or with a malformed one, gets only such a line,
 * which BibTeX skips. The caller checks ferror(out). */
void kv_bibtex_write(int n, const kv_method *const *methods, FILE *out);

#endif
