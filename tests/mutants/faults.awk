# SPDX-License-Identifier: Apache-2.0
#
# Reads faults.txt for run.sh:
#
#   awk -v watch=no -f faults.awk FILES faults.txt
#
# FILES is a list of the tree's files. For each fault a line: UNIT LINE CHECKS
# FILE PLACE EXPRESSION, with tabs between. Faults of one unit are seeded
# together; FILE is the path of PLACE. watch: yes for faults that a watched
# build sees, no for the others, all for both. Exit 1 where a place is wrong.
BEGIN { OFS = "\t" }

FILENAME == ARGV[1] {
  name = $0
  sub(/.*\//, "", name)
  paths[name] = paths[name] " " $0
  next
}
/^#/ { next }
/^ / { sub(/^ +/, text ~ /^[^ ]+,$/ ? "" : " "); text = text $0; next }
{ put(); line = FNR; text = $0 }
/^$/ { together = 0 }
/^at once$/ { together = ++unit; text = "" }
END { put(); exit wrong }

function put(   part, path) {
  if (text == "") return
  split(text, part, / +/)
  match(text, /^[^ ]+ +[^ ]+ +/)
  path = path_of(part[2])
  if (path == "") {
    print "mutants: faults.txt, line " line ": not one file: " part[2] \
      >"/dev/stderr"
    wrong = 1
  } else if (watch == "all" || watch == (part[1] ~ /^watch:/ ? "yes" : "no"))
    print together ? together : ++unit, line, part[1], path, part[2],
      substr(text, RLENGTH + 1)
  text = ""
}

# The only path that ends with the file of a place, or is it where that begins
# with a slash; empty: none, or several.
function path_of(place,   end, name, all, n, i, path, found) {
  end = place
  sub(/:.*/, "", end)
  name = end
  sub(/.*\//, "", name)
  n = split(paths[name], all, " ")
  for (i = 1; i <= n; i++) {
    path = "/" all[i]
    if (end !~ /^\//) path = substr(path, length(path) - length(end))
    if (path != (end ~ /^\// ? end : "/" end)) continue
    if (found) return ""
    found = all[i]
  }
  return found
}
