# SPDX-License-Identifier: Apache-2.0
#
# Counts what ptxas made of kernels. First file: lines "kernel NAME MANGLED"
# (by tabs; may be empty), then what `cuobjdump -sass` writes. Prints by tabs
#
#   count  KERNEL  local  dfma  cas    instructions that no kernel should have
#
# and with -v mark=FFMA, where a kernel has a loop with that opcode, also
#
#   loop   KERNEL  marks  all          of its innermost loop with most marks,
#                                      of those that hold the opcode -v with=
#
#   cuobjdump -sass attend.obj |
#     awk -v mark=FFMA -v with=HADD2 -f tests/nvcc/sass.awk /dev/null -
#
# A loop is everything from the target of a backward branch to the branch. So
# a block that ptxas moved out of its loop is not counted, and a branch that
# few turns take is.
function is(op, mark) { return op == mark || index(op, mark ".") == 1 }

# Innermost loops: the branches back come by address, so an outer loop, which
# begins at or before an inner one, comes after it.
function loops(i, j, m, has, most, cost, inner) {
  inner = -1
  for (i = 0; i < n; i++) {
    if (goal[i] < 0 || goal[i] > i || goal[i] <= inner) continue
    inner = i
    m = 0
    has = with == ""
    for (j = goal[i]; j <= i; j++) {
      m += is(op[j], mark)
      has += is(op[j], with)
    }
    if (has && m > most) {
      most = m
      cost = i - goal[i] + 1
    }
  }
  if (most) printf "loop\t%s\t%d\t%d\n", kernel, most, cost
}

function finish(i, local, dfma, cas) {
  if (kernel == "") return
  for (i = 0; i < n; i++) {
    local += op[i] ~ /^(LDL|STL)([.]|$)/
    dfma += op[i] ~ /^DFMA/
    cas += op[i] ~ /^ATOM[SG]?[.](.*[.])?CAS/
  }
  printf "count\t%s\t%d\t%d\t%d\n", kernel, local, dfma, cas
  if (mark != "") loops()
  n = 0
}

function hex(s, i, x) {
  for (i = 1; i <= length(s); i++)
    x = 16 * x + index("0123456789abcdef", substr(s, i, 1)) - 1
  return x
}

BEGIN { FS = "\t" }
FILENAME == ARGV[1] && ARGV[1] != "-" {
  if ($1 == "kernel") named[$3] = $2
  next
}

/Function : / {
  finish()
  sub(/.*: /, "")
  kernel = $0 in named ? named[$0] : $0
}

# An instruction has 16 bytes on two lines; the first one names it.
match($0, /^[ \t]*\/[*][0-9a-f]+[*]\/ /) {
  line = substr($0, RLENGTH + 1)
  if (line ~ /^[ \t]*\/[*]/) next
  sub(/^[ \t]*(@!?U?P[0-9T]+[ \t]+)?/, "", line)
  sub(/[ \t]*;.*/, "", line)
  op[n] = line
  sub(/[ \t].*/, "", op[n])
  goal[n] = -1
  if (op[n] ~ /^BRA/ && sub(/.*0x/, "", line)) goal[n] = hex(line) / 16
  n++
}

END { finish() }
