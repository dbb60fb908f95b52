#!/bin/sh
# A project whose programs have built the smallest static ones there are: the headers of ELF files.
set -eu
opctl -q init --domain example.com
header() {
    printf "\177ELF\002\001\001\000\000\000\000\000\000\000\000\000\002\000$1\000\001\000\000\000"
    head -c 28 /dev/zero
    printf '\100\000\070\000\000\000\100\000\000\000\000\000'
}
header '\076' > ../x86_64
header '\267' > ../aarch64
cat > ../cargo <<END
#!/bin/sh
[ "\$1" != pkgid ] || exec cargo pkgid
case "\$*" in *aarch64*) binary=aarch64 ;; *) binary=x86_64 ;; esac
echo "{\"target\":{\"name\":\"manager\"},\"executable\":\"$(realpath ..)/\$binary\"}"
END
printf '#!/bin/sh\necho /\n' > ../rustc
chmod +x ../cargo ../rustc
