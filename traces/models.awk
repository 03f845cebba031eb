# SPDX-License-Identifier: Apache-2.0
#
# models.csv as C: the table of traces/trace/geometry.c, and beside it the
# numbers of parameters. A field that is 0 in the last columns is none.
BEGIN { FS = ","; print "/* generated from models.csv */" }
NR > 1 {
  theta = $11 ? $11 ".0f" : "0"
  shape = shape sprintf("    {\"%s\", %d, %d, %d, %d, %s.0f, KV_ROPE_%s, " \
    "KV_%s, %d, %d,\n     %s, %d},\n", $1, $2, $3, $4, $5, $6, toupper($7),
    $8, $9, $10, theta, $12)
  size = size sprintf("    {%s, %s, %s, %s, %s},\n", $13, $14, $15, $16, $17)
}
END {
  printf "static const kv_geometry table[] = {\n%s};\n", shape
  printf "static const kv_parameters sizes[] = {\n%s};\n", size
}
