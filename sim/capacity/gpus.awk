# SPDX-License-Identifier: Apache-2.0
#
# gpus.csv as C: the table of sim/capacity/gpu.c. No field holds a comma but in
# a source, which is the last one.
BEGIN {
  FS = ","
  print "/* generated from gpus.csv */\nstatic const kv_gpu table[] = {"
}
NR > 1 {
  source = $6
  for (i = 7; i <= NF; i++) source = source "," $i
  printf "    {\"%s\", \"%s\", %s, %s, %s,\n     \"%s\"},\n", $1, $2, $3,
    $4, $5, source
}
END { print "};" }
