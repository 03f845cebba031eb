# SPDX-License-Identifier: Apache-2.0
#
# What is wrong with a PTX file, a line for each instruction. It is read twice,
# as the names of the sources stand at its end. tests/check_ptx.sh says what is
# refused, and why.
#
#   top       the tree, whose sources are named without it
#   clamps    lines whose min and max are right; integers: conversions that are
# The text of the source line of the last .loc.
function text_of(file, line, n, got) {
  if (!(file in read)) {
    read[file] = 1
    while ((getline got <file) > 0) said_at[file, ++n] = got
    close(file)
  }
  return said_at[file, line]
}
# What is right in itself, but not what the reference computes.
function strange(op, name, is) {
  if (name == "fma" && "f64" in is) return "is an fma of doubles"
  if (name == "fma" && text_of(path, number) !~ /fma/)
    return "was contracted: its line asks for no fma"
  if (name ~ /^(min|max)[3]?$/ && text_of(path, number) !~ clamps)
    return "is the device\047s choice among zeros and NaN"
  if (name == "cvt" && op ~ /[.]([su](8|16|32|64)|r[nzmp]i.*)[.]b?f[0-9]/ &&
      op !~ "^cvt[.](" integers ")$")
    return "rounds to an integer in a new way"
  return ""
}
function why(op, part, n, i, is, real) {
  n = split(op, part, ".")
  for (i = 2; i <= n; i++) {
    is[part[i]] = 1
    if (part[i] ~ /^(b?f16(x2)?|f32(x2)?|f64)$/) real = real " " part[i]
  }
  if ("approx" in is) return "is approximate"
  if ("ftz" in is) return "flushes subnormals to zero"
  if (op ~ /(^|[.])(mma|wmma|wgmma)([.]|$)/ || part[1] ~ /^tcgen05/)
    return "uses the matrix units"
  if (part[1] ~ /^(ex2|lg2|sin|cos|tanh|rsqrt)$/)
    return "is an approximation of the device"
  if ("nc" in is) return "reads past the coherent cache"
  if (!real) return ""
  if (part[1] ~ /^(atom|red|redux|multimem)$/)
    return "adds floats in any order"
  if (part[1] ~ /^(add|sub|mul|mad|fma|div|rcp|sqrt)$/ && !("rn" in is))
    return "does not say .rn"
  if (part[1] == "cvt" && op ~ /[.](rz|rm|rp|rs)[.](b?f16|f32|f64)/)
    return "does not round to nearest"
  return strange(op, part[1], is)
}
NR == FNR {
  if ($1 == ".file") {
    name = $3
    gsub(/^"|"$/, "", name)
    place[$2] = name
    if (index(name, top) == 1) name = substr(name, length(top) + 1)
    source[$2] = name
  }
  next
}
$1 == ".loc" {
  at = source[$2] ":" $3
  path = place[$2]
  number = $3
  for (i = 5; i < NF; i++)
    if ($i == "inlined_at") at = at ": in " source[$(i + 1)] ":" $(i + 2)
  next
}
{
  sub(/\/\/.*/, "")
  n = split($0, statement, /[;{}]/)
  for (s = 1; s <= n; s++) {
    text = statement[s]
    sub(/^[ \t]*([A-Za-z_$%][A-Za-z0-9_$]*:[ \t]*)?/, "", text)
    sub(/^@!?%[A-Za-z0-9_]+[ \t]+/, "", text)
    gsub(/[ \t]+/, " ", text)
    if (text !~ /^[a-z]/) continue
    op = text
    sub(/ .*/, "", op)
    said = why(op)
    if (said) print at ": " text ": " said
  }
}
