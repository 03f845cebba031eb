# SPDX-License-Identifier: Apache-2.0
#
# For check_house.sh: calls that go upwards within a room.
#
#   awk -v room=ref -v order='ground lane methods' -f calls.awk FILE...
#
# The folders of `order` come one after the other; a function named kv_* may be
# called by the folder that defines it and by those after it. A function with
# two homes (a variant, one for the device) counts at the first. One line for
# each upward call.
#
#   awk -v room=gpu/host -v order='room step store' -v files=1 -f calls.awk ..
#
# The same of a folder's files in their order: who is called stands in a file
# before. Headers are no file of it, as their functions are inline.
#
# A seam is called by design from below: kv_gpu_starts, by which the module that
# kernels are compiled into says whether they may start.
BEGIN {
  seam["kv_gpu_starts"]
  n = split(order, f, " ")
  for (i = 1; i <= n; i++) at[room "/" f[i]] = i
}

FNR == 1 {
  folder = FILENAME
  sub(files ? "[.]c$" : "/[^/]*$", "", folder)
  head = ""
}

/^[ \t]*(\*|\/[\/*])/ { next }

# A declaration or definition begins in the first column and ends with its
# first brace or semicolon; what is named there is not called.
head == "" && /^[A-Za-z_][^=]*[(]/ { head = " " }

head != "" {
  head = head $0
  if (!match(head, /[;{]/)) next
  rest = substr(head, RSTART)
  sub(/[;{].*/, "", head)
  if (rest ~ /^[{]/ || head ~ /^ typedef/) defined()
  head = ""
  used(rest)
  next
}

{ used($0) }

function defined(name) {
  if (!match(head, /kv_[a-z0-9_]+[(]/)) return
  name = substr(head, RSTART, RLENGTH - 1)
  if (!(name in home) || at[folder] < at[home[name]]) home[name] = folder
}

function used(text) {
  while (match(text, /kv_[a-z0-9_]+[(]/)) {
    calls[FILENAME "\t" folder "\t" substr(text, RSTART, RLENGTH - 1)]
    text = substr(text, RSTART + RLENGTH)
  }
}

END {
  for (c in calls) {
    split(c, part, "\t")
    name = part[3]
    if (name in home && !(name in seam) && at[home[name]] > at[part[2]])
      print part[1] ": calls " name " of a " (files ? "file" : "room") \
        " that comes later"
  }
}
