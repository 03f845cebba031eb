# SPDX-License-Identifier: Apache-2.0
#
# Commands of the Python package, $(further): beside their program, scripts that
# start them from the tree here, and from where make install puts the package.
noinst_SCRIPTS = $(further)
start_in = $(top_srcdir)/sim/kvreplay-python.in
starts = command=$${start\#*-}; \
	case $$command in \
	attention | residuals | selection) of=figures.command,$$command ;; \
	*) of=$$command,main ;; \
	esac; $(SED) -e "s,@command@,$$command,g" -e "s,@program@,$${start%%-*},g" \
	-e "s;@module@;$${of%,*};" -e "s,@function@,$${of\#*,},g" $(start_in)
$(further): $(start_in) Makefile
	$(AM_V_GEN)start=$@; $(starts) | \
	  $(SED) -e 's,@python@,$(abs_top_srcdir)/sim/python,' \
	  -e 's,@library@,$(abs_top_builddir)/sim/.libs/libkvreplay.so.0,' \
	  >$@.tmp && \
	  chmod +x $@.tmp && mv $@.tmp $@
install-exec-hook:
	for start in $(further); do \
	  $(starts) | $(SED) -e 's,@python@,$(pkgdatadir)/python,' \
	    -e 's,@library@,$(libdir)/libkvreplay.so.0,' \
	    >'$(DESTDIR)$(bindir)'/$$start && \
	    chmod 755 '$(DESTDIR)$(bindir)'/$$start || exit 1; \
	done
uninstall-hook:
	for start in $(further); do rm -f '$(DESTDIR)$(bindir)'/$$start; done
