#!/bin/sh
# `llama_server.sh FOLDER`: Debian's llama-server with its libraries, unpacked into a folder; nothing is installed, and
# no other user of apt sees it. FOLDER/llama-server runs it.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ ! -x "$folder/llama-server" ] || exit 0
fail() {
    echo "llama-server can't be had: $1" >&2
    exit 1
}
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$key" ] || fail "there is no $key (apt install debian-archive-keyring)"
# As this machine's own packages come.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" | grep '/debian/*$' | head -n 1)
[ -n "$mirror" ] || fail "this machine's apt has no mirror of Debian"
apt="$folder/apt"
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: >"$apt/status"
echo "deb [signed-by=$key] $mirror unstable main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<END
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Sandbox::User "root";
# A mirror may be a snapshot of weeks ago, and unstable's list is valid for one.
Acquire::Check-Valid-Until "false";
END
export APT_CONFIG="$apt/apt.conf"
apt-get update -qq || fail "Debian's list of packages does not come"
apt-get install -qq -y --download-only --no-install-recommends llama.cpp-tools >/dev/null || fail "no llama.cpp-tools"
for package in "$apt"/archives/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
rm -rf "$apt"
libraries=$(dirname "$(find "$folder/root/usr/lib" -name "libllama.so.0" | head -n 1)")
loader=$(find "$folder/root/usr/lib" -name "ld-linux*.so.*" | head -n 1)
# It looks for its backends where it is started. With threads that turn while they wait two cores are too few.
cat >"$folder/llama-server.part" <<END
#!/bin/sh
cd "$libraries/ggml/backends0"
exec "$loader" --library-path "$libraries:$libraries/llama" "$folder/root/usr/bin/llama-server" "\$@"
END
chmod 755 "$folder/llama-server.part"
mv "$folder/llama-server.part" "$folder/llama-server"
