# SPDX-License-Identifier: Apache-2.0
#
# The first figure of a page of `kvreport html` as an SVG by itself, with the
# style and the marks that it needs: awk -f picture.awk style.css report.html
FILENAME ~ /css$/ { style = style $0; next }
/<svg class="defs"/ {
  match($0, /<defs>.*<\/defs>/)
  defs = substr($0, RSTART, RLENGTH)
}
/<svg viewBox="0 0 1080 500"/ && !inside {
  inside = 1
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1080 500\">"
  print "<!-- SPDX-License-Identifier: Apache-2.0; made by `make picture` -->"
  print "<style>" style "</style>" defs
  print "<rect width=\"1080\" height=\"500\" fill=\"#fff\"/>"
  next
}
inside { printf "%s", $0 }
inside && /<\/svg>/ { print ""; exit }
