# SPDX-License-Identifier: Apache-2.0
#
# Commands of the Python package, $(further): beside their program, scripts that
# start them from the tree here, and from where make install puts the package.
noinst_SCRIPTS = $(further)
start_in = $(top_srcdir)/sim/kvreplay-python.in
starts = command=$$start; $(SED) -e "s,@command@,$${command\#*-},g" \
	-e "s,@program@,$${command%%-*},g" $(start_in)
$(further): $(start_in) Makefile
	$(AM_V_GEN)start=$@; $(starts) | \
	  $(SED) 's,@python@,$(abs_top_srcdir)/sim/python,' >$@.tmp && \
	  chmod +x $@.tmp && mv $@.tmp $@
install-exec-hook:
	for start in $(further); do \
	  $(starts) | $(SED) 's,@python@,$(pkgdatadir)/python,' \
	    >'$(DESTDIR)$(bindir)'/$$start && \
	    chmod 755 '$(DESTDIR)$(bindir)'/$$start || exit 1; \
	done
uninstall-hook:
	for start in $(further); do rm -f '$(DESTDIR)$(bindir)'/$$start; done
