# SPDX-License-Identifier: Apache-2.0
#
# A text file as a C string: awk -v name=views_sql -f embed.awk views.sql
BEGIN { print "/* generated */\nstatic const char " name "[] =" }
{
  gsub(/[\\"]/, "\\\\&")
  printf "    \"%s\\n\"\n", $0
}
END { print "    ;" }
