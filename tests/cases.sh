#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the cases of one file of tests/cases:
#
#   cases.sh FILE            all of them
#   cases.sh FILE TEXT...    those with one of these in their names
#
# A file is a script of bash in which some lines, also indented ones, have a
# meaning of their own. What stands before the first case is run first.
#
#   = NAME              begins a case. It has a shell and a folder of its own,
#                       $here, so that no case depends on another
#   $ COMMAND           runs it without input: it must end with exit code 0
#   $2 COMMAND          .. with exit code 2
#   !2 TEXT :: COMMAND  it must end with 2, print nothing, and say on standard
#                       error one line, without control characters, with TEXT
#   ? COMMAND           a condition that must hold
#   > TEXT              some line of the last $'s standard output has TEXT
#   2> TEXT             .. of its standard error
#   < FILE              what lines with > are about, until the next $
#
# Instead of "> TEXT", and in the same way behind 2>:
#
#   >~ ERE              some line matches the extended regular expression
#   >! TEXT, >!~ ERE    no line does
#   ># N [ERE]          N lines, or N lines that match; N+: at least so many
#   >= TEXT             all of it, its lines and blanks joined by one blank each
#
# TEXT and ERE end with the line. Variables in them are replaced where a $ is
# followed by a letter, a digit, ( or {. Lines that are indented further belong
# to the command before them. A case with `need COMMAND` is skipped where the
# command fails; where all are, the exit code is 77. Any other case must check
# something.
. "$(dirname "${BASH_SOURCE[0]}")/sh.sh"
file=$(realpath "$1") && only=("${@:2}") || exit 2
called=$(basename "$file" .cases)
where=setup here=$tmp at=$tmp/out
cd "$tmp" || exit 4
exec 9>>"$tmp/trace"
BASH_XTRACEFD=9

kvreplay() { "$kvreplay" "$@"; }
kvtrace() { "$kvtrace" "$@"; }
kvreport() { "$kvreport" "$@"; }
sql() { "$sql" "$@"; }

# field KEY [FILE]: its values in rows as JSON, those of $here/out, a line each.
field() { sed -n 's/.*"'"$1"'": \([^,}]*\)[,}].*/\1/p' "${2-$here/out}"; }
# kinds KEY [FILE]: how many different values it has.
kinds() { field "$@" | sort -u | wc -l; }

# need COMMAND...: the case ends here where the command fails.
need() {
  "$@" >"$tmp/said" 2>&1 </dev/null && return
  echo "$called: $where: skipped, needs $*"
  exit 77
}
# shared: the library is there, and Python can load it: it has no sanitizer.
library=$top/sim/.libs/libkvreplay.so.0
shared() {
  [ -e "$library" ] &&
    ! nm -D "$library" 2>/dev/null | grep -E '__[at]san_init'
}
# numpy: sets $python to one that has it, or ends the case.
numpy() {
  for python in ${PYTHON:-python3 /usr/bin/python3}; do
    "$python" -c 'import numpy' 2>/dev/null && return
  done
  need "$python" -c 'import numpy'
}

# not_held LINE EXPECTED GOT: the case, the command as it was run, and both.
not_held() {
  {
    echo "FAILED: $called: $where (line $1)"
    sed -n 's/^++* //p' "$tmp/trace" | sed -n '1s/^/  command:  /p'
    echo "  expected: $2"
    echo "  got:      $3" | head -n 5
    [ ! -s "$here/err" ] || head -n 3 "$here/err" | sed 's/^/  stderr:   /'
  } >&2
  bad=$((bad + 1))
  [ "${KV_FIRST-}" != 1 ] || exit 1
}

# Each of these is what a line of a file becomes.
code_is() { # LINE CODE GOT
  checks=$((checks + 1)) at=$here/out
  [ "$3" = "$2" ] || not_held "$1" "exit code $2" "exit code $3"
}

is_refused() { # LINE CODE GOT OPTION TEXT
  code_is "$1" "$2" "$3"
  [ ! -s "$here/out" ] ||
    not_held "$1" 'nothing on standard output' "$(cat "$here/out")"
  [ "$(wc -l <"$here/err")" = 1 ] && ! grep -q '[[:cntrl:]]' "$here/err" &&
    grep -q "$4" -- "$5" "$here/err" || not_held "$1" \
    "one line on standard error with '$5'" "$(wc -l <"$here/err") lines"
}

says() { # LINE STREAM HOW TEXT
  local in=$here/err n want=$4
  [ "$2" = err ] || in=$at
  checks=$((checks + 1))
  # An empty TEXT would be in every line.
  [ -n "$4" ] || [ "$3" = = ] || { want='some text' && set -- "$1" "$2" -; }
  case $3 in
  -) false ;;
  '') grep -qF -- "$4" "$in" ;;
  '~') grep -qE -- "$4" "$in" ;;
  '!') want="no line with '$4'" && grep -qF -- "$4" "$in"; [ $? = 1 ] ;;
  '!~') want="no line like '$4'" && grep -qE -- "$4" "$in"; [ $? = 1 ] ;;
  '=') [ "$(tr -s ' \n' ' ' <"$in" | sed 's/^ //; s/ $//')" = "$4" ] ;;
  '#')
    read -r n want <<<"$4"
    set -- "$1" "$(grep -cE -- "$want" "$in")"
    want="$n lines${want:+ like '$want'}, not $2"
    if [ "${n%+}" = "$n" ]; then [ "$2" = "$n" ]; else [ "$2" -ge "${n%+}" ]; fi
    ;;
  esac || not_held "$1" "$want in ${in##*/}" "$(cut -c 1-300 "$in" | head -n 4)"
}

holds() { # LINE STATUS
  checks=$((checks + 1))
  [ "$2" = 0 ] || not_held "$1" 'it holds' "$(head -n 4 "$tmp/held")"
}

# What bash runs: a line for each line of the file, so that line numbers agree.
translated() {
  awk '
    BEGIN { sign_of = "^([$][0-9]* |![0-9]+~? |[?] |2?>(~|!|!~|=|#)? |< |= )" }
    function escaped(text,   i, c, deep, out) { # quotes, but within $( )
      for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "(" && (deep || substr(text, i - 1, 1) == "$")) deep++
        if (c == ")" && deep) deep--
        out = out (c ~ /["`]/ && !deep ? "\\" : "") c
      }
      return out
    }
    function quoted(text) {
      if (text ~ /\$[A-Za-z0-9_({]/) return "\"" escaped(text) "\""
      gsub(/\047/, "\047\\\047\047", text)
      return "\047" text "\047"
    }
    function flush() {
      if (held != "") print held ending
      held = ending = ""
    }
    function streams(how) {
      ending = "; } >\"$here/out\" 2>\"$here/err\" </dev/null; got=$?"
      ending = ending "; set +x; " how
    }
    until != "" { # within a here-document
      print
      if ($0 == until) until = ""
      next
    }
    { match($0, /^ */); blank = RLENGTH; text = substr($0, blank + 1) }
    text ~ /^\t/ ||
    (held != "" && blank > own && text ~ sign_of && text !~ /^[$][0-9]/) {
      print "not_held " NR " \"no tab or sign in an indented line\" one"
      next
    }
    held != "" && blank > own && text != "" {
      print held
      held = $0
      next
    }
    text ~ sign_of {
      flush()
      sign = substr(text, 1, index(text, " ") - 1)
      rest = substr(text, index(text, " ") + 1)
      own = blank
      trace = "{ : >\"$tmp/trace\"; set -x; "
      if (sign == "=") {
        print (cases++ ? "}; " : "") "case_" cases "() { where=" quoted(rest)
        next
      }
      if (sign == "<") { print "at=" quoted(rest); next }
      if (sign ~ /^\$/) {
        held = trace rest
        streams("code_is " NR " " (substr(sign, 2) + 0) " $got")
      } else if (sign == "?") {
        held = trace rest
        ending = "; } >\"$tmp/held\" 2>&1 </dev/null; got=$?; set +x"
        ending = ending "; holds " NR " $got"
      } else if (sign ~ /^!/) {
        i = index(rest " ", " :: ")
        how = sub(/~$/, "", sign) ? "-E " : "-F "
        held = trace substr(rest, i + 4)
        streams("is_refused " NR " " substr(sign, 2) " $got " how \
          quoted(substr(rest, 1, i - 1)))
      } else {
        print "says " NR " " (sub(/^2/, "", sign) ? "err" : "out") " " \
          quoted(substr(sign, 2)) " " quoted(rest)
        next
      }
      if (match(rest, /<<\047?[A-Z]+/)) {
        until = substr(rest, RSTART + 2, RLENGTH - 2)
        sub(/^\047/, "", until)
        flush()
      }
      next
    }
    {
      flush()
      print
      if (match($0, /<<\047?[A-Z]+/)) {
        until = substr($0, RSTART + 2, RLENGTH - 2)
        sub(/^\047/, "", until)
      }
    }
    END { flush(); if (cases) print "}"; print "cases=" cases + 0 }' "$1"
}

one() { # NUMBER: the case in a shell and a folder of its own
  (
    here=$tmp/case.$1 bad=0 checks=0
    mkdir "$here" && cd "$here" || exit 4
    # shellcheck disable=SC2064 # the number of now
    trap "echo \$checks \$bad >'$tmp/done.$1'" EXIT
    "case_$1"
    [ "$checks" -gt 0 ] || not_held 1 'a check' 'none'
    [ "$bad" = 0 ]
  )
}

chosen() { # NUMBER: is it one of $only?
  local title text
  [ ${#only[@]} -gt 0 ] || return 0
  title=$(grep '^= ' "$file" | sed -n "${1}s/^= //p")
  for text in "${only[@]}"; do [[ $title != *"$text"* ]] || return 0; done
  return 1
}

translated "$file" >"$tmp/cases.bash"
. "$tmp/cases.bash" || exit 1
[ "$cases" -gt 0 ] && [ "$bad" = 0 ] || exit 1
ran=0 skipped=0
for ((i = 1; i <= cases; i++)); do
  chosen "$i" || continue
  ran=$((ran + 1))
  one "$i"
  case $? in 0) ;; 77) skipped=$((skipped + 1)) ;; *) failed=1 ;; esac
  [ -z "${failed-}" ] || [ "${KV_FIRST-}" != 1 ] || exit 1
done
read -r checks bad < <(cat "$tmp"/done.* | awk -v c="$checks" '
  { c += $1; b += $2 } END { print c, b + 0 }')
printf '%s: %d cases, %d checks, %d failed\n' "$called" "$ran" "$checks" "$bad"
[ -z "${failed-}" ] && [ "$bad" = 0 ] && [ "$ran" -gt 0 ] || exit 1
[ "$skipped" -lt "$ran" ] || exit 77
