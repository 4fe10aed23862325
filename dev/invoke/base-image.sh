#!/bin/sh
# Makes the image that SAM puts functions into, from packages of this Debian, where the one of AWS cannot be pulled:
# a C library, busybox and the certificates, 15 MB. It is not Amazon Linux: its C library is newer, so `dev invoke`
# holds the binaries themselves against the one that Lambda has.
#
#   base-image.sh <name of the image> <empty folder to work in>
set -eu
image=$1 work=$2
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
  echo "$image is missing, and only on Debian is it made here: docker pull $image" >&2
  exit 1
}
cd "$work"
timeout 120 apt-get -q -o APT::Sandbox::User=root download libc6 libgcc-s1 busybox-static >download.log 2>&1 || {
  cat download.log >&2
  exit 1
}
for package in ./*.deb; do dpkg -x "$package" root; done
rm -rf root/usr/share
# What SAM calls while it adds its emulator, and a shell.
for command in sh mv chmod cp rm mkdir; do ln -s busybox "root/bin/$command"; done
mkdir -p root/tmp root/opt root/var/task root/etc/ssl/certs
cp /etc/ssl/certs/ca-certificates.crt root/etc/ssl/certs/
tar -C root -c . |
  timeout 120 docker import -c 'ENV PATH=/bin:/usr/bin' -c 'WORKDIR /var/task' - "$image" >/dev/null
