# Runs the installation scripts of packages for what they ask of update-alternatives, in a guest that serves for nothing else.
# Prints a line for each: `alternative LINK TARGET PRIORITY`.
tools=/tmp/tools found=/tmp/found
mkdir -p $tools /usr/share/debconf
: >$found
for name in adduser addgroup chfn deb-systemd-helper deb-systemd-invoke debconf-escape dpkg-maintscript-helper dpkg-statoverride dpkg-trigger \
    glib-compile-schemas groupadd gtk-update-icon-cache install-info invoke-rc.d ldconfig py3clean py3compile systemctl systemd-sysusers \
    systemd-tmpfiles ucf ucfr update-ca-certificates update-initramfs update-mime update-mime-database update-rc.d useradd usermod; do
    ln -s /usr/bin/true $tools/$name
done
# Scripts that ask questions get no answers.
cat >/usr/share/debconf/confmodule <<'END'
for name in beginblock capb endblock fget fset get go info input metaget register reset set settitle stop subst title unregister version; do
    eval "db_$name() { RET=; }"
done
END
cat >$tools/dpkg <<'END'
#!/bin/sh
[ "$1" = --print-architecture ] && echo amd64
[ "$1" != --compare-versions ]
END
cat >$tools/update-alternatives <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --install) priority=$5; echo "alternative $2 $4 $5" >>/tmp/found; shift 4 ;;
    --slave) echo "alternative $2 $4 $priority" >>/tmp/found; shift 3 ;;
    esac
    shift
done
END
chmod 755 $tools/dpkg $tools/update-alternatives
for script in /var/lib/dpkg/info/*.postinst; do
    DPKG_MAINTSCRIPT_NAME=postinst DPKG_MAINTSCRIPT_PACKAGE=$(basename "$script" .postinst) PATH=$tools:$PATH \
        timeout 20 "$script" configure "" >/dev/null 2>&1 </dev/null
done
cat $found
