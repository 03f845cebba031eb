#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Laws of the command line: a wrong command is one line on standard error
# that says what to do, nothing on standard output, and its exit code; help,
# man page and completion of each of the three programs name every option of
# every command; data goes to standard output alone, and a full disk is noticed.
. "$(dirname "$0")/sh.sh"

# wrong CODE TEXT ARGUMENT...: kvreplay is refused so.
wrong() { refused "$1" "$2" "$kvreplay" "${@:3}"; }

# answers TEXT ARGUMENT...: exit 0, TEXT on stdout, nothing on stderr.
answers() {
  local text=$1
  shift
  checks=$((checks + 1))
  "$kvreplay" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null ||
    fail "kvreplay $*: exit $?"
  [ ! -s "$tmp/err" ] || fail "kvreplay $*: $(cat "$tmp/err")"
  grep -qF -- "$text" "$tmp/out" || fail "kvreplay $*: no '$text'"
  ! awk 'length > 80' "$tmp/out" | grep -q . ||
    fail "kvreplay $*: wider than 80 columns"
}

wrong 2 'kvreplay --help'
wrong 2 'did you mean methods?' metods
wrong 2 'kvreplay --help' '' x
wrong 2 'no option --nonsense' --nonsense
wrong 2 'no option -Z' methods -Z
wrong 2 'did you mean --format?' methods --formt json
wrong 2 'is none of table|csv|json' methods --format xml
wrong 2 'needs a value' methods --format
wrong 2 'leave out --format' methods --bibtex --format json
wrong 2 'did you mean snapkv?' methods snapk
wrong 2 'grade needs --theirs FILE: decisions' grade x.safetensors -m h2o -b 9
wrong 2 'too many' methods dense window
wrong 2 'no command a\x0ab' "$(printf 'a\nb')"
KVREPLAY_ISA=sse9 wrong 2 'sse9' --version
KVREPLAY_KEEP=often wrong 2 'KVREPLAY_KEEP is often' run x -m dense

# The command run: what is wrong with its command line or its files.
trace=$src/traces/tiny/retrieval_8_small.safetensors
wrong 2 'needs TRACE' run -m dense
wrong 2 'no method: -m all' run "$trace"
wrong 2 'did you mean dense?' run "$trace" -m dens
wrong 2 'did you mean window?' run "$trace" -m snapkv:windw=4 -b 64
wrong 2 'the nearest is window=1' run "$trace" -m snapkv:window=0 -b 64
wrong 2 'snapkv needs a budget' run "$trace" -m snapkv
wrong 2 'must be at least 1' run "$trace" -m snapkv -b 0
wrong 2 'less than one entry' run "$trace" -m snapkv -b 0.01%
wrong 2 'did you mean mean?' run "$trace" -m snapkv -b men:20%
wrong 2 'one cell' run "$trace" -m dense,window -b 9 --views "$tmp/v"
wrong 2 'has 305 tokens' run "$trace" -m dense --prompt-len 306
wrong 3 "$tmp/none" run "$tmp/none" -m dense
printf 'not a trace' >"$tmp/text"
wrong 3 "$tmp/text" run "$tmp/text" -m dense
wrong 4 "$tmp/no/db" run "$trace" -m dense --db "$tmp/no/db"
"$kvreplay" run "$trace" -q -m snapkv:window=32 -b 24 --format json \
  >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] || fail 'no cell could run, and the exit code is not 2'
grep -qF '"status": "refused"' "$tmp/out" || fail 'no row for a refused cell'
"$kvreplay" run "$trace" -q -m snapkv:window=32,dense -b 24 --format csv \
  >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] || fail 'a method without a cell, and the exit code is not 3'
[ "$(wc -l <"$tmp/out")" = 3 ] || fail 'csv: not a line a cell'
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "not one line: $(cat "$tmp/err")"
"$kvreplay" run "$trace" -q -m all -b 20% >"$tmp/out" 2>"$tmp/err" ||
  fail 'the table'
# A sentence that names a missing file is as long as the file's path.
! awk 'length > 120 && !/ refused at /' "$tmp/out" | grep -q . ||
  fail 'the table is wider than 120 columns'
# What an entry holds beside K and V, as the table of methods says; of knorm
# some lanes drop nothing.
"$kvreplay" run "$trace" -q -p 300 -m all -b 40 -f jsonl 2>/dev/null |
  awk -v table="$src/ref/METHODS_TABLE.md" '
    function value(key) {
      match($0, "\"" key "\": [0-9.]*")
      return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4)
    }
    BEGIN {
      while ((getline line < table) > 0) {
        n = split(line, cell, " *[|] *")
        for (i = 1; i <= n; i++) if (cell[i] == "bytes of a lane") of = i
        if (n < 7 || !of) continue
        bytes = cell[of]
        if (!match(cell[2], /^\[[a-z0-9-]+/)) continue
        name = substr(cell[2], 2, RLENGTH - 1)
        if (bytes ~ /^(B|[(]B [+] 128[)]) (R|[(]R [+])/) more[name] = 0
        drops[name] = bytes ~ /^[(]?B/ ? 8 : 0
        if (match(bytes, /[(]R [+] [0-9]+[)]/))
          more[name] = substr(bytes, RSTART + 5, RLENGTH - 6)
      }
    }
    match($0, /"method": "[a-z0-9-]+/) {
      name = substr($0, RSTART + 11, RLENGTH - 11)
      beside = value("metadata") + value("columns")
      lanes = 4 * 4
      if (name == "dense" && beside) print name ": " beside
      if (name == "knorm" || !(name in more) || !value("kept")) next
      entries = int(value("kept") * lanes + .5)
      if (++seen && beside != entries * (more[name] + drops[name]))
        print name ": " beside / lanes / value("kept") " beside K and V"
    }
    END { if (seen < 12) print "only " seen + 0 " methods" }' >"$tmp/out" ||
  fail "awk"
[ ! -s "$tmp/out" ] || fail "the table's bytes of a lane: $(cat "$tmp/out")"
"$kvreplay" run "$src/traces/tiny/text_400.safetensors" -q --twice -b 20% \
  -m less,deltakv,palu,duoattention,headkv >"$tmp/out" 2>"$tmp/err" ||
  fail "methods that read a file, twice: $(cat "$tmp/err")"
! grep -q refused "$tmp/out" || fail 'a bundled file was not found'
grep -q 'open loop' "$tmp/out" || fail 'the table has no footer'
# Weights that end in NaN; and a trace whose frequencies have another name.
weights=("$src"/traces/tiny/assets/deltakv.*.safetensors)
{ head -c -64 "${weights[0]}" && head -c 64 /dev/zero | tr '\0' '\377'; } \
  >"$tmp/nan.safetensors"
sed 's/"rope.inv_freq"/"rope.inv_xxxx"/' \
  "$src/traces/tiny/text_400.safetensors" >"$tmp/no_rope.safetensors"
"$kvreplay" run "$src/traces/tiny/text_400.safetensors" -q \
  -m "deltakv:compressor=$tmp/nan.safetensors" >"$tmp/out" 2>/dev/null
[ $? = 2 ] && grep -q 'refused at .* holds NaN or Inf at ' "$tmp/out" ||
  fail 'weights with NaN are not refused with a sentence'
bases=("$src"/traces/tiny/assets/palu.*.safetensors)
for m in deltakv:compressor=none "deltakv:compressor=${weights[0]}" \
  "palu:bases=${bases[0]}"; do
  "$kvreplay" run "$tmp/no_rope.safetensors" -q -m "$m" >"$tmp/out" \
    2>/dev/null
  [ $? = 2 ] && grep -q 'refused at .* need rope.inv_freq' "$tmp/out" ||
    fail "$m without frequencies is not refused with a sentence"
done
checks=$((checks + 12))

wrong 2 'there are ref, emu' run "$trace" -m dense --backend emo
for name in emu cuda; do
  rows=(run "$trace" -q -m window,snapkv,quest -b 40 -p 302 -f jsonl)
  "$kvreplay" "${rows[@]}" -B $name >"$tmp/out" 2>"$tmp/err"
  case $? in
  0) # Measures of fidelity, too.
    "$kvreplay" "${rows[@]}" >"$tmp/ref"
    sed "s/\"backend\": \"$name\"/\"backend\": \"ref\"/" "$tmp/out" |
      cmp -s - "$tmp/ref" || fail "$name: other rows than ref's" ;;
  4) grep -q "backend $name" "$tmp/err" || fail "run: $name: not named" ;;
  *) fail "run with $name: $(cat "$tmp/err")" ;;
  esac
done
checks=$((checks + 2))

# The command check: backends by name, and a verdict in every form.
check=(check "$trace" -q -m h2o,snapkv:window=32 -b 24 -B ref,ref)
wrong 2 'needs TRACE' check -m dense
wrong 2 'no method: -m all' check "$trace"
wrong 2 'there are ref, emu' check "$trace" -m dense -B ref,emo
wrong 2 'names one' check "$trace" -m dense -B ref
wrong 2 'is none of table|json|jsonl|junit' check "$trace" -f xml
wrong 3 "$tmp/none" check "$tmp/none" -m dense -B ref,ref
wrong 4 "$tmp/no/db" check "$trace" -m dense -B ref,ref -d "$tmp/no/db"
"$kvreplay" "${check[@]}" >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] || fail "check: a method without a cell, and not exit 3"
grep -q 'h2o  *24  *ref  *equal$' "$tmp/out" || fail 'check: no equal cell'
grep -qx '1 equal, 0 different, 1 refused' "$tmp/out" ||
  fail 'check: no counts'
"$kvreplay" "${check[@]}" -f json 2>"$tmp/err" |
  grep -c '"equal": true' >"$tmp/out"
[ "$(cat "$tmp/out")" = 1 ] || fail 'check: not one equal cell in json'
"$kvreplay" "${check[@]}" -f junit >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] || fail "junit: not exit 3"
if command -v xmllint >/dev/null; then
  xmllint --noout "$tmp/out" || fail 'check: XML that is not well formed'
fi
# Whatever this machine has: a backend is compared, or named.
for name in emu cuda; do
  "$kvreplay" check "$trace" -q -m window -b 9 -p 290 -B "ref,$name" \
    >"$tmp/out" 2>"$tmp/err"
  case $? in
  0) grep -qx '1 equal, 0 different' "$tmp/out" || fail "$name: no verdict" ;;
  4) grep -q "backend $name" "$tmp/err" || fail "$name: not named" ;;
  *) fail "check with $name: $(cat "$tmp/out" "$tmp/err")" ;;
  esac
done
checks=$((checks + 7))

answers 'Examples:' --help
answers 'CUDA      no' --version
answers 'commit' -V
answers 'snapkv' methods
answers 'prefill=whole' methods snapkv
answers '@misc{li2024snapkv,' methods snapkv --bibtex
answers '% oracle-topk: no paper' methods --bibtex
KVREPLAY_ISA=portable answers 'ISA       portable' --version
answers '1 to 1073741824 tokens' methods h2o
answers 'named twice is' check --help
answers 'one thread grades' grade --help

# A command that takes one cell asks for one method and one budget; tune takes
# many methods, and one budget.
answers '-b, --budget BUDGET' tune --help
answers '-m, --methods SPEC,...' tune --help
for command in grade vectors; do
  answers '-b, --budget BUDGET' "$command" --help
  ! grep -qE -- '--methods SPEC,|`all`|every method' "$tmp/out" ||
    fail "kvreplay $command --help: more than one method"
done

# options HOW FILE: the options that a page, a help or a completion names.
options() {
  case $1 in
  help) awk 'options; NR > 3 && /^$/ { options = 1 }' "$2" |
    sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' ;;
  man) sed -n 's/\\f[BRI]//g; s/\\//g
      s/^\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p' "$2" ;;
  completion) sed -n "s/^    $3) options=\"\(.*\)\" ;;/\1/p" "$2" |
    tr -s ' ' '\n' | grep . ;;
  esac | sort
}

# documented PROGRAM: every command answers --help, examples first, and every
# option of it is taken and stands in help, man page and completion.
documented() {
  local program=$1 name=${1##*/} command option commands=0
  "$program" --completion >"$tmp/completion" || fail "$name --completion"
  bash -n "$tmp/completion" || fail "$name: the completion is not bash"
  "$program" --help >"$tmp/all" || fail "$name --help"
  for command in $("$program" --commands); do
    checks=$((checks + 1)) commands=$((commands + 1))
    "$program" "$command" --help >"$tmp/help" || fail "$name $command --help"
    head -n 1 "$tmp/help" | grep -q "^Usage: $name $command" ||
      fail "$name $command --help: no usage"
    [ "$(sed -n 3p "$tmp/help")" = Examples: ] ||
      fail "$name $command --help: examples are not first"
    awk 'NR > 3 && /^$/ { exit } { of = before; before = $0 }
      /^      [^# ]/ && of !~ /\\$/ { bad = 1 } END { exit bad }' "$tmp/help" ||
      fail "$name $command --help: an example cannot be copied"
    ! awk 'length > 80' "$tmp/help" | grep -q . ||
      fail "$name $command --help: wider than 80 columns"
    "$program" --man "$command" >"$tmp/man" || fail "$name --man $command"
    options help "$tmp/help" >"$tmp/in-help"
    options man "$tmp/man" | diff "$tmp/in-help" - >&2 ||
      fail "$name $command: help and man page have other options"
    options completion "$tmp/completion" "$command" |
      diff "$tmp/in-help" - >&2 ||
      fail "$name $command: help and completion have other options"
    while read -r option; do
      checks=$((checks + 1))
      ! "$program" "$command" "$option" 2>&1 </dev/null |
        grep -q 'no option' || fail "$name $command: no $option"
    done <"$tmp/in-help"
    grep -q "^  $command " "$tmp/all" || fail "$name --help: no $command"
  done
  "$program" --man >"$tmp/man" || fail "$name --man"
  grep -q '^\.SH "EXIT STATUS"$' "$tmp/man" || fail "$name --man: no codes"
  [ "$commands" -gt 3 ] || fail "$name --commands lists $commands"
}
documented "$kvreplay"

# What completes after a command.
complete_words() {
  bash -c '. "$1"; shift; COMP_WORDS=(kvreplay "$@")
    COMP_CWORD=$#; _kvreplay 2>/dev/null; echo "${COMPREPLY[@]}"' \
    - "$tmp/completion" "$@"
}
checks=$((checks + 7))
[ "$(complete_words meth)" = methods ] || fail 'completion of a command'
[ "$(complete_words capa)" = capacity ] ||
  fail 'completion of a command of the Python package'
[ "$(complete_words run -m al)" = all ] || fail 'completion of all methods'
[ "$(complete_words grade -m al)" = '' ] || fail 'completion of one method'
[ "$(complete_words methods --fo)" = --format ] ||
  fail 'completion of an option'
[ "$(complete_words methods --format js)" = json ] ||
  fail 'completion of a choice'
[ "$(complete_words run -m h2o,sna)" = h2o,snapkv ] ||
  fail 'completion of the second method of a list'
[ "$(complete_words run -m './a\,sna')" = '' ] ||
  fail 'completion of what is no second method'
mkdir "$tmp/folder"
[ "$(complete_words run -m "h2o,$tmp/fold")" = "h2o,$tmp/folder" ] ||
  fail 'completion of a plugin in a list'
[ "$(complete_words new -o "$tmp/fold")" = "$tmp/folder" ] ||
  fail 'completion of a folder'

documented "$top/traces/kvtrace"
documented "$top/analysis/kvreport"

# JSON of one method is the object in the list of all.
checks=$((checks + 1))
"$kvreplay" methods --format json >"$tmp/all" || fail 'methods as json'
"$kvreplay" methods h2o --format json | sed -n 2p >"$tmp/one"
grep -qF -- "$(cat "$tmp/one")" "$tmp/all" && [ -s "$tmp/one" ] ||
  fail 'methods h2o --format json is not in the list'

# A search for bytes says on a terminal what it does, unless quiet.
if command -v script >/dev/null; then
  checks=$((checks + 2))
  search="run '$src/traces/tiny/generated_1500.safetensors' -m h2o -b mean:30%"
  script -qec "'$kvreplay' $search" /dev/null >"$tmp/out" </dev/null
  grep -q 'budget of h2o: probe [0-9]* of at most [1-9][0-9]* \[' "$tmp/out" ||
    fail 'a search is silent'
  script -qec "'$kvreplay' $search -q" /dev/null >"$tmp/out" </dev/null
  grep -q 'h2o' "$tmp/out" || fail 'a quiet search gives no row'
  ! grep -q probe "$tmp/out" || fail 'a quiet search is not'
fi

# Files of one cell are written by one thread, which is said to who asked for
# more; the table shows what a method looks at beside what it reads.
small="$src/traces/tiny/retrieval_8_small.safetensors"
for jobs in 1 2; do
  checks=$((checks + 1))
  "$kvreplay" run "$small" -q -m quest -b 20% -j $jobs --wide \
    --selections "$tmp/selections" >"$tmp/out" 2>"$tmp/err" ||
    fail "run -j $jobs --selections: exit $?"
  said=$(grep -c 'written by one thread: .* the 2 of --jobs' "$tmp/err")
  [ "$said" = $((jobs - 1)) ] ||
    fail "run -j $jobs --selections: $(cat "$tmp/err")"
done
checks=$((checks + 1))
awk '$1 == "method" { for (i = 1; i <= NF; i++) if ($i == "scan") at = i }
  $1 ~ /^quest/ { scanned = $at }
  END { exit !(scanned ~ /^[1-9]/) }' "$tmp/out" ||
  fail 'the table has no column of bytes scanned'

# Every heading of both tables is explained by --help, in quotes or as the
# words that it is; --wide changes no other format.
checks=$((checks + 3))
"$kvreplay" run --help | tr -s '\n ' '  ' >"$tmp/help"
"$kvreplay" run "$small" -q -m quest -b 20% >"$tmp/narrow" || fail 'the table'
{
  sed -n 's/^method  *//p' "$tmp/narrow" | sed 's/  \+/\n/g'
  sed -n 's/^method  *//p' "$tmp/out" | tr -s ' ' '\n'
} >"$tmp/heads"
[ "$(wc -l <"$tmp/heads")" = 19 ] || fail "not 5 and 14 headings beside method"
while read -r head; do
  grep -qF -- "\`$head\`" "$tmp/help" || fail "run --help: no word on $head"
done <"$tmp/heads"
for form in csv json; do
  "$kvreplay" run "$small" -q -m quest -b 20% -f $form >"$tmp/plain" &&
    "$kvreplay" run "$small" -q -m quest -b 20% -f $form --wide |
    cmp -s - "$tmp/plain" || fail "--wide changes $form"
done

# A compression ratio leaves what Python computes; at 0 a method that compresses
# the prompt alone is dense; rows are kept, found again and verified by it.
if command -v python3 >/dev/null; then
  ratios=$(seq -f ratio:%.2f -s , 0.05 0.05 0.95)
  for p in 137 40 201 300; do
    checks=$((checks + 1))
    "$kvreplay" run "$small" -n -p $p -m window -b "$ratios" |
      grep -oE 'budget=[0-9]+' >"$tmp/kept" || fail "ratios of $p tokens"
    python3 -c "for i in range(1, 20):
      print('budget=%d' % int($p * (1 - float('%.2f' % (i / 20)))))" |
      cmp -s - "$tmp/kept" || fail "other tokens than Python's of $p"
  done
fi
checks=$((checks + 3))
"$kvreplay" run "$small" -q -b ratio:0 -f jsonl -d "$tmp/ratio.db" \
  -m dense,snapkv,knorm,h2o:variant=prefill,tova:variant=prefill >"$tmp/rows" ||
  fail 'a ratio of 0'
[ "$(grep -oE '"state": "[0-9a-f]+", "output": "[0-9a-f]+"' "$tmp/rows" |
  uniq -c | awk '{ print $1 }')" = 5 ] || fail 'a ratio of 0 is not dense'
[ "$(grep -c '"basis": "ratio", "target": "ratio:0"' "$tmp/rows")" = 4 ] ||
  fail 'a ratio is not what rows say was asked'
"$kvreplay" run "$small" -q -b ratio:0 -f jsonl -d "$tmp/ratio.db" \
  -m snapkv | cmp -s - <(sed -n 2p "$tmp/rows") &&
  "$kvreplay" verify -q "$tmp/ratio.db" >"$tmp/out" &&
  grep -q '^5 rows the same' "$tmp/out" || fail 'a ratio in a database'

if [ -w /dev/full ]; then
  checks=$((checks + 1))
  "$kvreplay" methods >/dev/full 2>"$tmp/err"
  [ $? = 4 ] || fail 'a full disk is not exit 4'
  [ "$(wc -l <"$tmp/err")" = 1 ] || fail 'a full disk is not one line'
fi

concluded
