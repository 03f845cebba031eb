# SPDX-License-Identifier: Apache-2.0
#
# The line of sha256sum as a C string in base64, as a Content-Security-Policy
# has it: ... | awk -v name=style_hash -f embed/base64.awk
BEGIN {
  hex = "0123456789abcdef"
  digit = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
}
{ # 64 hex digits of four bits; three make two of the base's, of six
  for (i = 1; i <= 66; i += 3) {
    for (k = bits = 0; k < 3; k++)
      bits = 16 * bits + (i + k > 64 ? 0 : index(hex, substr($1, i + k, 1)) - 1)
    out = out substr(digit, int(bits / 64) + 1, 1) \
      substr(digit, bits % 64 + 1, 1)
  }
}
END {
  print "static const char " name "[] = \"" substr(out, 1, 43) "=\";"
}
