# SPDX-License-Identifier: Apache-2.0
#
# Cuts a source file at one definition, for run.sh:
#
#   awk -v name=NAME -v to=FOLDER -f body.awk FILE
#
# FOLDER/before, FOLDER/body and FOLDER/after are then the file's parts; exit 1
# unless FILE defines NAME exactly once. In C, C++ and CUDA the body is one
# line, without indentation, so that an expression need not know where a line
# was wrapped; lines of the preprocessor stay lines.
BEGIN {
  n = split(ARGV[1], part, ".")
  kind = part[n] ~ /^(c|h|cc|cu|cuh)$/ ? "c" : part[n]
  word = "(^|[^A-Za-z0-9_])" name
  if (kind == "c") begins = word "([(]|[[]| =| [{])"
  else if (kind == "py") begins = "^( *(def|class) " name "[(:]|" name " =)"
  else if (kind == "sql") begins = "^ *CREATE .*(VIEW|TABLE) " name "( |$)"
  else begins = "^ *(function )?" name " *(=|[(])"
}

{ line[NR] = $0 }

# Does its definition begin here? A body on the same line is no part of it, but
# for an enum, which is named by its constants.
function is_first(text) {
  if (kind == "c" && text !~ /^[A-Za-z_#]/) return 0
  if (kind == "c" && text !~ /^enum /) sub(/[{].*/, "{", text)
  return text ~ begins
}

# The last line of what begins at line i; 0: a declaration, no definition.
function last_of(i,   margin, depth, text, opened) {
  match(line[i], /^ */)
  margin = RLENGTH
  for (; i <= NR; i++) {
    text = line[i]
    if (kind == "sql" && text ~ /;$/) return i
    if (kind == "py" && ended(i + 1, margin)) return i
    if (kind ~ /^(sh|js)$/ && text ~ /^[})]/) return i
    if (kind != "c") continue
    if (text ~ /^#/ && text !~ /\\$/ && !opened) return i
    if (text ~ /^#/ || text ~ /\\$/) continue
    gsub(/"([^"\\]|\\.)*"|'([^'\\]|\\.)*'/, "", text)
    opened += gsub(/[{]/, "{", text)
    depth = opened - (closed += gsub(/[}]/, "}", text))
    if (depth == 0 && text ~ /(;|})$/) return opened || text ~ / = / ? i : 0
  }
  return NR
}

# Is what was indented by more than the margin over at line i?
function ended(i, margin) {
  while (i <= NR && line[i] ~ /^ *$/) i++
  match(line[i], /^ */)
  return i > NR || (RLENGTH <= margin && line[i] !~ /^ *[])}]/)
}

function put(first, last, file,   i, end) {
  for (i = first; i <= last; i++) {
    end = "\n"
    if (file == "body" && kind == "c" && i < last &&
      line[i] !~ /^#|\\$|\/\// && line[i + 1] !~ /^#/) end = " "
    if (end == " " || (i > first && file == "body" && kind == "c"))
      sub(/^ +/, "", line[i])
    printf "%s%s", line[i], end >(to "/" file)
  }
  close(to "/" file)
}

END {
  for (i = 1; i <= NR; i++) {
    closed = 0
    if (!is_first(line[i]) || !(end = last_of(i))) continue
    first = i
    last = i = end
    found++
  }
  if (found != 1) exit 1
  put(1, first - 1, "before")
  put(first, last, "body")
  put(last + 1, NR, "after")
}
