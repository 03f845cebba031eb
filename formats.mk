# SPDX-License-Identifier: Apache-2.0
#
# The only list of formats. A line `FORMATS += x.c` builds ref/formats/x.c,
# which has the table kv_format_x, takes gpu/formats/x.cuh into every kernel
# that reads or codes rows, and enters x into both registries, in this order;
# its section of ref/FORMATS.md says it to the bit. A line `REF_FORMATS += x.c`
# is one that no kernel reads: methods that code into it are ref-only. A format
# that only differs in how a row is coded is no line here but a rule of
# ref/formats/rules.h and a name in ref/formats/named.h.
FORMATS =
REF_FORMATS =
FORMATS += channel.c
FORMATS += token.c
FORMATS += block.c
FORMATS += delta.c
