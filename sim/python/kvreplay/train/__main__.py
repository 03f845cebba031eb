# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay.train"""

import sys

from . import main

sys.exit(main())
