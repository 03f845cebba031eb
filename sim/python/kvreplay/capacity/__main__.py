# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay.capacity"""

import sys

from . import main

sys.exit(main())
