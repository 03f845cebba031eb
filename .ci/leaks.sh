#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# leaks.sh PROGRAM...: a test program, with LeakSanitizer in the place of the
# allocator where gcc has it as a library: what is not freed at the end fails.
# Nothing is compiled for it, so that every test can be looked at in every run.
lib=$(gcc -print-file-name=liblsan.so 2>/dev/null)
[ -e "$lib" ] || exec "$@"
export LSAN_OPTIONS=allocator_may_return_null=1
LD_PRELOAD=$lib exec "$@"
