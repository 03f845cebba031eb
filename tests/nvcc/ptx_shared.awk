# SPDX-License-Identifier: Apache-2.0
#
# The kernels of a PTX file with more than `most` bytes of static shared memory:
# arrays that they name, and those that functions name which they call. An array
# of one function stands in it, one of several before them.
function bytes_of(text, bits) {
  match(text, /[.][bsuf](8|16|32|64) /)
  bits = substr(text, RSTART + 2, RLENGTH - 3)
  if (match(text, /[[][0-9]+[]]/))
    bits *= substr(text, RSTART + 1, RLENGTH - 2)
  return int((bits / 8 + 15) / 16) * 16
}
function room(f, of, n, i, part, sum) {
  if ((of, f) in been) return 0
  been[of, f] = 1
  if (f in size) return size[f]
  sum = own[f]
  n = split(names[f], part, " ")
  for (i = 1; i <= n; i++) sum += room(part[i], of)
  return sum
}
/^([.](visible|weak|extern) )*[.](entry|func)/ {
  name = $0
  kernel = name ~ /[.]entry/
  sub(/.*[.](entry|func) */, "", name)
  sub(/^[(][^)]*[)] */, "", name)
  sub(/[( ;].*/, "", name)
}
/^[{]/ {
  f = name
  own[f] += 0
  if (kernel) entry[++entries] = f
}
/^[}]/ { f = "" }
/^[ \t]*([.](visible|weak|extern) )*[.]shared / {
  if (f)
    own[f] += bytes_of($0)
  else {
    name = $NF
    sub(/[[;].*/, "", name)
    size[name] = bytes_of($0)
  }
  next
}
f && /_Z/ && !/^[ \t]*([.]loc|\/\/)/ {
  text = $0
  while (match(text, /_Z[A-Za-z0-9_$]+/)) {
    name = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
    if (!((f, name) in named)) names[f] = names[f] " " name
    named[f, name] = 1
  }
}
END {
  for (i = 1; i <= entries; i++) {
    n = room(entry[i], entry[i])
    if (n > most)
      print entry[i] ": " n " bytes of static shared memory, at most " most
  }
}
