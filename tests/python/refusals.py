# SPDX-License-Identifier: Apache-2.0
"""What is refused, by one sentence."""


def refused(says, call, *args, by=ValueError, **more):
    try:
        call(*args, **more)
    except by as e:
        assert says in str(e) and "\n" not in str(e), (says, str(e))
    else:
        raise AssertionError(f"nothing says: {says}")
