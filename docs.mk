# SPDX-License-Identifier: Apache-2.0
#
# Man pages and completion of the program $(documented), which its own tables
# print; how many pages there are is known when it has run. Commands of Python,
# $(further), have the text of their --help, where there is a Python.
bashcompdir = $(datadir)/bash-completion/completions

all-local: docs/done
docs/done: $(documented)$(EXEEXT) $(further)
	$(AM_V_GEN)rm -rf docs && $(MKDIR_P) docs && \
	./$(documented) --completion >docs/completion && \
	./$(documented) --man >docs/$(documented).1 && \
	for c in `./$(documented) --commands`; do \
	  ./$(documented) --man $$c >docs/$(documented)-$$c.1 || exit 1; done && \
	for c in $(further); do \
	  ! COLUMNS=80 PYTHONDONTWRITEBYTECODE=1 ./$$c --help >docs/help || { \
	    printf '.TH %s 1\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n' $$c \
	      $$c "`sed -n '/^[A-Z].*[.]$$/{s/[.]$$//p;q;}' docs/help`" && \
	    sed 's/\\/\\e/g; s/-/\\-/g; s/^/\\\&/' docs/help; \
	  } >docs/$$c.1 || exit 1; done; \
	rm -f docs/help && touch $@

install-data-local: docs/done
	$(MKDIR_P) '$(DESTDIR)$(mandir)/man1' '$(DESTDIR)$(bashcompdir)'
	$(INSTALL_DATA) docs/*.1 '$(DESTDIR)$(mandir)/man1'
	$(INSTALL_DATA) docs/completion \
	  '$(DESTDIR)$(bashcompdir)/$(documented)'

uninstall-local:
	cd docs && for f in *.1; do \
	  rm -f "$(DESTDIR)$(mandir)/man1/$$f"; done
	rm -f '$(DESTDIR)$(bashcompdir)/$(documented)'

clean-local:
	rm -rf docs
