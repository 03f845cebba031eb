# SPDX-License-Identifier: Apache-2.0
#
# SQL with its lists of measures written out: awk -f each.awk LISTS... FILE.sql
# ... A line "-- each LIST: TEXT" becomes TEXT for each item of the list. In it
# @N is the item's name, @S a statistic, @C its column in the view `cell`, and
# @T the view of that column. Lists: `stat`, `se`, `steps` and `column` of all
# measures (sim/replay/measure/measure.h); `scalar`, the numbers of a run, with
# their members (sim/replay/measure/scalar.c); `shown`, what people are shown
# (analysis/tables/sheets.h); and those of a line "-- list NAME: ...".
function add(list, name, stat, column, table) {
  items[list, ++n[list]] = name "|" stat "|" column "|" table
}

# A row of sim/replay/measure/measure.h: its kind (X or D), and what follows.
function measure(kind, row,    part, text, stat, i, k, column) {
  split(row, part, /, */)
  split(row, text, "\"")
  if (kind == "X" && part[3] != "PROMPT") add("steps", part[2])
  k = split(text[4], stat, " ")
  for (i = 1; i <= k; i++) {
    column = stat[i] == "mean" ? part[2] : part[2] "_" stat[i]
    add("column", part[2], stat[i], column, stat[i] == "se" ? "u" : "m")
    if (kind == "X")
      add(stat[i] == "se" ? "se" : "stat", part[2], stat[i], column)
  }
}

function measures(    row, part, i, k) {
  k = split(header, row, /\(/)
  for (i = 2; i <= k; i++) {
    kind = substr(row[i - 1], length(row[i - 1]))
    if (kind ~ /[XD]/ && row[i] ~ /^[A-Z0-9_]+, [a-z].*"/) measure(kind, row[i])
    if (kind == "W" && split(row[i], part, /"|, */) > 7)
      add("scalar", part[2], "", part[7])
    if (kind == "S" && row[i] ~ /^[a-z_0-9]+,/)
      add("shown", substr(row[i], 1, index(row[i], ",") - 1))
  }
  header = ""
}

FILENAME !~ /\.sql$/ { sub(/ *\\$/, ""); header = header $0; next }
header != "" { measures() }
/^-- list [a-z]+: / {
  for (i = 4; i <= NF; i++) add(substr($3, 1, length($3) - 1), $i)
  next
}
/^ *-- each [a-z]+: / {
  list = substr($3, 1, length($3) - 1)
  for (i = 1; i <= n[list]; i++) {
    split(items[list, i], part, "|")
    line = substr($0, index($0, ": ") + 1)
    gsub(/@N/, part[1], line)
    gsub(/@S/, part[2], line)
    gsub(/@C/, part[3], line)
    gsub(/@T/, part[4], line)
    print line
  }
  next
}
{ print }
