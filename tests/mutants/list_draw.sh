# SPDX-License-Identifier: Apache-2.0
#
# Mutants of what chooses for a run of CI: form as in list.sh.
mutant draw_by_commit .ci/draw.sh 'check_draw.sh' \
  'git write-tree)' 'git rev-parse HEAD)'
mutant draw_forgets_changes .ci/draw.sh 'check_draw.sh' \
  'FILENAME == ARGV[1] { changed[$1] = 1; next }' \
  'FILENAME == ARGV[1] { next }'
mutant draw_without_bound .ci/draw.sh 'check_draw.sh' \
  'take(touched, touches, first)' 'take(touched, touches, most)'
mutant draw_always_alike .ci/draw.sh 'check_draw.sh' \
  'sum=$(echo "${KV_TREE:=$(draw_tree)} $1" | cksum)' 'sum=$(cksum <<<"$1")'
mutant draw_unknown_base .ci/draw.sh 'check_draw.sh' \
  '    git -C "$draw_src" cat-file -e "$commit^{commit}" 2>/dev/null &&
' ''
