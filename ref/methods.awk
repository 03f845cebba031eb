# SPDX-License-Identifier: Apache-2.0
#
# The pages of methods, made of the files of the methods: each file of
# ref/methods begins with a comment that is the method's one text. Run from the
# top of the tree:
#
#   awk -v page=EACH -f ref/methods.awk methods.mk     ref/METHODS_EACH.md
#   awk -v page=TABLE -f ref/methods.awk methods.mk    ref/METHODS_TABLE.md
#
# `make -C BUILD pages` writes both; tests/check_house.sh holds them to it.
#
# The comment's last paragraph states the facts that FACTS below names, each as
# `Name: text.`, all of them and in this order; one that is missing is said on
# standard error, with exit code 1. Other paragraphs are joined to one line;
# indented lines are formulas and stay; lines that begin with "- " are a list.
# Title and paper are those of the method's table in C. replay, which needs a
# file that somebody else made, is in no list of methods and comes last.

BEGIN {
  facts = split("Family Acts Needs Bound Bytes Gather Reduce Sample Cost",
    FACTS)
  if (page == "EACH") each_begins()
  else table_begins()
}

/^METHODS [+]= / {
  file = $3
  sub(/[.]c$/, "", file)
  twin = $0 ~ /# scorer$/ ? "scored" : file
  method(file, $0 ~ /# ref-only$/)
}

END {
  if ((getline line <"ref/methods/replay.c") > 0) {
    close("ref/methods/replay.c")
    twin = "replay"
    method("replay", 0)
  }
  if (page == "TABLE") table_ends()
  exit failed
}

function each_begins() {
  print "<!-- SPDX-License-Identifier: Apache-2.0"
  print "     Made of ref/methods/*.c by `make -C BUILD pages`. -->"
  print "# Each method\n"
  print "The head of each file of [methods](methods), in the order of" \
    " [methods.mk](../methods.mk). [METHODS.md](METHODS.md) has the letters" \
    " and what holds for all methods; [METHODS_TABLE.md](METHODS_TABLE.md)" \
    " has them side by side. `kvreplay methods NAME` prints the parameters" \
    " and the source of each default."
}

function table_begins() {
  print "<!-- SPDX-License-Identifier: Apache-2.0"
  print "     Made of ref/methods/*.c by `make -C BUILD pages`. -->"
  print "# The methods side by side\n"
  print "One line for each method of [METHODS_EACH.md](METHODS_EACH.md)." \
    " [METHODS.md](METHODS.md) has all letters. A lane is the cache of one" \
    " KV head of one layer. Words in `this type` are parameters.\n"
  print "- *family*: *drop* removes tokens; *read* stores all and reads some" \
    " at each step; *merge* averages several into one; *code* stores fewer" \
    " bits; *latent* stores a shorter vector; a *baseline* is only for" \
    " comparison."
  print "- *acts*: when the method compresses, or chooses what to read. With" \
    " `grow=no` it also compresses while decoding."
  print "- *needs*: what an engine must give it. Some methods rank tokens by" \
    " the score of another, the *scorer*, which `score=` names."
  print "- *bytes of a lane*: t is the tokens seen, P the prompt's, B the" \
    " budget in tokens. A token's K and V take R = (d + d_v) e: d and d_v" \
    " elements of e bytes. G is the query heads of a lane, H the lanes of a" \
    " layer. Add (t - P) R if a method acts on the prompt alone: it keeps all" \
    " generated tokens. Add 8 bytes an entry to a lane that dropped or merged" \
    " tokens: 4 for its position, 4 for its place in memory.\n"
  print "| method | family | what stays, or is read | acts | needs |" \
    " bytes of a lane | source |"
  print "|---|---|---|---|---|---|---|"
}

function table_ends(i) {
  print "\n## Gather, reduce, sample\n"
  print "Appendix E of Hard-KV's paper splits a method into three steps:\n"
  print "- *gather*: which tokens share one score;"
  print "- *reduce*: how that score is computed from queries, heads and these" \
    " tokens, and which of the tokens get it;"
  print "- *sample*: which tokens are taken by score.\n"
  print "The table has each method with its defaults; a dash means no such" \
    " step. *Probability* is an attention probability. hardkv ranks by a" \
    " scorer, its `adapter`, and divides the scores by a calibrated" \
    " temperature. This keeps their order, so it changes what top-p takes," \
    " but not what top-k takes.\n"
  print "| method | gather | reduce | sample |"
  print "|---|---|---|---|"
  for (i = 1; i <= steps; i++) print step_row[i]
}

function fail(text) {
  print "ref/methods/" file ".c: " text >"/dev/stderr"
  failed = 1
}

# Reads the file: the lines of its comment, and title and paper of its table.
function read_file(path, line, inside, done, field) {
  lines = 0
  title = paper = field = ""
  while ((getline line <path) > 0) {
    if (line ~ /^[/][*] SPDX/) {
      inside = 1
      getline line <path
    } else if (inside && line ~ /^ [*][/]/) {
      inside = 0
      done = 1
    } else if (inside) {
      sub(/^ [*] ?/, "", line)
      text[++lines] = line
    } else if (done) {
      if (line ~ /[.](title|paper) = "/) field = line ~ /title/ ? "t" : "p"
      if (field == "t") title = title quoted(line)
      if (field == "p") paper = paper quoted(line)
      if (line ~ /"([)];|,)$/) field = ""
    }
  }
  close(path)
  if (!lines || title == "") fail("no comment, or no table, of a method")
}

function quoted(line) {
  sub(/^[^"]*"/, "", line)
  sub(/"([)];|,)?$/, "", line)
  return line
}

# The text of a fact, of the last paragraph: up to the name of the next one.
function read_facts(i, all, at) {
  for (i = lines; i && text[i] != ""; i--) all = text[i] (all ? " " all : "")
  lines = i - 1
  for (i = 1; i <= facts; i++) {
    at = index(all, FACTS[i] ": ")
    if (!at) {
      fail("its comment has no `" FACTS[i] ":` where it belongs")
      return
    }
    if (i > 1) fact[FACTS[i - 1]] = trimmed(substr(all, 1, at - 1))
    all = substr(all, at + length(FACTS[i]) + 2)
  }
  fact[FACTS[facts]] = trimmed(all)
}

function trimmed(s) {
  sub(/[.]? *$/, "", s)
  return s
}

# Files of this room that the text names become links.
function linked(s, out, name) {
  out = ""
  while (match(s, /(ref\/[a-z_\/0-9]+[.][ch]|[A-Z_]+[.]md)/)) {
    name = substr(s, RSTART, RLENGTH)
    out = out substr(s, 1, RSTART - 1) "[" name "](" \
      substr(name, name ~ /^ref/ ? 5 : 1) ")"
    s = substr(s, RSTART + RLENGTH)
  }
  return out s
}

function cell(s) {
  gsub(/[|]/, "\\|", s)
  return linked(s)
}

function source(out, s, name) {
  s = paper
  while (match(s, /(arXiv|OpenReview):[A-Za-z0-9.]+/)) {
    name = substr(s, RSTART, RLENGTH)
    s = substr(s, RSTART + RLENGTH)
    out = out (out ? ", " : "")
    if (sub(/^arXiv:/, "", name))
      out = out "[" name "](https://arxiv.org/abs/" name ")"
    else if (sub(/^OpenReview:/, "", name))
      out = out "[OpenReview](https://openreview.net/forum?id=" name ")"
  }
  return out
}

function method(name, alone, spec) {
  file = name
  spec = name
  gsub(/_/, "-", spec)
  read_file("ref/methods/" name ".c")
  read_facts()
  if (page == "EACH") {
    section(name, spec, alone)
    return
  }
  step_row[++steps] = "| " spec " | " cell(fact["Gather"]) " | " \
    cell(fact["Reduce"]) " | " cell(fact["Sample"]) " |"
  if (name != "replay")
    print "| [" spec "](METHODS_EACH.md#" spec ") | " fact["Family"] " | " \
      cell(title) " | " cell(fact["Acts"]) " | " cell(fact["Needs"]) " | " \
      cell(fact["Bytes"]) " | " source() " |"
}

# A paragraph or an item at a time; `open` is what of it is not printed yet.
function section(name, spec, alone, i, list, line, source_text) {
  source_text = source()
  print "\n## " spec "\n"
  print "*" title "* - [source](methods/" name ".c), " \
    (alone ? "*Ref only*" : "[CUDA](../gpu/methods/" twin ".cu)") \
    (source_text ? "; " source_text : "") "\n"
  for (i = 1; i <= lines; i++) {
    line = text[i]
    if (line == "" || line ~ /^- /) {
      flush()
      list = line != ""
      if (list) open = line
      else print ""
    } else if (line ~ /^  / && !list) {
      flush()
      print "  " line
    } else {
      sub(/^ +/, "", line)
      open = open (open ? " " : "") line
    }
  }
  flush()
  print ""
  for (i = 1; i <= facts; i++)
    open = open "**" FACTS[i] "**: " fact[FACTS[i]] (i < facts ? ". " : ".")
  flush()
}

function flush() {
  if (open) print linked(open)
  open = ""
}
