# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay.evaluate"""

import sys

from . import main

sys.exit(main())
