# Podlane: one Makefile for everything. `make help` lists the targets.

VERSION := 0.1.0
O ?= build
PREFIX ?= /usr
DESTDIR ?=
CNI_BIN ?= /opt/cni/bin
V ?= 0
SAN ?=
ifeq ($(origin CC),default)
CC := gcc
endif
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g

.DEFAULT_GOAL := all
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)';)

# --- packages ---------------------------------------------------------------

# make 4.3 changed what a backslash before it means within a function.
HASH := \#

# What pkg-config must know, and the Debian package that brings it.
PKGS := libnl-3.0=libnl-3-dev libcjson=libcjson-dev libcap=libcap-dev \
	libevent_core=libevent-dev libseccomp=libseccomp-dev \
	hwloc=libhwloc-dev libssl=libssl-dev \
	libcurl=libcurl4-openssl-dev yaml-0.1=libyaml-dev zlib=zlib1g-dev
# Without these there is no RDMA, but all else.
VERBS_DEBS := libibverbs-dev librdmacm-dev ibverbs-providers
BUILD_DEBS := gcc libc6-dev make pkg-config uthash-dev \
	$(foreach p,$(PKGS),$(lastword $(subst =, ,$(p)))) $(VERBS_DEBS)
RUN_DEBS := gnuplot-nox procps libnftables1 libopenblas0-serial
TEST_DEBS := libcmocka-dev iproute2 iputils-ping nftables iperf3 jq util-linux \
	containernetworking-plugins mandoc spin clang libclang-rt-dev python3 \
	python3-jsonschema \
	openssl ibverbs-utils rdmacm-utils valgrind \
	xz-utils zstd dataset-fashion-mnist
# What tests/system/client_*.sh, deploy.sh, monitoring.sh, report.sh and tests/vm
# execute, and the package that brings it. Where it is there from elsewhere
# (docker.com's containerd) it stays.
ENGINES := busybox=busybox-static chromium=chromium conmon=conmon \
	containerd=containerd \
	iptables=iptables kubectl=kubernetes-client podman=podman \
	promtool=prometheus qemu-system-x86_64=qemu-system-x86 runc=runc yq=yq
NEED_NOTHING := deps deps-run deps-check deps-engines quickstart check \
	check-asan check-tsan check-rdma clean \
	help lint fuzz fuzz-build image-plugins

ifneq ($(filter-out $(NEED_NOTHING),$(or $(MAKECMDGOALS),all)),)
TOOLS := $(firstword $(CC)) $(PKG_CONFIG)
NO_TOOL := $(shell for t in $(TOOLS); do command -v $$t >/dev/null || \
	echo $$t; done)
ifneq ($(NO_TOOL),)
$(error missing: $(NO_TOOL). Install with: apt-get install \
--no-install-recommends $(NO_TOOL) (or everything with: make deps))
endif
ifneq ($(filter tests,$(MAKECMDGOALS)),)
PKGS += cmocka=libcmocka-dev
endif
MISSING := $(shell for p in $(PKGS); do $(PKG_CONFIG) --exists $${p%%=*} || \
	echo $${p$(HASH)*=}; done; echo '$(HASH)include <uthash.h>' | \
	$(CC) -E - >/dev/null 2>&1 || echo uthash-dev)
ifneq ($(MISSING),)
$(error missing: $(MISSING). Install with: apt-get install \
--no-install-recommends $(MISSING) (or everything with: make deps))
endif
endif

# --- flags ------------------------------------------------------------------

# Optional parts, found by themselves.
HAVE_VERBS := $(shell $(PKG_CONFIG) --exists libibverbs librdmacm 2>/dev/null \
	&& echo yes || echo no)
PK_VERBS := $(if $(filter yes,$(HAVE_VERBS)),libibverbs librdmacm)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wformat=2 -Wvla -Wundef
ifeq ($(CI),true)
WARN += -Werror
endif
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
pkgs = $(if $(1),$(shell $(PKG_CONFIG) $(2) $(1) 2>/dev/null))
override CFLAGS := -std=gnu11 -fPIC -fvisibility=default \
	-fstack-protector-strong $(WARN) $(SANFLAGS) $(CFLAGS)
override CPPFLAGS := -I. -D_GNU_SOURCE -DPL_VERSION='"$(VERSION)"' \
	$(if $(PK_VERBS),-DPL_HAVE_VERBS) \
	$(call pkgs,libnl-3.0 libcjson,--cflags) $(CPPFLAGS)
override LDFLAGS := $(SANFLAGS) -Wl,--as-needed -Wl,-z,relro,-z,now $(LDFLAGS)

# Objects that were made with other flags (SAN, CC, CFLAGS; warnings aside) are
# made anew.
ifneq ($(filter-out $(NEED_NOTHING),$(or $(MAKECMDGOALS),all)),)
FLAGS := $(strip $(CC) $(filter-out -W%,$(CFLAGS)) $(CPPFLAGS) $(LDFLAGS))
ifneq ($(FLAGS),$(if $(wildcard $(O)/flags),$(file <$(O)/flags)))
$(shell mkdir -p $(O))
$(file >$(O)/flags,$(FLAGS))
endif
endif

HAVE_CUDA := $(shell command -v nvcc >/dev/null 2>&1 && echo yes || echo no)

# --- what is built ----------------------------------------------------------

# A folder's sources make one archive, except the X_main.c of its programs.
FOLDERS := common ipam plugin shm rdma daemonset bench
mains = $(wildcard $(1)/*_main.c)
NOT_BUILT := $(if $(PK_VERBS),,rdma/verbs% tests/unit/test_verbs%)
srcs = $(filter-out $(call mains,$(1)) $(NOT_BUILT),$(wildcard $(1)/*.c))
objs = $(patsubst %.c,$(O)/%.o,$(1))
ar = $(if $(call srcs,$(1)),$(O)/$(1)/lib$(1).a)

PROGRAMS := $(foreach m,$(foreach f,$(FOLDERS),$(call mains,$(f))),\
	$(O)/$(subst _main.c,,$(m)))
CNI_PROGRAMS := $(filter $(O)/plugin/% $(O)/ipam/%,$(PROGRAMS))
UNIT := $(patsubst %.c,$(O)/%,$(filter-out $(NOT_BUILT),\
	$(wildcard tests/unit/test_*.c)))
TESTPROGS := $(patsubst %.c,$(O)/%,$(wildcard tests/system/*.c) \
	$(if $(filter yes,$(HAVE_VERBS)),$(wildcard tests/vm/*.c)))
NOT_VM := $(patsubst tests/%.c,%,$(wildcard tests/unit/test_*.c)) \
	$(patsubst tests/%,%,$(filter-out %/lib.sh,$(wildcard tests/system/*.sh)))
FUZZERS := $(patsubst %.c,$(O)/%,$(wildcard tests/fuzz/fuzz_*.c))
EXAMPLES := $(patsubst %.c,$(O)/%,$(wildcard shm/examples/*.c))
SONAME := libpodlane.so.1
LIBS_SHM := $(O)/shm/libpodlane.a $(O)/shm/$(SONAME)
# The pods' library: shm/ and what it uses of common/, libc only.
SHM_OBJS = $(call objs,$(call srcs,shm)) \
	$(patsubst %,$(O)/common/%.o,err util fdpass)

AR_plugin = $(call ar,plugin) $(call ar,ipam) $(call ar,common)
AR_ipam = $(call ar,ipam) $(call ar,common)
AR_daemonset = $(foreach f,daemonset rdma shm ipam common,$(call ar,$(f)))
AR_bench = $(foreach f,bench daemonset rdma shm common,$(call ar,$(f)))
AR_fuzz = $(foreach f,daemonset rdma plugin ipam shm common,$(call ar,$(f)))
AR_tests = $(foreach f,bench daemonset rdma plugin ipam shm common,\
	$(call ar,$(f)))
PK_plugin := libcjson libnl-3.0 libcap
PK_ipam := libcjson
PK_daemonset := libcjson libnl-3.0 libcap libevent_core libevent_extra \
	libseccomp hwloc libssl libcrypto libcurl yaml-0.1 $(PK_VERBS)
PK_bench := libcjson libnl-3.0 zlib
LD_bench := -lm -lpthread
LD_tests := -lm -lpthread
folder = $(firstword $(subst /, ,$(1)))

# Pages with the programs that they show.
MAN := $(patsubst %,$(O)/%,$(wildcard man/*.[1-8]))

all: $(PROGRAMS) $(LIBS_SHM) $(EXAMPLES) $(MAN)

$(O)/flags: ;
$(O)/%.o: %.c Makefile $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

define archive
$(O)/$(1)/lib$(1).a: $$(call objs,$$(call srcs,$(1)))
	$$(call say,AR,$$@)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call archive,$(f))))

define program
$(O)/$(2)$(1): $(O)/$(1)_main.o $$(AR_$(call folder,$(1)))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(CFLAGS) -o $$@ $$< \
		-Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
		$$(LDFLAGS) $$(call pkgs,$$(PK_$(call folder,$(1))),--libs) \
		$$(LD_$(call folder,$(1))) -lm
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(patsubst $(O)/%,%,$(p)))))

# In the image, plugins have a dynamic linker and libraries of their own.
CNI_NAMES := $(patsubst $(O)/%,%,$(CNI_PROGRAMS))
$(O)/image/%: override LDFLAGS += -Wl,--dynamic-linker=$(NODE_LIB)/$(NODE_LINKER) \
	-Wl,--disable-new-dtags -Wl,-rpath,$(NODE_LIB)
$(foreach p,$(CNI_NAMES),$(eval $(call program,$(p),image/)))
image-plugins: $(addprefix $(O)/image/,$(CNI_NAMES))
IMAGE := $(O)/image/podlane-$(VERSION).oci.tar
image-root image: all
	$(Q)O=$(O) MAKE="$(MAKE)" VERSION=$(VERSION) daemonset/deploy/image.sh \
		$(O)/image/root $(if $(filter image,$@),$(IMAGE))
	$(call say,IMAGE,$(if $(filter image,$@),$(IMAGE),$(O)/image/root))

$(O)/shm/libpodlane.a: $(SHM_OBJS)
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^
$(O)/shm/$(SONAME): $(SHM_OBJS) shm/podlane.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) \
		-Wl,--version-script=shm/podlane.map -o $@ $(SHM_OBJS) $(LDFLAGS)
	@ln -sf $(SONAME) $(@D)/libpodlane.so

$(O)/man/%: man/% man/example.awk $(wildcard shm/examples/*.c)
	@mkdir -p $(@D)
	$(Q)awk -f man/example.awk $< >$@.new && mv $@.new $@
$(O)/shm/examples/%: shm/examples/%.c $(O)/shm/libpodlane.a
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CPPFLAGS) -Ishm $(CFLAGS) -o $@ $< \
		$(O)/shm/libpodlane.a $(LDFLAGS)
$(O)/tests/unit/%: tests/unit/%.c $(AR_tests)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -o $@ $< \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDFLAGS) \
		$(call pkgs,cmocka $(PK_daemonset) $(PK_bench),--libs) \
		$(LD_tests)
$(O)/tests/system/%: tests/system/%.c $(AR_tests)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -o $@ $< \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDFLAGS) \
		$(call pkgs,$(PK_daemonset) $(PK_bench),--libs) $(LD_tests)
$(O)/tests/vm/%: tests/vm/%.c
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -o $@ $< \
		$(LDFLAGS) $(call pkgs,$(PK_VERBS),--libs)
# A preloaded library.
$(O)/tests/vm/verbs_evil: CFLAGS += -fPIC -shared

$(O)/tests/fuzz/%: tests/fuzz/%.c $(AR_fuzz)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CPPFLAGS) $(CFLAGS) -fsanitize=fuzzer -MMD -MP \
		-o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		$(LDFLAGS) $(call pkgs,$(PK_daemonset),--libs) $(LD_tests)

tests: $(UNIT) $(TESTPROGS)
fuzzers: $(FUZZERS)
-include $(shell find $(O) -name '*.d' -type f 2>/dev/null)

# --- the two commands of the README -------------------------------------------

deps-run: DEBS := $(BUILD_DEBS) $(RUN_DEBS)
deps deps-check: DEBS := $(BUILD_DEBS) $(RUN_DEBS) $(TEST_DEBS)
deps deps-run deps-check:
	@missing=; for p in $(DEBS); do \
		dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | \
		grep -qx installed || missing="$$missing $$p"; done; \
	[ -z "$$missing" ] && exit 0; echo "installing:$$missing"; \
	[ "$$(id -u)" = 0 ] || { echo "make: as root, run: apt-get install \
	--no-install-recommends$$missing" >&2; exit 1; }; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get -qq update && apt-get -qq -y install \
		--no-install-recommends $$missing >/dev/null

# The tests start engines of their own, so services that came along are stopped
# and do not start with the machine. Without engines, tests are skipped.
deps deps-check: deps-engines
deps-engines:
	@missing=; for e in $(ENGINES); do command -v $${e%%=*} >/dev/null || \
		missing="$$missing $${e$(HASH)*=}"; done; \
	[ -z "$$missing" ] && exit 0; echo "installing:$$missing"; \
	[ "$$(id -u)" = 0 ] || { echo "make: not root, tests with these are \
	skipped" >&2; exit 0; }; export DEBIAN_FRONTEND=noninteractive; \
	apt-get -qq update; for p in $$missing; do apt-get -qq -y install \
		--no-remove --no-install-recommends $$p >/dev/null || echo \
		"make: tests with $$p are skipped" >&2; done; \
	command -v systemctl >/dev/null || exit 0; \
	for u in $$(dpkg -L $$missing 2>/dev/null | sed -n \
		's,.*/lib/systemd/system/\([^/@]*\.[st][a-z]*\)$$,\1,p'); do \
		systemctl disable --now $$u >/dev/null 2>&1; done; exit 0

quickstart: deps-run
	$(Q)exec bench/quickstart.sh "$(MAKE)" "$(O)"

check: deps-check
	$(Q)$(MAKE) --no-print-directory -j$$(nproc) all tests
ifneq ($(if $(TESTS),$(findstring fuzz,$(TESTS)),all),)
	$(Q)$(MAKE) --no-print-directory fuzz-build
endif
	$(Q)O=$(O) tests/run $(TESTS)

# With sanitizers, in folders of their own; without the VMs, which have no
# libraries of sanitizers. Some tests need several times as long.
check-asan: SAN_IS := address,undefined
check-tsan: SAN_IS := thread
check-asan check-tsan:
	$(Q)SYSTEM_TIMEOUT=$${SYSTEM_TIMEOUT:-1800} $(MAKE) --no-print-directory \
		check O=$(O)-$(patsubst check-%,%,$@) SAN=$(SAN_IS) \
		TESTS='$(or $(TESTS),$(NOT_VM))'

check-rdma:
	$(Q)$(MAKE) --no-print-directory check \
		TESTS='$(patsubst tests/%,%,$(wildcard tests/vm/*.sh))'

# Fuzzers are built by clang, with its sanitizers, in a folder of their own.
# system/fuzz.sh says why when there is none of them.
fuzz-build:
	$(Q)! tests/fuzz/possible || $(MAKE) --no-print-directory \
		-j$$(nproc) WARN='-Wall -Wno-gnu' CC=clang O=$(O)/fuzz \
		SAN=fuzzer-no-link,address,undefined \
		CFLAGS='-O1 -g -fno-sanitize-recover=all' fuzzers

FUZZ_SECONDS ?=
fuzz: fuzz-build
	$(Q)[ -z "$(FUZZ_SECONDS)" ] || \
		SYSTEM_TIMEOUT=$$(($(words $(FUZZERS)) * ($(FUZZ_SECONDS) + 30))) \
		O=$(O) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run system/fuzz.sh

lint:
	$(Q)tests/lint.sh

# --- install ------------------------------------------------------------------

LIBDIR := $(PREFIX)/lib
SBIN := podlaned
install: all
	$(Q)set -e; D='$(DESTDIR)'; P="$$D$(PREFIX)"; \
	install -d "$$D$(CNI_BIN)" "$$P/bin" "$$P/sbin" "$$P/include" \
		"$$D$(LIBDIR)/pkgconfig"; \
	install -m 755 $(CNI_PROGRAMS) "$$D$(CNI_BIN)"; \
	for p in $(filter-out $(CNI_PROGRAMS),$(PROGRAMS)); do \
		case " $(SBIN) " in *" $${p##*/} "*) d=sbin;; *) d=bin;; esac; \
		install -m 755 $$p "$$P/$$d"; done; \
	install -m 644 shm/podlane.h "$$P/include"; \
	install -m 644 $(O)/shm/libpodlane.a "$$D$(LIBDIR)"; \
	install -m 755 $(O)/shm/$(SONAME) "$$D$(LIBDIR)"; \
	ln -sf $(SONAME) "$$D$(LIBDIR)/libpodlane.so"; \
	sed -e 's|@PREFIX@|$(PREFIX)|;s|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@VERSION@|$(VERSION)|' shm/podlane.pc.in \
		> "$$D$(LIBDIR)/pkgconfig/podlane.pc"; \
	for m in $(MAN); do d="$$P/share/man/man$${m##*.}"; install -d "$$d"; \
		install -m 644 $$m "$$d"; done

# `make -j2 clean all`: one after the other.
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
clean:
	rm -rf $(O)

config:
	@echo "version $(VERSION)"; echo "RDMA verbs: $(HAVE_VERBS)"; \
	echo "CUDA: $(HAVE_CUDA)"; echo "sanitizers: $(or $(SAN),none)"

help:
	@echo 'make quickstart   install what is missing, build, run the comparison'; \
	echo 'make check        install what is missing, build, run all tests'; \
	echo 'make check-rdma   only the tests in VMs with RDMA, which qemu emulates'; \
	echo 'make check-asan   all tests but those, with the sanitizers of addresses'; \
	echo '                  and undefined behaviour, in $$O-asan'; \
	echo 'make check-tsan   the same with that of threads, in $$O-tsan'; \
	echo 'make deps         install the Debian packages that all of it needs'; \
	echo 'make              build into $$O (build); V=1 shows the commands'; \
	echo 'make install      DESTDIR= PREFIX=/usr CNI_BIN=/opt/cni/bin'; \
	echo 'make image        the image of the agent, as an OCI archive'; \
	echo 'make fuzz         build the fuzzers; FUZZ_SECONDS=60: run each'; \
	echo 'make lint         check the rules of the code'; \
	echo 'make config       show what was found on this machine'; \
	echo 'SAN=address,undefined   build with sanitizers (give O= too)'; \
	echo 'TESTS="unit/test_x system/y.sh"   only these, with check'

.PHONY: all tests image image-root image-plugins fuzzers fuzz fuzz-build deps \
	deps-run deps-check deps-engines quickstart check check-asan check-tsan \
	check-rdma lint \
	install clean config help
