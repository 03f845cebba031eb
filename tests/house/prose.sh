# SPDX-License-Identifier: Apache-2.0
#
# For check_house.sh, which sources it: plain English in the pages. Each page
# has a budget in tests/house/prose.tsv: sentences of more than 25 words, and
# words that a reader stumbles over. A budget only falls; `make prose` prints
# the counts of today and writes the budgets that fell.

# Words out of use, and pronouns in the place of a noun.
hard='(is|are|was|were) (told|asked|had)|lies|stands?|asks|places|rulers?'
hard+='|those (of|that|who)|that of|(one )?of which|what is there|whose|behind'

# The pages of the tree $top; CHANGELOG.md is history.
prose_pages() {
  (cd "$top" && find . -name '*.md' -not -path './CHANGELOG.md' \
    -not -path '*/.*/*' -not -path '*/build*/*' | sed 's,^[.]/,,' | sort)
}

# PAGE LONG HARD of each page: sentences end at a full stop, at the end of a
# cell, an item or a paragraph; code is a word, and blocks of code do not count.
prose_counts() {
  (cd "$top" && prose_pages | xargs -rd '\n' awk -v hard="$hard" '
    function ended(s, n, w, i, part) {
      gsub(/`[^`]*`/, "code", s)
      gsub(/\]\([^)]*\)/, "", s)
      n = split(s, part, /[.!?]+[)"*_]*([ \n]+|$)|[|]|\n *[-*0-9.]+ /)
      for (i = 1; i <= n; i++)
        if (split(part[i], w, /[ \n]+/) > 26) long++
      s = tolower(s)
      gsub(/[^a-z]+/, " ", s)
      s = " " s " "
      while (match(s, " (" hard ") ")) {
        words++
        s = " " substr(s, RSTART + RLENGTH - 1)
      }
    }
    function page() {
      ended(text)
      if (name) printf "%s\t%d\t%d\n", name, long, words
      text = name = ""
      long = words = 0
    }
    FNR == 1 { page(); name = FILENAME; remark = 0 }
    /<!--/ { remark = 1 }
    remark { if (/-->/) remark = 0; next }
    /^    |^ *$|^#/ { ended(text); text = ""; next }
    { text = text "\n" $0 }
    END { page() }')
}

prose() {
  prose_counts | while IFS=$'\t' read -r page long words; do
    awk -F '\t' -v page="$page" -v long="$long" -v words="$words" '
      $1 == page { has = 1; most = $2; least = $3 }
      END {
        if (!has) print page ": no line in prose.tsv, make prose writes one"
        else if (long > most)
          print page ": " long " sentences over 25 words, " most " at most"
        else if (words > least)
          print page ": " words " words to avoid, " least " at most"
      }' "$top/tests/house/prose.tsv"
  done
}

# The budgets: of each page the count of today, or what it was if that is less.
prose_grants() {
  echo '# PAGE, sentences over 25 words, words to avoid: at most (make prose).'
  prose_counts | awk -F '\t' -v OFS='\t' -v old="$top/tests/house/prose.tsv" '
    BEGIN { while ((getline < old) > 0) if (!/^#/) { l[$1] = $2; w[$1] = $3 } }
    { print $1, $1 in l && l[$1] < $2 ? l[$1] : $2,
        $1 in w && w[$1] < $3 ? w[$1] : $3 }'
}

prose_plant() {
  printf 'This page is short.\n' >"$1/PAGE.md"
  (top=$1 && : >"$1/tests/house/prose.tsv" && prose_grants >"$1/grants" &&
    mv "$1/grants" "$1/tests/house/prose.tsv")
}
prose_broken() {
  echo "PAGE.md|$(printf 'a %.0s' {1..26})|sentences over 25 words"
  echo 'PAGE.md|A file stands here.|words to avoid'
  echo 'NEW.md|A page.|no line in prose.tsv'
}
