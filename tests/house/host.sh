# SPDX-License-Identifier: Apache-2.0
#
# For check_house.sh, which sources it: the files of gpu/host call only those
# before them in the list of gpu/README.md, and the list names them all.

host_files() {
  sed -n '/^    gpu\/host /,/^$/p' "$top/gpu/README.md" 2>/dev/null |
    sed 's,gpu/host,,' | tr '\n' ' '
}

host_calls() {
  local list file order
  order=$(host_files)
  mapfile -t list < <(files '[.]c' | grep '^gpu/host/')
  (cd "$top" && awk -v room=gpu/host -v order="$order" -v files=1 \
    -f "$here/tests/house/calls.awk" "${list[@]}" /dev/null)
  for file in "${list[@]}"; do
    grep -qw "$(basename "$file" .c)" <<<"$order" ||
      echo "$file: not in the order of gpu/host that gpu/README.md has"
  done
}

# Two files of it in the tree $1, and what breaks their order.
host_plant() {
  local tag='SPDX-License-Identifier: Apache-2.0'
  mkdir -p "$1/gpu/host"
  printf '/* %s */\n' "$tag" | tee "$1"/gpu/host/{e,z}.c >/dev/null
  echo 'int kv_last(int x) { return x; }' >>"$1/gpu/host/e.c"
  echo 'X += README.md host/e.c host/z.c' >>"$1/gpu/Makefile.am"
  printf '<!-- %s -->\n    gpu/host  z e\n\n' "$tag" >"$1/gpu/README.md"
}
host_broken() {
  echo 'gpu/host/z.c|int f(void) { return kv_last(1); }|calls kv_last of a file'
  echo 'gpu/host/y.c|int x;|not in the order of gpu/host'
}
