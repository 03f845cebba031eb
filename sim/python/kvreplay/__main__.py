# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay: the program `kvreplay`, and its help where nothing is
asked for. `python -m kvreplay --prefix` prints the folder of the wheel's bin,
lib and include. A C program is built with

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
    # As the console command of this environment is started.
    sys.argv = [os.path.join(os.path.dirname(sys.executable), "kvreplay"),
                *(sys.argv[1:] or ["--help"])]
    sys.exit(main(find("kvreplay")))
