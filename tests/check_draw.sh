#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What .ci/draw.sh chooses, in a repository of its own: by the tree and not by
# the commit, what changed since the last whole run first and within its bound,
# everything where everything is asked. How .ci/whole.sh assembles a whole run
# from sections. What golden.sh says when it is run as CONTRIBUTING says, by
# programs that repeat the record. Seconds; exit 77 without git.
. "$(dirname "$0")/sh.sh"
command -v git >/dev/null || { echo 'check_draw: no git here' && exit 77; }
unset KV_ALL KV_TREE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
mkdir -p "$tmp/repository/.ci" "$tmp/repository/tests"
cp "$src/.ci/draw.sh" "$src/.ci/whole.sh" "$tmp/repository/.ci"
cd "$tmp/repository" || exit 5

git() { command git -c user.name=n -c user.email=e "$@"; }
commit() { git add -A && git commit -q "$@"; }
# in_it WORD...: of draw.sh, in a shell of its own.
in_it() { bash -c '. .ci/draw.sh && "$@"' draw "$@" 2>>"$tmp/said"; }
# Of thirty names, n1 which the file f1 touches and so on.
names() {
  seq 30 | sed 's/.*/n& f&/' | in_it draw_some x "$@" | paste -s -d ' '
}
held() { # WHAT, then a test
  checks=$((checks + 1))
  [ "${@:2}" ] || fail "$1: ${*:2}"
}
touched() { grep -oE '\bn[1-9]\b' <<<"$1" | wc -l; }

for i in $(seq 30); do echo "$i" >"f$i"; done
echo 'none - 0' >tests/last-whole-run
git init -q . && commit -m one
before=$(names 6 3)
held 'six names' "$(wc -w <<<"$before")" = 6
git commit -q --amend -m two
held 'an amended message' "$(names 6 3)" = "$before"
tree=$(in_it draw_tree)
held 'the tree of a commit' "$tree" = "$(git rev-parse 'HEAD^{tree}')"
held 'no base' "$(in_it draw_base)" = ''

echo "$(git rev-parse HEAD) 2026-01-01 1" >tests/last-whole-run
echo other >f7 && echo new >f31
changed=$(in_it draw_tree)
held 'what is not committed' "$changed" != "$tree"
held 'what changed' "$(in_it draw_changed | paste -s -d ' ')" = 'f31 f7'
for i in $(seq 9); do
  held 'a changed file' "$(KV_TREE=$i names 6 3 | grep -cw n7)" = 1
done
commit -m three
held 'once it is committed' "$(in_it draw_tree)" = "$changed"
for i in $(seq 9); do echo other >"f$i"; done
drawn=$(names 6 3)
held 'six names of nine changed' "$(wc -w <<<"$drawn")" = 6
held 'the bound of what changed' "$(touched "$drawn")" = 3
held 'more than there are' "$(names 99 99 | wc -w)" = 30
held everything "$(KV_ALL=1 names 6 3 | wc -w)" = 30
held 'every word' "$(KV_ALL=1 in_it draw_one x a b c)" = 'a b c'
held 'each word in turn' "$(for i in $(seq 40); do
  KV_TREE=$i in_it draw_one x a b c
done | sort -u | paste -s -d ' ')" = 'a b c'
echo "${tree} 2026-01-01 1" >tests/last-whole-run
held 'what is no commit' "$(in_it draw_changed)" = ''

held 'a part' "$(seq 7 | KV_PART=2/3 in_it draw_part | xargs)" = '2 5'
held 'parts together' "$(for part in 1/3 2/3 3/3; do
  seq 7 | KV_PART=$part in_it draw_part
done | sort | paste -s -d ' ')" = '1 2 3 4 5 6 7'

# noted SECTION RESULT [PART]: at HEAD, everything asked, of five sections.
noted() {
  KV_ALL=1 KV_PART=${3:-1/1} ci=$tmp bash -c '. .ci/draw.sh && . .ci/whole.sh
    sections=(a b c d e) && whole_note "$(whole_commit)" "$1" "$2" 9 &&
      whole "$(whole_commit)"' noted "$1" "$2" | sed 's/.*: //'
}
first() { head -n 1 tests/last-whole-run; }
echo 'none - 0' >tests/last-whole-run
commit -m four
head=$(git rev-parse HEAD)
held 'a section' "$(noted a ok)" = 'b c d e'
held 'a part' "$(noted b ok 1/2)" = 'b c d e'
held 'a failed part' "$(noted b FAILED 2/2)" = 'b c d e'
held 'both parts' "$(noted b ok 2/2)" = 'c d e'
held 'a skipped section' "$(noted c skipped)" = 'c d e'
echo "$head c - missing a reason" >>tests/last-whole-run
echo "$head d - missing" >>tests/last-whole-run
held 'no reason' "$(noted a ok)" = 'd e'
echo "$head d - missing a reason" >>tests/last-whole-run
held 'not yet whole' "$(first)" = 'none - 0'
echo "$head e - missing a third" >>tests/last-whole-run
held 'a third that is missing' "$(noted a ok)" = e
held 'the last section' "$(noted e ok)" = 'everything passed'
held 'whole' "$(first)" = "$head $(date -u +%F) 36"
echo changed >f1
held 'what is no commit' "$(noted a FAILED)" = ''
held 'its result' "$(grep -c FAILED tests/last-whole-run)" = 0
commit -m five
held 'another commit' "$(noted a ok)" = 'b c d e'
held 'the whole run before' "$(first)" = "$head $(date -u +%F) 36"
held 'its lines' "$(grep -c "^$head" tests/last-whole-run)" = 1

# --- golden.sh, in a checkout with its build in build/ ------------------------
mkdir -p "$tmp/own"/{tests,ref/ground,build/{sim,traces}} && cd "$tmp/own" ||
  exit 5
cp "$src"/tests/{golden.sh,golden.tsv,replays.sh,sh.sh} tests
cp "$src/ref/ground/arith.h" ref/ground
chmod u+w tests/golden.tsv && cp tests/golden.tsv record
cat >build/sim/kvreplay <<'END'
#!/usr/bin/env bash
[[ $1 != run || $* = *formats=* ]] || awk -F '\t' -v traces="$*" 'NF == 7 &&
  index(traces, "/" $1 ".safetensors") {
    printf "{\"trace\": \"%s\", \"spec\": \"%s\", ", $1, $2
    printf "\"budget\": %s, \"revision\": %s, ", $3, $4
    printf "\"journal\": \"%s\", \"state\": \"%s\", ", $5, $6
    printf "\"output\": \"%s\"}\n", $7
  }' record
END
cat >build/traces/kvtrace <<'END'
#!/usr/bin/env bash
[ "$1" = synth ] ||
  awk -v path="$3" '$1 == "trace" && index(path, "/" $2 ".") {
    print "identity", $3 }' record
END
chmod +x build/sim/kvreplay build/traces/kvtrace
says() { # CODE LINE OPTION: the last line of golden.sh
  ran "$1" env -u top_srcdir -u top_builddir -u KVREPLAY -u KVTRACE \
    bash tests/golden.sh ${3+"$3"}
  held "golden.sh ${3-}" "$(tail -n 1 "$tmp/out")" = "golden: $2"
}
meant='where that is meant:'
lines=$(grep -c . record)
grep -v snapkv record >tests/golden.tsv
only='only the whole record is written'
says 1 "$only: without KV_LITTLE, with all bundled traces" --update
mkdir -p traces/{tiny,smollm2}
touch traces/{tiny/text_400,smollm2/smollm2_needle}.safetensors
says 1 "$meant tests/golden.sh --update"
says 0 "$lines lines recorded" --update
cmp -s <(sort tests/golden.tsv) <(sort record) || fail 'golden.sh records less'
says 0 "$lines lines as recorded"
awk -F '\t' -v OFS='\t' 'NF == 7 { $7 = 0 } 1' record >tests/golden.tsv
says 1 "$meant raise the revision, then tests/golden.sh --update"
says 1 "and $(($(awk 'NF == 7' record | wc -l) - 12)) more" --update

# --- make check TESTS=one: what automake builds for every check ---------------
held 'a test builds what it needs alone' -z \
  "$(grep -lE '^check_[A-Z]+ *=' "$src"/tests/{,*/}Makefile.am)"
concluded
