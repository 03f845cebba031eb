# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay: the folder of the wheel's bin, lib and include. A C
program is built with

    export PKG_CONFIG_PATH=$(python -m kvreplay)/lib/pkgconfig
    cc mine.c $(pkg-config --cflags --libs kvreplay)
"""

import sys

from .programs import FOLDER, library

if not library():
    sys.exit("kvreplay: this package was not installed from a wheel, so it has "
             "no library; pip install . in the source tree makes one")
print(FOLDER)
