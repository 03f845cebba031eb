/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/bibtex.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char shape[] = "NAMES YEAR, TITLE, arXiv:NUMBER";

static const struct {
  const char *name, *from, *characters, *url;
  int least; /* least characters: those of 2306.1404 */
} archives[] = {
    {"arXiv", ", arXiv:", "0123456789.", "https://arxiv.org/abs/", 9},
    {"OpenReview", ", OpenReview:",
     "0123456789_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
     "https://openreview.net/forum?id=", 9}};
enum { ARCHIVES = sizeof archives / sizeof *archives };

/* A text of at most size - 1 bytes; put cuts what does not fit. */
typedef struct room {
  char *text;
  size_t size, used;
} room;

static void put(room *r, const char *text, size_t n) {
  if (r->used + n >= r->size) n = r->size - 1 - r->used;
  memcpy(r->text + r->used, text, n);
  r->used += n;
  r->text[r->used] = 0;
}

static bool begins(const char *text, const char *end, const char *with) {
  size_t n = strlen(with);
  return (size_t)(end - text) >= n && memcmp(text, with, n) == 0;
}

static const char *last_comma(const char *text, const char *end) {
  const char *at = end;
  while (at > text && !begins(at, end, ", ")) at--;
  return at;
}

/* Where the " YEAR, " after the names begins; NULL: nowhere. */
static const char *find_year(const char *text, const char *end) {
  for (; text + 7 <= end; text++) {
    int digits = 0;
    while (digits < 4 && isdigit((unsigned char)text[1 + digits])) digits++;
    if (*text == ' ' && digits == 4 && begins(text + 5, end, ", ")) return text;
  }
  return NULL;
}

/* "A, B and C et al." as "A and B and C and others". */
static void set_authors(const char *text, const char *end, room *r) {
  static const char *const from[] = {", and ", ", ", " et al."};
  static const char *const to[] = {" and ", " and ", " and others"};
  while (text < end) {
    size_t i = 0;
    while (i < 3 && !begins(text, end, from[i])) i++;
    if (i < 3) {
      put(r, to[i], strlen(to[i]));
      text += strlen(from[i]);
    } else {
      put(r, text++, 1);
    }
  }
}

/* In its own braces, so that BibTeX keeps capital letters. */
static void set_title(const char *text, const char *end, room *r) {
  put(r, "{", 1);
  for (; text < end; text++) {
    if (strchr("&%$#_", *text)) put(r, "\\", 1);
    put(r, text, 1);
  }
  put(r, "}", 1);
}

/* The letters and digits of a word, in lower case. */
static void put_word(const char *text, const char *end, room *r) {
  for (; text < end && *text != ' '; text++) {
    char c = (char)tolower((unsigned char)*text);
    if (isalnum((unsigned char)c) && !(c & 0x80)) put(r, &c, 1);
  }
}

static void set_key(const char *authors, const char *year, const char *title,
                    const char *end, room *r) {
  static const char *const small[] = {"A ", "An ", "The "};
  const char *family = authors, *stop = strstr(authors, " and ");
  if (!stop) stop = authors + strlen(authors);
  for (const char *p = authors; p < stop; p++)
    if (*p == ' ') family = p + 1;
  put_word(family, stop, r);
  put(r, year, 4);
  for (int i = 0; i < 3; i++)
    if (begins(title, end, small[i])) title += strlen(small[i]);
  put_word(title, end, r);
}

/* Reads the archive and the number from the last comma on. False: malformed. */
static bool set_eprint(const char *where, const char *end, kv_paper *p) {
  room eprint = {p->eprint, sizeof p->eprint, 0};
  for (p->archive = 0; p->archive < ARCHIVES; p->archive++) {
    const char *from = archives[p->archive].from;
    if (!begins(where, end, from)) continue;
    where += strlen(from);
    size_t n = (size_t)(end - where);
    put(&eprint, where, n);
    return n >= (size_t)archives[p->archive].least && n < eprint.size &&
           strspn(where, archives[p->archive].characters) >= n;
  }
  return false;
}

static bool read_paper(const char *text, const char *end, kv_paper *p) {
  room authors = {p->authors, sizeof p->authors, 0};
  room title = {p->title, sizeof p->title, 0};
  room key = {p->key, sizeof p->key, 0};
  const char *year = find_year(text, end), *where = last_comma(text, end);
  if (!year || year == text || where < year + 8) return false;
  if (!set_eprint(where, end, p)) return false;
  if (memchr(text, '{', (size_t)(end - text))) return false;
  if (memchr(text, '}', (size_t)(end - text))) return false;
  set_authors(text, year, &authors);
  memcpy(p->year, year + 1, 4);
  set_title(year + 7, where, &title);
  set_key(p->authors, p->year, year + 7, where, &key);
  return true;
}

const char *kv_paper_none(const char *text) {
  if (strcmp(text, "none") == 0) return "";
  return begins(text, text + strlen(text), "none: ") ? text + 6 : NULL;
}

kv_rc kv_paper_next(const char *method, const char **text, kv_paper *out,
                    kv_err *e) {
  const char *from = *text, *end = strstr(from, "; ");
  *text = end ? end + 2 : NULL;
  if (!end) end = from + strlen(from);
  *out = (kv_paper){.key = ""};
  if (read_paper(from, end, out)) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "the paper of %s is \"%.*s\"; write it as \"%s\", several "
                 "separated by \"; \", or \"none: WHY\"",
                 method, (int)(end - from), from, shape);
}

/* Does the method name the paper with that key? */
static bool names(const kv_method *m, const char *key) {
  const char *text = kv_paper_none(m->paper) ? NULL : m->paper;
  kv_paper p;
  while (text)
    if (kv_paper_next(m->name, &text, &p, NULL) == KV_OK &&
        strcmp(p.key, key) == 0)
      return true;
  return false;
}

/* Writes a field in lines of about 78 columns, broken at blanks. */
static void write_field(const char *name, const char *text, FILE *out) {
  int column = fprintf(out, "  %s = {", name);
  while (*text) {
    size_t n = strcspn(text, " "), blanks = strspn(text + n, " ");
    column += fprintf(out, "%.*s", (int)n, text);
    text += n + blanks;
    if (column + (int)strcspn(text, " ") > 74 && blanks)
      column = fprintf(out, "\n    ");
    else if (blanks)
      column += fprintf(out, " ");
  }
  fputs("},\n", out);
}

static void write_entry(const kv_paper *p, FILE *out) {
  fprintf(out, "@misc{%s,\n", p->key);
  write_field("author", p->authors, out);
  write_field("title", p->title, out);
  fprintf(out,
          "  year = {%s},\n  eprint = {%s},\n  archivePrefix = {%s},\n"
          "  url = {%s%s}\n}\n",
          p->year, p->eprint, archives[p->archive].name,
          archives[p->archive].url, p->eprint);
}

/* Writes the paper, unless a method before the i-th has it. */
static void write_paper(int n, const kv_method *const *m, int i,
                        const kv_paper *p, FILE *out) {
  for (int j = 0; j < i; j++)
    if (names(m[j], p->key)) return;
  fprintf(out, "\n%% %s", m[i]->name);
  for (int j = i + 1; j < n; j++)
    if (names(m[j], p->key)) fprintf(out, ", %s", m[j]->name);
  fputc('\n', out);
  write_entry(p, out);
}

static void write_papers(int n, const kv_method *const *m, int i, FILE *out) {
  const char *text = m[i]->paper;
  kv_paper p;
  while (text) {
    if (kv_paper_next(m[i]->name, &text, &p, NULL))
      fprintf(out, "\n%% %s: its paper is not written as %s\n", m[i]->name,
              shape);
    else
      write_paper(n, m, i, &p, out);
  }
}

void kv_bibtex_write(int n, const kv_method *const *methods, FILE *out) {
  fputs("% The methods of kvreplay; `and others` are in the papers.\n", out);
  for (int i = 0; i < n; i++) {
    const char *why = kv_paper_none(methods[i]->paper);
    if (why)
      fprintf(out, "\n%% %s: no paper%s%s\n", methods[i]->name,
              *why ? ", " : "", why);
    else
      write_papers(n, methods, i, out);
  }
}
