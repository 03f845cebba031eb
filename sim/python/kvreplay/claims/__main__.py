# SPDX-License-Identifier: Apache-2.0
"""python -m kvreplay.claims"""

import sys

from . import main

sys.exit(main())
