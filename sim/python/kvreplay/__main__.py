# SPDX-License-Identifier: Apache-2.0
"""`python -m kvreplay` is the program `kvreplay`; without arguments it prints
its help. `python -m kvreplay --prefix` prints the folder with the wheel's bin,
lib and include. To build a C program:

    export PKG_CONFIG_PATH=$(python -m kvreplay --prefix)/lib/pkgconfig
    cc mine.c $(pkg-config --cflags --libs kvreplay)
"""

import os
import sys

from .programs import FOLDER, find, library, main

if sys.argv[1:] == ["--prefix"]:
    if not library():
        sys.exit("kvreplay: this package was not installed from a wheel, so "
                 "it has no library; pip install . in the source tree makes "
                 "one")
    print(FOLDER)
else:
    # argv[0] as if this environment's console command had been called.
    sys.argv = [os.path.join(os.path.dirname(sys.executable), "kvreplay"),
                *(sys.argv[1:] or ["--help"])]
    sys.exit(main(find("kvreplay")))
