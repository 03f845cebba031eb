# SPDX-License-Identifier: Apache-2.0
#
# The only list of formats. A line `FORMATS += x.c` builds ref/formats/x.c,
# which has the table kv_format_x, takes gpu/formats/x.cuh into every kernel
# that reads or codes rows, and enters x into both registries, in this order;
# its section of ref/FORMATS.md says it to the bit. A line `REF_FORMATS += x.c`
# is one that no kernel reads: methods that code into it are ref-only.
FORMATS =
REF_FORMATS =
FORMATS += channel.c
FORMATS += token.c
FORMATS += absmax.c
FORMATS += zeropoint.c
FORMATS += delta.c
