/* SPDX-License-Identifier: Apache-2.0
 *
 * The papers of methods as BibTeX, made from what kv_method.paper says:
 *
 *     NAMES YEAR, TITLE, arXiv:NUMBER      or, of what is not there,
 *     NAMES YEAR, TITLE, OpenReview:NAME
 *
 * NAMES is "Zhang et al.", "Xiao and Han" or "Ada Lovelace, Xiao and Han";
 * TITLE may hold commas. Several papers have "; " between them. A method that
 * has none says "none" or "none: WHY". For `kvreplay methods --bibtex`, which
 * calls kv_bibtex_write; the parser is for that and for tests.
 */
#ifndef KV_SIM_BIBTEX_H
#define KV_SIM_BIBTEX_H

#include "ref/ground/err.h"
#include "ref/lane/method.h"
#include <stdio.h>

enum { KV_PAPER_MOST = 512 }; /* bytes of names or title; longer ones are cut */

/* One paper. */
typedef struct kv_paper {
  char key[64];                /* zhang2023h2o: family name, year, and the
                                  title's first word but a, an and the */
  char authors[KV_PAPER_MOST]; /* as BibTeX has them: Zhang and others */
  char title[KV_PAPER_MOST];   /* in braces, what TeX would obey escaped */
  char year[5];
  char eprint[24]; /* its number or name in the archive */
  int archive;     /* 0 arXiv, 1 OpenReview */
} kv_paper;

/* Reads the paper at *text, which is not NULL and moves to the next one, NULL
 * after the last. method: its name, for the sentence. KV_USAGE: the paper is
 * not written as above; *text has moved, too. */
kv_rc kv_paper_next(const char *method, const char **text, kv_paper *out,
                    kv_err *e);

/* Of a kv_method.paper: why there is no paper, "" where nothing is said; NULL:
 * there is one, or several. */
const char *kv_paper_none(const char *text);

/* Writes the n methods' papers, each once, below a line that names its methods;
 * of a method without one, or whose paper is not written as above, such a line
 * alone, which BibTeX skips. Errors of out are for the caller to find
 * (ferror). */
void kv_bibtex_write(int n, const kv_method *const *methods, FILE *out);

#endif
