# SPDX-License-Identifier: Apache-2.0
#
# What ptxas made of kernels, counted. First file: a table of lines
#
#   kernel  KERNEL  MANGLED
#   loop    NAME    KERNEL  MARK  WITH
#
# then what `cuobjdump -sass` writes. Prints, by tabs,
#
#   count  KERNEL  local  dfma  cas    instructions that no kernel should have
#   turn   NAME    KERNEL  marks       and instructions of each class below
#
# A turn is one of the loop with MARKs (an opcode, as FFMA; "STG.E!": that one
# without what may follow it, as .U8) on its way: of loops that hold no such
# loop themselves the one with most marks, of equals the cheapest: the others
# are for what is seldom. WITH, unless "-", names opcodes that its way must hold
# too, by commas: they tell loops of the same marks apart, as a conversion tells
# those of halves. The way is the one that meets most marks, then most
# asynchronous copies, then fewest instructions: a branch that a full turn does
# not take is not counted. WITH "once" counts the way through the whole kernel,
# every loop of it once, and in the functions that it calls the way through
# them; where barriers are the MARKs, loads are as asynchronous copies.
#
# Loops are those of the flow graph (depth-first search, natural loops), so
# they are found wherever ptxas has put their blocks.

function hex(s, i, x) {
  x = 0
  for (i = 1; i <= length(s); i++)
    x = 16 * x + index("0123456789abcdef", substr(s, i, 1)) - 1
  return x
}

# A multiprocessor of compute capability 9.0 takes up 4 warps' instructions a
# clock: 4 of `fma`, 2 of `imad` (which share that pipe), 2 of `alu` (integers,
# comparisons, conversions), half a one of `slow`; a load from shared memory
# takes its pipe for a clock, `lds2` for two. So says the CUDA Programming
# Guide's table of throughput, but for lds2, which is an assumption.
function class_of(op, name) {
  name = op
  sub(/[.].*/, "", name)
  if (name ~ /^(FFMA|FADD|FMUL|HFMA2|HMUL2)$/) return "fma"
  if (name == "HADD2") return op ~ /^HADD2[.]F32/ ? "alu" : "fma"
  if (name == "IMAD") return "imad"
  if (name ~ /^(MUFU|I2F|F2I|F2F|FRND|POPC|FLO|BREV)$/) return "slow"
  if (name ~ /^D(ADD|MUL|FMA|SETP|MNMX)$/) return "slow"
  if (name == "LDS" || name == "LDSM")
    return op ~ /[.](64|128)/ ? "lds2" : "lds"
  if (name ~ /^(STS|ATOMS)$/) return "sts"
  if (name ~ /^(LDG|LD)$/) return "ldg"
  if (name == "LDGSTS") return "copy"
  if (name ~ /^(STG|ST|ATOM|ATOMG|RED|SHFL|LDGDEPBAR|LDC|LDL|STL)$/)
    return "other"
  if (name ~ /^(BRA|BRX|BSSY|BSYNC|BAR|BREAK|CALL|RET|EXIT|NOP|DEPBAR)$/)
    return "flow"
  if (name ~ /^(WARPSYNC|YIELD|S2R|S2UR|CS2R|MEMBAR|NANOSLEEP|BMOV)$/)
    return "flow"
  if (name ~ /^U[A-Z]/ || name == "R2UR") return "flow"
  return "alu"
}

function is(op, mark) {
  if (mark ~ /!$/) return op "!" == mark
  return op == mark || index(op, mark ".") == 1
}

# --- the flow graph: blocks, and who may follow whom ----------------------

function edge(from, to) {
  if (to < 0 || to >= n) return
  to = at_block[to]
  next_of[from, n_next[from]++] = to
  past_of[to, n_past[to]++] = from
}

function blocks(i, b) {
  for (i = 0; i <= n; i++) leads[i] = i == 0
  for (i = 0; i < n; i++) {
    if (goal[i] >= 0) leads[goal[i]] = 1
    if (called[i] >= 0) leads[called[i]] = 1
    if (ends[i]) leads[i + 1] = 1
  }
  n_blocks = 0
  for (i = 0; i < n; i++) {
    if (leads[i]) first_of[n_blocks++] = i
    at_block[i] = n_blocks - 1
  }
  first_of[n_blocks] = n
  for (b = 0; b < n_blocks; b++) n_next[b] = n_past[b] = 0
  for (b = 0; b < n_blocks; b++) {
    i = first_of[b + 1] - 1
    if (goal[i] >= 0) edge(b, goal[i])
    if (called[i] >= 0) edge(b, called[i])
    if (!leaves[i]) edge(b, i + 1)
  }
}

# Depth first from block 0: order[] from the last that was left. An edge to a
# block that is still open closes a loop, whose head that block is. What is
# called follows the call, too, and nothing follows where it returns.
function search(b, top, to, left) {
  for (b = 0; b < n_blocks; b++) state[b] = place[b] = 0
  delete closes
  delete heads
  left = n_blocks
  stack[top = 0] = tried[0] = 0
  state[0] = 1
  while (top >= 0) {
    b = stack[top]
    if (tried[b] == n_next[b]) {
      state[b] = 2
      order[--left] = b
      place[b] = left
      top--
      continue
    }
    to = next_of[b, tried[b]++]
    if (state[to] == 1) {
      closes[b, to] = heads[to] = 1
    } else if (state[to] == 0) {
      state[to] = 1
      tried[to] = 0
      stack[++top] = to
    }
  }
  start = left
}

# --- loops ----------------------------------------------------------------

# body[]: the blocks from which the head is come back to; furthest: the last of
# them in the order.
function body_of(head, top, b, k, from) {
  delete body
  body[head] = 1
  furthest = place[head]
  top = -1
  for (k = 0; k < n_past[head]; k++) {
    from = past_of[head, k]
    if ((from, head) in closes) stack[++top] = from
  }
  while (top >= 0) {
    b = stack[top--]
    if (b in body || !state[b]) continue
    body[b] = 1
    if (place[b] > furthest) furthest = place[b]
    for (k = 0; k < n_past[b]; k++) stack[++top] = past_of[b, k]
  }
}

# What passing through a block is worth, without what it calls.
function worth(b, mark, i, x) {
  x = 0
  for (i = first_of[b]; i < first_of[b + 1]; i++) {
    x += (is(op[i], mark) ? 1e7 : 0) + (is(op[i], "LDGSTS") ? 1e3 : 0) - 1
    if (mark == "BAR" && class_of(op[i]) == "ldg") x += 1e3
  }
  return x
}

# The best way around: way[] leads back from `last`, -1 if there is none.
function turn_of(head, i, k, b, to, x) {
  delete best
  best[head] = value[head]
  way[head] = last = -1
  for (i = place[head]; i <= furthest; i++) {
    b = order[i]
    if (!(b in best)) continue
    for (k = 0; k < n_next[b]; k++) {
      to = next_of[b, k]
      if ((b, to) in closes) {
        if (to == head && (last < 0 || best[b] > best[last])) last = b
        continue
      }
      x = best[b] + value[to]
      if (to in body && (!(to in best) || x > best[to])) {
        best[to] = x
        way[to] = b
      }
    }
  }
}

# The best way from block `from` to one that ends with the opcode.
function whole(from, with, b, i, end) {
  delete body
  for (b = 0; b < n_blocks; b++)
    if (state[b]) body[b] = 1
  furthest = n_blocks - 1
  turn_of(from)
  end = -1
  for (b in best) {
    i = first_of[b + 1] - 1
    if (is(op[i], with) && (end < 0 || best[b] > best[end])) end = b
  }
  last = end
}

# Functions that the kernel calls: via[f], the blocks of the best way through
# the one of block f from its last on; their worth is their callers', too.
function functions(b, i, f, line) {
  delete via
  for (b = 0; b < n_blocks; b++) {
    i = first_of[b + 1] - 1
    if (!state[b] || called[i] < 0) continue
    f = at_block[called[i]]
    if (!(f in via)) {
      whole(f, "RET")
      line = ""
      costs[f] = last < 0 ? -1e12 : best[last]
      for (i = last; i >= 0; i = way[i]) line = line " " i
      via[f] = line
    }
    value[b] += costs[f]
  }
}

# sum[]: instructions of the way by class, marks, and trips: from barrier to
# barrier, is anything read of global memory?
function count_turn(mark, with, b, reads) {
  delete sum
  for (b = last; b >= 0; b = way[b]) reads = count_block(b, mark, reads)
  return holds_all(with)
}

# A block from its end, and before that what it calls there. `reads`, and
# returned: is memory read between here and the barrier behind it?
function count_block(b, mark, reads, i, k, m, part) {
  i = first_of[b + 1] - 1
  if (called[i] >= 0 && at_block[called[i]] in via) {
    m = split(via[at_block[called[i]]], part, " ")
    for (k = 1; k <= m; k++) reads = count_block(part[k], mark, reads)
  }
  for (; i >= first_of[b]; i--) {
    sum["all"]++
    sum[class_of(op[i])]++
    sum["mark"] += is(op[i], mark)
    if (is(op[i], "BAR")) reads = 0
    if (class_of(op[i]) != "ldg") continue
    if (!reads) sum["trips"]++
    reads = 1
  }
  return reads
}

# Does the way hold an instruction of each opcode of the list?
function holds_all(list, b, i, k, m, part, left) {
  if (list == "-" || list == "once") return 1
  left = m = split(list, part, ",")
  for (b = last; b >= 0; b = way[b])
    for (i = first_of[b]; i < first_of[b + 1]; i++)
      for (k = 1; k <= m; k++)
        if (part[k] != "" && is(op[i], part[k])) {
          part[k] = ""
          left--
        }
  return left == 0
}

function holds_marked(head, b) {
  for (b in marked)
    if (b != head && b in body) return 1
  return 0
}

function line_of(name, c, line) {
  line = "turn\t" name "\t" kernel "\t" sum["mark"]
  for (c = 1; c <= n_classes; c++) line = line "\t" sum[class[c]] + 0
  return line
}

# Inner loops first: their heads come later in the order.
function look(name, mark, with, b, i, head, most, cost, found) {
  delete marked
  for (b = 0; b < n_blocks; b++)
    value[b] = worth(b, mark)
  delete via
  if (with == "once") {
    functions()
    whole(0, "EXIT")
    count_turn(mark, with)
    print line_of(name)
    return
  }
  for (i = n_blocks - 1; i >= start; i--) {
    head = order[i]
    if (!(head in heads)) continue
    body_of(head)
    turn_of(head)
    if (!count_turn(mark, with) || !sum["mark"]) continue
    if (!holds_marked(head) && (sum["mark"] > most ||
        (sum["mark"] == most && sum["all"] < cost))) {
      most = sum["mark"]
      cost = sum["all"]
      found = line_of(name)
    }
    marked[head] = 1
  }
  print found == "" ? "turn\t" name "\t" kernel "\t0" : found
}

# --- kernels --------------------------------------------------------------

function finish(i, m, local, dfma, cas, known) {
  if (kernel == "") return
  for (i = 0; i < n; i++) {
    local += op[i] ~ /^(LDL|STL)([.]|$)/
    dfma += op[i] ~ /^DFMA/
    cas += op[i] ~ /^ATOM[SG]?[.](.*[.])?CAS/
  }
  printf "count\t%s\t%d\t%d\t%d\n", kernel, local, dfma, cas
  for (m = 0; m < n_loops; m++) {
    if (loop[m, 2] != kernel) continue
    if (!known++) {
      blocks()
      search()
    }
    look(loop[m, 1], loop[m, 3], loop[m, 4])
  }
  n = 0
}

BEGIN {
  FS = "\t"
  n_classes = split(\
    "all fma imad alu slow lds lds2 sts ldg copy other flow trips", class, " ")
}

NR == FNR && $1 == "kernel" { named[$3] = $2 }
NR == FNR && $1 == "loop" {
  for (i = 1; i <= 4; i++) loop[n_loops + 0, i] = $(i + 1)
  n_loops++
}
NR == FNR { next }

/Function : / {
  finish()
  sub(/.*: /, "")
  kernel = $0 in named ? named[$0] : $0
}

/^[ \t]*\/[*][0-9a-f]+[*]\/ / {
  line = $0
  sub(/^[ \t]*\/[*]/, "", line)
  address = line
  sub(/[*].*/, "", address)
  if (hex(address) != 16 * n) next # the second half of an instruction
  sub(/^[0-9a-f]+[*]\/[ \t]*/, "", line)
  sub(/[ \t]*;.*/, "", line)
  guarded = sub(/^@!?U?P[0-9T]+[ \t]+/, "", line)
  name = line
  sub(/[ \t].*/, "", name)
  op[n] = name
  goal[n] = called[n] = -1
  leaves[n] = !guarded && name ~ /^(EXIT|RET|BRX|JMP|KILL)/
  if (name ~ /^BRA/) {
    leaves[n] = !guarded && name !~ /DIV|CONV/ && line !~ /,/
    sub(/.*0x/, "", line)
    goal[n] = hex(line) / 16
  }
  if (name ~ /^CALL[.]REL/ && line ~ /0x[0-9a-f]+$/) {
    sub(/.*0x/, "", line)
    called[n] = hex(line) / 16
  }
  ends[n] = name ~ /^(BRA|EXIT|RET|BRX|JMP|KILL)/ || called[n] >= 0
  n++
}

END { finish() }
