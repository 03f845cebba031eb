# SPDX-License-Identifier: Apache-2.0
#
# The only list of methods. A line `METHODS += x.c` builds ref/methods/x.c, its
# CUDA twin gpu/methods/x.cu, tests it by tests/methods/x.txt and enters x into
# both registries, in this order. A method without a twin says so:
# `METHODS += x.c # ref-only`. One that needs a file which the user names says
# `# of-file`: no list of all methods holds it, so that `-m all` leaves it out.
# One that is a scorer says `# scorer`: other methods offer it as score=x, and
# gpu/methods/scored.cu is its twin.
METHODS =
METHODS += dense.c
METHODS += window.c
METHODS += random.c
METHODS += strided.c
METHODS += streamingllm.c
METHODS += h2o.c
METHODS += less.c
METHODS += tova.c
METHODS += snapkv.c
METHODS += pyramidkv.c
METHODS += adakv.c
METHODS += headkv.c
METHODS += knorm.c # scorer
METHODS += rkv.c
METHODS += hardkv.c
METHODS += keydiff.c # scorer
METHODS += lagkv.c # scorer
METHODS += expected.c # scorer
METHODS += chunkkv.c
METHODS += criticalkv.c
METHODS += topk.c # of-file
METHODS += duoattention.c
METHODS += quest.c
METHODS += twilight.c
METHODS += omnikv.c
METHODS += deltakv.c
METHODS += palu.c
METHODS += zsmerge.c
METHODS += kivi.c
METHODS += quant.c
METHODS += leankv.c
METHODS += oracle_topk.c
METHODS += oracle_topp.c
METHODS += oracle_evict.c
